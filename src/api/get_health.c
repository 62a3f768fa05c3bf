/* get_health.c - GET /health, /ping, /version, /load: liveness, version and load. */
#include "server_impl.h"

void get_health(struct exchange *x, void *server)
{
    (void)server;
    exchange_reply(x, 200, "text/plain", "", 0); /* an empty 200, as in vLLM */
}

/* {"version":"1.2.3"} */
void get_version(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct buf b = {0};
    struct json_out o = {.b = &b};
    out_object(&o, NULL);
    out_word(&o, "version", s->o.version);
    out_end(&o);
    server_reply(x, &b);
}

/* Answer with the number of requests in flight, except those of quick routes. The answer also has
 * the numbers of requests that wait or run in the engine. */
void get_load(struct exchange *x, void *server)
{
    const struct server *s = server;
    const struct server_load l = server_load(s);
    struct buf b = {0};
    struct json_out o = {.b = &b};
    out_object(&o, NULL);
    out_int(&o, "server_load", net_stats(s->net).n_answer);
    out_int(&o, "running", l.n_running);
    out_int(&o, "waiting", l.n_waiting);
    out_end(&o);
    server_reply(x, &b);
}

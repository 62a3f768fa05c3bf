/* post_reset_prefix_cache.c - POST /reset_prefix_cache: drop the cached prefixes, as in vLLM.
 * vLLM's reset_running_requests is not needed, because lookups do not find pages of running
 * requests afterwards. */
#include "server_impl.h"

void post_reset_prefix_cache(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct buf b = {0};
    engine_reset_prefix_cache(s->api->session->engine);
    struct json_out o = {.b = &b};
    out_object(&o, NULL);
    out_flag(&o, "success", true);
    out_end(&o);
    server_reply(x, &b);
}

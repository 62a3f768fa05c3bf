/* post_reset_prefix_cache.c - POST /reset_prefix_cache: drop the cached prefixes, as in vLLM.
 * vLLM's reset_running_requests is not needed, because later lookups do not find pages of running
 * requests. */
#include "server_impl.h"

void post_reset_prefix_cache(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct buf b = {0};
    for (int i = 0; i < models_n(s->models); i++) {
        const struct api *a = served_peek(models_at(s->models, i));
        if (a) engine_reset_prefix_cache(a->session->engine);
        served_unpeek(a);
    }
    struct json_out o = {.b = &b};
    out_object(&o, NULL);
    out_flag(&o, "success", true);
    out_end(&o);
    server_reply(x, &b);
}

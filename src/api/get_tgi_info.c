/* get_tgi_info.c - GET /info: the model and the limits of the server, as in Text Generation
 * Inference. Members that quoth does not have are null. */
#include "server_impl.h"

void get_tgi_info(struct exchange *x, void *server)
{
    const struct server *s = server;
    const struct api *a = server_query_model(s, x);
    struct buf b = {0};
    if (!a) return;
    const int context = engine_context(a->session->engine);
    struct json_out o = {.b = &b};
    out_object(&o, NULL);
    out_word(&o, "model_id", served_spec(a->model)->name[0]);
    out_null(&o, "model_sha");
    out_word(&o, "model_pipeline_tag",
             a->session->info->head_out[HEAD_CLASS] > 0 ? "text-classification"
             : a->session->info->headless               ? "feature-extraction"
                                                        : "text-generation");
    out_int(&o, "max_input_tokens", context - 1);
    out_int(&o, "max_total_tokens", context);
    out_int(&o, "max_client_batch_size", 1);
    out_word(&o, "router", "quoth");
    out_word(&o, "version", s->o.version);
    out_null(&o, "sha");
    out_null(&o, "docker_label");
    out_end(&o);
    served_drop(a);
    server_reply(x, &b);
}

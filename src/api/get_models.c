/* get_models.c - GET /v1/models and /v1/models/{id}: the names that the model answers to. */
#include "server_impl.h"

#include <string.h>

/* `meta`, as llama.cpp's server has it: who sends token ids must know how many there are. */
static void put_model(const struct server *s, const char *name, struct buf *b)
{
    const struct model_info *i = model_info(s->api->session->model);
    buf_add_text(b, "{\"id\":");
    json_put_text(b, name, strlen(name));
    buf_addf(b, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"quoth\",\"root\":",
             (long long)s->created);
    json_put_text(b, s->o.name[0], strlen(s->o.name[0]));
    buf_addf(b,
             ",\"parent\":null,\"max_model_len\":%d,\"meta\":{\"n_vocab\":%d,\"n_params\":%lld}}",
             i->context_max, i->n_vocab, (long long)i->n_param);
}

void get_models(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct buf b = {0};
    buf_add_text(&b, "{\"object\":\"list\",\"data\":[");
    for (int i = 0; i < s->o.n_name; i++) {
        if (i) buf_add_char(&b, ',');
        put_model(s, s->o.name[i], &b);
    }
    buf_add_text(&b, "]}");
    server_reply(x, &b);
}

void get_model(struct exchange *x, void *server)
{
    const struct server *s = server;
    const char *name = exchange_param(x) ? exchange_param(x) : "";
    struct err e = {0};
    struct buf b = {0};
    int rc = server_model(s, name, &e);
    if (rc != 0) {
        server_fail(x, rc, &e);
        return;
    }
    put_model(s, name, &b);
    server_reply(x, &b);
}

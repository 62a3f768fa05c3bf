/* get_models.c - GET /v1/models and /v1/models/{id}: names of the served model, and its adapters.
 * anthropic_models.c has the form of Anthropic's clients, which send the header anthropic-version.
 *
 *    {"object":"list","data":[{"id":"m","max_model_len":4096,"meta":{"n_vocab":32000},...},...]} */
#include "server_impl.h"

#include <string.h>

/* Append `meta` in the form of llama.cpp's server. Clients that send token ids need the size of the
 * vocabulary. */
static void put_model(const struct server *s, const char *name, struct json_out *o)
{
    const struct additions *a = &s->api->session->additions;
    const int adapter = session_adapter(s->api->session, name);
    const struct model_info *i = s->api->session->info;
    out_object(o, NULL);
    out_word(o, "id", name);
    out_word(o, "object", "model");
    out_int(o, "created", s->created);
    out_word(o, "owned_by", "quoth");
    out_word(o, "root", adapter ? a->set[adapter].path : s->o.name[0]);
    if (adapter)
        out_word(o, "parent", s->o.name[0]);
    else
        out_null(o, "parent");
    out_int(o, "max_model_len", engine_context(s->api->session->engine));
    out_object(o, "meta");
    out_int(o, "n_vocab", i->n_vocab);
    out_int(o, "n_params", i->n_param);
    out_end(o);
    out_end(o);
}

int server_n_model(const struct server *s)
{
    const int n_set = s->api->session->additions.n_set;
    return s->o.n_name + (n_set > 1 ? n_set - 1 : 0);
}

/* Adapter 0 is the model itself. */
const char *server_model_name(const struct server *s, int i)
{
    const struct additions *a = &s->api->session->additions;
    return i < s->o.n_name ? s->o.name[i] : a->set[i - s->o.n_name + 1].name;
}

/* Return true if the client is Anthropic's, which sends this header with every request. */
static bool is_anthropic(const struct exchange *x)
{
    return exchange_header(x, "anthropic-version") != NULL;
}

void get_models(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct buf b = {0};
    struct json_out o = {.b = &b};
    if (is_anthropic(x)) {
        anthropic_get_models(x, s);
        return;
    }
    out_object(&o, NULL);
    out_word(&o, "object", "list");
    out_list(&o, "data");
    for (int i = 0; i < server_n_model(s); i++) put_model(s, server_model_name(s, i), &o);
    out_end(&o);
    out_end(&o);
    server_reply(x, &b);
}

/* A final {} also matches names with slashes. */
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
    if (is_anthropic(x)) {
        anthropic_get_model(x, s, name);
        return;
    }
    put_model(s, name, &(struct json_out){.b = &b});
    server_reply(x, &b);
}

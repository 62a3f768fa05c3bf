/* get_models.c - GET /v1/models and /v1/models/{id}: names of the served model, and its adapters.
 * Clients of another API get the form of that API (errors.def).
 *
 *    {"object":"list","data":[{"id":"m","max_model_len":4096,"meta":{"n_vocab":32000},...},...]}
 *
 * All lists of names, also those of Ollama and Anthropic, use server_listed: first the names of
 * each model, then the names of adapters. A list never loads a model. */
#include "server_impl.h"

#include <string.h>

#define ERRORS(id) extern const struct error_form id##_errors;
#include "errors.def"

/* Lists of models in the form of an API, by its form of failures. All pointers are static. */
static const struct own_lists {
    const struct error_form *errors;
    void (*list)(struct exchange *x, const struct server *s);
    void (*one)(struct exchange *x, const struct server *s, const struct listed *l);
} own_lists[] = {
#define MODELS(id) {&id##_errors, id##_get_models, id##_get_model},
#include "errors.def"
};

/* Return the lists of the request's API; NULL: OpenAI's. */
static const struct own_lists *lists_of(const struct exchange *x)
{
    for (size_t i = 0; i < sizeof own_lists / sizeof *own_lists; i++)
        if (own_lists[i].errors == server_form(x)) return &own_lists[i];
    return NULL;
}

/* Append the state of a model in the form of llama.cpp's router, and quoth's own members. */
static void put_status(struct served *m, struct json_out *o)
{
    const struct served_status now = served_status(m);
    out_object(o, "status");
    out_word(o, "value", served_state_name(now.state));
    if (now.rc != 0) {
        out_flag(o, "failed", true);
        out_word(o, "error", now.why.text);
    }
    out_flag(o, "draining", now.state == SERVED_DRAINING);
    out_flag(o, "pinned", served_spec(m)->pinned);
    out_int(o, "requests", now.n_ref);
    out_int(o, "waiting", now.n_waiting);
    out_int(o, "memory", now.n_byte);
    out_end(o);
}

/* Append `meta` in the form of llama.cpp's server. Clients that send token ids need the size of the
 * vocabulary. A model that is not loaded has neither `meta` nor `max_model_len`. */
static void put_model(const struct server *s, const struct listed *l, struct json_out *o)
{
    const struct session *session = l->api ? l->api->session : NULL;
    const char *own = listed_own_name(l);
    out_object(o, NULL);
    out_word(o, "id", l->name);
    out_word(o, "object", "model");
    out_int(o, "created", s->created);
    out_word(o, "owned_by", "quoth");
    out_word(o, "root", l->adapter ? session->additions.set[l->adapter].path : own);
    if (l->adapter)
        out_word(o, "parent", own);
    else
        out_null(o, "parent");
    if (session) {
        out_int(o, "max_model_len", engine_context(session->engine));
        out_object(o, "meta");
        out_int(o, "n_vocab", session->info->n_vocab);
        out_int(o, "n_params", session->info->n_param);
        out_end(o);
    }
    if (!s->only) put_status(l->model, o);
    out_end(o);
}

const char *listed_own_name(const struct listed *l)
{
    return served_spec(l->model)->name[0];
}

/* Only a model that is never unloaded has adapters with names. Adapter 0 is the model itself. */
bool server_listed(const struct server *s, int i, bool peek, struct listed *out)
{
    const int n_set = s->only ? s->only->session->additions.n_set : 0;
    *out = (struct listed){0};
    for (int k = 0; k < models_n(s->models) && !out->name; k++) {
        struct served *m = models_at(s->models, k);
        const struct served_spec *spec = served_spec(m);
        if (served_gone(m)) continue;
        out->model = m;
        if (i < spec->n_name)
            out->name = spec->name[i];
        else
            i -= spec->n_name;
    }
    if (!out->name && i + 1 < n_set) {
        out->adapter = i + 1;
        out->name = s->only->session->additions.set[out->adapter].name;
    }
    if (peek && out->name) out->api = served_peek(out->model);
    return out->name != NULL;
}

struct listed server_list_name(struct served *m, const char *name)
{
    struct listed l = {.model = m, .name = name, .api = served_peek(m)};
    l.adapter = l.api ? session_adapter(l.api->session, name) : 0;
    return l;
}

void get_models(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct buf b = {0};
    struct json_out o = {.b = &b};
    const struct own_lists *own = lists_of(x);
    if (own) {
        own->list(x, s);
        return;
    }
    out_object(&o, NULL);
    out_word(&o, "object", "list");
    out_list(&o, "data");
    struct listed l;
    for (int i = 0; server_listed(s, i, true, &l); i++) {
        put_model(s, &l, &o);
        served_unpeek(l.api);
    }
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
    struct served *m;
    int rc = server_model(s, name, &m, &e);
    if (rc != 0) {
        server_fail(x, rc, &e);
        return;
    }
    const struct own_lists *own = lists_of(x);
    const struct listed l = server_list_name(m, name);
    if (own)
        own->one(x, s, &l);
    else
        put_model(s, &l, &(struct json_out){.b = &b});
    served_unpeek(l.api);
    if (!own) server_reply(x, &b);
}

/* ollama_models.c - Ollama's endpoints around models: /api/tags, /api/ps, /api/show, /api/version.
 *
 *   {"models":[{"name":"m:latest","model":"m:latest","modified_at":...,"size":...,"digest":...,
 *    "details":{"format":"gguf","family":"llama","parameter_size":"1.5B",...}}]}
 *
 * A model that is not loaded has fewer members, because quoth does not open its files for a
 * list. */
#include "ollama.h"
#include "server_impl.h"

#include "base/os.h"

#include <stdio.h>
#include <string.h>

/* Version of Ollama whose API quoth implements. Clients require a minimum version. */
static const char version[] = "0.12.11";

/* ---- parts of a description ---- */

/* Append a name with its tag. */
static void put_name(struct json_out *o, const char *key, const char *name)
{
    const char *end = strrchr(name, '/');
    struct buf text = {0};
    buf_add_text(&text, name);
    if (!strchr(end ? end : name, ':')) buf_add_text(&text, ":latest");
    o->b->failed |= text.failed;
    out_text(o, key, text.failed ? "" : text.data, text.failed ? 0 : text.n);
    buf_deinit(&text);
}

/* Append a number of parameters as Ollama does: "1.5B", "270M". */
static void put_count(struct json_out *o, const char *key, int64_t n)
{
    const double x = (double)n;
    char text[32];
    if (n >= 1000000000)
        snprintf(text, sizeof text, n % 1000000000 ? "%.1fB" : "%.0fB", x / 1e9);
    else if (n >= 1000000)
        snprintf(text, sizeof text, n % 1000000 ? "%.2fM" : "%.0fM", x / 1e6);
    else if (n >= 1000)
        snprintf(text, sizeof text, "%.0fK", x / 1e3);
    else
        snprintf(text, sizeof text, "%d", (int)n);
    out_word(o, key, text);
}

/* Append the details of the model, or of an adapter to it. A model that is not loaded has only its
 * names. */
static void put_details(struct json_out *o, const struct listed *l, const struct session_files *f)
{
    const struct model_info *info = l->api ? l->api->session->info : NULL;
    out_object(o, "details");
    out_word(o, "parent_model", l->adapter ? listed_own_name(l) : "");
    out_word(o, "format", f->format ? f->format : "");
    out_word(o, "family", info ? info->arch : "");
    out_list(o, "families");
    if (info) out_word(o, NULL, info->arch);
    out_end(o);
    if (info)
        put_count(o, "parameter_size", info->n_param);
    else
        out_word(o, "parameter_size", "");
    out_word(o, "quantization_level", f->type);
    if (info) {
        out_int(o, "context_length", engine_context(l->api->session->engine));
        out_int(o, "embedding_length", info->d_model);
    }
    out_end(o);
}

/* Append the capabilities by which clients select their requests. Tools need a parser of calls
 * too. */
static void put_capabilities(struct json_out *o, const struct api *a)
{
    const struct model_info *info = a->session->info;
    const struct chat *chat = a->chat;
    out_list(o, "capabilities");
    out_word(o, NULL, info->headless ? "embedding" : "completion");
    if (!info->headless && chat->t) {
        const struct template_caps *caps = template_caps(chat->t);
        if (caps->tools && chat->tool_parser) out_word(o, NULL, "tools");
        if (caps->reasoning || chat->reasoning_parser) out_word(o, NULL, "thinking");
    }
    out_end(o);
}

/* Set *f to the files of a listed model. The data of a model that is not loaded are from the file
 * system. */
static void describe(struct session_files *f, const struct listed *l)
{
    const struct served_spec *spec = served_spec(l->model);
    *f = (struct session_files){.n_byte = spec->n_byte, .modified_us = spec->modified_us};
    if (l->api) session_describe(f, l->api->session);
}

/* Append the members of a list's item. */
static void put_item(struct json_out *o, const struct listed *l, const struct session_files *f)
{
    put_name(o, "name", l->name);
    put_name(o, "model", l->name);
    out_word(o, "digest", f->digest);
    put_details(o, l, f);
}

/* Return the time of the last change of the files, or of the server's start. */
static int64_t modified_us(const struct server *s, const struct session_files *f)
{
    return f->modified_us ? f->modified_us : s->created * 1000000;
}

/* ---- lists ---- */

void ollama_get_tags(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct session_files f;
    struct buf b = {0};
    struct json_out o = {.b = &b};
    out_object(&o, NULL);
    out_list(&o, "models");
    struct listed l;
    for (int i = 0; server_listed(s, i, true, &l); i++) {
        describe(&f, &l);
        out_object(&o, NULL);
        put_item(&o, &l, &f);
        ollama_put_time(&o, "modified_at", modified_us(s, &f));
        out_int(&o, "size", f.n_byte);
        if (l.api) put_capabilities(&o, l.api);
        out_end(&o);
        served_unpeek(l.api);
    }
    out_end(&o);
    out_end(&o);
    server_reply(x, &b);
}

/* Append the time at which an idle model is unloaded. Clients require a time, also for a model that
 * stays in memory. */
static void put_expiry(struct json_out *o, const struct listed *l)
{
    const struct served_status now = served_status(l->model);
    const int64_t left_us = now.used_us + now.idle_us - time_us();
    if (now.idle_us < 0)
        out_word(o, "expires_at", "2300-01-01T00:00:00Z");
    else
        ollama_put_time(o, "expires_at", time_wall_us() + (left_us > 0 ? left_us : 0));
}

/* Append the members of a model in memory. */
static void put_loaded(struct json_out *o, const struct listed *l)
{
    const struct model_info *i = l->api->session->info;
    struct session_files f;
    describe(&f, l);
    out_object(o, NULL);
    put_item(o, l, &f);
    out_int(o, "size", i->weights.n_byte + i->kv_bytes + i->states_bytes + i->scratch_bytes);
    out_int(o, "size_vram", 0);
    put_expiry(o, l);
    out_int(o, "context_length", engine_context(l->api->session->engine));
    out_end(o);
}

void ollama_get_ps(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct buf b = {0};
    struct json_out o = {.b = &b};
    out_object(&o, NULL);
    out_list(&o, "models");
    struct listed l;
    for (int k = 0; server_listed(s, k, true, &l); k++) {
        if (l.api) put_loaded(&o, &l);
        served_unpeek(l.api);
    }
    out_end(&o);
    out_end(&o);
    server_reply(x, &b);
}

void ollama_get_version(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct buf b = {0};
    struct json_out o = {.b = &b};
    out_object(&o, NULL);
    out_word(&o, "version", version);
    out_word(&o, "quoth", s->o.version);
    out_end(&o);
    server_reply(x, &b);
}

/* ---- one model ---- */

struct json *ollama_read_named(const struct server *s, struct exchange *x, const char **name)
{
    struct json *body = server_json(s, x);
    struct err e = {0};
    if (!body) return NULL;
    const struct json *value = body_field(body, "model");
    if (!value || !body_is_set(value)) value = body_field(body, "name");
    *name = json_text(value, NULL);
    if (*name && **name) return body;
    json_drop(body);
    server_fail(x, err_set(&e, ERR_ARG, "model is required"), &e);
    return NULL;
}

/* Append the description of a loaded model. whole: also long lists of the metadata, such as the
 * vocabulary. Errors: those of ollama_put_texts. */
static int put_model(struct json_out *o, const struct server *s, const struct listed *l, bool whole,
                     struct err *e)
{
    struct session_files f;
    struct buf metadata = {0};
    describe(&f, l);
    session_put_metadata(&metadata, l->api->session, whole);
    out_object(o, NULL);
    int rc = ollama_put_texts(o, l, e);
    put_details(o, l, &f);
    o->b->failed |= metadata.failed;
    out_raw(o, "model_info", metadata.failed ? "" : metadata.data,
            metadata.failed ? 0 : metadata.n);
    put_capabilities(o, l->api);
    ollama_put_time(o, "modified_at", modified_us(s, &f));
    out_end(o);
    buf_deinit(&metadata);
    return rc;
}

/* The description needs a loaded model, so a model that is not loaded is loaded first. */
void ollama_post_show(struct exchange *x, void *server)
{
    const struct server *s = server;
    const char *name;
    bool whole = false;
    struct err e = {0};
    struct buf b = {0};
    struct json *body = ollama_read_named(s, x, &name);
    if (!body) return;
    int rc = body_flag(body, "verbose", &whole, &e);
    const struct api *a = rc == 0 ? server_take(s, x, name) : NULL;
    if (a) {
        const struct listed l = {.model = a->model,
                                 .name = name,
                                 .adapter = session_adapter(a->session, name),
                                 .api = a};
        rc = put_model(&(struct json_out){.b = &b}, s, &l, whole, &e);
        served_drop(a);
        if (rc == 0) server_reply(x, &b);
    }
    if (rc != 0) server_fail(x, rc, &e);
    buf_deinit(&b);
    json_drop(body);
}

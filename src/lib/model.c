/* model.c - models of the library: open, describe and close them.
 *
 * The library runs in a host program. The library writes nothing to the host's streams, and
 * restores the host's floating-point mode. The library's threads block the host's signals
 * (os_thread_start). Functions return a negative ERR_* and a text. quoth_free frees the texts that
 * the library returns.
 *
 * A model has one engine with its threads, which serve all queues of the model. The functions of a
 * model may be called by several threads: they read constant data, or send messages to the engine.
 * An error is a code and a text in the caller's buffer. Only its field is kept per thread
 * (quoth_error_field). */
#include "lib_impl.h"

#include "base/cpu.h"
#include "base/log.h"
#include "base/os.h"
#include "hub/hub.h"

#include <stdlib.h>
#include <string.h>

const char *quoth_version(void)
{
    return QUOTH_VERSION;
}

void quoth_free(void *p)
{
    free(p);
}

/* Field of the last error on this thread, because the functions of the library have no argument for
 * the field. */
static _Thread_local char last_field[sizeof((struct err *)0)->field];

const char *quoth_error_field(void)
{
    return last_field;
}

/* Copy an error to the caller's text of n_error bytes, truncated. Return rc. */
int report_error(int rc, const struct err *e, char *error, size_t n_error)
{
    size_t n = strlen(e->text);
    if (rc != 0) memcpy(last_field, e->field, sizeof last_field);
    if (rc == 0 || !error || n_error == 0) return rc;
    /* a caller may pass a small buffer, and gets the beginning of the text */
    if (n >= n_error) n = n_error - 1;
    memcpy(error, e->text, n);
    error[n] = 0;
    return rc;
}

/* ---- opening ---- */

/* Read the options. A later option overrides an earlier option with the same key. */
static int read_options(struct session_options *o, const quoth_option *option, size_t n,
                        struct err *e)
{
    int rc = 0;
    *o = session_defaults;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = option[i].key && option[i].value
                 ? session_option_set(o, option[i].key, option[i].value, e)
                 : err_field(e, ERR_ARG, "options", "[%zu]: expected a key and a value, got NULL",
                             i);
    return rc;
}

/* Open model, engine and chat. model_drop frees the parts after a failure. */
static int open_all(quoth_model *m, const char *path, const struct session_options *o,
                    struct err *e)
{
    int rc = session_open_as(&m->session, path, o, &session_many, e);
    if (rc == 0) rc = session_start(&m->session, o, NULL, 0, e);
    if (rc == 0) rc = chat_open(&m->chat, &m->session, o, e);
    if (rc != 0) return rc;
    m->api = (struct api){.session = &m->session,
                          .chat = &m->chat,
                          .name = m->session.info->name,
                          .defaults = session_sample_defaults(m->session.checkpoint, 1),
                          .max_tokens = session_max_tokens(m->session.checkpoint)};
    return session_pooling(&m->api.pooling, &m->session, "auto", e);
}

/* Replace the name of a model of a hub by its path. The library downloads nothing. */
static int find_path(char out[static HUB_PATH_BYTES], const char **path, struct err *e)
{
    struct hub_name name;
    struct hub_model *m;
    if (!hub_is_name(*path) || file_exists(*path) || dir_exists(*path)) return 0;
    int rc = hub_name_read(&name, *path, e);
    if (rc != 0) return rc;
    m = calloc(1, sizeof *m);
    rc = m ? hub_find_advised(m, &name, e) : err_memory(e, "a model", sizeof *m);
    if (rc == 0) memcpy(out, m->path, sizeof m->path);
    if (rc == 0) *path = out;
    if (m) hub_model_deinit(m);
    free(m);
    return rc;
}

/* Open the model with a floating-point mode of the library, because results must not depend on the
 * host's rounding mode. */
static int open_as_guest(quoth_model *m, const char *path, const struct session_options *o,
                         struct err *e)
{
    char found[HUB_PATH_BYTES];
    int rc = find_path(found, &path, e);
    if (rc != 0) return rc;
    unsigned rounding = cpu_float_canonical();
    /* warnings are kept for quoth_info, because the library must not write to the host's streams */
    log_kept = &m->warning;
    rc = open_all(m, path, o, e);
    log_kept = NULL;
    cpu_float_restore(rounding);
    return rc;
}

/* *out is NULL after a failure. The log is silenced before any function can log. */
int quoth_open(quoth_model **out, const char *path, const quoth_option *options, size_t n_option,
               char *error, size_t n_error)
{
    struct err e = {0};
    struct session_options o;
    *out = NULL;
    log_silent = true;
    quoth_model *m = calloc(1, sizeof *m);
    int rc = m ? 0 : err_memory(&e, "a model", sizeof *m);
    if (rc == 0) m->n_ref = 1;
    if (rc == 0 && !path) rc = err_field(&e, ERR_ARG, "path", ": expected a string, got NULL");
    if (rc == 0) rc = read_options(&o, options, n_option, &e);
    if (rc == 0) rc = open_as_guest(m, path, &o, &e);
    if (rc == 0)
        *out = m;
    else
        model_drop(m);
    return report_error(rc, &e, error, n_error);
}

/* Release a reference. Queues have references, so a model may be closed before its queues. */
void model_drop(quoth_model *m)
{
    if (!m || atomic_fetch_sub(&m->n_ref, 1) > 1) return;
    chat_close(&m->chat);
    session_close(&m->session);
    buf_deinit(&m->warning);
    free(m);
}

void quoth_close(quoth_model *m)
{
    model_drop(m);
}

/* ---- describing ---- */

/* Append a member and a comma. */
static void put_text(struct buf *b, const char *name, const char *text)
{
    buf_addf(b, "\"%s\":", name);
    if (text)
        json_put_text(b, text, strlen(text));
    else
        buf_add_text(b, "null");
    buf_add_char(b, ',');
}

/* Append the kept lines as a list. No comma follows the list, because it is the last member. */
static void put_warnings(struct buf *b, const struct buf *lines)
{
    buf_add_text(b, "\"warnings\":[");
    for (size_t at = 0; at < lines->n;) {
        const char *line = lines->data + at, *end = memchr(line, '\n', lines->n - at);
        size_t n = end ? (size_t)(end - line) : lines->n - at;
        if (at) buf_add_char(b, ',');
        json_put_text(b, line, n);
        at += n + 1;
    }
    buf_add_char(b, ']');
}

/* Return a JSON object; NULL if memory is exhausted. */
char *quoth_info(const quoth_model *m)
{
    const struct model_info *i = m->session.info;
    const struct tokenizer *t = m->session.tokenizer;
    struct buf b = {0};
    buf_add_char(&b, '{');
    put_text(&b, "name", i->name);
    put_text(&b, "arch", i->arch);
    put_text(&b, "backend", session_device(&m->session));
    put_text(&b, "kv_cache_dtype", session_kv_name(&m->session));
    put_text(&b, "chat_template", m->chat.t ? template_source(m->chat.t) : NULL);
    buf_addf(&b,
             "\"n_layer\":%d,\"d_model\":%d,\"n_head\":%d,\"n_head_kv\":%d,\"n_vocab\":%d,"
             "\"context_train\":%d,\"context_max\":%d,\"n_param\":%lld,\"weight_bytes\":%lld,",
             i->n_layer, i->d_model, i->n_head, i->n_head_kv, i->n_vocab, i->context_train,
             i->context_max, (long long)i->n_param, (long long)i->weight_bytes);
    buf_addf(&b,
             "\"kv_bytes\":%lld,\"block_size\":%d,\"num_blocks\":%d,\"bos_token_id\":%d,"
             "\"eos_token_id\":%d,",
             (long long)i->kv_bytes, i->page_rows, i->n_page, tokenizer_bos(t), tokenizer_eos(t));
    size_t n_before = 0;
    const bool has_before = session_has_default_prompt(&m->session);
    const char *before = has_before ? session_prompt(&m->session, NULL, &n_before) : NULL;
    buf_addf(&b, "\"normalize\":%s,\"include_prompt\":%s,\"default_prompt\":",
             i->normalize ? "true" : "false", i->include_prompt ? "true" : "false");
    if (before)
        json_put_text(&b, before, n_before);
    else
        buf_add_text(&b, "null");
    buf_add_char(&b, ',');
    put_warnings(&b, &m->warning);
    buf_add_char(&b, '}');
    return buf_detach(&b);
}

/* Return the engine's figures in the format that `put` writes. */
static char *figures(const quoth_model *m,
                     void (*put)(const struct stats_engine *engine, struct buf *b))
{
    struct buf b = {0};
    struct stats_engine *engine = calloc(1, sizeof *engine);
    if (!engine) return NULL;
    engine->st = engine_stats(m->session.engine);
    stats_read(engine->st, &engine->view);
    put(engine, &b);
    free(engine);
    return buf_detach(&b);
}

/* Write the figures in Prometheus's text format, with the names of GET /metrics. */
static void put_prometheus(const struct stats_engine *engine, struct buf *b)
{
    stats_prometheus(engine, 1, NULL, b);
}

/* Write the figures as one JSON object. */
static void put_json(const struct stats_engine *engine, struct buf *b)
{
    stats_json(&engine->view, b);
}

/* Return the engine's figures for Prometheus. */
char *quoth_metrics(const quoth_model *m)
{
    return figures(m, put_prometheus);
}

char *quoth_stats(const quoth_model *m)
{
    return figures(m, put_json);
}

void quoth_reset_prefix_cache(quoth_model *m)
{
    engine_reset_prefix_cache(m->session.engine);
}

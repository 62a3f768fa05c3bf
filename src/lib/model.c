/* model.c - models of the library: opened, described, given up. */
#include "lib_impl.h"

#include "base/cpu.h"
#include "base/log.h"

#include <pthread.h>
#include <signal.h>
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

int tell(int rc, const struct err *e, char *error, size_t n_error)
{
    size_t n = strlen(e->text);
    if (rc == 0 || !error || n_error == 0) return rc;
    if (n >= n_error) n = n_error - 1;
    memcpy(error, e->text, n);
    error[n] = 0;
    return rc;
}

/* ---- opening ---- */

static int read_options(struct session_options *o, const quoth_option *option, size_t n,
                        struct err *e)
{
    int rc = 0;
    *o = session_defaults;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = option[i].key && option[i].value
                 ? session_option_set(o, option[i].key, option[i].value, e)
                 : err_set(e, ERR_ARG, "options[%zu]: key or value is missing", i);
    return rc;
}

static int open_all(quoth_model *m, const char *path, const struct session_options *o,
                    struct err *e)
{
    int rc = session_open_as(&m->session, path, o, &session_many, e);
    if (rc == 0) rc = session_start(&m->session, o, 0, e);
    if (rc == 0) rc = chat_open(&m->chat, &m->session, o, e);
    if (rc != 0) return rc;
    m->api = (struct api){.session = &m->session,
                          .chat = &m->chat,
                          .name = model_info(m->session.model)->name,
                          .defaults = session_sample_defaults(m->session.checkpoint, 1)};
    return 0;
}

/* The threads that are made here are not for the host's signals, and what is computed here is not
 * to depend on the host's rounding mode. */
static int open_as_guest(quoth_model *m, const char *path, const struct session_options *o,
                         struct err *e)
{
    sigset_t all, former;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    unsigned rounding = cpu_float_canonical();
    int rc = open_all(m, path, o, e);
    cpu_float_restore(rounding);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    return rc;
}

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
    if (rc == 0 && !path) rc = err_set(&e, ERR_ARG, "path: it is missing");
    if (rc == 0) rc = read_options(&o, options, n_option, &e);
    if (rc == 0) rc = open_as_guest(m, path, &o, &e);
    if (rc == 0)
        *out = m;
    else
        model_drop(m);
    return tell(rc, &e, error, n_error);
}

void model_drop(quoth_model *m)
{
    if (!m || atomic_fetch_sub(&m->n_ref, 1) > 1) return;
    chat_close(&m->chat);
    session_close(&m->session);
    free(m);
}

void quoth_close(quoth_model *m)
{
    model_drop(m);
}

/* ---- describing ---- */

static void put_text(struct buf *b, const char *name, const char *text)
{
    buf_addf(b, "\"%s\":", name);
    if (text)
        json_put_text(b, text, strlen(text));
    else
        buf_add_text(b, "null");
    buf_add_char(b, ',');
}

char *quoth_info(const quoth_model *m)
{
    const struct model_info *i = model_info(m->session.model);
    const struct tokenizer *t = m->session.tokenizer;
    struct buf b = {0};
    buf_add_char(&b, '{');
    put_text(&b, "name", i->name);
    put_text(&b, "arch", i->arch);
    put_text(&b, "backend", backend_describe(m->session.backend));
    put_text(&b, "kv_cache_dtype", kv_type_name(i->kv_type));
    put_text(&b, "chat_template", m->chat.t ? template_source(m->chat.t) : NULL);
    buf_addf(&b,
             "\"n_layer\":%d,\"d_model\":%d,\"n_head\":%d,\"n_head_kv\":%d,\"n_vocab\":%d,"
             "\"context_train\":%d,\"context_max\":%d,\"n_param\":%lld,\"weight_bytes\":%lld,",
             i->n_layer, i->d_model, i->n_head, i->n_head_kv, i->n_vocab, i->context_train,
             i->context_max, (long long)i->n_param, (long long)i->weight_bytes);
    buf_addf(&b,
             "\"kv_bytes\":%lld,\"block_size\":%d,\"num_blocks\":%d,\"bos_token_id\":%d,"
             "\"eos_token_id\":%d}",
             (long long)i->kv_bytes, i->page_rows, i->n_page, tokenizer_bos(t), tokenizer_eos(t));
    return buf_detach(&b);
}

char *quoth_stats(const quoth_model *m)
{
    struct buf b = {0};
    struct stats_view *v = malloc(sizeof *v);
    if (!v) return NULL;
    stats_read(engine_stats(m->session.engine), v);
    stats_json(v, &b);
    free(v);
    return buf_detach(&b);
}

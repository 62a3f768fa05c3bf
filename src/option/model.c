/* model.c - opening a model from the flags that every computing command shares; see option.h. */
#include "option.h"

#include "base/log.h"
#include "base/os.h"

#include <stdio.h>
#include <string.h>

struct session_options session_flags = {
#include "session/defaults.def"
};
static const char *system_text;
static bool verbose;

#define SESSION_INT(field, flag, char_, what, low, high, otherwise, text)                          \
    INT_OPTION(flag, what, &session_flags.field, low, high, text, .letter = char_),
#define SESSION_REAL(field, flag, what, low, high, otherwise, text)                                \
    REAL_OPTION(flag, what, &session_flags.field, low, high, text),
#define SESSION_TEXT(field, flag, what, otherwise, text)                                           \
    TEXT_OPTION(flag, what, &session_flags.field, text),
#define SESSION_FLAG(field, flag, otherwise, text) FLAG_OPTION(flag, &session_flags.field, text),

const struct option load_options[] = {
#include "session/load.def"
    OPTIONS_END,
};

static const struct option pack_cache_options[] = {
#include "session/pack_cache.def"
    OPTIONS_END,
};

const struct option model_options[] = {
#include "session/model.def"
    FLAG_OPTION("verbose", &verbose, "say what is loaded and where memory goes", .letter = 'v'),
    OPTIONS_OF(pack_cache_options),
    OPTIONS_OF(load_options),
    OPTIONS_END,
};

const struct option chat_options[] = {
#include "session/chat.def"
    TEXT_OPTION("system", "TEXT", &system_text, "the system prompt"),
    OPTIONS_END,
};

const char *chat_system(void)
{
    return system_text;
}

const char *session_bundled(const char *typed, struct err *e)
{
    if (session_flags.shape) return session_flags.shape;
    if (checkpoint_packed(os_self_path())) return os_self_path();
    if (typed)
        err_set(e, ERR_MISSING,
                "no model: none is packed into this program, and \"%.100s\" is no model file or "
                "folder. Give one: quoth run "
                "MODEL.gguf \"your prompt\"",
                typed);
    else
        err_set(e, ERR_MISSING,
                "no model: none is packed into this program. Give one: quoth run MODEL.gguf");
    return NULL;
}

int session_page_rows(void)
{
    return (int)session_flags.block_size;
}

const char *session_act_name(void)
{
    return session_flags.activation_dtype;
}

int session_open(struct session *s, const char *path, int n_seq, int n_out, int context,
                 struct err *e)
{
    struct session_size size = {.n_seq = n_seq, .n_out = n_out, .context = context};
    return session_open_sized(s, path, &size, e);
}

/* A bar for what takes a noticeable time. */
static void show_packing(void *what, uint64_t done, uint64_t n_byte)
{
    enum { BYTES_SHOWN_MIN = 256 << 20 };
    if (n_byte >= BYTES_SHOWN_MIN) progress_bar(what, done, n_byte);
}

int session_open_sized(struct session *s, const char *path, const struct session_size *size,
                       struct err *e)
{
    if (verbose) log_level_max = LOG_INFO;
    session_flags.progress = show_packing;
    session_flags.progress_ctx = (void *)"preparing weights";
    int rc = session_open_as(s, path, &session_flags, size, e);
    if (rc == 0 && verbose) session_report(s);
    return rc;
}

int session_backend(struct session *s, struct err *e)
{
    return session_open_backend(s, &session_flags, e);
}

int session_engine(struct session *s, struct err *e)
{
    return session_start(s, &session_flags, 0, e);
}

static double mib(int64_t n_byte)
{
    return (double)n_byte / 1048576.0;
}

static void report_packed(const struct weights_info *w)
{
    double seconds = (double)w->us * 1e-6,
           rate = seconds > 0 ? (double)w->n_byte / seconds * 1e-9 : 0;
    fprintf(stderr, "  packed   %9.1f MiB  ", mib(w->n_byte));
    if (w->how == WEIGHTS_MAPPED || w->how == WEIGHTS_COPIED)
        fprintf(stderr, "%s from %s in %.1f ms\n", w->how == WEIGHTS_MAPPED ? "mapped" : "copied",
                pack_cache_dir(), seconds * 1e3);
    else
        fprintf(stderr, "in %.1f ms (%.2f GB/s)%s\n", seconds * 1e3, rate,
                w->how == WEIGHTS_KEPT ? ", kept for the next start" : "");
}

void session_report(const struct session *s)
{
    const struct model_info *i = model_info(s->model);
    fprintf(stderr, "%s: %s, %.1f M parameters, %d layers, %d wide, %d/%d heads, vocabulary %d\n",
            i->name, i->arch, (double)i->n_param * 1e-6, i->n_layer, i->d_model, i->n_head,
            i->n_head_kv, i->n_vocab);
    fprintf(stderr, "%s, opened in %.1f ms\n", backend_describe(s->backend),
            (double)s->open_us * 1e-3);
    fprintf(stderr, "  weights  %9.1f MiB  %s\n", mib(i->weight_bytes),
            checkpoint_file_bytes(s->checkpoint) ? "in the file" : "random");
    report_packed(&i->weights);
    fprintf(stderr, "  KV pages %9.1f MiB  %d pages of %d tokens, %s: %lld tokens\n",
            mib(i->kv_bytes), i->n_page, i->page_rows, kv_type_name(i->kv_type),
            (long long)i->n_page * i->page_rows);
    fprintf(stderr, "  scratch  %9.1f MiB  %d rows, %d outputs a step\n", mib(i->scratch_bytes),
            model_batch_limits(s->model)->n_row, model_batch_limits(s->model)->n_out);
    struct executor x = executor_of_model(s->model);
    int64_t queues = engine_bytes(&x, 0);
    fprintf(stderr, "  queues   %9.1f MiB  page table, batch of %d sequences, requests\n",
            mib(queues), x.limits->n_seq);
    fprintf(stderr, "  swap     %9.1f MiB  %d pages in host memory\n", mib(i->swap_bytes),
            i->n_host_page);
    fprintf(stderr, "  together %9.1f MiB  of %.1f\n",
            mib(i->weights.n_byte + i->kv_bytes + i->scratch_bytes + queues + i->swap_bytes),
            mib((int64_t)os_memory_bytes()));
}

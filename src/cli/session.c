/* session.c - opening a model from the flags that every computing command shares. */
#include "session.h"

#include "load.h"

#include "base/log.h"
#include "base/os.h"

#include <stdio.h>
#include <string.h>

static int64_t n_thread, page_rows = 32, context_max, rows_per_step = 512, n_page;
static const char *cpu_level, *act_name = "auto", *kv_name = "auto";
static bool verbose;

const struct option model_options[] = {
    {.kind = OPTION_INT,
     .name = "threads",
     .letter = 't',
     .arg = "N",
     .target = &n_thread,
     .lo = 0,
     .hi = 1024,
     .help = "threads that compute (0: one for each core, or as many as read the weights fastest)"},
    {.kind = OPTION_TEXT,
     .name = "cpu",
     .arg = "LEVEL",
     .target = &cpu_level,
     .help = "kernels to use: ref, avx2, ... (default: the best this machine has)"},
    {.kind = OPTION_TEXT,
     .name = "activation-dtype",
     .arg = "TYPE",
     .target = &act_name,
     .help = "auto, int8, bf16 or f32: how activations enter linear layers (auto: by weight type)"},
    {.kind = OPTION_TEXT,
     .name = "kv-cache-dtype",
     .arg = "TYPE",
     .target = &kv_name,
     .help = "auto (float16), float32, float16, bfloat16, int8, fp8_e4m3 or fp8_e5m2"},
    {.kind = OPTION_INT,
     .name = "block-size",
     .arg = "N",
     .target = &page_rows,
     .lo = 1,
     .hi = 64,
     .help = "tokens per KV page, a power of two (32)"},
    {.kind = OPTION_INT,
     .name = "max-model-len",
     .arg = "N",
     .target = &context_max,
     .lo = 0,
     .hi = 1 << 30,
     .help = "longest sequence in tokens (0: the model's own, as far as memory allows)"},
    {.kind = OPTION_INT,
     .name = "num-gpu-blocks-override",
     .arg = "N",
     .target = &n_page,
     .lo = 0,
     .hi = 1 << 30,
     .help = "KV pages (0: what one longest sequence needs)"},
    {.kind = OPTION_INT,
     .name = "max-num-batched-tokens",
     .arg = "N",
     .target = &rows_per_step,
     .lo = 1,
     .hi = 1 << 16,
     .help = "rows of one step at most: prompts are computed in chunks of this (512)"},
    {.kind = OPTION_FLAG,
     .name = "verbose",
     .letter = 'v',
     .target = &verbose,
     .help = "say what is loaded and where memory goes"},
    {.kind = OPTION_GROUP, .include = pack_cache_options},
    {.kind = OPTION_GROUP, .include = load_options},
    {.kind = OPTION_END},
};

static int choose_act(enum act_choice *act, struct err *e)
{
    static const char *const name[] = {"auto", "int8", "bf16", "f32"};
    for (int i = 0; i < 4; i++)
        if (strcmp(act_name, name[i]) == 0) return *act = (enum act_choice)i, 0;
    return err_set(e, ERR_ARG, "--activation-dtype: \"%s\" is not auto, int8, bf16 or f32",
                   act_name);
}

int session_kv_type(enum kv_type *t, struct err *e)
{
    int kv = kv_type_of_name(kv_name);
    if (kv < 0) return err_set(e, ERR_ARG, "--kv-cache-dtype: \"%s\" is not a KV type", kv_name);
    *t = (enum kv_type)kv;
    return 0;
}

int session_backend(struct session *s, struct err *e)
{
    struct backend_options bo = {.n_thread = (int)n_thread, .cpu_level = cpu_level};
    for (int i = 0; s->checkpoint && i < checkpoint_n_tensor(s->checkpoint); i++)
        bo.weight_bytes += (int64_t)checkpoint_tensor_at(s->checkpoint, i)->n_byte;
    int rc = choose_act(&bo.act, e);
    if (rc == 0) rc = backend_open(&s->backend, "cpu", &bo, e);
    if (rc == 0 && session_n_thread(s) < n_thread)
        log_warn("--threads %d: this process may use %d CPUs, so %d threads run", (int)n_thread,
                 session_n_thread(s), session_n_thread(s));
    return rc;
}

static int open_model(struct session *s, const struct session_size *size, struct err *e)
{
    enum kv_type kv = KV_F16;
    int rc = session_kv_type(&kv, e);
    if (rc == 0) rc = session_backend(s, e);
    struct model_options mo = {
        .backend = s->backend,
        .kv_type = kv,
        .page_rows = (int)page_rows,
        .n_page = n_page ? (int)n_page : size->n_page,
        .context_max = context_max ? (int)context_max : size->context,
        .weights = pack_cache_read(),
        .batch = {.n_row = rows_per_step < size->n_row_min ? size->n_row_min : (int)rows_per_step,
                  .n_seq = size->n_seq,
                  .n_out = size->n_out,
                  .n_copy = size->n_copy},
    };
    if (rc == 0) rc = model_open(&s->model, s->checkpoint, &mo, e);
    return rc;
}

const char *session_bundled(const char *typed, struct err *e)
{
    if (load_shape()) return load_shape();
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

int session_n_thread(const struct session *s)
{
    return pool_n_thread(backend_pool(s->backend));
}

int session_page_rows(void)
{
    return (int)page_rows;
}

const char *session_act_name(void)
{
    return act_name;
}

int session_open(struct session *s, const char *path, int n_seq, int n_out, int context,
                 struct err *e)
{
    struct session_size size = {.n_seq = n_seq, .n_out = n_out, .context = context};
    return session_open_sized(s, path, &size, e);
}

int session_open_sized(struct session *s, const char *path, const struct session_size *size,
                       struct err *e)
{
    *s = (struct session){0};
    int64_t start = time_us();
    if (verbose) log_level_max = LOG_INFO;
    int rc = load_checkpoint(&s->checkpoint, path, false, e);
    if (rc == 0) rc = load_tokenizer(&s->tokenizer, s->checkpoint, e);
    if (rc == 0) rc = open_model(s, size, e);
    if (rc != 0) session_close(s);
    s->open_us = time_us() - start;
    if (rc == 0 && verbose) session_report(s);
    return rc;
}

int session_engine(struct session *s, struct err *e)
{
    int rc = engine_open(&s->engine,
                         &(struct engine_options){.executor = executor_of_model(s->model),
                                                  .tokenizer = s->tokenizer,
                                                  .cpu_level = cpu_level},
                         e);
    return rc ? rc : engine_start(s->engine, e);
}

void session_close(struct session *s)
{
    engine_close(s->engine);
    model_close(s->model);
    backend_close(s->backend);
    tokenizer_close(s->tokenizer);
    checkpoint_close(s->checkpoint);
    *s = (struct session){0};
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
    if (w->how == WEIGHTS_MAPPED)
        fprintf(stderr, "mapped from %s in %.1f ms\n", pack_cache_dir(), seconds * 1e3);
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
    fprintf(stderr, "  KV pages %9.1f MiB  %d pages of %d tokens, %s: %d tokens\n",
            mib(i->kv_bytes), i->n_page, i->page_rows, kv_type_name(i->kv_type),
            i->n_page * i->page_rows);
    fprintf(stderr, "  scratch  %9.1f MiB\n", mib(i->scratch_bytes));
}

/* session.c - opening a model from options, in the order in which its parts need each other. */
#include "session.h"

#include "base/filecache.h"
#include "base/log.h"
#include "base/os.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct session_size session_many = {.n_seq = 64, .n_out = 128, .n_longest = 64};

static int choose_act(enum act_choice *act, const char *name, struct err *e)
{
    static const char *const known[] = {"auto", "int8", "bf16", "f32"};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, known[i]) == 0) return *act = (enum act_choice)i, 0;
    return err_set(e, ERR_ARG, "--activation-dtype: \"%s\" is not auto, int8, bf16 or f32", name);
}

int session_kv_type(enum kv_type *t, const struct session_options *o, struct err *e)
{
    int kv = kv_type_of_name(o->kv_cache_dtype);
    if (kv < 0)
        return err_set(e, ERR_ARG, "--kv-cache-dtype: \"%s\" is not a KV type", o->kv_cache_dtype);
    *t = (enum kv_type)kv;
    return 0;
}

int session_n_thread(const struct session *s)
{
    return pool_n_thread(backend_pool(s->backend));
}

int session_open_backend(struct session *s, const struct session_options *o, struct err *e)
{
    struct backend_options bo = {.n_thread = (int)o->threads, .cpu_level = o->cpu};
    for (int i = 0; s->checkpoint && i < checkpoint_n_tensor(s->checkpoint); i++)
        bo.weight_bytes += (int64_t)checkpoint_tensor_at(s->checkpoint, i)->n_byte;
    int rc = choose_act(&bo.act, o->activation_dtype, e);
    if (rc == 0) rc = backend_open(&s->backend, "cpu", &bo, e);
    if (rc == 0 && session_n_thread(s) < o->threads)
        log_warn("--threads %d: this process may use %d CPUs, so %d threads run", (int)o->threads,
                 session_n_thread(s), session_n_thread(s));
    return rc;
}

/* vLLM's spelling: capitals count in powers of 1024, small letters in powers of 1000. */
static int read_bytes(int64_t *n_byte, const char *flag, const char *text, struct err *e)
{
    static const char small[] = "kmgt", large[] = "KMGT";
    char *end;
    double x = strtod(text, &end);
    if (end != text && *end) {
        const char *at = strchr(small, *end), *at2 = strchr(large, *end);
        for (int64_t i = at ? at - small + 1 : at2 ? at2 - large + 1 : 0; i > 0; i--)
            x *= at ? 1000 : 1024;
        if (at || at2) end++;
    }
    if (end == text || *end || !(x >= 0 && x < 1e18))
        return err_set(e, ERR_ARG, "--%s: \"%.60s\" is not a number of bytes (8G, 512M)", flag,
                       text);
    *n_byte = (int64_t)x;
    return 0;
}

/* One sequence alone is never preempted. */
static int64_t swap_bytes(const struct session_options *o, int n_seq)
{
    double want = o->swap_space * 1073741824.0, most = (double)os_memory_free() / 4;
    return n_seq > 1 ? (int64_t)(want < most ? want : most) : 0;
}

static int open_model(struct session *s, const struct session_options *o,
                      const struct session_size *size, struct err *e)
{
    enum kv_type kv = KV_F16;
    struct filecache cache;
    int rc = session_kv_type(&kv, o, e);
    int64_t kv_bytes = 0;
    if (rc == 0) rc = read_bytes(&kv_bytes, "kv-cache-memory", o->kv_cache_memory, e);
    if (rc == 0) rc = session_open_backend(s, o, e);
    int n_seq = o->max_num_seqs ? (int)o->max_num_seqs : size->n_seq;
    int n_row = (int)o->max_num_batched_tokens, n_page = (int)o->num_gpu_blocks_override;
    struct model_options mo = {
        .backend = s->backend,
        .kv_type = kv,
        .page_rows = (int)o->block_size,
        .n_page = n_page ? n_page : size->n_page,
        .n_longest = size->n_longest,
        .kv_bytes = kv_bytes,
        .memory_utilization = o->gpu_memory_utilization,
        .swap_bytes = swap_bytes(o, n_seq),
        .context_max = o->max_model_len ? (int)o->max_model_len : size->context,
        .weights = session_weights(o, &cache),
        .batch = {.n_row = n_row < size->n_row_min ? size->n_row_min : n_row,
                  .n_seq = n_seq,
                  .n_out = size->n_out < n_seq ? n_seq : size->n_out,
                  .n_copy = size->n_copy},
    };
    if (rc == 0) rc = model_open(&s->model, s->checkpoint, &mo, e);
    return rc;
}

int session_open_as(struct session *s, const char *path, const struct session_options *o,
                    const struct session_size *size, struct err *e)
{
    *s = (struct session){0};
    int64_t start = time_us();
    int rc = session_checkpoint(&s->checkpoint, path, o, false, e);
    if (rc == 0) rc = session_tokenizer(&s->tokenizer, s->checkpoint, e);
    if (rc == 0) rc = open_model(s, o, size, e);
    if (rc != 0) session_close(s);
    s->open_us = time_us() - start;
    return rc;
}

/* Unless somebody says otherwise: 100 tokens a second are ten times faster than anybody reads. */
enum { ITL_UNNOTICED_MS = 10, ITL_MOST = 4 };

/* "120": milliseconds; "4x": a multiple of a step without prompts; "none": prompts get all they can use. */
static int read_itl_target(struct engine_options *eo, const struct session_options *o,
                           struct err *e)
{
    char *end;
    const char *text = o->itl_target_ms;
    if (strcmp(text, "auto") == 0) {
        text = o->offline ? "none" : "2x";
        eo->itl_most = ITL_MOST;
        eo->itl_least_ms = ITL_UNNOTICED_MS;
    }
    if (strcmp(text, "none") == 0) {
        eo->itl_target_ms = INFINITY;
        return 0;
    }
    double x = strtod(text, &end);
    bool times = *end == 'x' && !end[1];
    if (end == text || (*end && !times) || !(x > 0 && x <= 1e9))
        return err_set(
            e, ERR_ARG,
            "--itl-target-ms: \"%.60s\" is neither milliseconds (120), nor a multiple of "
            "the step without prompts (2x), nor none",
            text);
    *(times ? &eo->itl_multiple : &eo->itl_target_ms) = x;
    return 0;
}

int session_engine_options(struct engine_options *eo, const struct session *s,
                           const struct session_options *o, struct err *e)
{
    *eo = (struct engine_options){.executor = executor_of_model(s->model),
                                  .tokenizer = s->tokenizer,
                                  .cpu_level = o->cpu,
                                  .scheduler = strcmp(o->scheduler, "auto") ? o->scheduler : NULL,
                                  .starvation_us = o->starvation_ms * 1000,
                                  .window_us = o->window_ms * 1000,
                                  .trace_path = o->trace_file,
                                  .trace_bytes_max = o->trace_file_size << 20};
    return read_itl_target(eo, o, e);
}

int64_t session_request_bytes(void)
{
    int64_t least = 1 << 30, share = (int64_t)(os_memory_free() / 8);
    return share > least ? share : least;
}

int session_start(struct session *s, const struct session_options *o, int queue_max, struct err *e)
{
    struct engine_options eo;
    int rc = session_engine_options(&eo, s, o, e);
    eo.queue_max = queue_max;
    eo.byte_max = session_request_bytes();
    if (rc == 0) rc = engine_open(&s->engine, &eo, e);
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

/* GGUF's numbers for it. */
static enum pooling own_pooling(const struct session *s)
{
    enum { MEAN = 1, CLS = 2 };
    char key[96];
    snprintf(key, sizeof key, "%s.pooling_type", model_info(s->model)->arch);
    int64_t type = meta_int(checkpoint_meta(s->checkpoint, key), 0);
    return type == MEAN ? POOLING_MEAN : type == CLS ? POOLING_FIRST : POOLING_LAST;
}

int session_pooling(enum pooling *out, const struct session *s, const char *name, struct err *e)
{
    static const struct {
        const char *name;
        enum pooling pooling;
    } known[] = {{"auto", POOLING_NONE},
                 {"mean", POOLING_MEAN},
                 {"last", POOLING_LAST},
                 {"first", POOLING_FIRST},
                 {"cls", POOLING_FIRST}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, name) == 0) {
            *out = known[i].pooling ? known[i].pooling : own_pooling(s);
            return 0;
        }
    return err_set(e, ERR_ARG, "--pooling is auto, mean, last or first, not \"%.40s\"", name);
}

struct sample_params session_sample_defaults(const struct checkpoint *c, float temperature)
{
    struct sample_params p = sample_params_default;
    p.temperature =
        (float)meta_real(checkpoint_meta(c, "general.sampling.temp"), (double)temperature);
    p.top_p = (float)meta_real(checkpoint_meta(c, "general.sampling.top_p"), (double)p.top_p);
    p.min_p = (float)meta_real(checkpoint_meta(c, "general.sampling.min_p"), (double)p.min_p);
    p.repetition_penalty = (float)meta_real(checkpoint_meta(c, "general.sampling.penalty_repeat"),
                                            (double)p.repetition_penalty);
    p.top_k = (int32_t)meta_int(checkpoint_meta(c, "general.sampling.top_k"), p.top_k);
    return p;
}

/* session.c - open a model by its options, each part after the parts that it needs.
 *
 *    checkpoint -> tokenizer -> adapters -> backend -> model -> constraints      session_open_as
 *                                                         '--> engine            session_start
 *
 * A part borrows earlier parts, so session_close closes the parts in the reverse order. Any part
 * may be NULL after a failed opening.
 *
 * --memory-limit is enforced in two steps. begin_limit reserves the weights at their size in the
 * file, so that the plan of the model divides the rest. Then end_limit counts the memory of the
 * model, and fails if less than a sixteenth of the limit remains for requests. */
#include "session.h"

#include "adapter/adapter.h"
#include "base/cancel.h"
#include "base/check.h"
#include "base/filecache.h"
#include "base/log.h"
#include "base/names.h"
#include "base/os.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* sizes for many concurrent requests, in a server, a batch or the library */
const struct session_size session_many = {.n_seq = 64, .n_out = 128, .n_longest = 64};

/* Set *act by a name of --activation-dtype. The names have the order of enum act_choice. */
static int choose_act(enum act_choice *act, const char *text, struct err *e)
{
    const char *name;
    int rc = name_choose(&name, "--activation-dtype", session_act_names, text, e);
    for (int i = 0; rc == 0 && session_act_names(i); i++)
        if (strcmp(name, session_act_names(i)) == 0) *act = (enum act_choice)i;
    return rc;
}

int session_kv_type(enum kv_type *t, const struct session_options *o, struct err *e)
{
    const char *name;
    int rc = name_choose(&name, "--kv-cache-dtype", session_kv_names, o->kv_cache_dtype, e);
    if (rc == 0) *t = (enum kv_type)kv_type_of_name(name);
    return rc;
}

int session_n_thread(const struct session *s)
{
    return pool_n_thread(s->backend->pool);
}

int64_t session_weight_bytes(const struct session *s)
{
    const struct checkpoint *c = s->checkpoint;
    int64_t n = 0;
    for (int i = 0; c && i < checkpoint_n_tensor(c); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(c, i);
        const struct qtype_info *q = &qtype_info[session_type(s->quantization, c, t)],
                                *own = &qtype_info[t->type];
        n += (int64_t)t->n_byte / own->n_byte * own->block / q->block * q->n_byte;
    }
    return n;
}

int session_open_backend(struct session *s, const struct session_options *o, struct err *e)
{
    struct backend_options bo = {.n_thread = (int)o->threads, .cpu_level = o->cpu, .pool = o->pool};
    /* the number of the backend's threads also depends on the size of the weights */
    bo.weight_bytes = session_weight_bytes(s);
    int rc = choose_act(&bo.act, o->activation_dtype, e);
    if (rc == 0) rc = backend_open(&s->backend, session_device_name(o), &bo, e);
    if (rc == 0 && session_n_thread(s) < o->threads)
        log_warn("--threads %d: this process may use %d CPUs, so %d threads run", (int)o->threads,
                 session_n_thread(s), session_n_thread(s));
    return rc;
}

/* vLLM's notation: capital suffixes are powers of 1024, and lower-case suffixes are powers of
 * 1000. */
int64_t session_bytes(const char *text)
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
    return end != text && !*end && x >= 0 && x < 1e18 ? (int64_t)x : -1;
}

int session_bytes_form(const char *text, struct err *e)
{
    return session_bytes(text) < 0 ? form_wrong(e, "a number of bytes (8G, 512M)", text) : 0;
}

/* Return the number of bytes of the swap space; 0 if n_seq is 1, because a single sequence is never
 * preempted. */
static int64_t swap_bytes(const struct session_options *o, int n_seq)
{
    double want = o->swap_space * 1073741824.0,
           max = (double)os_memory_free() / (os_memory_limited() ? 8 : 4);
    return n_seq > 1 ? (int64_t)(want < max ? want : max) : 0;
}

/* Begin --memory-limit. Limit the plan's memory to the option's value, and count the weights at
 * their size in the file. Set *limit to 0 if there is no limit. */
static int begin_limit(int64_t *limit, const struct session *s, const struct session_options *o,
                       struct err *e)
{
    int64_t weights = session_weight_bytes(s), own = os_memory_own();
    const int64_t most = session_bytes(o->weights_memory);
    *limit = session_bytes(o->memory_limit);
    if (*limit == 0) return 0;
    if (most > 0 && weights > most) weights = most;
    int64_t taken = weights + (own > 0 ? own : 0);
    if (taken >= *limit)
        return err_set(e, ERR_LIMIT,
                       "--memory-limit: the weights and this program take %.1f of %.1f MiB; "
                       "--weights-memory keeps a part of the weights on the disk",
                       (double)taken / 1048576, (double)*limit / 1048576);
    os_memory_limit((uint64_t)*limit, (uint64_t)taken);
    return 0;
}

/* Check the memory that the open model's plan uses, and the remaining memory for requests. */
static int end_limit(int64_t limit, int64_t own, const struct session *s, struct err *e)
{
    const struct model_info *i = s->info;
    struct executor x = executor_of_model(s->model);
    int64_t rest = i->scratch_bytes + engine_bytes(&x, 0) + (own > 0 ? own : 0);
    rest += s->additions.n_byte;
    int64_t taken = i->weights.n_byte + i->kv_bytes + i->states_bytes + i->swap_bytes + rest;
    const double mib = 1.0 / 1048576;
    if (limit == 0) return 0;
    if (taken >= limit - limit / 16)
        return err_set(
            e, ERR_LIMIT,
            "--memory-limit: weights of %.1f MiB, KV pages and states of %.1f, swap space of %.1f "
            "and %.1f for the rest leave "
            "less than a sixteenth of %.1f MiB for requests; lower --kv-cache-memory, "
            "--max-model-len or --swap-space",
            (double)i->weights.n_byte * mib, (double)(i->kv_bytes + i->states_bytes) * mib,
            (double)i->swap_bytes * mib, (double)rest * mib, (double)limit * mib);
    os_memory_limit((uint64_t)limit, (uint64_t)taken);
    return 0;
}

/* Open backend and model by the options. An option of 0 means the command's size. */
static int open_model(struct session *s, const struct session_options *o,
                      const struct session_size *size, struct err *e)
{
    enum kv_type kv = KV_F16;
    struct filecache cache;
    int rc = session_kv_type(&kv, o, e);
    int64_t limit = 0, own = os_memory_own();
    if (rc == 0) rc = begin_limit(&limit, s, o, e);
    if (rc == 0) rc = session_open_backend(s, o, e);
    int n_seq = o->max_num_seqs ? (int)o->max_num_seqs : size->n_seq;
    int n_row = (int)o->max_num_batched_tokens, n_page = (int)o->num_gpu_blocks_override;
    struct model_options mo = {
        .backend = s->backend,
        .kv_type = kv,
        .page_rows = (int)o->block_size,
        .n_page = n_page ? n_page : size->n_page,
        .n_longest = size->n_longest,
        .kv_bytes = session_bytes(o->kv_cache_memory),
        .memory_utilization = o->gpu_memory_utilization,
        .swap_bytes = swap_bytes(o, n_seq),
        .context_max = o->max_model_len ? (int)o->max_model_len : size->context,
        .context_trained = size->trained && !o->max_model_len,
        .quantization = s->quantization,
        .weights = session_weights(o, &cache),
        .batch = {.n_row = n_row < size->n_row_min ? size->n_row_min : n_row,
                  .n_seq = n_seq,
                  .n_out = size->n_out < n_seq ? n_seq : size->n_out,
                  .n_copy = size->n_copy,
                  .n_adapter = s->additions.n_set - 1},
        .additions = &s->additions,
    };
    if (rc == 0) rc = session_class_tokens(&mo, s->checkpoint, s->tokenizer, e);
    if (rc == 0) rc = model_open(&s->model, s->checkpoint, &mo, e);
    if (rc == 0) s->info = model_info(s->model);
    return rc ? rc : end_limit(limit, own, s, e);
}

/* Warn if the weights do not fit into memory, so that the system reads them again for each
 * token. */
static void warn_of_memory(const struct model_info *i)
{
    const double gib = 1.0 / 1073741824, has = (double)os_memory_bytes(),
                 want = (double)i->weights.n_byte;
    if (want > has)
        log_warn("the weights take %.1f GiB, and the memory has %.1f: %.1f more; --weights-memory "
                 "%.0fM keeps the rest on the disk and reads it ahead of its use",
                 want * gib, has * gib, (want - has) * gib, has * 0.7 / 1048576);
}

/* Log one warning for each option with a surprising effect. */
static void warn_of_options(const struct session *s, const struct session_options *o)
{
    const struct model_info *i = s->info;
    int n = 0, n_float = 0;
    warn_of_memory(i);
    if (o->max_model_len > i->context_train)
        log_warn("--max-model-len %lld: the model was trained on %d tokens; longer answers may be "
                 "meaningless",
                 (long long)o->max_model_len, i->context_train);
    for (int t = 0; t < checkpoint_n_tensor(s->checkpoint); t++) {
        const struct tensor_info *w = checkpoint_tensor_at(s->checkpoint, t);
        if (w->n_dim < 2) continue;
        n++;
        n_float += !qtype_is_block(session_type(s->quantization, s->checkpoint, w));
    }
    if (n_float > 0 && strcmp(o->activation_dtype, "int8") == 0)
        log_warn("--activation-dtype int8: %d of %d matrices are not in a block format; they take "
                 "bf16 activations if they are BF16 or FP8 with scales, otherwise f32",
                 n_float, n);
}

int session_open_adapters(struct session *s, const struct session_options *o, struct err *e)
{
    return adapters_open(&s->additions, o->lora, &o->lora_modules, e);
}

/* Return ERR_BUSY if the work of the calling thread is cancelled. */
static int check_cancelled(struct err *e)
{
    return cancelled() ? err_cancelled(e) : 0;
}

/* Steps that take long check for a cancelled load themselves. The other steps take less than a
 * second each. */
int session_open_as(struct session *s, const char *path, const struct session_options *o,
                    const struct session_size *size, struct err *e)
{
    *s = (struct session){0};
    int64_t start = time_us();
    int rc = session_checkpoint(&s->checkpoint, path, o, false, e);
    /* an unknown architecture is a more useful error than a missing tokenizer */
    if (rc == 0) rc = model_check_arch(s->checkpoint, e);
    if (rc == 0) rc = session_quantization(&s->quantization, o, s->checkpoint, e);
    if (rc == 0) rc = session_tokenizer(&s->tokenizer, s->checkpoint, o, e);
    if (rc == 0) rc = check_cancelled(e);
    if (rc == 0) rc = session_open_adapters(s, o, e);
    if (rc == 0) rc = open_model(s, o, size, e);
    if (rc == 0) rc = check_cancelled(e);
    if (rc == 0) rc = adapters_bind(&s->additions, s->model, s->backend, e);
    if (rc == 0) rc = constraint_vocab_open(&s->vocab, s->tokenizer, s->info->n_vocab, e);
    /* the model has its weights in memory, so the files may change or disappear */
    if (rc == 0 && !o->mmap) rc = checkpoint_detach(s->checkpoint, e);
    if (rc == 0) warn_of_options(s, o);
    if (rc != 0) session_close(s);
    s->open_us = time_us() - start;
    return rc;
}

/* ITL_UNNOTICED_MS: default inter-token target. People read at a tenth of the 100 tokens per second
 * of this target. ITL_MULTIPLE_MAX: maximum multiple of a step without prompts. */
enum { ITL_UNNOTICED_MS = 10, ITL_MULTIPLE_MAX = 4 };

/* Parse an inter-token target. "120" is a number of milliseconds. "4x" is a multiple of a step
 * without prompts and sets *times. Return 0 if the text has neither form. */
static double target_of(const char *text, bool *times)
{
    char *end;
    double x = strtod(text, &end);
    *times = end != text && *end == 'x' && !end[1];
    return end != text && (!*end || *times) && x > 0 && x <= 1e9 ? x : 0;
}

int session_itl_form(const char *text, struct err *e)
{
    bool times, word = strcmp(text, "auto") == 0 || strcmp(text, "none") == 0;
    if (word || target_of(text, &times) > 0) return 0;
    return form_wrong(
        e, "milliseconds (120), a multiple of a step without prompts (2x), none or auto", text);
}

/* Set the inter-token target. With "none", prompts may use a whole step. */
static void set_itl_target(struct engine_options *eo, const struct session_options *o)
{
    const char *text = o->itl_target_ms;
    if (strcmp(text, "auto") == 0) {
        text = o->offline ? "none" : "2x";
        eo->itl_multiple_max = ITL_MULTIPLE_MAX;
        eo->itl_ms_min = ITL_UNNOTICED_MS;
    }
    bool times = false, none = strcmp(text, "none") == 0;
    double x = none ? INFINITY : target_of(text, &times);
    *(times ? &eo->itl_multiple : &eo->itl_target_ms) = x;
}

void session_engine_options(struct engine_options *eo, const struct session *s,
                            const struct session_options *o)
{
    *eo = (struct engine_options){.executor = executor_of_model(s->model),
                                  .tokenizer = s->tokenizer,
                                  .cpu_level = o->cpu,
                                  .scheduler = strcmp(o->scheduler, "auto") ? o->scheduler : NULL,
                                  .no_prefix_cache = !o->enable_prefix_caching,
                                  .no_jump_forward = !o->jump_forward,
                                  .prompt_max = (int)o->max_input_length,
                                  .starvation_us = o->starvation_ms * 1000,
                                  .window_us = o->window_ms * 1000,
                                  .window_min = (int)o->window_min,
                                  .window_max = (int)o->window_max,
                                  .slice_tokens = (int)o->time_slice_tokens,
                                  .trace_path = o->trace_file,
                                  .trace_bytes_max = o->trace_file_size << 20};
    set_itl_target(eo, o);
}

/* Return the memory that requests may use in total: an eighth of the free memory, at least 1
 * GiB. */
int64_t session_request_bytes(void)
{
    int64_t free = (int64_t)os_memory_free(), least = 1 << 30;
    if (os_memory_limited()) return free / 2; /* use half of the memory that the plan leaves */
    return free / 8 > least ? free / 8 : least;
}

int session_start(struct session *s, const struct session_options *o, const char *name,
                  int queue_max, struct err *e)
{
    CHECK(s->model && !s->engine, "queue of %d", queue_max);
    struct engine_options eo;
    session_engine_options(&eo, s, o);
    if (name) eo.executor.name = name;
    eo.queue_max = queue_max;
    eo.bytes_max = session_request_bytes();
    int rc = engine_open(&s->engine, &eo, e);
    if (rc != 0) return rc;
    if (engine_context(s->engine) < s->info->context_max)
        log_warn("the context is %d tokens, not %d, because the KV cache has %d pages of %d tokens",
                 engine_context(s->engine), s->info->context_max, s->info->n_page,
                 s->info->page_rows);
    return engine_start(s->engine, e);
}

void session_close(struct session *s)
{
    engine_close(s->engine);
    constraint_vocab_close(s->vocab);
    model_close(s->model);
    adapters_close(&s->additions);
    backend_close(s->backend);
    tokenizer_close(s->tokenizer);
    checkpoint_close(s->checkpoint);
    *s = (struct session){0};
}

/* Return the length of a name without the tag ":latest". */
static size_t name_bytes(const char *name)
{
    static const char tag[] = ":latest";
    const size_t n = strlen(name), n_tag = sizeof tag - 1;
    return n > n_tag && strcmp(name + n - n_tag, tag) == 0 ? n - n_tag : n;
}

bool session_same_name(const char *a, const char *b)
{
    const size_t n = name_bytes(a);
    return n == name_bytes(b) && strncmp(a, b, n) == 0;
}

/* Return the number of an adapter; 0 for any other name, which selects the model without an
 * adapter. */
int session_adapter(const struct session *s, const char *name)
{
    for (int i = 1; i < s->additions.n_set; i++)
        if (session_same_name(s->additions.set[i].name, name)) return i;
    return 0;
}

const char *session_device(const struct session *s)
{
    return s->backend->description;
}

const char *session_kv_name(const struct session *s)
{
    return kv_type_name(s->info->kv_type);
}

/* Return this program's path if a model is packed into it; NULL if none. */
const char *session_packed(void)
{
    return checkpoint_packed(os_self_path()) ? os_self_path() : NULL;
}

/* Return the poolings of sentence-transformers by their names, which '+' separates. */
static enum pooling named_pooling(const char *names)
{
    static const struct {
        const char *name; /* static */
        enum pooling pooling;
    } known[] = {
#define POOLING(name, field, number, method) {name, POOLING_##method},
#include "format/poolings.def"
    };
    enum pooling list = POOLING_NONE;
    for (const char *at = names, *end; *at; at = *end ? end + 1 : end) {
        end = at + strcspn(at, "+");
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            if (strlen(known[i].name) == (size_t)(end - at) &&
                memcmp(known[i].name, at, (size_t)(end - at)) == 0)
                list = pooling_join(list, known[i].pooling);
    }
    return list;
}

/* Return the pooling of the model file, by its names or by GGUF's numbers. */
static enum pooling own_pooling(const struct session *s)
{
    static const struct {
        int number;
        enum pooling pooling;
    } known[] = {
#define POOLING(name, field, number, method) {number, POOLING_##method},
#include "format/poolings.def"
    };
    const int type = s->info->pooling_type;
    if (s->info->pooling) return named_pooling(s->info->pooling);
    if (type == 0 && s->info->encoder) return POOLING_MEAN; /* as in sentence-transformers */
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (type > 0 && known[i].number == type) return known[i].pooling;
    return POOLING_LAST;
}

static const struct {
    const char *name; /* static */
    enum pooling pooling;
} poolings[] = {{"auto", POOLING_NONE},
                {"mean", POOLING_MEAN},
                {"last", POOLING_LAST},
                {"first", POOLING_FIRST},
                {"cls", POOLING_FIRST}};

const char *session_pooling_names(int i)
{
    return (size_t)i < sizeof poolings / sizeof poolings[0] ? poolings[i].name : NULL;
}

int session_pooling(enum pooling *out, const struct session *s, const char *name, struct err *e)
{
    for (int i = 0; session_pooling_names(i); i++)
        if (strcmp(poolings[i].name, name) == 0) {
            if (poolings[i].pooling && s->info->pooling && strchr(s->info->pooling, '+'))
                return err_set(e, ERR_UNSUPPORTED,
                               "--pooling: must be auto for this model, which concatenates %s, got "
                               "\"%s\"",
                               s->info->pooling, name);
            *out = poolings[i].pooling ? poolings[i].pooling : own_pooling(s);
            return 0;
        }
    return err_set(e, ERR_ARG, "--pooling: must be auto, mean, last or first, got \"%.40s\"", name);
}

static const char *default_prompt(const struct session *s)
{
    return meta_text(checkpoint_meta(s->checkpoint, "sentence_transformers.default_prompt"), NULL);
}

const char *session_prompt(const struct session *s, const char *name, size_t *n)
{
    char key[160];
    if (!name) name = default_prompt(s);
    if (!name) return NULL;
    snprintf(key, sizeof key, "sentence_transformers.prompts.%.64s", name);
    return meta_text(checkpoint_meta(s->checkpoint, key), n);
}

/* A name of no prompt is possible in a GGUF only: the reader of a folder rejects it. */
bool session_has_default_prompt(const struct session *s)
{
    size_t n;
    return session_prompt(s, NULL, &n) != NULL;
}

const char *session_label(const struct session *s, int i, size_t *n)
{
    return model_label(s->model, i, n);
}

int session_max_tokens(const struct checkpoint *c)
{
    const int64_t n = meta_int(checkpoint_meta(c, "generation.max_new_tokens"), 0);
    return n > 0 && n <= INT32_MAX ? (int)n : 0;
}

/* Values of the model's generation_config replace defaults of params.def. The caller gives the
 * default of the temperature. */
struct sample_params session_sample_defaults(const struct checkpoint *c, float temperature)
{
    struct sample_params p = sample_params_default;
    p.temperature = temperature;
    for (int i = 0; i < N_SAMPLE_PARAM; i++) {
        const struct sample_param *which = &sample_param[i];
        const struct meta *v = which->key ? checkpoint_meta(c, which->key) : NULL;
        if (!v) continue;
        double was = sample_param_get(&p, which);
        sample_param_set(&p, which,
                         which->kind == SAMPLE_INT ? (double)meta_int(v, (int64_t)was)
                                                   : meta_real(v, was));
    }
    const int64_t least = meta_int(checkpoint_meta(c, "generation.min_new_tokens"), 0);
    p.min_tokens = least > 0 && least <= INT32_MAX ? (int32_t)least : 0;
    return p;
}

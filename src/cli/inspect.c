/* inspect.c - quoth inspect: a model file's content and memory use. The command opens only the
 * checkpoint, so it also works for models that quoth cannot run. The command binds models that
 * quoth can run, to determine the sizes of their parts in memory, but does not pack them. --verify
 * reads the whole file.
 *
 *    print_text      metadata, tensors, sums by type, KV bytes per token; long values are shortened
 *    print_json      metadata, tensors and sums with all values
 *    run_verify      a hash of each tensor, and the comparison with the packed weights in the cache
 *    explain.c       the use of each key and tensor
 *
 * A quantized folder also gets the table of its matrices in memory (struct memory), because quoth
 * converts them while loading. */
#include "cli.h"
#include "explain.h"

#include "base/filecache.h"
#include "base/hash.h"
#include "base/json.h"
#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool as_json, all, verify, explain;

static const struct option options[] = {
    FLAG_OPTION("all", &all, "print long lists and texts in full", .letter = 'a'),
    FLAG_OPTION("json", &as_json, "one JSON object"),
    FLAG_OPTION(
        "verify", &verify,
        "check the cached packed weights by a hash of each tensor, and remove damaged files"),
    FLAG_OPTION("explain", &explain,
                "print the use of each key and tensor, the form in memory, and the omitted parts"),
    OPTIONS_OF(load_options),
    OPTIONS_END,
};

/* Append one item of a list. Nested lists are not shown. */
static void put_item(struct buf *b, const struct meta *m, size_t i)
{
    size_t n;
    const char *text = meta_item_text(m, i, &n);
    if (text)
        json_put_text(b, text, n);
    else if (meta_item_kind(m) == META_REAL)
        json_put_real(b, meta_item_real(m, i, 0));
    else if (meta_item_kind(m) == META_LIST)
        buf_add_text(b, "[...]");
    else
        buf_addf(b, "%lld", (long long)meta_item_int(m, i, 0));
}

/* Append at most `max` items, and the number of all items if some are omitted. */
static void put_list(struct buf *b, const struct meta *m, size_t max)
{
    size_t n = meta_count(m);
    buf_add_char(b, '[');
    for (size_t i = 0; i < n && i < max; i++) {
        if (i) buf_add_text(b, ", ");
        put_item(b, m, i);
    }
    if (n > max) buf_addf(b, ", ... %zu in all", n);
    buf_add_char(b, ']');
}

/* Long values are shortened: a vocabulary would be megabytes of text. */
void put_meta(struct buf *b, const struct meta *m, size_t n_item, size_t n_text)
{
    size_t n = 0;
    const char *text = meta_text(m, &n);
    switch (meta_kind(m)) {
    case META_BOOL:
        buf_add_text(b, meta_bool(m, false) ? "true" : "false");
        break;
    case META_INT:
    case META_UINT:
        buf_addf(b, "%lld", (long long)meta_int(m, 0));
        break;
    case META_REAL:
        json_put_real(b, meta_real(m, 0));
        break;
    case META_TEXT:
        json_put_text(b, text, n < n_text ? n : n_text);
        if (n > n_text) buf_addf(b, " ... %zu bytes in all", n);
        break;
    case META_LIST:
        put_list(b, m, n_item);
        break;
    case META_OBJECT:
        buf_add_text(b, "{}");
        break;
    default:
        buf_add_text(b, "null");
    }
}

/* Append the dimensions, outermost first, as PyTorch prints them. dim[0] is the innermost
 * dimension. */
static void put_shape(struct buf *b, const struct tensor_info *t)
{
    buf_add_char(b, '[');
    for (int d = t->n_dim - 1; d >= 0; d--)
        buf_addf(b, "%lld%s", (long long)t->dim[d], d ? ", " : "");
    buf_add_char(b, ']');
}

/* Sums over the tensors of a file. Bytes are those in the file. */
struct file_totals {
    int64_t n_param, n_byte;
    int64_t by_type[QT_COUNT];
    int n_by_type[QT_COUNT];
};

/* Return the totals of a file. Unused dimensions are 1, so the product is the number of values. */
static struct file_totals total(const struct checkpoint *c)
{
    struct file_totals t = {0};
    for (int i = 0; i < checkpoint_n_tensor(c); i++) {
        const struct tensor_info *x = checkpoint_tensor_at(c, i);
        t.n_param += x->dim[0] * x->dim[1] * x->dim[2] * x->dim[3];
        t.n_byte += (int64_t)x->n_byte;
        t.by_type[x->type] += (int64_t)x->n_byte;
        t.n_by_type[x->type]++;
    }
    return t;
}

/* ---- the form of weights and KV in memory ---- */

/* Sizes after loading. Quantized folders of Hugging Face are converted, so the bytes of matrices
 * differ from the file's. All fields are 0 for a model that quoth cannot run. */
struct memory {
    int64_t kv_token_bytes; /* KV bytes per token with f16 pages; 0 if none */
    int64_t state_bytes;    /* bytes of the recurrent state of a sequence; 0 if none */
    /* quant_method of config.json, or --quantization, borrowed; NULL: no quantization, or a model
     * that cannot run */
    const char *method;
    bool quantized; /* true if --quantization converts the weights */
    int64_t n_param, n_byte, by_type[QT_COUNT];
    int n_by_type[QT_COUNT];
};

/* Add one matrix that the model would load (callback of model_measure). */
static void add_matrix(void *ctx, const char *tensor, enum qtype type, int64_t n_value,
                       bool converted)
{
    struct memory *m = ctx;
    const int64_t n_byte = (int64_t)qtype_bytes(type, n_value);
    (void)tensor;
    (void)converted;
    m->n_param += n_value;
    m->n_byte += n_byte;
    m->by_type[type] += n_byte;
    m->n_by_type[type]++;
}

/* Return the matrices in memory. method is NULL if the model is not quantized or cannot run,
 * because the table of the file is then complete. */
static struct memory memory_of(const struct checkpoint *c)
{
    struct memory m = {0};
    struct model_sizes s = {.matrix = add_matrix, .ctx = &m, .kv_type = KV_F16};
    struct backend *b;
    struct err e;
    const char *type,
        *method = meta_text(checkpoint_meta(c, "config.quantization_config.quant_method"), NULL);
    if (session_quantization(&type, &session_flags, c, &e) != 0 ||
        backend_open(&b, session_device_name(&session_flags),
                     &(struct backend_options){.n_thread = 1}, &e) != 0)
        return m;
    if (model_measure(c, b, type, &s, &e) == 0)
        m.method = type ? type : method, m.quantized = type != NULL;
    m.kv_token_bytes = s.kv_token_bytes;
    m.state_bytes = s.state_bytes;
    backend_close(b);
    return m;
}

/* Return the type of activations with weights of the type, by default. */
static const char *activations_of(enum qtype type)
{
    return qtype_takes_int8(type) ? "int8" : qtype_takes_bf16(type) ? "bf16" : "f32";
}

/* Append the table of the matrices in memory. Append nothing if there are no matrices. */
static void put_memory_text(struct buf *b, const struct memory *m)
{
    if (!m->method) return;
    buf_addf(b, "\nmatrices in memory (%s %s%s)\n  %-10s %6s %16s  %s\n",
             m->quantized ? "--quantization" : "quant_method", m->method,
             m->quantized ? "" : ", every value exact", "type", "count", "bytes", "activations");
    for (int q = 0; q < QT_COUNT; q++)
        if (m->n_by_type[q])
            buf_addf(b, "  %-10s %6d %16lld  %s\n", qtype_info[q].name, m->n_by_type[q],
                     (long long)m->by_type[q], activations_of((enum qtype)q));
    buf_addf(b, "  %-10s %6s %16lld  %lld parameters, %.2f bits each\n", "all", "",
             (long long)m->n_byte, (long long)m->n_param,
             m->n_param ? 8.0 * (double)m->n_byte / (double)m->n_param : 0);
}

/* Append the table as a member. Append nothing if there are no matrices. */
static void put_memory_json(struct buf *b, const struct memory *m)
{
    if (!m->method) return;
    buf_addf(b, ",\"memory\":[");
    for (int q = 0, n = 0; q < QT_COUNT; q++)
        if (m->n_by_type[q])
            buf_addf(b, "%s{\"type\":\"%s\",\"count\":%d,\"bytes\":%lld,\"activations\":\"%s\"}",
                     n++ ? "," : "", qtype_info[q].name, m->n_by_type[q], (long long)m->by_type[q],
                     activations_of((enum qtype)q));
    buf_add_char(b, ']');
}

/* Print the report as text. The text is printed after it is complete, so a failure prints no part
 * of it. */
static int print_text(const struct checkpoint *c, struct err *e)
{
    struct buf b = {0};
    struct file_totals t = total(c);
    const struct memory memory = memory_of(c);
    buf_addf(&b, "%s\n\nmetadata\n", checkpoint_path(c));
    for (int i = 0; i < checkpoint_n_meta(c); i++) {
        const char *key;
        const struct meta *m = checkpoint_meta_at(c, i, &key);
        buf_addf(&b, "  %-48s ", key);
        put_meta(&b, m, all ? SIZE_MAX : 6, all ? SIZE_MAX : 100);
        buf_add_char(&b, '\n');
    }
    buf_addf(&b, "\ntensors\n");
    for (int i = 0; i < checkpoint_n_tensor(c); i++) {
        const struct tensor_info *x = checkpoint_tensor_at(c, i);
        buf_addf(&b, "  %-48s %-8s %12zu  ", x->name, qtype_info[x->type].name, x->n_byte);
        put_shape(&b, x);
        buf_add_char(&b, '\n');
    }
    buf_addf(&b, "\nmemory\n  %-10s %6s %16s\n", "type", "count", "bytes");
    for (int q = 0; q < QT_COUNT; q++)
        if (t.n_by_type[q])
            buf_addf(&b, "  %-10s %6d %16lld\n", qtype_info[q].name, t.n_by_type[q],
                     (long long)t.by_type[q]);
    buf_addf(&b, "  %-10s %6d %16lld  %lld parameters, %.2f bits each\n", "all",
             checkpoint_n_tensor(c), (long long)t.n_byte, (long long)t.n_param,
             t.n_param ? 8.0 * (double)t.n_byte / (double)t.n_param : 0);
    if (memory.kv_token_bytes)
        buf_addf(&b, "  KV cache: %lld bytes per token (float16)\n",
                 (long long)memory.kv_token_bytes);
    if (memory.state_bytes)
        buf_addf(&b, "  recurrent state: %lld bytes per sequence (float32)\n",
                 (long long)memory.state_bytes);
    put_memory_text(&b, &memory);
    return print_out(&b, e);
}

/* Print metadata, tensors and totals as one JSON object, without truncated values, for programs. */
static int print_json(const struct checkpoint *c, struct err *e)
{
    struct buf b = {0};
    const struct memory memory = memory_of(c);
    struct file_totals t = total(c);
    buf_add_text(&b, "{\"path\":");
    json_put_text(&b, checkpoint_path(c), strlen(checkpoint_path(c)));
    buf_add_text(&b, ",\"metadata\":{");
    for (int i = 0; i < checkpoint_n_meta(c); i++) {
        const char *key;
        const struct meta *m = checkpoint_meta_at(c, i, &key);
        if (i) buf_add_char(&b, ',');
        json_put_text(&b, key, strlen(key));
        buf_add_char(&b, ':');
        put_meta(&b, m, SIZE_MAX, SIZE_MAX);
    }
    buf_add_text(&b, "},\"tensors\":[");
    for (int i = 0; i < checkpoint_n_tensor(c); i++) {
        const struct tensor_info *x = checkpoint_tensor_at(c, i);
        buf_addf(&b, "%s{\"name\":", i ? "," : "");
        json_put_text(&b, x->name, strlen(x->name));
        buf_addf(&b, ",\"type\":\"%s\",\"bytes\":%zu,\"shape\":", qtype_info[x->type].name,
                 x->n_byte);
        put_shape(&b, x);
        buf_add_char(&b, '}');
    }
    buf_addf(&b,
             "],\"parameters\":%lld,\"bytes\":%lld,\"kv_bytes_per_token\":%lld,"
             "\"state_bytes_per_sequence\":%lld",
             (long long)(memory.method ? memory.n_param : t.n_param), (long long)t.n_byte,
             (long long)memory.kv_token_bytes, (long long)memory.state_bytes);
    put_memory_json(&b, &memory);
    buf_add_text(&b, "}\n");
    return print_out(&b, e);
}

/* ---- --verify ---- */

/* a tensor that the model uses unpacked, or not at all */
enum { NOT_PACKED = -1 };

struct verification {
    const struct checkpoint *c; /* borrowed */
    int *verdict;               /* owned; [n_tensor] enum weights_verdict, or NOT_PACKED */
    /* reason for omitting the comparison of packed weights, borrowed; NULL: comparison done */
    const char *why;
    int n_packed, n_wrong;
};

/* Record the result of one tensor (callback of model_verify). The index is the tensor's place in
 * the checkpoint. */
static void note_verdict(void *ctx, const char *tensor, enum weights_verdict v)
{
    struct verification *f = ctx;
    f->verdict[checkpoint_tensor(f->c, tensor) - checkpoint_tensor_at(f->c, 0)] = (int)v;
}

/* Compare the packed weights in the cache. Missing packed weights are not an error. A model that
 * quoth cannot run is not an error. */
static int compare_packed(struct verification *f, struct err *e)
{
    struct backend *b;
    struct filecache cache;
    struct model_options o = {.weights = session_weights(&session_flags, &cache)};
    int rc = session_quantization(&o.quantization, &session_flags, f->c, e);
    if (rc == 0)
        rc = backend_open(&b, session_device_name(&session_flags), &(struct backend_options){0}, e);
    if (rc != 0) return rc;
    o.backend = b;
    rc = model_verify(f->c, &o, note_verdict, f, e);
    backend_close(b);
    bool nothing = rc == ERR_MISSING || rc == ERR_UNSUPPORTED;
    if (nothing) f->why = e->text;
    return nothing ? 0 : rc;
}

/* Append the line of a tensor: name, type, hash of its bytes in the file, result of the
 * comparison. */
static void put_verdict(struct buf *b, const struct tensor_info *t, int verdict)
{
    static const char *const word[] = {"same", "DIFFERENT", "DAMAGED"};
    unsigned long long hash = hash_bytes(t->data, t->n_byte, 0);
    const char *packed = verdict == NOT_PACKED ? "-" : word[verdict];
    if (!as_json) {
        buf_addf(b, "%-48s %-8s %016llx  %s\n", t->name, qtype_info[t->type].name, hash, packed);
        return;
    }
    buf_addf(b, "%s{\"name\":", b->n ? "," : "{\"tensors\":[");
    json_put_text(b, t->name, strlen(t->name));
    buf_addf(b, ",\"xxh3\":\"%016llx\",\"packed\":\"%s\"}", hash, packed);
}

/* Print the result of each tensor. Count the packed tensors and the wrong tensors. */
static int print_verification(struct verification *f, struct err *e)
{
    struct buf b = {0};
    if (!as_json) buf_addf(&b, "%-48s %-8s %-16s  %s\n", "tensor", "type", "XXH3", "packed");
    for (int i = 0; i < checkpoint_n_tensor(f->c); i++) {
        int v = f->verdict[i];
        put_verdict(&b, checkpoint_tensor_at(f->c, i), v);
        f->n_packed += v != NOT_PACKED;
        f->n_wrong += v != NOT_PACKED && v != WEIGHTS_SAME;
    }
    if (as_json)
        buf_addf(&b, "],\"packed\":%d,\"wrong\":%d}\n", f->n_packed, f->n_wrong);
    else if (f->why)
        buf_addf(&b, "not compared with packed weights: %s\n", f->why);
    else if (f->n_wrong == 0)
        buf_addf(&b, "the packed weights in %s are correct\n", pack_cache_dir());
    return print_out(&b, e);
}

/* Verify the packed weights. ERR_FORMAT if there were damaged weights, which model_verify has then
 * removed. */
static int run_verify(const struct checkpoint *c, struct err *e)
{
    int n = checkpoint_n_tensor(c);
    struct verification f = {.c = c, .verdict = malloc(((size_t)n + 1) * sizeof *f.verdict)};
    if (!f.verdict) return err_memory(e, "verdicts", (size_t)n * sizeof *f.verdict);
    for (int i = 0; i < n; i++) f.verdict[i] = NOT_PACKED;
    int rc = compare_packed(&f, e);
    if (rc == 0) rc = print_verification(&f, e);
    if (rc == 0 && f.n_wrong)
        rc = err_set(e, ERR_FORMAT,
                     "%d of %d packed tensors in %s are damaged and were removed; the next start "
                     "packs them again",
                     f.n_wrong, f.n_packed, pack_cache_dir());
    free(f.verdict);
    return rc;
}

/* Run the command. --verify opens the checkpoint with its data; all other reports need only the
 * header. */
static int run(int n_arg, char **arg)
{
    const char *model = n_arg == 1 ? arg[0] : session_flags.shape;
    if (!model)
        return fprintf(stderr, "quoth inspect: MODEL is missing; usage: quoth inspect MODEL\n"), 2;
    struct err e = {0};
    struct checkpoint *c;
    int rc = session_checkpoint(&c, model, &session_flags, !verify, &e);
    if (rc == 0) rc = checkpoint_outline(c, &e);
    if (rc != 0) return checkpoint_close(c), fail("inspect", &e);
    if (verify)
        rc = run_verify(c, &e);
    else if (explain)
        rc = explain_print(c, &(struct explain_options){.as_json = as_json, .all = all}, &e);
    else if (as_json)
        rc = print_json(c, &e);
    else
        rc = print_text(c, &e);
    checkpoint_close(c);
    return rc ? fail("inspect", &e) : 0;
}

const struct command command_inspect = {
    .name = "inspect",
    .summary = "metadata, tensors and memory of a model file",
    .usage = "MODEL [OPTIONS]",
    .options = options,
    .arg_max = 1,
    .run = run,
};

/* kernels_ops.c - quoth bench kernels --op: the backend's ops one by one, with a model's weights
 * and widths but without the model. kernels_linear.c and kernels_attn.c have linear layers and
 * attention.
 *
 * The ops of this file run repeatedly on the same few rows, so that the rows are in a cache, as in
 * a forward pass. A sample has as many calls as fit into SAMPLE_US. GB/s counts bytes read and
 * written.
 *
 *    list_rows -> session_checkpoint, session_backend -> read_sizes -> open_weights -> open_buffers
 *      -> for each op: rows -> ops_measure_call: limits, time_call, limits, a row of the table */
#include "kernels_ops.h"

#include "base/cpu.h"
#include "base/os.h"
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* duration of a sample in microseconds, which is much longer than the clock's resolution of 1 us */
enum { SAMPLE_US = 20000 };

/* ---- one row ---- */

/* Append n_repeat means of microseconds per call. Evict the caches and run each of the n_cycle
 * variants once if the call's data come from memory. */
static int time_call(struct ops *b, const struct op_case *c, struct samples *us, struct err *e)
{
    bool ok = true;
    for (int i = 0; i < c->n_cycle; i++) c->run(b, c, i);
    for (int s = 0; s < b->plan->n_repeat && ok; s++) {
        if (c->from_memory) limits_evict_cache(b->limits);
        int64_t start = time_us(), took = 0, least = c->from_memory ? 0 : SAMPLE_US;
        int n = 0;
        while (n == 0 || took < least || n % c->n_cycle) {
            c->run(b, c, n++ % c->n_cycle);
            took = time_us() - start;
        }
        ok = vec_push(us, (double)took / n);
    }
    return ok ? 0 : err_memory(e, "samples", sizeof(double));
}

/* Print a row as JSON. gb and top are GB/s and TOP/s. */
static void print_json(const struct op_case *c, const struct samples *us, double gb, double top,
                       const struct limit limit[2])
{
    char read[16], peak[16];
    printf("{\"op\":\"%s\",\"tensor\":\"%s\",\"type\":\"%s\",\"n_out\":%lld,\"k\":%lld,\"rows\":%d,"
           "\"depth\":%d,\"us\":%.3f,\"sd\":%.3f,\"gb_per_s\":%.4f,\"of_read\":%s,"
           "\"top_per_s\":%.5f,\"of_peak\":%s}\n",
           c->op, c->part, c->type, (long long)(c->group ? c->group->n_out : 1), (long long)c->n,
           c->n_row, c->depth, samples_mean(us), samples_sd(us), gb,
           share_json(read, gb * 1e9, limit[0].read, limit[1].read), top,
           share_json(peak, top * 1e12, limit[0].ops, limit[1].ops));
}

/* Print a row as text. "in cache" and "above peak" replace shares above 1. */
static void print_text(const struct op_case *c, const struct samples *us, double gb, double top,
                       const struct limit limit[2])
{
    char read[16], peak[16];
    printf("%-9s %-12s %-8s %7lld x %-7lld %5d %7d %11.2f %9.2f %8.2f %8s %8.4f %7s\n", c->op,
           c->part, c->type, (long long)(c->group ? c->group->n_out : 1), (long long)c->n, c->n_row,
           c->depth, samples_mean(us), samples_sd(us), gb,
           share_text(read, gb * 1e9, limit[0].read, limit[1].read, IN_CACHE), top,
           share_text(peak, top * 1e12, limit[0].ops, limit[1].ops, ABOVE_PEAK));
}

/* Bytes per microsecond times 1e-3 are GB/s. Operations per microsecond times 1e-6 are TOP/s. */
void ops_print_call(const struct ops *b, const struct op_case *c, const struct samples *us,
                    const struct limit limit[2])
{
    double mean = samples_mean(us), gb = c->bytes / mean * 1e-3, top = c->ops / mean * 1e-6;
    (b->plan->as_json ? print_json : print_text)(c, us, gb, top, limit);
    fflush(stdout);
}

/* Return the limits of a call; zeros if its data remain in a cache. */
static struct limit limit_of(struct ops *b, const struct op_case *c)
{
    bool wanted = c->from_memory && b->plan->limits;
    return limits_now(wanted ? b->limits : NULL, ARITH_F32);
}

int ops_measure_call(struct ops *b, const struct op_case *c, struct err *e)
{
    struct samples us = {0};
    struct limit limit[2];
    progress_note(c->op);
    limit[0] = limit_of(b, c);
    int rc = time_call(b, c, &us, e);
    limit[1] = limit_of(b, c);
    progress_note(NULL);
    if (rc == 0) ops_print_call(b, c, &us, limit);
    vec_deinit(&us);
    return rc;
}

/* ---- other ops ---- */

/* Run call i of a cycle of an op. Each function run_* is a value of call.run. */
static void run_rms_norm(struct ops *b, const struct op_case *c, int i)
{
    (void)i;
    struct backend *be = b->s.backend;
    be->op->rms_norm(be, b->y, b->x, b->ones, c->n_row, (int)c->n, 1e-5f);
}

/* Run rope. cos and sin are ones and zeros, because their values do not change the time. */
static void run_rope(struct ops *b, const struct op_case *c, int i)
{
    (void)i;
    struct backend *be = b->s.backend;
    struct rope_spec spec = {
        .d_rot = b->d_head, .neox = true, .pos_max = b->row_max, .cos = b->ones, .sin = b->z};
    be->op->rope(be, b->y, b->n_head, b->d_head, b->index, c->n_row, &spec);
}

static void run_silu_mul(struct ops *b, const struct op_case *c, int i)
{
    (void)i;
    struct backend *be = b->s.backend;
    be->op->curve_mul(be, b->y, b->x, b->z, c->n * c->n_row, CURVE_silu);
}

static void run_add(struct ops *b, const struct op_case *c, int i)
{
    (void)i;
    struct backend *be = b->s.backend;
    be->op->add(be, b->y, b->z, c->n * c->n_row);
}

static void run_kv_put(struct ops *b, const struct op_case *c, int i)
{
    struct backend *be = b->s.backend;
    be->op->kv_put(be, &b->kv.layer[i], b->x, b->x, b->index, c->n_row);
}

/* Measure an op with n values per row and bytes_each bytes per value. */
static int measure_rows(struct ops *b, const struct op_case *like, double bytes_each, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < b->n_row.n && rc == 0; i++) {
        struct op_case c = *like;
        c.n_row = b->n_row.v[i];
        c.part = "";
        c.type = c.type ? c.type : "float32";
        c.n_cycle = c.n_cycle ? c.n_cycle : 1;
        c.bytes = bytes_each * (double)c.n * c.n_row;
        rc = ops_measure_call(b, &c, e);
    }
    return rc;
}

/* Measure rms_norm. A value has 8 bytes, because it is read and written as f32. */
static int measure_rms_norm(struct ops *b, struct err *e)
{
    return measure_rows(b, &(struct op_case){.op = "rms_norm", .run = run_rms_norm, .n = b->d}, 8,
                        e);
}

static int measure_rope(struct ops *b, struct err *e)
{
    int64_t n = (int64_t)b->n_head * b->d_head;
    return measure_rows(b, &(struct op_case){.op = "rope", .run = run_rope, .n = n}, 8, e);
}

/* Measure silu_mul. A value has 12 bytes, because two values are read and one is written, as
 * f32. */
static int measure_silu_mul(struct ops *b, struct err *e)
{
    return measure_rows(b, &(struct op_case){.op = "silu_mul", .run = run_silu_mul, .n = b->d_ff},
                        12, e);
}

static int measure_add(struct ops *b, struct err *e)
{
    return measure_rows(b, &(struct op_case){.op = "add", .run = run_add, .n = b->d}, 12, e);
}

/* Measure kv_put. A value has 4 bytes, because it is read as f32. The written page is not
 * counted. */
static int measure_kv_put(struct ops *b, struct err *e)
{
    int rc = ops_open_kv(b, e), n_slot = b->kv.n_page * b->kv.page_rows;
    if (rc == 0 && n_slot < b->row_max)
        return err_set(e, ERR_ARG, "--op kv_put: %d rows do not fit into %d slots", b->row_max,
                       n_slot);
    struct op_case c = {.op = "kv_put",
                        .type = rc ? NULL : kv_type_name(b->kv.layer[0].type),
                        .run = run_kv_put,
                        .n = 2 * (int64_t)b->n_head_kv * b->d_head,
                        .n_cycle = b->kv.n_layer};
    return rc ? rc : measure_rows(b, &c, 4, e);
}

/* The ops of --op, in the order of the report. */
static const struct op {
    const char *name; /* static */
    int (*measure)(struct ops *b, struct err *e);
} ops[] = {
    {"linear", ops_measure_linear}, {"attn", ops_measure_attn},     {"rms_norm", measure_rms_norm},
    {"rope", measure_rope},         {"silu_mul", measure_silu_mul}, {"add", measure_add},
    {"kv_put", measure_kv_put},
};

/* ---- opening ---- */

/* Return the value of the key ARCH.key. Return 1 if the value is not positive or too large, because
 * the file may contain any value. */
static int size_of(const struct checkpoint *c, const char *key, int64_t fallback)
{
    char full[160];
    const char *arch = meta_text(checkpoint_meta(c, "general.architecture"), NULL);
    snprintf(full, sizeof full, "%s.%s", arch ? arch : "", key);
    int64_t n = meta_int(checkpoint_meta(c, full), fallback);
    return n > 0 && n < 1 << 24 ? (int)n : 1;
}

/* Read the widths of ops from GGUF's metadata. Missing widths have the values of simple models. */
static void read_sizes(struct ops *b)
{
    const struct checkpoint *c = b->s.checkpoint;
    b->n_layer = size_of(c, "block_count", 1);
    b->d = size_of(c, "embedding_length", 1);
    b->d_ff = size_of(c, "feed_forward_length", 1);
    b->n_head = size_of(c, "attention.head_count", 1);
    b->n_head_kv = size_of(c, "attention.head_count_kv", b->n_head);
    b->d_head = size_of(c, "attention.key_length", b->d / b->n_head);
}

/* Extract a matrix's name: "blk.3.ffn_up.weight" -> "ffn_up". The head is the only linear layer's
 * matrix outside of blocks. */
static bool part_of(char out[48], const struct checkpoint *c, const char *name, bool *is_head)
{
    const char *head =
        checkpoint_tensor(c, "output.weight") ? "output.weight" : "token_embd.weight";
    *is_head = strcmp(name, head) == 0;
    const char *dot = strchr(name, '.');
    dot = dot && strncmp(name, "blk.", 4) == 0 ? strchr(dot + 1, '.') : NULL;
    const char *part = dot ? dot + 1 : name;
    snprintf(out, 48, "%.*s", (int)strcspn(part, "."), part);
    return *is_head || dot;
}

/* Return the group of a matrix, or add one. NULL if there are too many groups or memory is
 * exhausted. */
static struct matrix_set *find_group(struct ops *b, const struct matrix_set *like)
{
    for (size_t i = 0; i < b->group.n; i++) {
        struct matrix_set *g = &b->group.v[i];
        if (strcmp(g->part, like->part) == 0 && g->type == like->type && g->n_out == like->n_out &&
            g->k == like->k)
            return g;
    }
    bool room = b->group.n < GROUPS_MAX;
    return room && vec_push(&b->group, *like) ? &b->group.v[b->group.n - 1] : NULL;
}

/* Collect all linear layers. b->order has the group of each matrix, in the order of the file. */
static int gather_matrices(struct ops *b, struct err *e)
{
    for (int i = 0; i < checkpoint_n_tensor(b->s.checkpoint); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(b->s.checkpoint, i);
        struct matrix_set like = {.type = t->type, .n_out = t->dim[1], .k = t->dim[0]};
        if (t->n_dim != 2 || !part_of(like.part, b->s.checkpoint, t->name, &like.is_head)) continue;
        struct matrix_set *g = find_group(b, &like);
        struct linear l = {
            .w = {.type = t->type, .n_out = t->dim[1], .k = t->dim[0], .data = t->data}};
        if (!g || !vec_push(&g->matrix, l) || !vec_push(&b->order, (uint32_t)(g - b->group.v)))
            return err_memory(e, "the matrices", sizeof l);
    }
    return 0;
}

/* Convert all matrices to the backend's format. */
static int open_weights(struct ops *b, struct err *e)
{
    VEC(struct tensor *) list = {0};
    int rc = gather_matrices(b, e);
    for (size_t g = 0; g < b->group.n && rc == 0; g++)
        for (size_t i = 0; i < b->group.v[g].matrix.n && rc == 0; i++)
            if (!vec_push(&list, &b->group.v[g].matrix.v[i].w))
                rc = err_memory(e, "the matrices", list.n * sizeof *list.v);
    if (rc == 0)
        rc = b->s.backend->op->weights(b->s.backend, &b->weights, list.v, (int)list.n, NULL, NULL,
                                       e);
    vec_deinit(&list);
    return rc;
}

/* List the numbers of rows to measure: batches, then prompts. Return false if memory is
 * exhausted. */
static bool list_rows(struct ops *b)
{
    const struct ids *from[] = {&b->plan->batch, &b->plan->prompt};
    for (int l = 0; l < 2; l++)
        for (size_t i = 0; i < from[l]->n; i++)
            if (!vec_push(&b->n_row, from[l]->v[i])) return false;
    if (b->n_row.n == 0 && !vec_push(&b->n_row, 1)) return false;
    b->row_max = list_max_int(&b->n_row, b->usual_attn ? PROMPT_ROWS : 1);
    return true;
}

/* Return the maximum number of values that an op reads or writes: the widest row times its number
 * of rows. */
static int64_t values_max(const struct ops *b, int64_t *k_max)
{
    int64_t row = (int64_t)b->n_head * b->d_head, head = 0;
    row = row > b->d_ff ? row : b->d_ff;
    row = row > b->d ? row : b->d;
    for (size_t g = 0; g < b->group.n; g++) {
        const struct matrix_set *t = &b->group.v[g];
        row = row > t->k ? row : t->k;
        if (t->is_head)
            head = t->n_out * b->plan->n_seq;
        else
            row = row > t->n_out ? row : t->n_out;
    }
    *k_max = row;
    return row * b->row_max > head ? row * b->row_max : head;
}

/* Return the size of the array of row indexes. */
static size_t index_bytes(const struct ops *b)
{
    return (size_t)b->row_max * sizeof *b->index;
}

/* Set the indexes to from, from + 1, ... on the device. */
int ops_set_index(struct ops *b, int from, struct err *e)
{
    struct backend *be = b->s.backend;
    int32_t *made = malloc(index_bytes(b));
    if (!made) return err_memory(e, "operands", index_bytes(b));
    for (int i = 0; i < b->row_max; i++) made[i] = from + i;
    be->op->write(be, b->index, made, index_bytes(b));
    free(made);
    return 0;
}

static void close_buffers(struct ops *b)
{
    struct backend *be = b->s.backend;
    float *const operand[] = {b->x, b->y, b->z, b->ones};
    for (int i = 0; i < 4; i++)
        if (operand[i]) be->op->release(be, operand[i], (size_t)b->n_value * sizeof(float));
    if (b->index) be->op->release(be, b->index, index_bytes(b));
}

/* Allocate the operands on the device. x is random in [-1, 1), `ones` is 1, y and z are 0. NaN and
 * denormal numbers would change the speed. */
static int open_buffers(struct ops *b, struct err *e)
{
    struct backend *be = b->s.backend;
    int64_t k_max;
    uint64_t state = 1;
    b->n_value = values_max(b, &k_max);
    const size_t n_byte = (size_t)b->n_value * sizeof(float);
    float *made = malloc(n_byte);
    float **const operand[] = {&b->x, &b->y, &b->z, &b->ones};
    bool ok = made;
    for (int i = 0; i < 4 && ok; i++) ok = (*operand[i] = be->op->alloc(be, n_byte)) != NULL;
    ok = ok && (b->index = be->op->alloc(be, index_bytes(b))) != NULL;
    for (int64_t i = 0; i < b->n_value && ok; i++) made[i] = 2 * rng_float(&state) - 1;
    if (ok) be->op->write(be, b->x, made, n_byte);
    for (int64_t i = 0; i < b->n_value && ok; i++) made[i] = 1;
    if (ok) be->op->write(be, b->ones, made, n_byte);
    for (int64_t i = 0; i < b->n_value && ok; i++) made[i] = 0;
    if (ok) be->op->write(be, b->y, made, n_byte), be->op->write(be, b->z, made, n_byte);
    free(made);
    if (!ok) return err_memory(e, "operands", (unsigned long long)n_byte * 4);
    int rc = ops_set_index(b, 0, e);
    if (rc != 0) return rc;
    const struct batch_limits limits = ops_batch_limits(b);
    const struct op_sizes sizes = {.n_row = b->row_max,
                                   .k = k_max,
                                   .d_head = b->d_head,
                                   .n_group = b->n_head / b->n_head_kv,
                                   .batch = &limits};
    return be->op->reserve(be, &sizes, e);
}

/* Open the parts of a measurement. close_bench frees them after a failure. */
static int open_bench(struct ops *b, const char *model, struct err *e)
{
    if (!list_rows(b)) return err_memory(e, "the plan", sizeof *b);
    int rc = session_checkpoint(&b->s.checkpoint, model, &session_flags, false, e);
    if (rc == 0) rc = session_backend(&b->s, e);
    if (rc == 0) read_sizes(b);
    if (rc == 0) rc = open_weights(b, e);
    return rc ? rc : open_buffers(b, e);
}

/* Close a complete or half-open state. The backend is closed last, because it frees the
 * operands. */
static void close_bench(struct ops *b)
{
    limits_close(b->limits);
    bench_batch_close(&b->batch);
    kv_store_close(&b->kv);
    if (b->s.backend) {
        b->s.backend->op->weights_close(b->s.backend, b->weights);
        close_buffers(b);
    }
    for (size_t i = 0; i < b->group.n; i++) {
        vec_deinit(&b->group.v[i].matrix);
        vec_deinit(&b->group.v[i].us);
    }
    vec_deinit(&b->order);
    vec_deinit(&b->group);
    vec_deinit(&b->n_row);
    session_close(&b->s);
}

const char *kernels_op_name(int i)
{
    int n = sizeof ops / sizeof ops[0];
    return i == 0 ? "all" : i <= n ? ops[i - 1].name : NULL;
}

static void print_head(const struct ops *b, const char *model)
{
    printf("%s, %s, activations %s\n\n", model, b->s.backend->description, session_act_name());
    printf("%-9s %-12s %-8s %17s %5s %7s %11s %9s %8s %8s %8s %7s\n", "op", "tensor", "type",
           "n_out x k    ", "rows", "depth", "us", "+/-", "GB/s", "of read", "TOP/s", "of peak");
}

int kernels_ops(const char *model, const char *names, const struct kernels_plan *p, struct err *e)
{
    bool attn = list_has(names, "all") || list_has(names, "attn");
    struct ops b = {.plan = p, .usual_attn = attn && p->no_depth};
    int rc = open_bench(&b, model, e);
    if (rc == 0) rc = limits_open(&b.limits, b.s.backend, e);
    if (rc == 0 && !p->as_json) print_head(&b, model);
    unsigned former = cpu_float_canonical();
    for (size_t i = 0; i < sizeof ops / sizeof ops[0] && rc == 0; i++)
        if (list_has(names, "all") || list_has(names, ops[i].name)) rc = ops[i].measure(&b, e);
    cpu_float_restore(former);
    close_bench(&b);
    return rc;
}

/* kernels_attn.c - quoth bench kernels --op attn. This file measures --batch sequences of one row
 * each, and --prompt rows of one sequence, at each --depth or the default depths. A sample is one
 * pass through all layers, after evicting the caches. GB/s counts the bytes of K and V. TOP/s
 * counts 2 (d_k + d_v) operations for each head, row and visible position. */
#include "kernels_ops.h"

#include "base/os.h"

#include <math.h>
#include <stdlib.h>

static const int usual_depth[] = {1 << 10, 8 << 10, 32 << 10, 128 << 10},
                 usual_prompt[] = {512, 8192};

/* Copy the batch to the device once, so that the copy is not measured. */
static void bring_batch(struct ops *b)
{
    struct backend *be = b->s.backend;
    b->on_device = be->op->begin(be, &b->batch.batch);
}

/* Run attention of layer i over the batch on the device. */
static void run_attn_step(struct ops *b, int i)
{
    struct backend *be = b->s.backend;
    struct attn_spec spec = {.n_head = b->n_head,
                             .n_head_kv = b->n_head_kv,
                             .d_k = b->d_head,
                             .d_v = b->d_head,
                             .scale = 1 / sqrtf((float)b->d_head)};
    be->op->attn(be, b->y, b->x, &b->kv.layer[i], b->on_device, &spec);
}

/* Run one call for --batch (call.run). The batch is already on the device. */
static void run_attn(struct ops *b, const struct op_case *c, int i)
{
    (void)c;
    run_attn_step(b, i);
}

/* Run a prompt in batches of PROMPT_ROWS rows, as an engine does. The copy of each batch is also
 * measured. */
static void run_prompt_attn(struct ops *b, const struct op_case *c, int i)
{
    for (int at = 0; at < c->n_row; at += PROMPT_ROWS) {
        int n = c->n_row - at < PROMPT_ROWS ? c->n_row - at : PROMPT_ROWS;
        batch_clear(&b->batch.batch);
        bench_batch_add(&b->batch, 0, c->depth + at, n, false);
        bring_batch(b);
        run_attn_step(b, i);
    }
}

/* Fill every page of every layer, because memory that was never written is mapped to one page of
 * zeros. */
static int fill_kv(struct ops *b, struct err *e)
{
    struct backend *be = b->s.backend;
    int n_slot = b->kv.n_page * b->kv.page_rows;
    int rc = 0;
    for (int at = 0, n; at < n_slot && rc == 0; at += n) {
        n = n_slot - at < b->row_max ? n_slot - at : b->row_max;
        rc = ops_set_index(b, at, e);
        for (int il = 0; il < b->kv.n_layer && rc == 0; il++)
            be->op->kv_put(be, &b->kv.layer[il], b->x, b->x, b->index, n);
    }
    return rc ? rc : ops_set_index(b, 0, e);
}

/* Return limits that fit all measured cases. */
struct batch_limits ops_batch_limits(const struct ops *b)
{
    bool usual = b->usual_attn;
    int context = usual ? usual_depth[3] + 1 : b->plan->context, n_seq = usual ? 1 : b->plan->n_seq;
    int page_rows = session_page_rows(), stride = (context + page_rows - 1) / page_rows;
    return (struct batch_limits){
        .n_row = b->row_max, .n_seq = n_seq, .n_out = n_seq, .page_stride = stride};
}

/* Open a KV store with as many layers as a quarter of the free memory holds. Several layers are
 * needed, because they do not fit into a cache. A second call has no effect. */
int ops_open_kv(struct ops *b, struct err *e)
{
    enum kv_type type = KV_F16;
    const struct batch_limits l = ops_batch_limits(b);
    const int page_rows = session_page_rows(), stride = l.page_stride, n_seq = l.n_seq;
    struct kv_geometry geometry = {b->n_head_kv, b->d_head, b->d_head, false};
    int rc = session_kv_type(&type, &session_flags, e);
    if (rc != 0 || b->kv.memory) return rc;
    int64_t bytes = kv_store_bytes_per_page(&geometry, 1, type, page_rows) * stride * n_seq;
    int64_t max = (int64_t)(os_memory_free() / 4) / (bytes ? bytes : 1);
    int n = max < 1 ? 1 : max < b->n_layer ? (int)max : b->n_layer;
    struct kv_geometry *all = calloc((size_t)n, sizeof *all);
    if (!all) return err_memory(e, "the KV geometry", (unsigned long long)n * sizeof *all);
    for (int i = 0; i < n; i++) all[i] = geometry;
    struct kv_store_options so = {.backend = b->s.backend,
                                  .layer = all,
                                  .n_layer = n,
                                  .type = type,
                                  .page_rows = page_rows,
                                  .n_page = stride * n_seq};
    rc = kv_store_open(&b->kv, &so, e);
    free(all);
    if (rc == 0) rc = bench_batch_open(&b->batch, &l, page_rows, 1, e);
    return rc ? rc : fill_kv(b, e);
}

/* Measure n_seq sequences of one row each, or one sequence of n rows. The first position is
 * `depth`. */
static int measure_attn_case(struct ops *b, bool is_prompt, int n_seq, int n, int depth,
                             struct err *e)
{
    batch_clear(&b->batch.batch);
    for (int s = 0; s < n_seq && !is_prompt; s++) bench_batch_add(&b->batch, s, depth, n, false);
    bring_batch(b);
    struct kv_geometry geometry = {b->n_head_kv, b->d_head, b->d_head, false};
    double page_bytes =
        (double)kv_store_bytes_per_page(&geometry, 1, b->kv.layer[0].type, b->kv.page_rows);
    double n_pair = (double)n * depth + 0.5 * n * (n + 1); /* positions, summed over the rows */
    struct op_case c = {.op = "attn",
                        .part = is_prompt ? "prompt" : "decode",
                        .type = kv_type_name(b->kv.layer[0].type),
                        .run = is_prompt ? run_prompt_attn : run_attn,
                        .from_memory = true,
                        .n_cycle = b->kv.n_layer,
                        .n_row = n_seq * n,
                        .depth = depth,
                        .n = (int64_t)b->n_head * b->d_head,
                        .bytes = page_bytes / b->kv.page_rows * (depth + n) * n_seq,
                        .ops = 4.0 * b->n_head * b->d_head * n_pair * n_seq};
    return ops_measure_call(b, &c, e);
}

/* Measure the cases that are used without --depth. */
static int measure_usual_attn(struct ops *b, struct err *e)
{
    int rc = ops_open_kv(b, e);
    for (size_t i = 0; i < sizeof usual_depth / sizeof *usual_depth && rc == 0; i++)
        rc = measure_attn_case(b, false, 1, 1, usual_depth[i], e);
    for (size_t i = 0; i < sizeof usual_prompt / sizeof *usual_prompt && rc == 0; i++)
        rc = measure_attn_case(b, true, 1, usual_prompt[i], 0, e);
    return rc;
}

/* Measure all given depths with all batches and prompts. */
int ops_measure_attn(struct ops *b, struct err *e)
{
    const struct kernels_plan *p = b->plan;
    if (b->usual_attn) return measure_usual_attn(b, e);
    int rc = ops_open_kv(b, e);
    for (size_t i = 0; i < p->depth.n; i++) {
        for (size_t k = 0; k < p->batch.n && rc == 0; k++)
            rc = measure_attn_case(b, false, p->batch.v[k], 1, p->depth.v[i], e);
        for (size_t k = 0; k < p->prompt.n && rc == 0; k++)
            rc = measure_attn_case(b, true, 1, p->prompt.v[k], p->depth.v[i], e);
    }
    return rc;
}

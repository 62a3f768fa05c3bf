/* attn.c - attention over pages on the CPU: flash attention with an online softmax in spans of 512
 * positions.
 *
 * A chunk of work is a piece of the plan and some KV heads. A chunk multiplies some rows, with the
 * query heads of their groups, by K and V of some spans, in blocks of 64 positions. With many rows,
 * each block of K and V is widened to f32 once for all rows. With few rows, all heads of a block
 * are computed before the next block, in page order. In page order, memory is read in runs of whole
 * pages instead of pieces of 4 kB. In a test that only reads memory, two threads reached 31 GB/s
 * instead of 27 GB/s. The rows of a chunk do not affect each other. Each row and head has its own
 * state, and processes its positions in the same order (kern.h). A row's states are stored in slots
 * if several pieces share the row's spans. A second phase merges these states by ascending span. */
#include "attn_plan.h"
#include "cpu_impl.h"

#include "base/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A slot has 32 sums and the values of one row and head: 640 bytes for heads of 128. SLOT_BYTES_MAX
 * suffices for 3,276 parts of rows with 32 heads, for example 64 sequences in 51 parts each. With
 * fewer slots the plan divides less work. The first SLOT_BYTES_FIRST bytes are touched at open, so
 * that steps with up to 102 parts do not wait for page faults. */
enum { SLOT_BYTES_MAX = 64 << 20, SLOT_BYTES_FIRST = 2 << 20 };

/* Return the maximum number of rows x heads that share each widened block of K and V. Widening
 * takes 2 % of the time with 256 rows of 128 values. 256 rows have 128 kB of f32 in each of q, o
 * and totals. The sum of 384 kB stays in an L2 cache of 512 kB. */
static int unit_rows(int d_head)
{
    int n = 32768 / d_head / ATTN_TILE * ATTN_TILE;
    return n < 64 ? 64 : n > 512 ? 512 : n;
}

/* Memory of a worker for one chunk: n_head heads of n_row rows each. Consecutive heads are `stride`
 * rows apart. All arrays are borrowed from attn.memory. */
struct attn_work {
    struct attn_rows rows;     /* q, state of the first head; n_row, from, to, pos of every head */
    int head0, n_head, stride; /* head0: first KV head of the chunk */
    int32_t *from, *to, *pos;  /* i32 [rows of a piece] */
    int32_t *head;             /* i32 [rows of a piece] query head of the row */
    float *slope, *q;          /* f32 [rows of a piece]; q as in struct attn_rows */
    /* scratch for widened K and V, described at cpu_kv_block */
    float *k, *v, *k_scale, *v_scale, *part;
    /* totals of each head, f32: [n_row], [n_row], [n_row, attn_stride(d_v)] */
    float *top, *sum, *out;
};

/* State of attention. memory and slot are owned. */
struct attn {
    struct attn_plan plan;
    int n_thread, unit_rows;          /* maximum rows x heads of a piece */
    int d_max;                        /* maximum number of values of a head */
    float *memory;                    /* f32 [n_thread, work_floats] memory of the workers */
    int64_t work_floats, slot_floats; /* sizes in floats: a worker's memory, a slot */
    /* f32 slots, [SLOT_BYTES_MAX] bytes; the part after SLOT_BYTES_FIRST is touched on first use */
    float *slot;
};

/* ---- memory ---- */

/* Place the arrays of `w` in memory, in sequence. Return the size of the arrays in floats. */
static int64_t work_layout(struct attn_work *w, float *memory, int n_row, int d)
{
    const int64_t rows = attn_head_rows(n_row), wide = attn_stride(d);
    int64_t at = 0;
#define ARRAY(p, n) (p = (void *)(memory + at), at += (n))
    ARRAY(w->from, rows);
    ARRAY(w->to, rows);
    ARRAY(w->pos, rows);
    ARRAY(w->head, rows);
    ARRAY(w->slope, rows);
    ARRAY(w->rows.m, rows);
    ARRAY(w->top, rows);
    ARRAY(w->sum, rows);
    ARRAY(w->rows.l, rows * ATTN_TILE);
    ARRAY(w->rows.o, rows * wide);
    ARRAY(w->out, rows * wide);
    ARRAY(w->q, (rows + ATTN_TILE) * wide);
    ARRAY(w->k, ATTN_BLOCK * wide);
    ARRAY(w->v, ATTN_BLOCK * wide);
    ARRAY(w->k_scale, ATTN_BLOCK);
    ARRAY(w->v_scale, ATTN_BLOCK);
    ARRAY(w->part, ATTN_TILE * wide);
#undef ARRAY
    return at;
}

int cpu_attn_open(struct cpu_backend *c, int n_row, int d_head, int n_group, struct err *e)
{
    struct attn *a = calloc(1, sizeof *a);
    if (!a) return err_memory(e, "attention", sizeof *a);
    c->attn = a;
    int rc = attn_plan_open(&a->plan, n_row, e);
    if (rc != 0) return rc;
    a->n_thread = pool_n_thread(c->pool);
    a->d_max = d_head;
    const int n_unit = unit_rows(d_head > 0 ? d_head : 1);
    a->unit_rows = n_group > n_unit ? n_group : n_unit;
    static float nowhere[1];
    a->work_floats = work_layout(&(struct attn_work){0}, nowhere, a->unit_rows, d_head);
    size_t n_byte = (size_t)a->n_thread * (size_t)a->work_floats * sizeof(float);
    a->memory = aligned_alloc(64, n_byte);
    a->slot = c->base.op->alloc(&c->base, SLOT_BYTES_MAX);
    if (!a->memory || !a->slot) return err_memory(e, "attention", n_byte + SLOT_BYTES_MAX);
    memset(a->slot, 0, SLOT_BYTES_FIRST);
    return 0;
}

void cpu_attn_close(struct cpu_backend *c)
{
    if (!c->attn) return;
    attn_plan_close(&c->attn->plan);
    free(c->attn->memory);
    c->base.op->release(&c->base, c->attn->slot, SLOT_BYTES_MAX);
    free(c->attn);
}

uint8_t *cpu_kv_code(struct cpu_backend *c, int worker)
{
    return (uint8_t *)(c->attn->memory + worker * c->attn->work_floats);
}

/* ---- one chunk ---- */

/* Arguments of an op for its chunks. All pointers are borrowed for the op. */
struct attn_job {
    const struct kern *kern;
    struct attn *attn;
    float *y;       /* f32 [n_row, n_head, d_v] */
    const float *q; /* f32 [n_row, n_head, d_k] */
    const struct kv_layer *kv;
    const struct batch *batch;
    const struct attn_spec *spec;
    int n_group; /* query heads per KV head */
};

/* Interleave n <= tile query rows of d_k values and multiply them by `times`. Row i is at q[i]. */
static void put_queries(float *to, const float *const *q, int n, int d_k, int tile, float times)
{
    for (int d = 0; d < d_k; d++, to += tile)
        for (int i = 0; i < n; i++) to[i] = q[i][d] * times;
}

/* Return the rows with the pointers of head i. Heads of a job have separate scratch. */
static struct attn_rows head_rows(const struct attn_work *w, int i)
{
    struct attn_rows rows = w->rows;
    const int64_t at = (int64_t)i * w->stride;
    rows.q += at * rows.d_k;
    if (rows.slope) rows.slope += at;
    if (rows.head) rows.head += at;
    rows.m += at, rows.l += at * ATTN_TILE, rows.o += at * attn_stride(rows.d_v);
    return rows;
}

/* Copy the queries of head i to the kernel's layout, and reset its totals. */
static void head_begin(const struct attn_job *j, const struct attn_piece *x, struct attn_work *w,
                       int i)
{
    const struct attn_spec *s = j->spec;
    const int tile = j->kern->attn_tile_rows;
    const int64_t at = (int64_t)i * w->stride;
    const float *q[8] = {0};
    for (int r = 0; r < w->rows.n_row; r++) {
        int row = j->attn->plan.row[x->unit + r / j->n_group], in = r % tile;
        int h = (w->head0 + i) * j->n_group + r % j->n_group;
        q[in] = j->q + ((int64_t)row * s->n_head + h) * s->d_k;
        if (in + 1 == tile || r + 1 == w->rows.n_row)
            put_queries(w->q + (at + r - in) * s->d_k, q, in + 1, s->d_k, tile,
                        s->scale * ATTN_UNIT);
        w->slope[at + r] = s->slope ? s->slope[h] * ATTN_UNIT : 0;
        w->head[at + r] = h;
        w->top[at + r] = -INFINITY, w->sum[at + r] = 0;
    }
    memset(w->out + at * attn_stride(s->d_v), 0,
           (size_t)(w->rows.n_row * attn_stride(s->d_v)) * sizeof(float));
}

/* Begin a chunk's rows. Row r of head i has unit r / n_group and query head (head0 + i) * n_group +
 * r % n_group. */
static void rows_begin(const struct attn_job *j, const struct attn_piece *x, int head0,
                       struct attn_work *w)
{
    const struct attn_plan *p = &j->attn->plan;
    const struct attn_spec *s = j->spec;
    int left = s->n_head_kv - head0;
    w->head0 = head0, w->n_head = x->n_head < left ? x->n_head : left;
    w->rows.n_row = x->n_unit * j->n_group;
    w->stride = attn_head_rows(w->rows.n_row);
    w->rows.d_k = s->d_k, w->rows.d_v = s->d_v;
    w->rows.softcap = s->softcap * ATTN_UNIT;
    w->rows.q = w->q, w->rows.from = w->from, w->rows.to = w->to, w->rows.pos = w->pos;
    w->rows.slope = s->slope ? w->slope : NULL;
    w->rows.bias = s->bias, w->rows.bias_reach = s->bias_reach;
    w->rows.head = s->bias ? w->head : NULL;
    for (int r = 0; r < w->rows.n_row; r++) {
        int unit = x->unit + r / j->n_group;
        w->from[r] = p->from[unit], w->to[r] = p->to[unit], w->pos[r] = j->batch->pos[p->row[unit]];
    }
    for (int i = 0; i < w->n_head; i++) head_begin(j, x, w, i);
}

/* Reset the state of all heads for a new span. */
static void span_begin(struct attn_work *w)
{
    for (int i = 0; i < w->n_head; i++) {
        struct attn_rows a = head_rows(w, i);
        size_t n = (size_t)a.n_row;
        for (int r = 0; r < w->stride; r++) a.m[r] = -INFINITY; /* kernels read whole vectors */
        memset(a.l, 0, n * ATTN_TILE * sizeof(float));
        memset(a.o, 0, n * (size_t)attn_stride(a.d_v) * sizeof(float));
    }
}

/* Compute positions [lo, hi) of one span. The piece continues to `end`. */
static void span_run(const struct attn_job *j, const struct attn_piece *x, struct attn_work *w,
                     int lo, int hi, int end)
{
    struct kv_block b = {.kv = j->kv,
                         .n_row = w->rows.n_row,
                         .page = j->batch->page + (int64_t)x->seq * j->batch->page_stride,
                         .lo = lo,
                         .hi = hi,
                         .end = end,
                         .k = w->k,
                         .v = w->v,
                         .part = w->part,
                         .k_scale = w->k_scale,
                         .v_scale = w->v_scale};
    struct attn_kv kv;
    span_begin(w);
    for (b.pos0 = lo / ATTN_BLOCK * ATTN_BLOCK; b.pos0 < hi; b.pos0 += ATTN_BLOCK)
        for (int i = 0; i < w->n_head; i++) {
            struct attn_rows rows = head_rows(w, i);
            bool last = i + 1 == w->n_head;
            b.head = w->head0 + i;
            b.next_head = last ? w->head0 : b.head + 1;
            b.next_pos0 = last ? b.pos0 + ATTN_BLOCK : b.pos0;
            cpu_kv_block(&kv, j->kern, &b);
            j->kern->attn_block(&rows, &kv, b.pos0);
        }
}

/* Return true if positions [from, to) overlap the span. */
static bool overlaps(int from, int to, int span)
{
    return from < (span + 1) * ATTN_SPAN && to > span * ATTN_SPAN;
}

/* Return the address of a slot. A slot has m at float 0, the 16 lanes of l at float 16, and o at
 * float 32. In the slot of a total, the first lane has l. */
static float *slot_of(const struct attn_job *j, const struct attn_piece *x, int unit, int head,
                      int span)
{
    int n = x->before < 0 ? 1 : x->span1 - x->span0, i = x->before < 0 ? 0 : span - x->span0;
    int64_t row = (int64_t)(unit - x->unit) * j->spec->n_head + head;
    return j->attn->slot + (x->slot + row * n + i) * j->attn->slot_floats;
}

/* Store a state of n_lane sums and n values in a slot. */
static void slot_put(float *slot, float m, const float *l, int n_lane, const float *o, int n)
{
    slot[0] = m;
    memcpy(slot + ATTN_TILE, l, (size_t)n_lane * sizeof *l);
    memcpy(slot + 2 * ATTN_TILE, o, (size_t)n * sizeof *o);
}

/* Merge the span into the rows' totals. Store the span in slots instead if another piece has
 * earlier spans. */
static void span_end(const struct attn_job *j, const struct attn_piece *x, struct attn_work *w,
                     int i, int span)
{
    const struct attn_rows a = head_rows(w, i);
    const int stride = attn_stride(a.d_v);
    float *top = w->top + i * w->stride, *sum = w->sum + i * w->stride;
    float *out = w->out + (int64_t)i * w->stride * stride;
    for (int r = 0; r < a.n_row; r++) {
        const float *m = a.m + r, *l = a.l + r * ATTN_TILE, *o = a.o + r * stride;
        int unit = x->unit + r / j->n_group, h = (w->head0 + i) * j->n_group + r % j->n_group;
        if (!overlaps(a.from[r], a.to[r], span)) continue;
        if (x->before < 0)
            j->kern->attn_merge(top + r, sum + r, out + r * stride, m, l, o, a.d_v);
        else
            slot_put(slot_of(j, x, unit, h, span), *m, l, ATTN_TILE, o, a.d_v);
    }
}

/* Merge the sink and write the row's result. w->rows.o is no longer needed, and contains the sink's
 * zeros. */
static void row_finish(const struct attn_job *j, struct attn_work *w, int unit, int head, float m,
                       float l, float *out)
{
    static const float one[ATTN_TILE] = {1};
    const struct attn_spec *s = j->spec;
    int row = j->attn->plan.row[unit];
    if (s->sink) {
        float sink = s->sink[head] * ATTN_UNIT;
        memset(w->rows.o, 0, (size_t)s->d_v * sizeof(float));
        j->kern->attn_merge(&m, &l, out, &sink, one, w->rows.o, s->d_v);
    }
    j->kern->attn_finish(j->y + ((int64_t)row * s->n_head + head) * s->d_v, out, l, s->d_v);
}

static void rows_end(const struct attn_job *j, const struct attn_piece *x, struct attn_work *w,
                     int i)
{
    if (x->before >= 0) return;
    for (int r = 0; r < w->rows.n_row; r++) {
        int unit = x->unit + r / j->n_group, h = (w->head0 + i) * j->n_group + r % j->n_group;
        int at = i * w->stride + r;
        float *out = w->out + (int64_t)at * attn_stride(w->rows.d_v);
        if (x->slot < 0)
            row_finish(j, w, unit, h, w->top[at], w->sum[at], out);
        else
            slot_put(slot_of(j, x, unit, h, 0), w->top[at], w->sum + at, 1, out, w->rows.d_v);
    }
}

static struct attn_work work_of(const struct attn_job *j, int worker)
{
    struct attn_work w;
    int d = j->spec->d_k > j->spec->d_v ? j->spec->d_k : j->spec->d_v;
    work_layout(&w, j->attn->memory + worker * j->attn->work_floats, j->attn->unit_rows, d);
    return w;
}

/* Compute the rows of a chunk span by span, in ascending order, because the order of the sums is
 * part of the contract (docs/design.md 5). The bounds of the chunk's rows limit the spans, so a
 * window skips the pages before it. */
static void run_chunk(void *ctx, int chunk, int worker)
{
    const struct attn_job *j = ctx;
    const struct attn_plan *p = &j->attn->plan;
    int run = attn_plan_run(p, chunk), from = INT32_MAX, to = 0;
    const struct attn_piece *x = &p->piece[p->run[run]];
    struct attn_work w = work_of(j, worker);
    rows_begin(j, x, (chunk - p->chunk0[run]) * x->n_head, &w);
    for (int r = 0; r < w.rows.n_row; r++) {
        from = w.from[r] < from ? w.from[r] : from;
        to = w.to[r] > to ? w.to[r] : to;
    }
    for (int span = x->span0; span < x->span1; span++) {
        int lo = span * ATTN_SPAN > from ? span * ATTN_SPAN : from;
        int hi = (span + 1) * ATTN_SPAN < to ? (span + 1) * ATTN_SPAN : to;
        if (lo >= hi) continue;
        span_run(j, x, &w, lo, hi, to < x->span1 * ATTN_SPAN ? to : x->span1 * ATTN_SPAN);
        for (int i = 0; i < w.n_head; i++) span_end(j, x, &w, i, span);
    }
    for (int i = 0; i < w.n_head; i++) rows_end(j, x, &w, i);
}

/* ---- rows of several pieces ---- */

/* Merge all spans up to the end of the piece. */
static void merge_pieces(const struct attn_job *j, int piece, int unit, int head, float *m,
                         float *l, float *out)
{
    const struct attn_plan *p = &j->attn->plan;
    const struct attn_piece *x = &p->piece[piece];
    if (x->before < 0) {
        const float *slot = slot_of(j, x, unit, head, 0);
        *m = slot[0], *l = slot[ATTN_TILE];
        memcpy(out, slot + 2 * ATTN_TILE, (size_t)j->spec->d_v * sizeof *out);
        return;
    }
    merge_pieces(j, x->before, unit, head, m, l, out);
    for (int span = x->span0; span < x->span1; span++) {
        const float *slot = slot_of(j, x, unit, head, span);
        if (overlaps(p->from[unit], p->to[unit], span))
            j->kern->attn_merge(m, l, out, slot, slot + ATTN_TILE, slot + 2 * ATTN_TILE,
                                j->spec->d_v);
    }
}

static void join_chunk(void *ctx, int chunk, int worker)
{
    const struct attn_job *j = ctx;
    const struct attn_plan *p = &j->attn->plan;
    int piece = p->join[chunk / j->spec->n_head_kv], head = chunk % j->spec->n_head_kv * j->n_group;
    const struct attn_piece *x = &p->piece[piece];
    struct attn_work w = work_of(j, worker);
    for (int unit = x->unit; unit < x->unit + x->n_unit; unit++)
        for (int h = head; h < head + j->n_group; h++) {
            float m, l;
            merge_pieces(j, piece, unit, h, &m, &l, w.out);
            row_finish(j, &w, unit, h, m, l, w.out);
        }
}

void cpu_attn(struct backend *b, float *y, const float *q, const struct kv_layer *kv,
              const struct batch *batch, const struct attn_spec *spec)
{
    struct cpu_backend *c = cpu_of(b);
    struct attn *a = c->attn;
    int n_group = spec->n_head / spec->n_head_kv;
    CHECK(a && batch->n_row <= c->row_max && n_group <= a->unit_rows && spec->d_k <= a->d_max &&
              spec->d_v <= a->d_max,
          "%d rows, %d heads of %d and %d in a group", batch->n_row, n_group, spec->d_k, spec->d_v);
    struct attn_job j = {&c->kern, a, y, q, kv, batch, spec, n_group};
    a->slot_floats = 2 * ATTN_TILE + attn_stride(spec->d_v);
    attn_plan_make(&a->plan, batch, spec, kv->page_rows, a->unit_rows,
                   SLOT_BYTES_MAX / (a->slot_floats * (int64_t)sizeof(float)), a->n_thread);
    pool_run(c->pool, run_chunk, &j, a->plan.n_chunk);
    pool_run(c->pool, join_chunk, &j, a->plan.n_join * spec->n_head_kv);
}

/* attn.h - attention over blocks of 64 positions, written with the names of vec.h. A level's attn.c
 * includes its vec.h and this file, and fills its slots by attn_slots().
 *
 * Query rows are processed in groups of 64. Each step processes all 64 rows before the next step.
 * Two sub-tiles of K (16 kB, heads of 128) stay in the L1 cache for the scores. Two vectors of each
 * row of V also stay in the L1 cache. q and o are read and written once per step. The scores are in
 * 16 kB of stack, with positions as lanes. The weights p overwrite the scores. The products q k and
 * p v use one loop with up to RB rows x 2 vectors of sums in registers. The loop broadcasts one
 * element of the left factor per row. All rows share each load of the right factor. Each sum is a
 * single chain, as kern.h requires. The 2 RB chains hide the latency of the fma.
 *
 * With few rows, the loop reads K and V directly from the pages and widens each loaded vector.
 * Every step of a product prefetches as many bytes of the next block as it reads, so memory and
 * arithmetic work at the same time. Lines are prefetched in address order, not in order of use,
 * because the hardware's prefetcher only follows ascending addresses. The hardware's prefetcher can
 * have more requests in flight than the 16 of a core. With many rows, widening K and V once is
 * faster.
 *
 * The bound with many rows is the fma units, with 4 d floating-point operations per row and
 * position. Maxima, exp and sums add about 20 instructions per row and 16 positions, a tenth of the
 * time with heads of 64. The bound with few rows is the bytes of K and V. o is rarely scaled,
 * because the maximum is updated once per block, not once per 16 positions.
 *
 * Measured on machine A of docs/measurements.md (Sapphire Rapids, AVX-512, two threads), 32/8 heads
 * of 64 in f16. The table compares this version with an earlier version. Three changes were made:
 * all KV heads of a block are computed together, a block has one maximum, and 2^x replaces exp:
 *
 *                                                     now           earlier
 *     decoding at 32 k, of the read bandwidth     81 to 86 %         63 %
 *     prompt of 8 k, of the f32 peak              63 to 67 %         55 %
 *
 * On one thread, 2^x instead of exp improved 1024 rows after 7168 from 69 to 72 % of the peak to 74
 * to 75 %. An older measurement compared two orders of prefetches for decoding at 32 k. The order
 * of use reached 57 % of the bandwidth, and the order of addresses 71 to 77 %. */
#ifndef QUOTH_KERN_TMPL_ATTN_H
#define QUOTH_KERN_TMPL_ATTN_H

#include "kern/tmpl/kv_load.h"
#include "kern/tmpl/math.h"

/* ---- products ---- */

/* Expand DO(r) for every row of registers. RB is chosen so that 2 RB sums, two vectors of the right
 * factor and a broadcast fit into the registers. The variables have names because gcc 12 keeps
 * arrays of more than 8 vectors in memory. */
enum { RB = N_VREG >= 32 ? 8 : 6 };
#define ROWS(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)

#define ROW_ZERO(r) vf x##r = vf_zero(), z##r = vf_zero();
#define ROW_LOAD(r)                                                                                \
    if (r < n_row) {                                                                               \
        x##r = vf_load(y + r * y_stride);                                                          \
        if (n_vec == 2) z##r = vf_load(y + r * y_stride + VL);                                     \
    }
/* ROW_TIMES multiplies by a number of the row, ROW_SCALE by vectors that all rows share. */
#define ROW_TIMES(r)                                                                               \
    if (r < n_row) {                                                                               \
        vf e = vf_set1(c[r]);                                                                      \
        x##r = vf_mul(x##r, e);                                                                    \
        if (n_vec == 2) z##r = vf_mul(z##r, e);                                                    \
    }
#define ROW_SCALE(r)                                                                               \
    if (r < n_row) {                                                                               \
        x##r = vf_mul(x##r, c0);                                                                   \
        z##r = vf_mul(z##r, c1);                                                                   \
    }
#define ROW_STEP(r)                                                                                \
    if (r < n_row) {                                                                               \
        vf e = vf_set1(a[r * a_row]);                                                              \
        x##r = vf_fma(e, b0, x##r);                                                                \
        if (n_vec == 2) z##r = vf_fma(e, b1, z##r);                                                \
    }
#define ROW_STORE(r)                                                                               \
    if (r < n_row) {                                                                               \
        vf_store(y + r * y_stride, x##r);                                                          \
        if (n_vec == 2) vf_store(y + r * y_stride + VL, z##r);                                     \
    }

/* Storage of values, a compile-time constant of each product. ahead: true to prefetch. */
struct kv_form {
    int size;
    bool ahead;
    vf (*load)(const void *p);
};

/* Operands of the scores of some rows at two vectors of positions. Pointers are borrowed. */
struct score_of {
    const float *a; /* q [d_k, RB] */
    int d_k;
    /* vectors of the first d; the vectors of each next d are 16 values later */
    const char *b[2];
    const char *ahead[2];  /* lines to prefetch in the first and in the second half of the steps */
    const float *times[2]; /* f32 [VL] scales of KV_Q8; NULL: no scales */
};

/* Compute the scores of n_row rows with 2 VL positions. */
INLINE void score_rows(const struct kv_form f, const int n_row, float *y, const struct score_of *o)
{
    const int n_vec = 2, y_stride = ATTN_BLOCK, a_row = 1, step = ATTN_TILE * f.size;
    const float *a = o->a;
    const int fetch = ((int)VL == ATTN_TILE ? 4 : 2) * step; /* bytes read by two steps */
    const char *from0 = o->b[0], *from1 = o->b[1];
    ROWS(ROW_ZERO)
#define SCORE_STEP                                                                                 \
    {                                                                                              \
        vf b0 = f.load(from0), b1 = f.load(from1);                                                 \
        ROWS(ROW_STEP)                                                                             \
        a += RB, from0 += step, from1 += step;                                                     \
    }
    for (int half = 0, left = o->d_k / 2; half < 2; half++) {
        const char *ahead = o->ahead[half];
        for (int i = half ? left : left / 2; i > 0; i--, left--, ahead += fetch) {
            for (int at = 0; at < fetch && f.ahead; at += 64) __builtin_prefetch(ahead + at, 0, 2);
            SCORE_STEP
            SCORE_STEP
        }
    }
    if (o->d_k % 2) SCORE_STEP
#undef SCORE_STEP
    if (o->times[0]) {
        vf c0 = vf_load(o->times[0]), c1 = vf_load(o->times[1]);
        ROWS(ROW_SCALE)
    }
    ROWS(ROW_STORE)
}

/* V of a block. Pointers are borrowed. */
struct value_of {
    const char *b[ATTN_TILES], *ahead[ATTN_TILES];
    int stride; /* distance between rows of b and of y, in values */
};

/* Rows that attend to the same positions [lo, hi) of the block. The product sets y to y * c + p v,
 * or to y + p v if c is NULL. Pointers are borrowed. */
struct row_run {
    float *y;       /* [n, stride] results of the rows */
    const float *a; /* p [n, 64]   */
    const float *c; /* [n]         */
    int n, lo, hi;
};

/* Add p times V to n_vec vectors of n_row rows. */
INLINE void value_rows(const struct kv_form f, const int n_row, const int n_vec,
                       const struct value_of *o, const struct row_run *run, int64_t at)
{
    const int y_stride = o->stride, a_row = ATTN_BLOCK;
    const int64_t b_stride = (int64_t)o->stride * f.size;
    const float *c = run->c;
    float *y = run->y + at;
    ROWS(ROW_ZERO)
    ROWS(ROW_LOAD)
    if (c) {
        ROWS(ROW_TIMES)
    }
    for (int t = 0; t < ATTN_TILES; t++) {
        int first = t * ATTN_TILE, i = run->lo > first ? run->lo : first;
        int end = run->hi < first + ATTN_TILE ? run->hi : first + ATTN_TILE;
        const float *a = run->a + i;
        const char *b = o->b[t] + at * f.size + (i - first) * b_stride;
        const char *ahead = o->ahead[t] + (at * ATTN_TILE + (i - first) * n_vec * VL) * f.size;
        for (; i < end; i++, a++, b += b_stride, ahead += n_vec * VL * f.size) {
            if (f.ahead) __builtin_prefetch(ahead, 0, 2);
            if (f.ahead && n_vec * VL * f.size > 64) __builtin_prefetch(ahead + 64, 0, 2);
            vf b0 = f.load(b), b1 = b0;
            if (n_vec == 2) b1 = f.load(b + VL * f.size);
            ROWS(ROW_STEP)
        }
    }
    ROWS(ROW_STORE)
}

/* Compute both products for up to RB rows, for each form. */
#define SCORE_CASE(n)                                                                              \
    case n + 1:                                                                                    \
        if (n < RB) score_rows(f, n + 1, y, o);                                                    \
        break;
#define VALUE_CASE(n)                                                                              \
    case n + 1:                                                                                    \
        if (n < RB) value_rows(f, n + 1, 2, o, run, at);                                           \
        break;                                                                                     \
    case n + 1 + 8:                                                                                \
        if (n < RB && VL == 16) value_rows(f, n + 1, 1, o, run, at);                               \
        break;
#define PRODUCTS(name, ...)                                                                        \
    static void scores_##name(float *y, const struct score_of *o, int n_row)                       \
    {                                                                                              \
        const struct kv_form f = {__VA_ARGS__};                                                    \
        switch (n_row) {                                                                           \
            ROWS(SCORE_CASE)                                                                       \
        }                                                                                          \
    }                                                                                              \
    static void values_##name(const struct value_of *o, const struct row_run *run, int at)         \
    {                                                                                              \
        const struct kv_form f = {__VA_ARGS__};                                                    \
        switch (o->stride - at < 2 * VL ? run->n + 8 : run->n) {                                   \
            ROWS(VALUE_CASE)                                                                       \
        }                                                                                          \
    }
PRODUCTS(wide, 4, false, load_f32)
PRODUCTS(f32, 4, true, load_f32)
PRODUCTS(f16, 2, true, vf_load_f16)
PRODUCTS(bf16, 2, true, vf_load_bf16)
PRODUCTS(q8, 1, true, load_q8)
PRODUCTS(e4m3, 1, true, vf_load_e4m3)
PRODUCTS(e5m2, 1, true, vf_load_e5m2)

static const struct products {
    int size;
    void (*scores)(float *y, const struct score_of *o, int n_row);
    void (*values)(const struct value_of *o, const struct row_run *run, int at);
} products_wide = {4, scores_wide, values_wide},
  products_of[KV_TYPE_COUNT] = {
      [KV_F32] = {4, scores_f32, values_f32},        [KV_F16] = {2, scores_f16, values_f16},
      [KV_BF16] = {2, scores_bf16, values_bf16},     [KV_Q8] = {1, scores_q8, values_q8},
      [KV_FP8_E4M3] = {1, scores_e4m3, values_e4m3}, [KV_FP8_E5M2] = {1, scores_e5m2, values_e5m2},
};

/* ---- one block of some rows ---- */

enum { GROUP = 8 * RB };

/* Up to GROUP rows of a call, and their scores. a and kv are borrowed, product is static. */
struct row_group {
    const struct attn_rows *a;
    const struct attn_kv *kv;
    const struct products *product;
    int row0, n, pos0;
    /* `seen` is true if a row attends to a position. `full` is true if every row attends to the
     * whole block. */
    bool seen, full;
    /* positions [lo, hi) of the block to which each row attends; unused if full */
    int lo[GROUP], hi[GROUP];
    _Alignas(64) float s[GROUP * ATTN_BLOCK];
    float m[GROUP]; /* maximum so far; 0 if that is -inf */
    float c[GROUP]; /* 2^(former maximum - maximum) */
    uint64_t grew;  /* bit r: row r's maximum grew  */
};

/* Return x clamped to [lo, hi]. */
static int clamp_int(int x, int lo, int hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* Set up a group: its rows, and the part of the block that each row attends to. */
static void group_begin(struct row_group *g, const struct attn_rows *a, const struct attn_kv *kv,
                        int row0, int pos0)
{
    const int32_t *from = a->from + row0, *to = a->to + row0;
    g->a = a, g->kv = kv, g->row0 = row0, g->pos0 = pos0;
    g->product = kv->k_ahead[0] ? &products_of[kv->type] : &products_wide;
    g->n = a->n_row - row0 < GROUP ? a->n_row - row0 : GROUP;
    int short_of = 0;
    for (int r = 0; r < g->n; r++) short_of |= from[r] > pos0 || to[r] < pos0 + ATTN_BLOCK;
    g->full = g->seen = !short_of;
    if (g->full) return;
    for (int r = 0; r < g->n; r++) {
        g->lo[r] = clamp_int(from[r] - pos0, 0, ATTN_BLOCK);
        g->hi[r] = clamp_int(to[r] - pos0, 0, ATTN_BLOCK);
        g->seen |= g->lo[r] < g->hi[r];
    }
}

/* Return the operands for positions [i, i + 2 VL). The operands are two sub-tiles if a vector has
 * the size of a sub-tile, otherwise parts of one sub-tile. */
static struct score_of score_of(const struct row_group *g, int i)
{
    const struct attn_kv *kv = g->kv;
    const int size = g->product->size, t = i / ATTN_TILE, in = i % ATTN_TILE;
    const bool both = (int)VL == ATTN_TILE;
    struct score_of o = {.d_k = g->a->d_k};
    o.b[0] = (const char *)kv->k[t] + in * size;
    o.b[1] = both ? kv->k[t + 1] : o.b[0] + VL * size;
    o.ahead[0] = kv->k_ahead[0] ? kv->k_ahead[t] : o.b[0];
    o.ahead[1] =
        both && kv->k_ahead[0] ? kv->k_ahead[t + 1] : o.ahead[0] + o.d_k / 4 * 2 * ATTN_TILE * size;
    if (kv->k_scale[0]) {
        o.times[0] = kv->k_scale[t] + in;
        o.times[1] = both ? kv->k_scale[t + 1] : o.times[0] + VL;
    }
    return o;
}

/* Return true if any of rows [r, r + n) attends to a position in [i, end) of the block. */
static bool any_row_attends(const struct row_group *g, int r, int n, int i, int end)
{
    bool some = g->full;
    for (n += r; r < n && !some; r++) some = g->lo[r] < g->hi[r] && g->lo[r] < end && g->hi[r] > i;
    return some;
}

/* Compute the scores q k of all rows with the block's positions. */
static void group_scores(struct row_group *g)
{
    for (int i = 0; i < ATTN_BLOCK; i += 2 * VL) {
        struct score_of o = score_of(g, i);
        for (int r = 0; r < g->n; r += RB) {
            int n = g->n - r < RB ? g->n - r : RB;
            o.a = g->a->q + (int64_t)(g->row0 + r) * o.d_k;
            if (any_row_attends(g, r, n, i, i + 2 * VL))
                g->product->scores(g->s + r * ATTN_BLOCK + i, &o, n);
        }
    }
}

/* Cap the scores softly by tanh. */
static void group_softcap(struct row_group *g)
{
    const vf cap = vf_set1(g->a->softcap), inv = vf_set1(1.0f / g->a->softcap);
    for (int i = 0; i < g->n * ATTN_BLOCK; i += VL)
        vf_store(g->s + i, vf_mul(cap, vf_tanh(vf_mul(vf_load(g->s + i), inv))));
}

/* Add ALiBi's slope * (position - row's position) to the scores. */
static void group_slope(struct row_group *g)
{
    static const float lane[ATTN_TILE] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    for (int r = 0; r < g->n; r++) {
        vf slope = vf_set1(g->a->slope[g->row0 + r]);
        int ahead = g->pos0 - g->a->pos[g->row0 + r];
        for (int i = 0; i < ATTN_BLOCK; i += VL) {
            float *s = g->s + r * ATTN_BLOCK + i;
            vf apart = vf_add(vf_set1((float)(ahead + i / ATTN_TILE * ATTN_TILE)),
                              vf_load(lane + i % ATTN_TILE));
            vf_store(s, vf_fma(slope, apart, vf_load(s)));
        }
    }
}

/* Add the biases of the heads by distance to the scores. */
static void group_bias(struct row_group *g)
{
    const vf unit = vf_set1(ATTN_UNIT);
    const int reach = g->a->bias_reach;
    for (int r = 0; r < g->n; r++) {
        const int ahead = g->pos0 - g->a->pos[g->row0 + r];
        const float *of_head = g->a->bias + (int64_t)g->a->head[g->row0 + r] * bias_floats(reach);
        for (int i = 0; i < ATTN_BLOCK; i += VL) {
            float *s = g->s + r * ATTN_BLOCK + i;
            const float *b = of_head + bias_at(reach, ahead + i / ATTN_TILE * ATTN_TILE);
            vf_store(s, vf_fma(vf_load(b + i % ATTN_TILE), unit, vf_load(s)));
        }
    }
}

/* Mask invisible positions, so that they do not become the maximum and have p = 0. */
static void group_mask(struct row_group *g)
{
    for (int r = 0; r < g->n; r++) {
        float *s = g->s + r * ATTN_BLOCK;
        for (int i = 0; i < g->lo[r]; i++) s[i] = -INFINITY;
        for (int i = g->hi[r]; i < ATTN_BLOCK; i++) s[i] = -INFINITY;
    }
}

/* Set fold f32 [VL, 16] to maxima of s f32 [VL, 64]. Lane i of a row is the maximum of the row's
 * positions i, i + 16, i + 32 and i + 48. */
static void fold_rows(float *fold, const float *s)
{
    for (int r = 0; r < VL; r++, s += ATTN_BLOCK, fold += ATTN_TILE)
        for (int i = 0; i < ATTN_TILE; i += VL) {
            vf ab = vf_max(vf_load(s + i), vf_load(s + i + ATTN_TILE));
            vf cd = vf_max(vf_load(s + i + 2 * ATTN_TILE), vf_load(s + i + 3 * ATTN_TILE));
            vf_store(fold + i, vf_max(ab, cd));
        }
}

/* Update the maxima. c is 1 for rows with an unchanged maximum. */
static void group_top(struct row_group *g)
{
    _Alignas(64) float fold[VL * ATTN_TILE];
    g->grew = 0;
    for (int r = g->n; r % VL; r++) /* padding rows */
        memset(g->s + r * ATTN_BLOCK, 0, ATTN_BLOCK * sizeof(float));
    for (int r = 0; r < g->n; r += VL) {
        vf m = vf_load(g->a->m + g->row0 + r);
        fold_rows(fold, g->s + r * ATTN_BLOCK);
        vf top = vf_max(vf_max_rows(fold, ATTN_TILE), m), c = vf_set1(1);
        vmask grew = vf_gt(top, m);
        unsigned bits = vmask_bits(grew);
        if (bits) c = vf_select(grew, vf_exp2_weight(vf_sub(m, top)), c);
        vf_store(g->c + r, c);
        vf_store(g->m + r, vf_select(vf_gt(top, vf_set1(-INFINITY)), top, vf_zero()));
        g->grew |= (uint64_t)bits << r;
        vf_store(g->a->m + g->row0 + r, top);
    }
}

/* Replace the scores by p and update the row sums. */
static void group_exp(struct row_group *g)
{
    const float *const *scale = g->kv->v_scale;
    for (int r = 0; r < g->n; r++) {
        float *l = g->a->l + (g->row0 + r) * ATTN_TILE;
        const vf m = vf_set1(g->m[r]), c = vf_set1(g->c[r]);
        for (int i = 0; i < ATTN_TILE; i += VL) {
            vf sum = vf_mul(vf_load(l + i), c);
            for (int t = 0; t < ATTN_TILES; t++) {
                float *s = g->s + r * ATTN_BLOCK + t * ATTN_TILE + i;
                vf p = vf_exp2_weight(vf_sub(vf_load(s), m));
                sum = vf_add(sum, p);
                vf_store(s, scale[0] ? vf_mul(p, vf_load(scale[t] + i)) : p);
            }
            vf_store(l + i, sum);
        }
    }
}

/* Find runs of up to RB rows that attend to the same positions. Return the number of runs. */
static int find_runs(struct row_run *run, const struct row_group *g)
{
    const int stride = attn_stride(g->a->d_v);
    int n_run = 0;
    for (int r = 0, end; r < g->n; r = end) {
        int lo = g->full ? 0 : g->lo[r], hi = g->full ? ATTN_BLOCK : g->hi[r];
        for (end = r + 1; end < g->n && end - r < RB; end++)
            if (!g->full && (g->lo[end] != lo || g->hi[end] != hi)) break;
        if (lo >= hi) continue;
        bool grew = g->grew >> r & ((1ull << (end - r)) - 1);
        run[n_run++] = (struct row_run){.y = g->a->o + (int64_t)(g->row0 + r) * stride,
                                        .a = g->s + r * ATTN_BLOCK,
                                        .c = grew ? g->c + r : NULL,
                                        .n = end - r,
                                        .lo = lo,
                                        .hi = hi};
    }
    return n_run;
}

/* Add the weights times V to the rows' results. */
static void group_values(const struct row_group *g)
{
    const struct attn_kv *kv = g->kv;
    struct value_of o = {.stride = attn_stride(g->a->d_v)};
    struct row_run run[GROUP];
    int n_run = find_runs(run, g);
    for (int t = 0; t < ATTN_TILES; t++) {
        o.b[t] = kv->v[t];
        o.ahead[t] = kv->v_ahead[0] ? kv->v_ahead[t] : kv->v[t];
    }
    for (int at = 0; at < o.stride; at += 2 * VL)
        for (int i = 0; i < n_run; i++) g->product->values(&o, &run[i], at);
}

/* Process one block of positions for all rows: a slot of struct kern. */
static void attn_block(const struct attn_rows *a, const struct attn_kv *kv, int pos0)
{
    struct row_group g;
    for (int row = 0; row < a->n_row; row += GROUP) {
        group_begin(&g, a, kv, row, pos0);
        if (!g.seen) continue;
        group_scores(&g);
        if (a->softcap != 0) group_softcap(&g);
        if (a->slope) group_slope(&g);
        if (a->bias) group_bias(&g);
        if (!g.full) group_mask(&g);
        group_top(&g);
        group_exp(&g);
        group_values(&g);
    }
}

/* ---- spans ---- */

static void attn_merge(float *m, float *l, float *out, const float *span_m, const float *span_l,
                       const float *span_o, int d_v)
{
    float top = *span_m > *m ? *span_m : *m, base = top == -INFINITY ? 0 : top;
    float a = exp2_weight(*m - base), b = exp2_weight(*span_m - base);
    *l = fmaf(tree16(span_l), b, *l * a);
    for (int d = 0; d < d_v; d += VL) {
        int n = d_v - d < VL ? d_v - d : VL;
        vf before = vf_mul(vf_load_n(out + d, n), vf_set1(a));
        vf_store_n(out + d, vf_fma(vf_load_n(span_o + d, n), vf_set1(b), before), n);
    }
    *m = top;
}

/* Divide the result of a row by its sum; 0 if the sum is 0. */
static void attn_finish(float *y, const float *out, float l, int d_v)
{
    vf inv = vf_set1(l == 0 ? 0 : 1.0f / l);
    for (int d = 0; d < d_v; d += VL) {
        int n = d_v - d < VL ? d_v - d : VL;
        vf_store_n(y + d, vf_mul(vf_load_n(out + d, n), inv), n);
    }
}

/* Set the slots of attention. */
static void attn_slots(struct kern *k)
{
    k->attn_block = attn_block;
    k->attn_rows_narrow = RB;
    k->attn_tile_rows = RB;
    k->attn_merge = attn_merge;
    k->attn_finish = attn_finish;
}

#endif

/* attn.h - attention over blocks of 32 positions, in the names of vec.h; a level's attn.c includes
 * that vec.h and this, and fills its slots by attn_slots().
 *
 * Query rows are taken 16 at a time: their scores of the block (lanes are positions) lie in 2 kB
 * of stack, the softmax runs on one sub-tile of all 16, and p overwrites the scores. Both products
 * are one loop, mul_rows: up to RB rows x 2 vectors of sums in registers, one element of the left
 * factor broadcast per row, each load of the right factor shared by all rows. Each sum is a single
 * chain, as kern.h asks; the 2 RB chains hide the latency of the fma.
 *
 * Bound: with many rows the fma units (4 d flop per row and position; maxima, exp and sums cost
 * about 20 instructions per row and sub-tile beside them); with few rows the bytes of K and V. */
#ifndef QUOTH_KERN_TMPL_ATTN_H
#define QUOTH_KERN_TMPL_ATTN_H

#include "kern/kern_impl.h"
#include "kern/tmpl/math.h"

#define INLINE static inline __attribute__((always_inline))

/* ---- products ---- */

/* DO(r) for every row of registers: 2 RB sums, two vectors of the right factor and a broadcast
 * fit the register file. Named variables: gcc 12 keeps arrays of more than 8 vectors in memory. */
enum { RB = N_VREG >= 32 ? 8 : 6 };
#define ROWS(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)

#define ROW_ZERO(r) vf x##r = vf_zero(), z##r = vf_zero();
#define ROW_LOAD(r)                                                                                \
    if (r < n_row) {                                                                               \
        x##r = vf_load(y + r * y_stride);                                                          \
        if (n_vec == 2) z##r = vf_load(y + r * y_stride + VL);                                     \
    }
#define ROW_TIMES(r)                                                                               \
    if (r < n_row) {                                                                               \
        vf t = vf_set1(c[r]);                                                                      \
        x##r = vf_mul(x##r, t);                                                                    \
        if (n_vec == 2) z##r = vf_mul(z##r, t);                                                    \
    }
#define ROW_STEP(r)                                                                                \
    if (r < n_row) {                                                                               \
        vf t = vf_set1(a[r * a_stride + i]);                                                       \
        x##r = vf_fma(t, b0, x##r);                                                                \
        if (n_vec == 2) z##r = vf_fma(t, b1, z##r);                                                \
    }
#define ROW_STORE(r)                                                                               \
    if (r < n_row) {                                                                               \
        vf_store(y + r * y_stride, x##r);                                                          \
        if (n_vec == 2) vf_store(y + r * y_stride + VL, z##r);                                     \
    }
/* x, z += a b for i in [lo, hi): one row of b is n_vec vectors, `gap` apart. */
#define ROWS_CHAIN(lo, hi)                                                                         \
    for (int i = lo; i < hi; i++) {                                                                \
        vf b0 = vf_load(b + (int64_t)i * b_stride), b1 = b0;                                       \
        if (n_vec == 2) b1 = vf_load(b + (int64_t)i * b_stride + gap);                             \
        ROWS(ROW_STEP)                                                                             \
    }

/* Scores of n_row rows of q a at two vectors of positions: y = a b * scale. */
INLINE void score_rows(const int n_row, float *y, const float *a, int d_k, const float *b, int gap,
                       float scale)
{
    const int n_vec = 2, y_stride = ATTN_BLOCK, a_stride = d_k, b_stride = ATTN_TILE;
    const float c[8] = {scale, scale, scale, scale, scale, scale, scale, scale};
    ROWS(ROW_ZERO)
    ROWS_CHAIN(0, d_k)
    ROWS(ROW_TIMES)
    ROWS(ROW_STORE)
}

/* o y of n_row rows at n_vec vectors of dims, over positions [lo, hi) of the block: y * c0, + a b
 * of the first sub-tile, * c1, + a b of the second; c0, c1 [n_row], NULL where they are all 1. */
INLINE void value_rows(const int n_row, const int n_vec, float *y, int y_stride, const float *a,
                       const float *b, int lo, int hi, const float *c0, const float *c1)
{
    const int a_stride = ATTN_BLOCK, b_stride = y_stride, gap = VL;
    const float *c;
    ROWS(ROW_ZERO)
    ROWS(ROW_LOAD)
    if ((c = c0) != NULL) {
        ROWS(ROW_TIMES)
    }
    ROWS_CHAIN(lo, (hi < ATTN_TILE ? hi : ATTN_TILE))
    if ((c = c1) != NULL) {
        ROWS(ROW_TIMES)
    }
    ROWS_CHAIN((lo > ATTN_TILE ? lo : ATTN_TILE), hi)
    ROWS(ROW_STORE)
}

/* ---- one block of up to 16 rows ---- */

enum { GROUP = 16 };

struct group {
    const struct attn_rows *a;
    int row0, n, pos0;
    bool seen, full;          /* some row sees something; every row sees the whole block */
    int lo[GROUP], hi[GROUP]; /* what each row sees of the block, unless full: [lo, hi)  */
    _Alignas(64) float s[GROUP * ATTN_BLOCK];
    float m[2][GROUP]; /* of the sub-tiles: maximum so far, 0 for -inf */
    float c[2][GROUP]; /* exp(former maximum - maximum)                */
    unsigned grew[2];  /* bit r: row r's maximum did                   */
};

static int clamp_int(int x, int lo, int hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

static void group_begin(struct group *g, const struct attn_rows *a, int row0, int pos0)
{
    const int32_t *from = a->from + row0, *to = a->to + row0;
    g->a = a, g->row0 = row0, g->pos0 = pos0;
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

/* Two vectors of positions at a time: both sub-tiles where a vector is one, else parts of one. */
static void group_scores(struct group *g, const float *k)
{
    const struct attn_rows *a = g->a;
    const int tile = a->d_k * ATTN_TILE, gap = (int)VL == ATTN_TILE ? tile : VL;
    for (int r = 0; r < g->n; r += RB)
        for (int i = 0; i < ATTN_BLOCK; i += 2 * VL) {
            float *s = g->s + r * ATTN_BLOCK + i;
            const float *q = a->q + (int64_t)(g->row0 + r) * a->d_k;
            const float *k0 = k + (i / ATTN_TILE * tile + i % ATTN_TILE);
#define CASE(n)                                                                                    \
    case n + 1:                                                                                    \
        if (n < RB) score_rows(n + 1, s, q, a->d_k, k0, gap, a->scale);                            \
        break;
            switch (g->n - r < RB ? g->n - r : RB) {
                ROWS(CASE)
            }
#undef CASE
        }
}

static void group_softcap(struct group *g)
{
    const vf cap = vf_set1(g->a->softcap), inv = vf_set1(1.0f / g->a->softcap);
    for (int i = 0; i < g->n * ATTN_BLOCK; i += VL)
        vf_store(g->s + i, vf_mul(cap, vf_tanh(vf_mul(vf_load(g->s + i), inv))));
}

static void group_slope(struct group *g)
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

/* What a row does not see must not become its maximum, and gives p = 0. */
static void group_mask(struct group *g)
{
    for (int r = 0; r < g->n; r++)
        for (int i = 0; i < ATTN_BLOCK; i++)
            if (i < g->lo[r] || i >= g->hi[r]) g->s[r * ATTN_BLOCK + i] = -INFINITY;
}

/* Maxima of the sub-tiles; c where they grew, else 1. */
static void group_top(struct group *g)
{
    g->grew[0] = g->grew[1] = 0;
    for (int r = 0; r < GROUP; r += VL) {
        vf m = vf_load(g->a->m + g->row0 + r);
        for (int t = 0; t < 2; t++) {
            vf top = vf_max(vf_max_rows(g->s + r * ATTN_BLOCK + t * ATTN_TILE, ATTN_BLOCK), m);
            vmask grew = vf_gt(top, m);
            vf_store(g->c[t] + r, vf_select(grew, vf_exp(vf_sub(m, top)), vf_set1(1)));
            vf_store(g->m[t] + r, vf_select(vf_gt(top, vf_set1(-INFINITY)), top, vf_zero()));
            g->grew[t] |= vmask_bits(grew) << r;
            m = top;
        }
        vf_store(g->a->m + g->row0 + r, m);
    }
}

/* p over the scores, and the row sums. */
static void group_exp(struct group *g)
{
    for (int r = 0; r < g->n; r++) {
        float *l = g->a->l + (g->row0 + r) * ATTN_TILE, *s = g->s + r * ATTN_BLOCK;
        vf m0 = vf_set1(g->m[0][r]), m1 = vf_set1(g->m[1][r]);
        vf c0 = vf_set1(g->c[0][r]), c1 = vf_set1(g->c[1][r]);
        for (int i = 0; i < ATTN_TILE; i += VL) {
            vf p0 = vf_exp(vf_sub(vf_load(s + i), m0));
            vf p1 = vf_exp(vf_sub(vf_load(s + ATTN_TILE + i), m1));
            vf sum = vf_add(vf_mul(vf_load(l + i), c0), p0);
            vf_store(l + i, vf_add(vf_mul(sum, c1), p1));
            vf_store(s + i, p0);
            vf_store(s + ATTN_TILE + i, p1);
        }
    }
}

/* Values of rows [r, r + n), which all see [lo, hi) of the block. */
static void group_values(struct group *g, int r, int n, const float *v, int lo, int hi)
{
    const int stride = attn_stride(g->a->d_v);
    const unsigned bits = ((1u << n) - 1) << r;
    const float *p = g->s + r * ATTN_BLOCK;
    const float *c0 = g->grew[0] & bits ? g->c[0] + r : NULL;
    const float *c1 = g->grew[1] & bits ? g->c[1] + r : NULL;
    float *o = g->a->o + (int64_t)(g->row0 + r) * stride;
    for (int j = 0; j < stride; j += 2 * VL) {
        const int n_vec = stride - j < 2 * VL ? 1 : 2;
#define CASE(n)                                                                                    \
    case n + 1:                                                                                    \
        if (n < RB) value_rows(n + 1, 2, o + j, stride, p, v + j, lo, hi, c0, c1);                 \
        break;                                                                                     \
    case n + 1 + 8:                                                                                \
        if (n < RB && VL == 16) value_rows(n + 1, 1, o + j, stride, p, v + j, lo, hi, c0, c1);     \
        break;
        switch (n_vec == 2 ? n : n + 8) {
            ROWS(CASE)
        }
#undef CASE
    }
}

/* Runs of rows that see the same. */
static void group_runs(struct group *g, const float *v)
{
    for (int r = 0, end; r < g->n; r = end) {
        int lo = g->full ? 0 : g->lo[r], hi = g->full ? ATTN_BLOCK : g->hi[r];
        for (end = r + 1; end < g->n && end - r < RB; end++)
            if (!g->full && (g->lo[end] != lo || g->hi[end] != hi)) break;
        if (lo < hi) group_values(g, r, end - r, v, lo, hi);
    }
}

static void attn_block(const struct attn_rows *a, const float *k, const float *v, int pos0)
{
    struct group g;
    memset(g.s, 0, sizeof g.s);
    for (int row = 0; row < a->n_row; row += GROUP) {
        group_begin(&g, a, row, pos0);
        if (!g.seen) continue;
        group_scores(&g, k);
        if (a->softcap != 0) group_softcap(&g);
        if (a->slope) group_slope(&g);
        if (!g.full) group_mask(&g);
        group_top(&g);
        group_exp(&g);
        group_runs(&g, v);
    }
}

/* ---- spans ---- */

static void attn_merge(float *m, float *l, float *out, const float *span_m, const float *span_l,
                       const float *span_o, int d_v)
{
    float top = *span_m > *m ? *span_m : *m, base = top == -INFINITY ? 0 : top;
    float a = exp_f32(*m - base), b = exp_f32(*span_m - base);
    *l = fmaf(tree16(span_l), b, *l * a);
    for (int d = 0; d < d_v; d += VL) {
        int n = d_v - d < VL ? d_v - d : VL;
        vf before = vf_mul(vf_load_n(out + d, n), vf_set1(a));
        vf_store_n(out + d, vf_fma(vf_load_n(span_o + d, n), vf_set1(b), before), n);
    }
    *m = top;
}

static void attn_finish(float *y, const float *out, float l, int d_v)
{
    vf inv = vf_set1(l == 0 ? 0 : 1.0f / l);
    for (int d = 0; d < d_v; d += VL) {
        int n = d_v - d < VL ? d_v - d : VL;
        vf_store_n(y + d, vf_mul(vf_load_n(out + d, n), inv), n);
    }
}

static void attn_slots(struct kern *k)
{
    k->attn_block = attn_block;
    k->attn_merge = attn_merge;
    k->attn_finish = attn_finish;
}

#endif

/* rows.h - the passes over a row of logits, about 150 k values, in vectors: ref/rows.c bit for bit.
 *
 * <level>/ops.c includes this file. The bandwidth of the L2 cache limits row_max, row_mask and the
 * counting of row_mass. 19 operations per vector on two ports limit row_exp; 15 of these operations
 * belong to exp. row_find reads only the blocks that reach the floor, usually less than 10 % of all
 * blocks. The table has microseconds for 151,936 logits on a Sapphire Rapids core at 2.6 GHz, as
 * ref / AVX2 / AVX-512:
 *   row_max 74 / 6.4 / 7.9    row_find, some hundreds 2 / 2 / 2
 *   row_mask 710 / 21 / 18    row_find, all of them 100 / 32 / 40    row_mass 580 / 21 / 14
 * The next table has microseconds of ref / AVX2, and AVX2's share of its bound. The core was that
 * of an AMD EPYC of family 25 at 2.86 GHz.
 *   row_max 68 / 7.5     0.89 of the L2 cache's read (91 GB/s)
 *   row_mask 837 / 21    0.64 of it, counting the written bytes
 *   row_mass 827 / 18    0.38 of it: the bound is arithmetic
 *   row_exp 4342 / 86    0.74 of two operations per cycle
 * The last table has microseconds of row_exp on that core, by the share of forbidden logits. The
 * previous version had bounds of t per vector, and computed exp(-105) for a forbidden logit. A pair
 * has the times of the previous version and of this version:
 *   none 104, 87   1 % 132, 99   10 % 239, 112   50 % 282, 112   99 % 271, 66   99.9 % 271, 28
 * Any thread may call kernels, because they change only the memory of their arguments. */
#ifndef QUOTH_KERN_TMPL_ROWS_H
#define QUOTH_KERN_TMPL_ROWS_H

#include "kern/tmpl/ops.h"

#include <float.h>

enum { ROW_VECS = ROW_BLOCK / VL };

/* Load the vector of x that begins `left` values before the row's end. Lanes past the end are set
 * to `none`. */
static inline vf load_or(const float *x, int left, vf none)
{
    if (left >= VL) return vf_load(x);
    return left > 0 ? vf_select(vmask_below(left), vf_load_n(x, left), none) : none;
}

static inline float block_max_of(const float *x, int n)
{
    const vf none = vf_set1(-INFINITY);
    vf m = none;
    if (n >= ROW_BLOCK)
        for (int j = 0; j < ROW_VECS; j++) m = vf_max(vf_load(x + j * VL), m);
    else
        for (int j = 0; j < ROW_VECS; j++) m = vf_max(load_or(x + j * VL, n - j * VL, none), m);
    return vf_max_lanes(vf_min(m, vf_set1(FLT_MAX)));
}

static float row_max(float *block_max, const float *x, int n)
{
    float max = -INFINITY;
    for (int i = 0; i < n; i += ROW_BLOCK) {
        float m = block_max_of(x + i, n - i);
        block_max[i / ROW_BLOCK] = m;
        max = m > max ? m : max;
    }
    return max;
}

static void row_mask(float *y, const float *x, const uint32_t *mask, int n)
{
    const vf none = vf_set1(-INFINITY);
    for (int i = 0; i < n; i += VL) {
        vmask allowed = vmask_of_bits(mask[i / 32] >> i % 32);
        store_upto(y + i, vf_select(allowed, load_upto(x + i, n - i), none), n - i);
    }
}

/* Return the sum of the 16 lanes of a block. */
static inline float lanes_sum(const vf w[ROW_VECS])
{
    vf s[LANE_VECS];
    for (int j = 0; j < LANE_VECS; j++) s[j] = w[j];
    for (int j = LANE_VECS; j < ROW_VECS; j++) s[j % LANE_VECS] = vf_add(s[j % LANE_VECS], w[j]);
    return vf_tree16(s);
}

/* Write t = (max - x) * minus_scale of a block's n logits. Items past n have the t of -INFINITY.
 * Every t is at most -0. Return an upper bound of the bits of all t as integers. Every t outside of
 * (-105, 0], including NaNs, has higher bits than every t inside. */
static inline vi block_exponents(vf t[ROW_VECS], const float *x, int n, float max,
                                 float minus_scale)
{
    const vf top = vf_set1(max), by = vf_set1(minus_scale), none = vf_set1(-INFINITY);
    vi far = vi_set1(INT32_MIN);
    if (n >= ROW_BLOCK)
        for (int j = 0; j < ROW_VECS; j++) t[j] = vf_load(x + j * VL);
    else
        for (int j = 0; j < ROW_VECS; j++) t[j] = load_or(x + j * VL, n - j * VL, none);
    for (int j = 0; j < ROW_VECS; j++) {
        t[j] = vf_mul(vf_sub(top, t[j]), by);
        far = vi_max(far, vi_cast(t[j]));
    }
    return far;
}

/* Replace t by exp(t) if t > -105, otherwise by 0. The f32 value of exp(-105) is also 0, but its
 * last product underflows, which takes over 100 cycles. Therefore lanes with t <= -105 compute
 * exp(0) instead. */
static inline void block_exp_some(vf t[ROW_VECS])
{
    const vf end = vf_set1(-105.0f);
    vf best = end;
    for (int j = 0; j < ROW_VECS; j++) best = vf_max(t[j], best); /* the maximum ignores a NaN */
    if (!vmask_any(vf_gt(best, end))) {
        for (int j = 0; j < ROW_VECS; j++) t[j] = vf_zero();
        return;
    }
    for (int j = 0; j < ROW_VECS; j++) {
        vmask some = vf_gt(t[j], end); /* the comparison is false for a NaN */
        vf w = vf_exp_bounded(vf_min(vf_select(some, t[j], vf_zero()), vf_zero()));
        t[j] = vf_select(some, w, vf_zero());
    }
}

/* Write the weights of a block's n logits. t needs no bounds if a block has no forbidden logit, so
 * one integer maximum per vector replaces a maximum and a minimum. */
static inline void block_weights(vf w[ROW_VECS], const float *x, int n, float max,
                                 float minus_scale)
{
    const vi last = vi_set1((int)0xC2D1FFFF); /* the float above -105 */
    if (vmask_any(vi_gt(block_exponents(w, x, n, max, minus_scale), last)))
        block_exp_some(w);
    else
        for (int j = 0; j < ROW_VECS; j++) w[j] = vf_exp_bounded(w[j]);
}

static double row_exp(float *weight, float *block_sum, const float *x, int n, float max,
                      float scale)
{
    double total = 0;
    for (int i = 0; i < n; i += ROW_BLOCK) {
        vf w[ROW_VECS];
        block_weights(w, x + i, n - i, max, -scale);
        for (int j = 0; weight && j < ROW_VECS && i + j * VL < n; j++)
            store_upto(weight + i + j * VL, w[j], n - i - j * VL);
        block_sum[i / ROW_BLOCK] = lanes_sum(w);
        total += (double)block_sum[i / ROW_BLOCK];
    }
    return total;
}

/* Append the matching values of one block to the n_found values of the output arrays. Return the
 * new number of values. */
static inline int block_find(int32_t *index, float *value, const float *x, int from, int n,
                             float lo, float hi, int n_found)
{
    for (int i = from; i < from + ROW_BLOCK && i < n; i += VL) {
        /* a NaN stays */
        vf v = vf_min(vf_set1(FLT_MAX), load_or(x + i, n - i, vf_set1(-INFINITY)));
        vmask in = vmask_and(vf_ge(v, vf_set1(lo)), vf_gt(vf_set1(hi), v));
        n_found += vf_compress(value + n_found, index + n_found, v, i, in);
    }
    return n_found;
}

/* Find values. VL block maxima are compared together, because only a small share of the blocks
 * reaches the usual floor. */
static int row_find(int32_t *index, float *value, const float *x, const float *block_max, int n,
                    float lo, float hi)
{
    int n_found = 0, n_block = (n + ROW_BLOCK - 1) / ROW_BLOCK;
    for (int b = 0; b < n_block; b += VL) {
        vf m = load_or(block_max + b, n_block - b, vf_set1(-INFINITY));
        for (unsigned hit = vmask_bits(vf_ge(m, vf_set1(lo))); hit; hit &= hit - 1)
            n_found = block_find(index, value, x, (b + __builtin_ctz(hit)) * ROW_BLOCK, n, lo, hi,
                                 n_found);
    }
    return n_found;
}

static double row_mass(const float *w, const float *x, int n, float floor, int *n_above)
{
    const vf low = vf_set1(floor), none = vf_set1(-INFINITY);
    double total = 0;
    int count = 0;
    for (int i = 0; i < n; i += ROW_BLOCK) {
        vf s[ROW_VECS];
        for (int j = 0; j < ROW_VECS; j++) {
            int at = i + j * VL;
            vmask above = vf_ge(load_or(x + at, n - at, none), low);
            count += __builtin_popcount(vmask_bits(above));
            s[j] = w ? vf_select(above, load_or(w + at, n - at, vf_zero()), vf_zero()) : vf_zero();
        }
        if (w) total += (double)lanes_sum(s);
    }
    *n_above = count;
    return w ? total : count;
}

static inline vf difference(vf x, vf p)
{
    return vf_min(vf_max(vf_sub(x, p), vf_set1(-0x1p60f)), vf_set1(0x1p60f));
}

static double row_product(const float *a, float p, const float *b, float q, int n)
{
    const vf pp = vf_set1(p), qq = vf_set1(q), one = vf_set1(1.0f);
    double total = 0;
    for (int i = 0; i < n; i += ROW_BLOCK) {
        vf s[LANE_VECS];
        for (int j = 0; j < LANE_VECS; j++) s[j] = vf_zero();
        for (int j = 0; j < ROW_VECS; j++) {
            int at = i + j * VL;
            vf x = difference(load_or(a + at, n - at, pp), pp);
            vf y = b ? difference(load_or(b + at, n - at, qq), qq) : one;
            s[j % LANE_VECS] = vf_fma(x, y, s[j % LANE_VECS]);
        }
        total += (double)vf_tree16(s);
    }
    return total;
}

/* Set the slots of rows of logits. */
static void rows_fill(struct kern *k)
{
    k->row_max = row_max;
    k->row_mask = row_mask;
    k->row_exp = row_exp;
    k->row_find = row_find;
    k->row_mass = row_mass;
    k->row_product = row_product;
}

#endif

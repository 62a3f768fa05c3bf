/* ops.h - the elementwise ops, norms and rope in vectors: ref/ops.c bit for bit.
 *
 * <level>/ops.c includes this file after the level's vec.h. Each op is one loop. The last,
 * incomplete vector of a row is loaded and stored with a mask. The processor predicts the branch to
 * this vector as well as the branch of the loop.
 *
 * Arithmetic is the bound, because rows of a token fit into the L1 cache. Division is the
 * bottleneck of activations and softmax. The latency of the fma limits a norm, because its order is
 * one chain of 16 lanes. The table has ns per 1,000 values for rows of 4,096 values on Sapphire
 * Rapids, as ref / AVX2 / AVX-512:
 *   norm 840 / 137 / 157        norm of 32 heads 1080 / 196 / 117      rope 950 / 53 / 60
 *   softmax 16600 / 718 / 474   silu_mul 15000 / 480 / 331             to f16 1570 / 41 / 35
 *
 * The next table has shares of the bound on one thread of an AMD EPYC of family 25 with AVX2
 * (docs/measurements.md, "Shares of the other kernels"). The last column is the speed relative to
 * the reference, which this file replaced:
 *   norm       0.44 of the latency of its chain, 4 cycles of fma per 16 values          17 times
 *   add        0.49 of a plain loop over the L1 cache                                    1 time
 *   silu_mul   0.21 of the divider: the operations of exp limit it on this core         42 times
 *   softmax    0.17 of the divider, also limited by exp                                 36 times
 *
 * rope reads 153 to 217 GB/s from the L1 cache (Zen 5) and takes 0.1 % of a model's kernel time.
 * Norms of rows and heads together take 0.6 % of this time.
 *
 * The fma of the reference's silu_mul is a library call. Any thread may call kernels, because they
 * change only the memory of their arguments. */
#ifndef QUOTH_KERN_TMPL_OPS_H
#define QUOTH_KERN_TMPL_OPS_H

#include "kern/tmpl/math.h"

enum { LANE_VECS = 16 / VL }; /* vectors of the 16 lanes of a canonical order */

/* ---- part of a vector before the end; n > 0 values are left ---- */

static inline vf load_upto(const float *p, int n)
{
    return n >= VL ? vf_load(p) : vf_load_n(p, n);
}

/* Store the first n lanes, n <= VL, or a whole vector. */
static inline void store_upto(float *p, vf x, int n)
{
    if (n >= VL)
        vf_store(p, x);
    else
        vf_store_n(p, x, n);
}

/* ---- elementwise ---- */

static void add(float *y, const float *x, int n)
{
    for (int i = 0; i < n; i += VL)
        store_upto(y + i, vf_add(load_upto(y + i, n - i), load_upto(x + i, n - i)), n - i);
}

#define CURVE(f)                                                                                   \
    static void f##_row(float *y, const float *x, int n)                                           \
    {                                                                                              \
        for (int i = 0; i < n; i += VL) store_upto(y + i, vf_##f(load_upto(x + i, n - i)), n - i); \
    }                                                                                              \
    static void f##_mul(float *y, const float *gate, const float *up, int n)                       \
    {                                                                                              \
        for (int i = 0; i < n; i += VL) {                                                          \
            vf g = vf_##f(load_upto(gate + i, n - i));                                             \
            store_upto(y + i, vf_mul(g, load_upto(up + i, n - i)), n - i);                         \
        }                                                                                          \
    }
#include "kern/curves.def"
#undef CURVE

/* ---- norm and softmax ---- */

/* Return the sum of squares. LANE_VECS vectors contain the 16 lanes; lanes past the end add 0. */
static inline float sum_of_squares(const float *x, int n)
{
    vf s[LANE_VECS];
    for (int j = 0; j < LANE_VECS; j++) s[j] = vf_zero();
    for (int i = 0; i < n; i += 16)
        for (int j = 0; j < LANE_VECS; j++) {
            int left = n - i - j * VL;
            vf a = left > 0 ? load_upto(x + i + j * VL, left) : vf_zero();
            s[j] = vf_fma(a, a, s[j]);
        }
    return vf_tree16(s);
}

static void rms_norm(float *y, const float *x, const float *g, int n_row, int n, float eps)
{
    for (; n_row > 0; n_row--, x += n, y += n) {
        vf r = vf_set1(1.0f / sqrtf(sum_of_squares(x, n) / (float)n + eps));
        for (int i = 0; i < n; i += VL) {
            vf a = vf_mul(load_upto(x + i, n - i), r);
            store_upto(y + i, vf_mul(a, load_upto(g + i, n - i)), n - i);
        }
    }
}

static inline float sum_of(const float *x, int n)
{
    vf s[LANE_VECS];
    for (int j = 0; j < LANE_VECS; j++) s[j] = vf_zero();
    for (int i = 0; i < n; i += 16)
        for (int j = 0; j < LANE_VECS; j++) {
            int left = n - i - j * VL;
            if (left > 0) s[j] = vf_add(s[j], load_upto(x + i + j * VL, left));
        }
    return vf_tree16(s);
}

/* Normalize rows by mean and variance. Between the two passes, y contains the differences from the
 * mean. y may be x. */
static void layer_norm(float *y, const float *x, const float *g, const float *bias, int n_row,
                       int n, float eps)
{
    for (; n_row > 0; n_row--, x += n, y += n) {
        vf mean = vf_set1(sum_of(x, n) / (float)n);
        for (int i = 0; i < n; i += VL)
            store_upto(y + i, vf_sub(load_upto(x + i, n - i), mean), n - i);
        vf r = vf_set1(1.0f / sqrtf(sum_of_squares(y, n) / (float)n + eps));
        for (int i = 0; i < n; i += VL) {
            vf a = vf_mul(vf_mul(load_upto(y + i, n - i), r), load_upto(g + i, n - i));
            store_upto(y + i, bias ? vf_add(a, load_upto(bias + i, n - i)) : a, n - i);
        }
    }
}

static float max_of(const float *x, int n)
{
    vf m = vf_set1(-INFINITY);
    int i = 0;
    for (; i + VL <= n; i += VL) m = vf_max(vf_load(x + i), m);
    float max = vf_max_lanes(m);
    for (; i < n; i++) max = x[i] > max ? x[i] : max;
    return max;
}

static void softmax(float *y, const float *x, int n)
{
    vf max = vf_set1(max_of(x, n)), s[LANE_VECS];
    for (int j = 0; j < LANE_VECS; j++) s[j] = vf_zero();
    for (int i = 0; i < n; i += 16)
        for (int j = 0; j < LANE_VECS; j++) {
            int at = i + j * VL, left = n - at;
            if (left <= 0) break;
            vf p = vf_exp(vf_sub(load_upto(x + at, left), max));
            store_upto(y + at, p, left);
            s[j] = vf_add(s[j], left >= VL ? p : vf_load_n(y + at, left));
        }
    vf sum = vf_set1(vf_tree16(s));
    for (int i = 0; i < n; i += VL) store_upto(y + i, vf_div(load_upto(y + i, n - i), sum), n - i);
}

/* ---- rope ---- */

/* Rotate VL pairs (i, i + half) in every head, with one load of cos and sin. */
static void rope_halves(float *x, int n_head, int d_head, const float *cos, const float *sin,
                        int half)
{
    for (int i = 0; i < half; i += VL) {
        int n = half - i;
        vf c = load_upto(cos + i, n), s = load_upto(sin + i, n);
        for (int h = 0; h < n_head; h++) {
            float *at = x + (int64_t)h * d_head + i;
            vf a = load_upto(at, n), b = load_upto(at + half, n);
            store_upto(at, vf_fnma(b, s, vf_mul(a, c)), n);
            store_upto(at + half, vf_fma(a, s, vf_mul(b, c)), n);
        }
    }
}

/* Rotate pairs (2i, 2i+1), VL / 2 per vector. The partner of a lane is its neighbour. sin is
 * negated for the first value of each pair. */
static void rope_neighbours(float *x, int n_head, int d_head, const float *cos, const float *sin,
                            int d_rot)
{
    for (int i = 0; i < d_rot; i += VL) {
        int n = d_rot - i, n_pair = n < VL ? n / 2 : VL / 2;
        vf c = vf_pairs(vf_load_n(cos + i / 2, n_pair));
        vf s = vf_negate_even(vf_pairs(vf_load_n(sin + i / 2, n_pair)));
        for (int h = 0; h < n_head; h++) {
            float *at = x + (int64_t)h * d_head + i;
            vf a = load_upto(at, n);
            store_upto(at, vf_fma(vf_swap_pairs(a), s, vf_mul(a, c)), n);
        }
    }
}

static void rope(float *x, int n_head, int d_head, const float *cos, const float *sin, int d_rot,
                 bool neox)
{
    if (neox)
        rope_halves(x, n_head, d_head, cos, sin, d_rot / 2);
    else
        rope_neighbours(x, n_head, d_head, cos, sin, d_rot);
}

/* ---- narrow floats ---- */

/* Round to nearest even. A NaN becomes quiet (quant/bf16.c). The low half of each lane is the
 * result. */
static inline vi bf16_bits(vf x)
{
    vi u = vi_cast(x), odd = vi_and(vi_srl(u, 16), vi_set1(1));
    vi rounded = vi_add(u, vi_add(vi_set1(0x7FFF), odd)), quiet = vi_or(u, vi_set1(0x00400000));
    vmask number = vf_le(vf_abs(x), vf_set1(INFINITY));
    return vi_srl(vi_cast(vf_select(number, vf_cast(rounded), vf_cast(quiet))), 16);
}

static inline void store_bf16(uint16_t *p, vf x)
{
    vi_store_u16(p, bf16_bits(x));
}

/* Convert whole vectors of the row, then the remaining values through a buffer of one vector. */
#define NARROW(to, store)                                                                          \
    static void to(uint16_t *y, const float *x, int n)                                             \
    {                                                                                              \
        uint16_t rest[VL];                                                                         \
        int i = 0;                                                                                 \
        for (; i + VL <= n; i += VL) store(y + i, vf_load(x + i));                                 \
        store(rest, vf_load_n(x + i, n - i));                                                      \
        memcpy(y + i, rest, (size_t)(n - i) * sizeof *y);                                          \
    }
#define WIDEN(of, load)                                                                            \
    static void of(float *y, const uint16_t *x, int n)                                             \
    {                                                                                              \
        uint16_t rest[VL] = {0};                                                                   \
        int i = 0;                                                                                 \
        for (; i + VL <= n; i += VL) vf_store(y + i, load(x + i));                                 \
        memcpy(rest, x + i, (size_t)(n - i) * sizeof *x);                                          \
        vf_store_n(y + i, load(rest), n - i);                                                      \
    }
NARROW(to_f16, vf_store_f16)
NARROW(to_bf16, store_bf16)
WIDEN(of_f16, vf_load_f16)
WIDEN(of_bf16, vf_load_bf16)
#undef NARROW
#undef WIDEN

/* Set the slots of elementwise ops. */
static void ops_fill(struct kern *k)
{
    k->rms_norm = rms_norm;
    k->layer_norm = layer_norm;
    k->add = add;
#define CURVE(f) k->curve[CURVE_##f] = f##_row, k->curve_mul[CURVE_##f] = f##_mul;
#include "kern/curves.def"
#undef CURVE
    k->rope = rope;
    k->softmax = softmax;
    k->to_f16 = to_f16;
    k->to_bf16 = to_bf16;
    k->of_f16 = of_f16;
    k->of_bf16 = of_bf16;
}

#endif

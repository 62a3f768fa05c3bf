/* kern.h - the arithmetic of every op, as single-threaded loops over plain pointers.
 *
 * struct kern is a table of such loops, filled slow first, better later (kern_open): ref is
 * complete and is the specification, every other level gives the same bits (docs/design.md 5).
 * Kernels never allocate, lock, log or fail; they use + - * / fma sqrt only, never a horizontal sum
 * whose order is not written here. The caller's thread must be in the canonical float mode
 * (cpu_float_canonical).
 *
 * The canonical orders:
 *
 *   linear, quantized weights x int8 activations: C = 0; k in groups of 256, the last one shorter
 *       per group ascending:  T = qtype dot_group (quant.h);  C = fma(T, act_scale, C)
 *   linear, float arithmetic (any weight type x f32 activations: weights decoded exactly)
 *       per group of 256:  T = 0; per k ascending: T = fma(w, x, T);   C = C + T
 *   linear, BF16 weights x bf16 activations
 *       per group of 256:  T = 0; per pair (2j, 2j+1) ascending: T = dot2_bf16(T, ...);   C = C + T
 *       dot2_bf16 is the x86 instruction vdpbf16ps: odd element first, two fused steps, subnormal
 *       inputs and results flushed to zero (verified against it on 20 million operands)
 *   then the bias: C + bias
 *
 *   rms_norm   sum of squares in 16 lanes (i mod 16) by fma, lanes reduced by the tree +8 +4 +2 +1;
 *              r = 1 / sqrt(sum / n + eps);  y = (x * r) * g
 *   attention  see attn_tile below and docs/design.md 5 */
#ifndef QUOTH_KERN_H
#define QUOTH_KERN_H

#include "base/err.h"
#include "quant/quant.h"

enum {
    ACT_GROUP = 256, /* k values that share one activation scale */
    ATTN_TILE = 16,  /* positions of one attention sub-tile      */
    ATTN_SPAN = 512, /* positions after which partial results are merged */
};

/* How activations enter a linear layer. */
enum act_type { ACT_F32, ACT_BF16, ACT_Q8, ACT_COUNT };

/* The state of one query row and head within a span: m running maximum, l the row sum in 16 lanes,
 * o f32 [d_v] the weighted values so far. Begin with m = -inf, l and o zero. */
struct attn_state {
    float m;
    float l[ATTN_TILE];
};

/* y f32: output r of row i at y[i * y_stride + r], r in [0, n_out)
 * w: n_out rows of k weights of type t, w_stride bytes apart
 * x: n_row rows of k activations, rows k apart: f32, bf16, or int8 with x_scale f32
 *    [n_row, ceil(k / 256)] */
typedef void linear_fn(float *y, int64_t y_stride, enum qtype t, const uint8_t *w, int64_t w_stride,
                       int n_out, const void *x, const float *x_scale, int n_row, int k);

struct kern {
    const char *name; /* the level: "ref", "avx2", ... */

    /* [act][weight type]; NULL where the pair does not exist (ACT_Q8 needs a block format,
     * ACT_BF16 needs BF16) */
    linear_fn *linear[ACT_COUNT][QT_COUNT];

    /* x f32 [k] -> q int8 [k], scale f32 [ceil(k / 256)]: scale = amax / 127, q = rint(x * (127 /
     * amax)), to nearest even. A group that is all zero or whose amax is below 2^-120 has scale 0
     * and q 0; a group with a NaN or an infinity has scale NaN and q 0, so that its outputs are
     * NaN. */
    void (*act_q8)(int8_t *q, float *scale, const float *x, int k);
    /* x f32 [k] -> bf16 [k], round to nearest even, subnormals to zero (as vcvtneps2bf16). */
    void (*act_bf16)(uint16_t *y, const float *x, int k);

    void (*rms_norm)(float *y, const float *x, const float *g, int n, float eps); /* y may be x */
    void (*add)(float *y, const float *x, int n);                                 /* y += x     */
    /* y = gate / (1 + exp(-gate)) * up */
    void (*silu_mul)(float *y, const float *gate, const float *up, int n);

    /* Rotate one head x f32 [d] in place. cos, sin f32 [d_rot / 2]. neox pairs (i, i + d_rot/2),
     * else pairs (2i, 2i+1): a' = fma(-b, sin, a * cos), b' = fma(a, sin, b * cos). */
    void (*rope)(float *x, const float *cos, const float *sin, int d_rot, bool neox);

    /* One sub-tile of 16 positions for one query row and head.
     *   q f32 [d_k];  k f32 [d_k, 16] (lanes are positions);  v f32 [16, d_v];  o f32 [d_v]
     *   lo, hi: positions [lo, hi) of the tile are visible, 0 <= lo < hi <= 16; the others' K
     *   and V are not used
     * score = (fma chain over d ascending from 0) * scale; running maximum; p = exp(score - m);
     * l[i] += p[i]; o[d] = fma(p[i], v[i][d], o[d]), i ascending. When the maximum grows l and o
     * are first scaled by exp(old - new). */
    void (*attn_tile)(struct attn_state *s, float *o, const float *q, const float *k,
                      const float *v, int d_k, int d_v, int lo, int hi, float scale);

    /* Merge the span (s, o) into the total (m, l, out f32 [d_v]); the first merge begins with
     * total m = -inf, l = 0, out = 0. The span's l is reduced by the tree +8 +4 +2 +1. */
    void (*attn_merge)(float *m, float *l, float *out, const struct attn_state *s, const float *o,
                       int d_v);
    /* out *= 1 / l. */
    void (*attn_finish)(float *out, float l, int d_v);
};

/* Fill the table with the best level this machine has, or with `level` ("ref", "avx2", ...; NULL
 * = best). ERR_ARG names the levels there are when `level` is unknown or not supported here. */
int kern_open(struct kern *k, const char *level, struct err *e);

/* Names of the levels this machine can run, slowest first, NULL-terminated. */
const char *const *kern_levels(void);

/* exp of f32, the one that every level computes: |error| < 1 ulp, exp(0) = 1, exp(-inf) = 0, NaN
 * stays. */
float kern_exp(float x);

#endif

/* act.h - conversion of a linear layer's activations in vectors: ref/act.c bit for bit.
 *
 * The int8 form reads a group of 256 twice from the L1 cache. The first pass finds the largest
 * magnitude. The pass compares magnitudes as integers, so a NaN or infinity is larger than every
 * finite number. The second pass scales, rounds and packs. The bound is about one instruction per
 * value. On Sapphire Rapids, 1,000 values of a row of 4,096 take these ns with ref / AVX2 /
 * AVX-512: int8 1540 / 183 / 163, bf16 1310 / 262 / 149. On an AMD EPYC of family 25, arithmetic is
 * the bound, at 5.2 (int8) and 5.0 (bf16) cycles per vector. int8 takes 228 ns: its two passes of 4
 * bytes have 0.19 of the L1 cache's read rate (183 GB/s). bf16 takes 218 ns, 0.10 of the read rate.
 * Any thread may call kernels, because they change only the memory of their arguments. */
#ifndef QUOTH_KERN_TMPL_ACT_H
#define QUOTH_KERN_TMPL_ACT_H

#include "kern/tmpl/ops.h"

enum { ACT_BLOCK = 64, BLOCK_VECS = ACT_BLOCK / VL };

/* Return the bits of the largest |x|. The result is 0x7F800000 or more if an x is not finite. */
static inline uint32_t magnitude_max(const float *x, int n)
{
    vi max = vi_zero();
    const vi magnitude = vi_set1(0x7FFFFFFF);
    for (int i = 0; i < n; i += VL)
        max = vi_max(max, vi_and(vi_cast(load_upto(x + i, n - i)), magnitude));
    return (uint32_t)vi_max_lanes(max);
}

/* Return the scale of a group. Set *inv to the multiplier of the group's values, or to 0 if all
 * values of q are 0. */
static inline float group_scale(const float *x, int n, float *inv)
{
    uint32_t bits = magnitude_max(x, n);
    float amax = f32_of_bits(bits);
    *inv = 0;
    if (bits >= 0x7F800000u) return NAN;
    if (amax < 0x1p-120f) return 0;
    *inv = 127.0f / amax;
    return amax / 127.0f;
}

/* Round the first n of 64 values. All later values become 0. */
static inline void block_q8(int8_t *q, const float *x, int n, float inv)
{
    vi r[BLOCK_VECS];
    if (inv == 0) n = 0; /* the product of a NaN and 0 would be a NaN */
    for (int j = 0; j < BLOCK_VECS; j++) {
        int left = n - j * VL;
        vf a = left > 0 ? load_upto(x + j * VL, left) : vf_zero();
        r[j] = vi_round(vf_mul(a, vf_set1(inv)));
    }
    for (int j = 0; j < BLOCK_VECS; j += 4) vi_store_i8(q + j * VL, r + j);
}

/* Convert a row to int8 with a scale and the sums of units, per group of 256. */
static void act_q8(const struct act *a, int row, const float *x)
{
    float inv = 0;
    for (int i = 0; i < a->k; i += ACT_BLOCK) {
        int n = a->k - i;
        if (i % ACT_GROUP == 0)
            a->scale[(int64_t)(i / ACT_GROUP) * a->n_row + row] =
                group_scale(x + i, n < ACT_GROUP ? n : ACT_GROUP, &inv);
        int8_t *q = (int8_t *)a->x + ((int64_t)(i / ACT_BLOCK) * a->n_row + row) * ACT_BLOCK;
        block_q8(q, x + i, n, inv);
        for (int j = 0; j < ACT_BLOCK && j < n; j += 16)
            a->sum[((int64_t)(i + j) / 32 * a->n_row + row) * 2 + j / 16 % 2] =
                (int16_t)sum16_i8(q + j);
    }
}

/* Convert a row to bf16. */
static void act_bf16(const struct act *a, int row, const float *x)
{
    const vi sign = vi_set1(INT32_MIN);
    for (int g = 0; g < a->k; g += ACT_GROUP) {
        uint16_t *y = (uint16_t *)a->x + ((int64_t)(g / ACT_GROUP) * a->n_row + row) * ACT_GROUP;
        for (int i = 0; i < ACT_GROUP; i += VL) {
            int left = a->k - g - i;
            vf v = left > 0 ? load_upto(x + g + i, left) : vf_zero();
            vmask subnormal = vf_gt(vf_set1(0x1p-126f), vf_abs(v));
            store_bf16(y + i, vf_select(subnormal, vf_cast(vi_and(vi_cast(v), sign)), v));
        }
    }
}

/* Set the slots of activations. */
static void act_fill(struct kern *k)
{
    k->act[ACT_BF16] = act_bf16;
    k->act[ACT_Q8] = act_q8;
}

#endif

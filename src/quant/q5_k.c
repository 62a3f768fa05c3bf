/* q5_k.c - Q5_K: 256 values in 8 sub-blocks of 32, 5 bits each. llama.cpp published this format.
 *
 *     0    2     4                    16              48                       176
 *     [ d ][ dmin ][ 12 bytes of scales ][ 32 fifth bits ][ 128 bytes, low 4 bits ]     f16
 *
 *     scales      k_scale.c
 *     fifth bits  bit k of byte m: value 32 k + m
 *     low bits    four runs of 32 bytes, 64 values each: byte m: value m low nibble, m + 32 high
 *
 * value = d * scale * code - dmin * min.
 * isum = sum_j scale_j sum code * a, w_scale = d; then T = fma(-msum, dmin, T) with
 * msum = sum_j min_j sum a. */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    int8_t fifth[256];
    b->d = half_load(x);
    b->dmin = half_load(x + 2);
    k_scales_unpack(b, x + 4);
    fields_unpack(fifth, x + 16, 256, 32, 1);
    fields_unpack(b->q, x + 48, 256, 32, 4);
    bits_join(b->q, fifth, 256, 4);
}

static void pack(uint8_t *y, const struct block *b)
{
    half_store(y, b->d);
    half_store(y + 2, b->dmin);
    k_scales_pack(y + 4, b);
    fields_pack(y + 16, b->q, 256, 32, 1, 4);
    fields_pack(y + 48, b->q, 256, 32, 4, 0);
}

static const struct coder coder = {.hi = 31, .scale = {0, 63, 1}};
static const struct format format = {256, 32, 176, true, unpack, pack, fit_lines, &coder};
BLOCK_OPS(q5_k, format)

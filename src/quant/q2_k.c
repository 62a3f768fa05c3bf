/* q2_k.c - Q2_K: 256 values in 16 sub-blocks of 16, 2 bits each. llama.cpp published this format.
 *
 *     0            16                  80   82     84
 *     [ 16 scales  ][ 64 bytes of codes ][ d ][ dmin ]     d, dmin f16
 *
 *     scales  byte j: scale j low nibble, minimum j high nibble
 *     codes   two runs of 32 bytes, 128 values each: bits 2k of byte m: value 32 k + m of the run
 *
 * value = d * scale * code - dmin * min.
 * isum = sum_j scale_j sum code * a, w_scale = d; then T = fma(-msum, dmin, T) with
 * msum = sum_j min_j sum a. */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    for (int j = 0; j < 16; j++) {
        b->scale[j] = x[j] & 15;
        b->min[j] = x[j] >> 4;
    }
    fields_unpack(b->q, x + 16, 256, 32, 2);
    b->d = half_load(x + 80);
    b->dmin = half_load(x + 82);
}

static void pack(uint8_t *y, const struct block *b)
{
    for (int j = 0; j < 16; j++) y[j] = (uint8_t)(b->scale[j] | b->min[j] << 4);
    fields_pack(y + 16, b->q, 256, 32, 2, 0);
    half_store(y + 80, b->d);
    half_store(y + 82, b->dmin);
}

static const struct coder coder = {.hi = 3, .scale = {0, 15, 1}};
static const struct format format = {256, 16, 84, true, unpack, pack, fit_lines, &coder};
BLOCK_OPS(q2_k, format)

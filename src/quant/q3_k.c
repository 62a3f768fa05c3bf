/* q3_k.c - Q3_K: 256 values in 16 sub-blocks of 16, 3 bits each. llama.cpp published this format.
 *
 *     0                 32                      96          108  110
 *     [ 32 third bits   ][ 64 bytes, low 2 bits ][ 12 scales ][ d ]     d f16
 *
 *     third bits  bit k of byte m: value 32 k + m
 *     low bits    two runs of 32 bytes, 128 values each: bits 2k of byte m: value 32 k + m
 *     scales      6 bits each: bytes 0..7 the low four of scales 0..7 (low nibbles) and 8..15
 *                 (high nibbles); bytes 8..11 the upper two, bits 2k of byte m: scale 4 k + m
 *
 * value = d * (scale - 32) * (code - 4).
 * isum = sum_j (scale_j - 32) sum (code - 4) * a, w_scale = d. */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    int8_t third[256], scale[16], scale_high[16];
    fields_unpack(third, x, 256, 32, 1);
    fields_unpack(b->q, x + 32, 256, 32, 2);
    bits_join(b->q, third, 256, 2);
    q_add(b->q, 256, -4);
    fields_unpack(scale, x + 96, 16, 8, 4);
    fields_unpack(scale_high, x + 104, 16, 4, 2);
    for (int j = 0; j < 16; j++) b->scale[j] = (int16_t)((scale[j] | scale_high[j] << 4) - 32);
    b->d = half_load(x + 108);
}

static void pack(uint8_t *y, const struct block *b)
{
    int8_t code[256], scale[16];
    q_shifted(code, b->q, 256, 4);
    fields_pack(y, code, 256, 32, 1, 2);
    fields_pack(y + 32, code, 256, 32, 2, 0);
    for (int j = 0; j < 16; j++) scale[j] = (int8_t)(b->scale[j] + 32);
    fields_pack(y + 96, scale, 16, 8, 4, 0);
    fields_pack(y + 104, scale, 16, 4, 2, 4);
    half_store(y + 108, b->d);
}

static const struct coder coder = {
    .nearest = uniform_nearest,
    .lo = -4,
    .hi = 3,
    .fan = {3.6f, 8.0f, 7},
    .scale = {-32, 31, 1},
    .d_factor = 1,
};
static const struct format format = {256, 16, 110, false, unpack, pack, fit_scales, &coder};
BLOCK_OPS(q3_k, format)

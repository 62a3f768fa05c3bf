/* iq4_xs.c - IQ4_XS: 256 values in 8 sub-blocks of 32, codes of a 16-entry table. llama.cpp
 * published this format.
 *
 *     0    2                4               8                    136
 *     [ d ][ 2 bytes, scales ][ 4 bytes, scales ][ 128 bytes of codes ]     d f16
 *
 *     scale j  bits 4j of the four bytes, with bits 2j of the two bytes above them
 *     codes    eight runs of 16 bytes: byte m: value m low nibble, value m + 16 high nibble
 *
 * value = d * (scale - 32) * level_iq4[code].
 * isum = sum_j (scale_j - 32) sum level * a, w_scale = d. */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    int8_t scale[8], scale_high[8];
    b->d = half_load(x);
    fields_unpack(scale_high, x + 2, 8, 1, 2);
    fields_unpack(scale, x + 4, 8, 1, 4);
    for (int j = 0; j < 8; j++) b->scale[j] = (int16_t)((scale[j] | scale_high[j] << 4) - 32);
    fields_unpack(b->q, x + 8, 256, 16, 4);
    levels_of_codes(b->q, level_iq4, 256);
}

static void pack(uint8_t *y, const struct block *b)
{
    int8_t scale[8], code[256];
    for (int j = 0; j < 8; j++) scale[j] = (int8_t)(b->scale[j] + 32);
    codes_of_levels(code, b->q, level_iq4, 256);
    half_store(y, b->d);
    fields_pack(y + 2, scale, 8, 1, 2, 4);
    fields_pack(y + 4, scale, 8, 1, 4, 0);
    fields_pack(y + 8, code, 256, 16, 4, 0);
}

static const struct coder coder = {
    .nearest = level_nearest,
    .level = level_iq4,
    .lo = -127,
    .hi = 113,
    .fan = {110.0f, 210.0f, 7},
    .scale = {-32, 31, 1},
    .d_factor = 1,
};
static const struct format format = {256, 32, 136, false, unpack, pack, fit_scales, &coder};
BLOCK_OPS(iq4_xs, format)

/* iq4_nl.c - IQ4_NL: 32 values, 4-bit codes of a table, one scale. llama.cpp published this format.
 *
 *     0    2                  18
 *     [ d ][ 16 bytes of codes ]     d f16; byte i: value i low nibble, value i + 16 high nibble
 *
 * value = d * level_iq4[code]. isum = sum level * a, w_scale = d. */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    b->d = half_load(x);
    b->scale[0] = 1;
    fields_unpack(b->q, x + 2, 32, 16, 4);
    levels_of_codes(b->q, level_iq4, 32);
}

static void pack(uint8_t *y, const struct block *b)
{
    int8_t code[32];
    codes_of_levels(code, b->q, level_iq4, 32);
    half_store(y, b->d);
    fields_pack(y + 2, code, 32, 16, 4, 0);
}

static const struct coder coder = {
    .nearest = level_nearest,
    .level = level_iq4,
    .lo = -127,
    .hi = 113,
    .fan = {110.0f, 210.0f, 7},
    .scale = {1, 1, 1},
    .d_factor = 1,
};
static const struct format format = {32, 32, 18, false, unpack, pack, fit_scales, &coder};
BLOCK_OPS(iq4_nl, format)

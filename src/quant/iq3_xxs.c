/* iq3_xxs.c - IQ3_XXS: 256 values in 8 sub-blocks of 32, points of a 4-value code book of 256.
 * llama.cpp published this format.
 *
 *     0    2          66                                            98
 *     [ d ][ 64 codes ][ 8 u32: 4 x 7 sign bits, 4-bit scale on top ]     d f16
 *
 * value = d / 4 * (2 scale + 1) * +-level, levels 4, 12 .. 52, 62. The signs of 8 values have even
 * parity, so the eighth is not stored.
 * isum = sum_j (2 scale_j + 1) sum +-level * a, w_scale = d / 4. */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    b->d = half_load(x) / 4.0f;
    for (int i = 0; i < 64; i++) grid_point(b->q + 4 * i, &grid_iq3_xxs, x[2 + i]);
    for (int j = 0; j < 8; j++) {
        uint32_t signs = u32_load(x + 66 + 4 * j);
        b->scale[j] = (int16_t)(2 * (signs >> 28) + 1);
        for (int i = 0; i < 4; i++)
            signs_apply(b->q + 32 * j + 8 * i, signs_of_7(signs >> (7 * i)));
    }
}

static void pack(uint8_t *y, const struct block *b)
{
    half_store(y, b->d * 4.0f);
    for (int i = 0; i < 64; i++) y[2 + i] = (uint8_t)magnitude_code(&grid_iq3_xxs, b->q + 4 * i);
    for (int j = 0; j < 8; j++) {
        uint32_t signs = (uint32_t)b->scale[j] / 2 << 28;
        for (int i = 0; i < 4; i++) signs |= (signs_of(b->q + 32 * j + 8 * i) & 127u) << (7 * i);
        u32_store(y + 66 + 4 * j, signs);
    }
}

static const struct coder coder = {
    .nearest = grid_nearest,
    .grid = &grid_iq3_xxs,
    .even = true,
    .lo = -62,
    .hi = 62,
    .fan = {4.0f, 100.0f, 7},
    .scale = {1, 31, 2},
    .d_factor = 4,
};
static const struct format format = {256, 32, 98, false, unpack, pack, fit_scales, &coder};
BLOCK_OPS(iq3_xxs, format)

/* iq2_xs.c - IQ2_XS: 256 values in 16 sub-blocks of 16, points of an 8-value code book of 512.
 * llama.cpp published this format.
 *
 *     0    2                             66               74
 *     [ d ][ 32 u16: 9-bit code, 7 signs ][ 16 4-bit scales ]     d f16; scale j: bits 4j
 *
 * value = d / 8 * (2 scale + 1) * +-level, levels 8, 25, 43. The signs of 8 values have even
 * parity, so the eighth is not stored.
 * isum = sum_j (2 scale_j + 1) sum +-level * a, w_scale = d / 8. */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    b->d = half_load(x) / 8.0f;
    odd_scales_unpack(b, x + 66, 16);
    for (int i = 0; i < 32; i++) {
        unsigned point = u16_load(x + 2 + 2 * i);
        grid_point(b->q + 8 * i, &grid_iq2_xs, (int)(point & 511));
        signs_apply(b->q + 8 * i, signs_of_7(point >> 9));
    }
}

static void pack(uint8_t *y, const struct block *b)
{
    half_store(y, b->d * 8.0f);
    for (int i = 0; i < 32; i++) {
        const int8_t *q = b->q + 8 * i;
        int signs = signs_of(q) & 127;
        u16_store(y + 2 + 2 * i, (uint16_t)(magnitude_code(&grid_iq2_xs, q) | signs << 9));
    }
    odd_scales_pack(y + 66, b, 16);
}

static const struct coder coder = {
    .nearest = grid_nearest,
    .grid = &grid_iq2_xs,
    .even = true,
    .lo = -43,
    .hi = 43,
    .fan = {8.0f, 95.0f, 7},
    .scale = {1, 31, 2},
    .d_factor = 8,
};
static const struct format format = {256, 16, 74, false, unpack, pack, fit_scales, &coder};
BLOCK_OPS(iq2_xs, format)

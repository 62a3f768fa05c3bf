/* iq2_xxs.c - IQ2_XXS: 256 values in 8 sub-blocks of 32, points of an 8-value code book of 256.
 * llama.cpp published this format.
 *
 *     0    2                        66
 *     [ d ][ 8 sub-blocks of 8 bytes ]     d f16
 *     sub-block: [ code ][ code ][ code ][ code ][ u32: 4 x 7 sign bits, 4-bit scale on top ]
 *
 * value = d / 8 * (2 scale + 1) * +-level, levels 8, 25, 43. The signs of 8 values have even
 * parity, so the eighth is not stored.
 * isum = sum_j (2 scale_j + 1) sum +-level * a, w_scale = d / 8. */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    b->d = half_load(x) / 8.0f;
    for (int j = 0; j < 8; j++) {
        const uint8_t *sub = x + 2 + 8 * j;
        uint32_t signs = u32_load(sub + 4);
        b->scale[j] = (int16_t)(2 * (signs >> 28) + 1);
        for (int i = 0; i < 4; i++) {
            int8_t *q = b->q + 32 * j + 8 * i;
            grid_point(q, &grid_iq2_xxs, sub[i]);
            signs_apply(q, signs_of_7(signs >> (7 * i)));
        }
    }
}

static void pack(uint8_t *y, const struct block *b)
{
    half_store(y, b->d * 8.0f);
    for (int j = 0; j < 8; j++) {
        uint8_t *sub = y + 2 + 8 * j;
        uint32_t signs = (uint32_t)b->scale[j] / 2 << 28;
        for (int i = 0; i < 4; i++) {
            const int8_t *q = b->q + 32 * j + 8 * i;
            sub[i] = (uint8_t)magnitude_code(&grid_iq2_xxs, q);
            signs |= (signs_of(q) & 127u) << (7 * i);
        }
        u32_store(sub + 4, signs);
    }
}

static const struct coder coder = {
    .nearest = grid_nearest,
    .grid = &grid_iq2_xxs,
    .even = true,
    .lo = -43,
    .hi = 43,
    .fan = {8.0f, 95.0f, 7},
    .scale = {1, 31, 2},
    .d_factor = 8,
};
static const struct format format = {256, 32, 66, false, unpack, pack, fit_scales, &coder};
BLOCK_OPS(iq2_xxs, format)

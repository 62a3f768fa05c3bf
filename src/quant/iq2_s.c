/* iq2_s.c - IQ2_S: 256 values in 16 sub-blocks of 16, points of an 8-value code book of 1024.
 * llama.cpp published this format.
 *
 *     0    2                     34              66                 74               82
 *     [ d ][ 32 codes, low bytes ][ 32 sign bytes ][ codes, bits 8..9 ][ 16 4-bit scales ]
 *
 *     d f16; bits 8..9 of code i: bits 2i of their 8 bytes; scale j: bits 4j of its 8 bytes
 *
 * value = d / 8 * (2 scale + 1) * +-level, levels 8, 25, 43; all eight signs are stored.
 * isum = sum_j (2 scale_j + 1) sum +-level * a, w_scale = d / 8. */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    int8_t code_high[32];
    b->d = half_load(x) / 8.0f;
    fields_unpack(code_high, x + 66, 32, 1, 2);
    odd_scales_unpack(b, x + 74, 16);
    for (int i = 0; i < 32; i++) {
        grid_point(b->q + 8 * i, &grid_iq2_s, x[2 + i] | code_high[i] << 8);
        signs_apply(b->q + 8 * i, x[34 + i]);
    }
}

static void pack(uint8_t *y, const struct block *b)
{
    int8_t code_high[32];
    half_store(y, b->d * 8.0f);
    for (int i = 0; i < 32; i++) {
        int code = magnitude_code(&grid_iq2_s, b->q + 8 * i);
        y[2 + i] = (uint8_t)code;
        code_high[i] = (int8_t)(code >> 8);
        y[34 + i] = signs_of(b->q + 8 * i);
    }
    fields_pack(y + 66, code_high, 32, 1, 2, 0);
    odd_scales_pack(y + 74, b, 16);
}

static const struct coder coder = {
    .nearest = grid_nearest,
    .grid = &grid_iq2_s,
    .lo = -43,
    .hi = 43,
    .fan = {8.0f, 95.0f, 7},
    .scale = {1, 31, 2},
    .d_factor = 8,
};
static const struct format format = {256, 16, 82, false, unpack, pack, fit_scales, &coder};
BLOCK_OPS(iq2_s, format)

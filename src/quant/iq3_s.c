/* iq3_s.c - IQ3_S: 256 values in 8 sub-blocks of 32, points of a 4-value code book of 512.
 * llama.cpp published this format.
 *
 *     0    2                     66           74              106             110
 *     [ d ][ 64 codes, low bytes ][ ninth bits ][ 32 sign bytes ][ 8 4-bit scales ]     d f16
 *
 *     ninth bit of code i: bit i of its 8 bytes; scale j: bits 4j of its 4 bytes
 *
 * value = d * (2 scale + 1) * +-level, levels 1, 3 .. 15; all eight signs are stored.
 * isum = sum_j (2 scale_j + 1) sum +-level * a, w_scale = d. */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    int8_t ninth[64];
    b->d = half_load(x);
    fields_unpack(ninth, x + 66, 64, 1, 1);
    for (int i = 0; i < 64; i++) grid_point(b->q + 4 * i, &grid_iq3_s, x[2 + i] | ninth[i] << 8);
    for (int i = 0; i < 32; i++) signs_apply(b->q + 8 * i, x[74 + i]);
    odd_scales_unpack(b, x + 106, 8);
}

static void pack(uint8_t *y, const struct block *b)
{
    int8_t ninth[64];
    half_store(y, b->d);
    for (int i = 0; i < 64; i++) {
        int code = magnitude_code(&grid_iq3_s, b->q + 4 * i);
        y[2 + i] = (uint8_t)code;
        ninth[i] = (int8_t)(code >> 8);
    }
    fields_pack(y + 66, ninth, 64, 1, 1, 0);
    for (int i = 0; i < 32; i++) y[74 + i] = signs_of(b->q + 8 * i);
    odd_scales_pack(y + 106, b, 8);
}

static const struct coder coder = {
    .nearest = grid_nearest,
    .grid = &grid_iq3_s,
    .lo = -15,
    .hi = 15,
    .fan = {1.0f, 25.0f, 7},
    .scale = {1, 31, 2},
    .d_factor = 1,
};
static const struct format format = {256, 32, 110, false, unpack, pack, fit_scales, &coder};
BLOCK_OPS(iq3_s, format)

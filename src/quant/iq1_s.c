/* iq1_s.c - IQ1_S: 256 values in 8 sub-blocks of 32, points of an 8-value code book of 2048.
 * llama.cpp published this format.
 *
 *     0    2                     34        50
 *     [ d ][ 32 codes, low bytes ][ 8 u16  ]     d f16
 *
 *     u16 j  bits 8..10 of the sub-block's four codes, its 3-bit scale, the sign of its shift
 *
 * value = d * (2 scale + 1) * (g +- 1/8), g in {-1, 0, 1}.
 * isum = sum_j (2 scale_j + 1) sum (8 g +- 1) * a, w_scale = d / 8 (iq1.c). */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    b->d = half_load(x) / 8.0f;
    for (int j = 0; j < 8; j++) {
        int high = u16_load(x + 34 + 2 * j);
        b->scale[j] = (int16_t)(2 * (high >> 12 & 7) + 1);
        for (int i = 0; i < 4; i++) {
            int code = x[2 + 4 * j + i] | (high >> (3 * i) & 7) << 8;
            shift_point(b->q + 32 * j + 8 * i, code, high >> 15);
        }
    }
}

static void pack(uint8_t *y, const struct block *b)
{
    half_store(y, b->d * 8.0f);
    for (int j = 0; j < 8; j++) {
        int high = b->scale[j] / 2 << 12 | shift_is_minus(b->q + 32 * j) << 15;
        for (int i = 0; i < 4; i++) {
            int code = shift_code(b->q + 32 * j + 8 * i);
            y[2 + 4 * j + i] = (uint8_t)code;
            high |= code >> 8 << (3 * i);
        }
        u16_store(y + 34 + 2 * j, (uint16_t)high);
    }
}

static const struct coder coder = {
    .nearest = shift_nearest,
    .run = 32,
    .lo = -9,
    .hi = 9,
    .fan = {7.0f, 30.0f, 5},
    .scale = {1, 15, 2},
    .d_factor = 8,
};
static const struct format format = {256, 32, 50, false, unpack, pack, fit_scales, &coder};
BLOCK_OPS(iq1_s, format)

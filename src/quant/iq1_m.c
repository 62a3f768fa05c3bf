/* iq1_m.c - IQ1_M: 256 values in 16 sub-blocks of 16, points of an 8-value code book of 2048.
 * llama.cpp published this format.
 *
 *     0                     32            48               56
 *     [ 32 codes, low bytes ][ 32 nibbles ][ 4 u16, scales ]
 *
 *     nibble i  bits 8..10 of code i, then the sign of its shift
 *     u16 k     four 3-bit scales; bits 4k..4k+3 of d, an f16, on top
 *
 * value = d * (2 scale + 1) * (g +- 1/8), g in {-1, 0, 1}.
 * isum = sum_j (2 scale_j + 1) sum (8 g +- 1) * a, w_scale = d / 8 (iq1.c). */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    int8_t high[32];
    unsigned d = 0;
    for (int k = 0; k < 4; k++) {
        unsigned scales = u16_load(x + 48 + 2 * k);
        d |= scales >> 12 << (4 * k);
        for (int i = 0; i < 4; i++)
            b->scale[4 * k + i] = (int16_t)(2 * (scales >> (3 * i) & 7) + 1);
    }
    b->d = f32_of_f16((uint16_t)d) / 8.0f;
    fields_unpack(high, x + 32, 32, 1, 4);
    for (int i = 0; i < 32; i++) shift_point(b->q + 8 * i, x[i] | (high[i] & 7) << 8, high[i] >> 3);
}

static void pack(uint8_t *y, const struct block *b)
{
    int8_t high[32];
    for (int i = 0; i < 32; i++) {
        int code = shift_code(b->q + 8 * i);
        y[i] = (uint8_t)code;
        high[i] = (int8_t)(code >> 8 | shift_is_minus(b->q + 8 * i) << 3);
    }
    fields_pack(y + 32, high, 32, 1, 4, 0);
    unsigned d = f16_of_f32(b->d * 8.0f);
    for (int k = 0; k < 4; k++) {
        unsigned scales = (d >> (4 * k) & 15) << 12;
        for (int i = 0; i < 4; i++) scales |= (unsigned)b->scale[4 * k + i] / 2 << (3 * i);
        u16_store(y + 48 + 2 * k, (uint16_t)scales);
    }
}

static const struct coder coder = {
    .nearest = shift_nearest,
    .run = 8,
    .lo = -9,
    .hi = 9,
    .fan = {7.0f, 30.0f, 5},
    .scale = {1, 15, 2},
    .d_factor = 8,
};
static const struct format format = {256, 16, 56, false, unpack, pack, fit_scales, &coder};
BLOCK_OPS(iq1_m, format)

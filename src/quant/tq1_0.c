/* tq1_0.c - TQ1_0: 256 ternary values, five to a byte, one scale. llama.cpp published this format.
 *
 *     0            32           48          52   54
 *     [ 32 bytes   ][ 16 bytes  ][ 4 bytes  ][ d ]     d f16
 *       160 values    80 values    16 values
 *
 * Byte i of a part of m bytes contains the values t * m + i as base-3 digits, the most significant
 * digit first. t is in [0, 4]. In the last part t is in [0, 3]. The byte is the fraction digits /
 * 3^5 in 256ths, rounded up. (byte * 3^t modulo 256) * 3 has digit t from bit 8 up.
 *
 * value = d * (digit - 1). isum = sum (digit - 1) * a, w_scale = d. */
#include "quant_impl.h"

static const struct run {
    int n_byte, n_digit;
} run[3] = {{32, 5}, {16, 5}, {4, 4}};

static void unpack(struct block *b, const uint8_t *x)
{
    int8_t *q = b->q;
    b->d = half_load(x + 52);
    b->scale[0] = 1;
    for (int p = 0; p < 3; x += run[p++].n_byte)
        for (int t = 0, power = 1; t < run[p].n_digit; t++, power *= 3)
            for (int i = 0; i < run[p].n_byte; i++) {
                int fraction = x[i] * power & 255;
                *q++ = (int8_t)((fraction * 3 >> 8) - 1);
            }
}

static void pack(uint8_t *y, const struct block *b)
{
    const int8_t *q = b->q;
    for (int p = 0; p < 3; p++) {
        int m = run[p].n_byte;
        for (int i = 0; i < m; i++) {
            int digits = 0;
            for (int t = 0; t < 5; t++)
                digits = digits * 3 + (t < run[p].n_digit ? q[t * m + i] + 1 : 0);
            *y++ = (uint8_t)((digits * 256 + 242) / 243);
        }
        q += m * run[p].n_digit;
    }
    half_store(y, b->d);
}

static const struct coder coder = {
    .nearest = uniform_nearest,
    .lo = -1,
    .hi = 1,
    .fan = {0.8f, 5.0f, 12},
    .scale = {1, 1, 1},
    .d_factor = 1,
};
static const struct format format = {256, 256, 54, false, unpack, pack, fit_scales, &coder};
BLOCK_OPS(tq1_0, format)

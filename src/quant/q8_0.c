/* q8_0.c - Q8_0: 32 values, 8 bits each, one scale. llama.cpp published this format.
 *
 *     0    2                  34
 *     [ d ][ 32 signed bytes q ]     d f16
 *
 * value = d * q. isum = sum q * a, w_scale = d. The encoder never writes q = -128. */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    b->d = half_load(x);
    b->scale[0] = 1;
    memcpy(b->q, x + 2, 32);
}

static void pack(uint8_t *y, const struct block *b)
{
    half_store(y, b->d);
    memcpy(y + 2, b->q, 32);
}

static const struct coder coder = {
    .nearest = uniform_nearest,
    .lo = -127,
    .hi = 127,
    .fan = {126.6f, 130.0f, 6},
    .scale = {1, 1, 1},
    .d_factor = 1,
};
static const struct format format = {32, 32, 34, false, unpack, pack, fit_scales, &coder};
BLOCK_OPS(q8_0, format)

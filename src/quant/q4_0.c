/* q4_0.c - Q4_0: 32 values, 4 bits each, one scale. llama.cpp published this format.
 *
 *     0    2                  18
 *     [ d ][ 16 bytes of codes ]     d f16; byte i: value i low nibble, value i + 16 high nibble
 *
 * value = d * (code - 8). isum = sum (code - 8) * a, w_scale = d. */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    b->d = half_load(x);
    b->scale[0] = 1;
    fields_unpack(b->q, x + 2, 32, 16, 4);
    q_add(b->q, 32, -8);
}

static void pack(uint8_t *y, const struct block *b)
{
    int8_t code[32];
    q_shifted(code, b->q, 32, 8);
    half_store(y, b->d);
    fields_pack(y + 2, code, 32, 16, 4, 0);
}

static const struct coder coder = {
    .nearest = uniform_nearest,
    .lo = -8,
    .hi = 7,
    .fan = {7.6f, 13.0f, 6},
    .scale = {1, 1, 1},
    .d_factor = 1,
};
static const struct format format = {32, 32, 18, false, unpack, pack, fit_scales, &coder};
BLOCK_OPS(q4_0, format)

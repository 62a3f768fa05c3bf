/* q2_0.c - Q2_0: 64 values, 2 bits each, one scale. llama.cpp published this format.
 *
 *     0    2                  18
 *     [ d ][ 16 bytes of codes ]     d f16; bits 2 (i % 4) of byte i / 4 belong to value i
 *
 * value = d * (code - 1), that is -d, 0, d or 2 d. isum = sum (code - 1) * a, w_scale = d. */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    b->d = half_load(x);
    b->scale[0] = 1;
    fields_unpack(b->q, x + 2, 64, 1, 2);
    q_add(b->q, 64, -1);
}

static void pack(uint8_t *y, const struct block *b)
{
    int8_t code[64];
    q_shifted(code, b->q, 64, 1);
    half_store(y, b->d);
    fields_pack(y + 2, code, 64, 1, 2, 0);
}

static const struct coder coder = {
    .nearest = uniform_nearest,
    .lo = -1,
    .hi = 2,
    .fan = {0.8f, 8.0f, 12},
    .scale = {1, 1, 1},
    .d_factor = 1,
};
static const struct format format = {64, 64, 18, false, unpack, pack, fit_scales, &coder};
BLOCK_OPS(q2_0, format)

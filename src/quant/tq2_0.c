/* tq2_0.c - TQ2_0: 256 ternary values in 2 bits each, one scale. llama.cpp published this format.
 *
 *     0                    64   66
 *     [ 64 bytes of codes  ][ d ]     d f16
 *
 *     codes  two runs of 32 bytes, 128 values each: bits 2k of byte m: value 32 k + m of the run
 *
 * value = d * (code - 1). isum = sum (code - 1) * a, w_scale = d. */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    b->d = half_load(x + 64);
    b->scale[0] = 1;
    fields_unpack(b->q, x, 256, 32, 2);
    q_add(b->q, 256, -1);
}

static void pack(uint8_t *y, const struct block *b)
{
    int8_t code[256];
    q_shifted(code, b->q, 256, 1);
    fields_pack(y, code, 256, 32, 2, 0);
    half_store(y + 64, b->d);
}

static const struct coder coder = {
    .nearest = uniform_nearest,
    .lo = -1,
    .hi = 1,
    .fan = {0.8f, 5.0f, 12},
    .scale = {1, 1, 1},
    .d_factor = 1,
};
static const struct format format = {256, 256, 66, false, unpack, pack, fit_scales, &coder};
BLOCK_OPS(tq2_0, format)

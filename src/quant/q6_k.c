/* q6_k.c - Q6_K: 256 values in 16 sub-blocks of 16, 6 bits each. llama.cpp published this format.
 *
 *     0                       128                      192                208  210
 *     [ 128 bytes, low 4 bits ][ 64 bytes, upper 2 bits ][ 16 signed scales ][ d ]     d f16
 *
 *     low bits    two runs of 64 bytes, 128 values each: byte m: value m low nibble, m + 64 high
 *     upper bits  two runs of 32 bytes, 128 values each: bits 2k of byte m: value 32 k + m
 *
 * value = d * scale * (code - 32). isum = sum_j scale_j sum (code - 32) * a, w_scale = d. */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    int8_t upper[256];
    fields_unpack(b->q, x, 256, 64, 4);
    fields_unpack(upper, x + 128, 256, 32, 2);
    bits_join(b->q, upper, 256, 4);
    q_add(b->q, 256, -32);
    for (int j = 0; j < 16; j++) b->scale[j] = (int8_t)x[192 + j];
    b->d = half_load(x + 208);
}

static void pack(uint8_t *y, const struct block *b)
{
    int8_t code[256];
    q_shifted(code, b->q, 256, 32);
    fields_pack(y, code, 256, 64, 4, 0);
    fields_pack(y + 128, code, 256, 32, 2, 4);
    for (int j = 0; j < 16; j++) y[192 + j] = (uint8_t)b->scale[j];
    half_store(y + 208, b->d);
}

static const struct coder coder = {
    .nearest = uniform_nearest,
    .lo = -32,
    .hi = 31,
    .fan = {31.6f, 36.0f, 5},
    .scale = {-128, 127, 1},
    .d_factor = 1,
};
static const struct format format = {256, 16, 210, false, unpack, pack, fit_scales, &coder};
BLOCK_OPS(q6_k, format)

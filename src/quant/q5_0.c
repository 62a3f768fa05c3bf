/* q5_0.c - Q5_0: 32 values, 5 bits each, one scale. llama.cpp published this format.
 *
 *     0    2             6                     22
 *     [ d ][ fifth bits ][ 16 bytes, low 4 bits ]     d f16
 *
 *     fifth bits  bit i of the u32: value i
 *     low bits    byte i: value i low nibble, value i + 16 high nibble
 *
 * value = d * (code - 16). isum = sum (code - 16) * a, w_scale = d. */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    int8_t fifth[32];
    b->d = half_load(x);
    b->scale[0] = 1;
    fields_unpack(fifth, x + 2, 32, 1, 1);
    fields_unpack(b->q, x + 6, 32, 16, 4);
    bits_join(b->q, fifth, 32, 4);
    q_add(b->q, 32, -16);
}

static void pack(uint8_t *y, const struct block *b)
{
    int8_t code[32];
    q_shifted(code, b->q, 32, 16);
    half_store(y, b->d);
    fields_pack(y + 2, code, 32, 1, 1, 4);
    fields_pack(y + 6, code, 32, 16, 4, 0);
}

static const struct coder coder = {
    .nearest = uniform_nearest,
    .lo = -16,
    .hi = 15,
    .fan = {15.6f, 21.0f, 6},
    .scale = {1, 1, 1},
    .d_factor = 1,
};
static const struct format format = {32, 32, 22, false, unpack, pack, fit_scales, &coder};
BLOCK_OPS(q5_0, format)

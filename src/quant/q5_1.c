/* q5_1.c - Q5_1: 32 values, 5 bits each, a scale and an offset. llama.cpp published this format.
 *
 *     0    2    4             8                     24
 *     [ d ][ m ][ fifth bits ][ 16 bytes, low 4 bits ]     f16; codes as in Q5_0
 *
 * value = d * code + m. Per block T = fma(isum, d, T), then T = fma(asum, m, T): isum = sum code *
 * a, asum = sum a. In struct block, m is dmin with the minimum -1. */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    int8_t fifth[32];
    b->d = half_load(x);
    b->dmin = half_load(x + 2);
    b->scale[0] = 1;
    b->min[0] = -1;
    fields_unpack(fifth, x + 4, 32, 1, 1);
    fields_unpack(b->q, x + 8, 32, 16, 4);
    bits_join(b->q, fifth, 32, 4);
}

static void pack(uint8_t *y, const struct block *b)
{
    half_store(y, b->d);
    half_store(y + 2, b->dmin);
    fields_pack(y + 4, b->q, 32, 1, 1, 4);
    fields_pack(y + 8, b->q, 32, 16, 4, 0);
}

static const struct coder coder = {.hi = 31};
static const struct format format = {32, 32, 24, true, unpack, pack, fit_line, &coder};
BLOCK_OPS(q5_1, format)

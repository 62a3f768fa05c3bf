/* q4_1.c - Q4_1: 32 values, 4 bits each, a scale and an offset. llama.cpp published this format.
 *
 *     0    2    4                  20
 *     [ d ][ m ][ 16 bytes of codes ]     f16; byte i: value i low nibble, value i + 16 high nibble
 *
 * value = d * code + m. Per block T = fma(isum, d, T), then T = fma(asum, m, T): isum = sum code *
 * a, asum = sum a. In struct block, m is dmin with the minimum -1. */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    b->d = half_load(x);
    b->dmin = half_load(x + 2);
    b->scale[0] = 1;
    b->min[0] = -1;
    fields_unpack(b->q, x + 4, 32, 16, 4);
}

static void pack(uint8_t *y, const struct block *b)
{
    half_store(y, b->d);
    half_store(y + 2, b->dmin);
    fields_pack(y + 4, b->q, 32, 16, 4, 0);
}

static const struct coder coder = {.hi = 15};
static const struct format format = {32, 32, 20, true, unpack, pack, fit_line, &coder};
BLOCK_OPS(q4_1, format)

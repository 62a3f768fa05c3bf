/* i2_128.c - 128 integers of 2 bits with an f32 scale: ternary weights of BitNet. The scale of a
 * BitNet matrix is generally not an f16 number. The layout is quoth's own and is never read from a
 * file.
 *
 *     0    4                   36
 *     [ d ][ 32 bytes of codes ]     d f32; bits 2 (i % 4) of byte i / 4 belong to value i
 *
 * value = d * (code - 1), that is -d, 0, d or 2 d. isum = sum (code - 1) * a, w_scale = d. */
#include "quant_impl.h"

#include <string.h>

enum { N = 128 };

static void unpack(struct block *b, const uint8_t *x)
{
    memcpy(&b->d, x, sizeof b->d);
    b->scale[0] = 1;
    fields_unpack(b->q, x + 4, N, 1, 2);
    q_add(b->q, N, -1);
}

static void pack(uint8_t *y, const struct block *b)
{
    int8_t code[N];
    q_shifted(code, b->q, N, 1);
    memcpy(y, &b->d, sizeof b->d);
    fields_pack(y + 4, code, N, 1, 2, 0);
}

static const struct coder coder = {
    .nearest = uniform_nearest,
    .lo = -1,
    .hi = 2,
    .fan = {0.8f, 8.0f, 12},
    .scale = {1, 1, 1},
    .d_factor = 1,
};
static const struct format format = {N, N, 36, false, unpack, pack, fit_scales, &coder};
BLOCK_OPS(i2_128, format)

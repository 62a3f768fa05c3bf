/* q1_0.c - Q1_0: 128 values, a sign each, one scale. llama.cpp published this format.
 *
 *     0    2                 18
 *     [ d ][ 16 bytes of bits ]     d f16; bit i % 8 of byte i / 8 belongs to value i
 *
 * value = d * (bit ? 1 : -1). isum = sum +-a, w_scale = d. */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    b->d = half_load(x);
    b->scale[0] = 1;
    fields_unpack(b->q, x + 2, 128, 1, 1);
    for (int i = 0; i < 128; i++) b->q[i] = (int8_t)(2 * b->q[i] - 1);
}

static void pack(uint8_t *y, const struct block *b)
{
    int8_t code[128];
    for (int i = 0; i < 128; i++) code[i] = b->q[i] > 0;
    half_store(y, b->d);
    fields_pack(y + 2, code, 128, 1, 1, 0);
}

/* Fit a block. Each value keeps its sign, and the best step is the weighted mean of |x|. */
static void fit_block(struct block *b, const struct values *v, const struct format *f)
{
    (void)f;
    float xw = 0.0f, w = 0.0f;
    for (int i = 0; i < 128; i++) {
        b->q[i] = v->x[i] < 0.0f ? -1 : 1;
        xw += v->w[i] * fabsf(v->x[i]);
        w += v->w[i];
    }
    b->d = half_near(xw / w * v->unit);
}

static const struct format format = {128, 128, 18, false, unpack, pack, fit_block, NULL};
BLOCK_OPS(q1_0, format)

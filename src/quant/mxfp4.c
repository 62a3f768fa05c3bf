/* mxfp4.c - MXFP4 of OCP Microscaling formats 1.0: 32 values of FP4 E2M1 and a power of two.
 * llama.cpp has published the block's layout.
 *
 *     0    1                  17
 *     [ e ][ 16 bytes of codes ]     e is E8M0, 2^(e - 127)
 *
 *     codes  byte i: value i low nibble, value i + 16 high nibble
 *
 * value = 2^(e - 128) * level_e2m1[code]; the table is doubled. isum = sum level * a, w_scale =
 * 2^(e - 128), a subnormal for e < 2. The OCP text defines e = 255 as NaN. quoth reads e = 255 like
 * any other exponent, as w_scale = 2^127. Engines that publish MXFP4 files do the same. */
#include "quant_impl.h"

static void unpack(struct block *b, const uint8_t *x)
{
    b->d = ldexpf(1.0f, x[0] - 128);
    b->scale[0] = 1;
    fields_unpack(b->q, x + 1, 32, 16, 4);
    levels_of_codes(b->q, level_e2m1, 32);
}

static void pack(uint8_t *y, const struct block *b)
{
    int8_t code[32];
    int exponent;
    frexpf(b->d, &exponent);
    y[0] = (uint8_t)(exponent + 127);
    codes_of_levels(code, b->q, level_e2m1, 32);
    fields_pack(y + 1, code, 32, 16, 4, 0);
}

static const struct coder coder = {.nearest = level_nearest, .level = ladder_e2m1};

/* Try the exponents by which the largest value is at the outermost level, or near that level. */
static void fit_block(struct block *b, const struct values *v, const struct format *f)
{
    int exponent;
    float least = INFINITY;
    frexpf(v->unit / 12.0f, &exponent);
    for (int k = exponent - 2; k <= exponent + 1; k++) {
        int8_t q[32];
        float d = ldexpf(1.0f, k < -128 ? -128 : k > 126 ? 126 : k);
        level_nearest(f->coder, q, v->x, v->w, 32, d / v->unit);
        float e = step_error(q, v->x, v->w, 32, d / v->unit);
        if (e >= least) continue;
        least = e;
        b->d = d;
        memcpy(b->q, q, 32);
    }
}

static const struct format format = {32, 32, 17, false, unpack, pack, fit_block, &coder};
BLOCK_OPS(mxfp4, format)

/* encode.c - the common part of all block encoders: clean the input, call the format's fit, pack.
 *
 * NaN and infinities become zeros, so that one bad weight does not destroy its block. Numbers are
 * divided by the block's largest magnitude. Therefore the fit of a block does not depend on its
 * scale, which may be as small as 1e-40 or as large as 1e38. */
#include "quant_impl.h"

#define HALF_MAX 65504.0f

float half_near(float x)
{
    if (x > HALF_MAX) x = HALF_MAX;
    if (x < -HALF_MAX) x = -HALF_MAX;
    return f32_of_f16(f16_of_f32(x));
}

float step_error(const int8_t *q, const float *x, const float *w, int n, float step)
{
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        float e = x[i] - step * (float)q[i];
        sum += w[i] * e * e;
    }
    return sum;
}

/* Write y f32 [n] = x / max|x|, f32 [n]. A non-finite x gives 0. Return max|x|, or 1 if the maximum
 * is 0. */
static float normalize(float *y, const float *x, int n)
{
    float max = 0.0f;
    for (int i = 0; i < n; i++) {
        float a = fabsf(x[i]);
        if (a < INFINITY && a > max) max = a;
    }
    if (max == 0.0f) max = 1.0f;
    for (int i = 0; i < n; i++) y[i] = isfinite(x[i]) ? x[i] / max : 0.0f;
    return max;
}

/* Write the weights relative to the largest weight. All weights are 1 if importance is NULL or all
 * zero. */
static void weigh(float *w, const float *importance, int n)
{
    float max = 0.0f;
    if (importance) max = normalize(w, importance, n);
    bool any = false;
    for (int i = 0; max > 0.0f && i < n; i++) any |= w[i] > 0.0f;
    if (any) return;
    for (int i = 0; i < n; i++) w[i] = 1.0f;
}

void format_encode(const struct format *f, uint8_t *y, const float *x, int64_t n,
                   const float *importance)
{
    float clean[BLOCK_MAX], w[BLOCK_MAX];
    for (int64_t at = 0; at < n; at += f->n, y += f->n_byte) {
        struct block b = {0};
        struct values v = {clean, w, f->n, normalize(clean, x + at, f->n)};
        weigh(w, importance ? importance + at : NULL, f->n);
        f->fit(&b, &v, f);
        f->pack(y, &b);
    }
}

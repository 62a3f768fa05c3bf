/* ops.c - the reference of the elementwise ops, norms and rope. This file computes each value
 * separately, in the orders of kern.h. tmpl/ops.h gives the same bits in vectors. */
#include "ref.h"

/* Return the sum of squares of x. fma adds the squares in 16 lanes (i mod 16), then the tree adds
 * the lanes. */
static float sum_of_squares(const float *x, int n)
{
    float s[16] = {0};
    for (int i = 0; i < n; i++) s[i % 16] = fmaf(x[i], x[i], s[i % 16]);
    return tree16(s);
}

static void rms_norm(float *y, const float *x, const float *g, int n_row, int n, float eps)
{
    for (; n_row > 0; n_row--, x += n, y += n) {
        float r = 1.0f / sqrtf(sum_of_squares(x, n) / (float)n + eps);
        for (int i = 0; i < n; i++) y[i] = x[i] * r * g[i];
    }
}

static void layer_norm(float *y, const float *x, const float *g, const float *bias, int n_row,
                       int n, float eps)
{
    for (; n_row > 0; n_row--, x += n, y += n) {
        float s[16] = {0};
        for (int i = 0; i < n; i++) s[i % 16] += x[i];
        float mean = tree16(s) / (float)n;
        for (int i = 0; i < n; i++) y[i] = x[i] - mean;
        float r = 1.0f / sqrtf(sum_of_squares(y, n) / (float)n + eps);
        for (int i = 0; i < n; i++) y[i] = y[i] * r * g[i];
        for (int i = 0; i < n && bias; i++) y[i] += bias[i];
    }
}

static void add(float *y, const float *x, int n)
{
    for (int i = 0; i < n; i++) y[i] += x[i];
}

#define CURVE(f)                                                                                   \
    REF_FMA static void f##_row(float *y, const float *x, int n)                                   \
    {                                                                                              \
        for (int i = 0; i < n; i++) y[i] = f##_f32(x[i]);                                          \
    }                                                                                              \
    REF_FMA static void f##_mul(float *y, const float *gate, const float *up, int n)               \
    {                                                                                              \
        for (int i = 0; i < n; i++) y[i] = f##_f32(gate[i]) * up[i];                               \
    }
#include "kern/curves.def"
#undef CURVE

/* Rotate `half` pairs of lanes. Pairs are (i, i + half) in the neox form, otherwise (2i, 2i +
 * 1). */
static void rope_head(float *x, const float *cos, const float *sin, int half, bool neox)
{
    int step = neox ? 1 : 2, apart = neox ? half : 1;
    for (int i = 0; i < half; i++) {
        float *a = x + i * step, *b = a + apart;
        float a0 = *a, b0 = *b;
        *a = fmaf(-b0, sin[i], a0 * cos[i]);
        *b = fmaf(a0, sin[i], b0 * cos[i]);
    }
}

static void rope(float *x, int n_head, int d_head, const float *cos, const float *sin, int d_rot,
                 bool neox)
{
    for (int h = 0; h < n_head; h++) rope_head(x + h * d_head, cos, sin, d_rot / 2, neox);
}

/* Compute the softmax of x f32 [n]. The sum has 16 partial sums by i mod 16, like the sum of a loop
 * over vectors of 16 lanes. */
static void softmax(float *y, const float *x, int n)
{
    float max = -INFINITY, s[16] = {0};
    for (int i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    for (int i = 0; i < n; i++) {
        y[i] = exp_f32(x[i] - max);
        s[i % 16] += y[i];
    }
    float sum = tree16(s);
    for (int i = 0; i < n; i++) y[i] /= sum;
}

static void to_f16(uint16_t *y, const float *x, int n)
{
    for (int i = 0; i < n; i++) y[i] = f16_of_f32(x[i]);
}

static void to_bf16(uint16_t *y, const float *x, int n)
{
    for (int i = 0; i < n; i++) y[i] = bf16_of_f32(x[i]);
}

static void of_f16(float *y, const uint16_t *x, int n)
{
    for (int i = 0; i < n; i++) y[i] = f32_of_f16(x[i]);
}

static void of_bf16(float *y, const uint16_t *x, int n)
{
    for (int i = 0; i < n; i++) y[i] = f32_of_bf16(x[i]);
}

void kern_ops_ref(struct kern *k)
{
    k->rms_norm = rms_norm;
    k->layer_norm = layer_norm;
    k->add = add;
#define CURVE(f) k->curve[CURVE_##f] = f##_row, k->curve_mul[CURVE_##f] = f##_mul;
#include "kern/curves.def"
#undef CURVE
    k->rope = rope;
    k->softmax = softmax;
    k->to_f16 = to_f16;
    k->to_bf16 = to_bf16;
    k->of_f16 = of_f16;
    k->of_bf16 = of_bf16;
}

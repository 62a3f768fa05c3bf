/* ref.c - the scalar reference of every kernel: the specification that all levels equal bit for
 * bit.
 *
 * Loops run over independent outputs innermost where that costs no clarity, so that a compiler
 * can vectorize them without changing any order of operations (-ffp-contract=off, no fast-math).
 * The file is compiled once per level that has nothing better yet: with another name for
 * kern_init_ref and that level's flags (see ../avx2). */
#include "kern/kern_impl.h"

#ifndef KERN_INIT
#define KERN_INIT kern_init_ref
#endif

static void act_q8(int8_t *q, float *scale, const float *x, int k)
{
    for (int g = 0; g < k; g += ACT_GROUP) {
        int n = k - g < ACT_GROUP ? k - g : ACT_GROUP;
        float amax = 0;
        bool finite = true;
        for (int i = 0; i < n; i++) {
            float a = fabsf(x[g + i]);
            finite &= a <= 0x1.fffffep127f; /* false for NaN too */
            amax = a > amax ? a : amax;
        }
        bool zero = !finite || amax < 0x1p-120f;
        float inv = zero ? 0 : 127.0f / amax;
        for (int i = 0; i < n; i++) {
            float t = zero ? 0 : x[g + i] * inv + 0x1.8p23f; /* rounds to nearest even */
            q[g + i] = zero ? 0 : (int8_t)(int32_t)(bits_of_f32(t) - bits_of_f32(0x1.8p23f));
        }
        scale[g / ACT_GROUP] = !finite ? NAN : zero ? 0 : amax / 127.0f;
    }
}

static void act_bf16(uint16_t *y, const float *x, int k)
{
    for (int i = 0; i < k; i++) y[i] = bf16_of_f32(flush_subnormal(x[i]));
}

static int group_len(int g, int k)
{
    return k - g < ACT_GROUP ? k - g : ACT_GROUP;
}

static void linear_q8(float *y, int64_t y_stride, enum qtype t, const uint8_t *w, int64_t w_stride,
                      int n_out, const void *x, const float *x_scale, int n_row, int k)
{
    const int8_t *q = x;
    int n_group = (k + ACT_GROUP - 1) / ACT_GROUP;
    for (int r = 0; r < n_out; r++)
        for (int i = 0; i < n_row; i++) {
            float c = 0;
            for (int g = 0; g < k; g += ACT_GROUP) {
                float sum = qtype_info[t].ops->dot_group(w + r * w_stride + qtype_bytes(t, g),
                                                         q + (int64_t)i * k + g, group_len(g, k));
                c = fmaf(sum, x_scale[i * n_group + g / ACT_GROUP], c);
            }
            y[i * y_stride + r] = c;
        }
}

/* Decodes a group of one weight row once, then uses it for every row of x, four at a time: their
 * chains are independent, which hides the latency of the fma. */
static void linear_f32(float *y, int64_t y_stride, enum qtype t, const uint8_t *w, int64_t w_stride,
                       int n_out, const void *x, const float *x_scale, int n_row, int k)
{
    (void)x_scale;
    const float *a = x;
    float row[ACT_GROUP];
    for (int r = 0; r < n_out; r++)
        for (int g = 0; g < k; g += ACT_GROUP) {
            int n = group_len(g, k);
            qtype_info[t].ops->decode(row, w + r * w_stride + qtype_bytes(t, g), n);
            for (int i = 0; i < n_row; i += 4) {
                int m = n_row - i < 4 ? n_row - i : 4;
                const float *at[4];
                for (int c = 0; c < 4; c++) at[c] = a + (int64_t)(i + (c < m ? c : 0)) * k + g;
                float sum[4] = {0};
                for (int j = 0; j < n; j++)
                    for (int c = 0; c < 4; c++) sum[c] = fmaf(row[j], at[c][j], sum[c]);
                for (int c = 0; c < m; c++) {
                    float *out = &y[(i + c) * y_stride + r];
                    *out = (g ? *out : 0) + sum[c];
                }
            }
        }
}

static void linear_bf16(float *y, int64_t y_stride, enum qtype t, const uint8_t *w,
                        int64_t w_stride, int n_out, const void *x, const float *x_scale, int n_row,
                        int k)
{
    (void)t, (void)x_scale;
    for (int r = 0; r < n_out; r++)
        for (int i = 0; i < n_row; i++) {
            const uint16_t *a = (const uint16_t *)x + (int64_t)i * k;
            float c = 0;
            for (int g = 0; g < k; g += ACT_GROUP) {
                float sum = 0;
                for (int j = g; j < g + group_len(g, k); j += 2) {
                    /* an odd k ends with a pair whose second half is zero */
                    uint16_t p[2] = {0, 0};
                    memcpy(p, w + r * w_stride + j * 2, j + 1 < k ? 4 : 2);
                    sum = dot2_bf16(sum, p[0], p[1], a[j], j + 1 < k ? a[j + 1] : 0);
                }
                c += sum;
            }
            y[i * y_stride + r] = c;
        }
}

static void rms_norm(float *y, const float *x, const float *g, int n, float eps)
{
    float s[16] = {0};
    int i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) s[j] = fmaf(x[i + j], x[i + j], s[j]);
    for (int j = 0; i + j < n; j++) s[j] = fmaf(x[i + j], x[i + j], s[j]);
    float r = 1.0f / sqrtf(tree16(s) / (float)n + eps);
    for (i = 0; i < n; i++) y[i] = x[i] * r * g[i];
}

static void add(float *y, const float *x, int n)
{
    for (int i = 0; i < n; i++) y[i] += x[i];
}

static void silu_mul(float *y, const float *gate, const float *up, int n)
{
    for (int i = 0; i < n; i++) y[i] = gate[i] / (1.0f + exp_f32(-gate[i])) * up[i];
}

static void rope(float *x, const float *cos, const float *sin, int d_rot, bool neox)
{
    int half = d_rot / 2, step = neox ? 1 : 2, apart = neox ? half : 1;
    for (int i = 0; i < half; i++) {
        float *a = x + i * step, *b = a + apart;
        float a0 = *a, b0 = *b;
        *a = fmaf(-b0, sin[i], a0 * cos[i]);
        *b = fmaf(a0, sin[i], b0 * cos[i]);
    }
}

static void attn_tile(struct attn_state *st, float *o, const float *q, const float *k,
                      const float *v, int d_k, int d_v, int lo, int hi, float scale)
{
    float s[ATTN_TILE] = {0}, m = st->m;
    for (int d = 0; d < d_k; d++)
        for (int i = 0; i < ATTN_TILE; i++) s[i] = fmaf(q[d], k[d * ATTN_TILE + i], s[i]);
    for (int i = lo; i < hi; i++) {
        s[i] *= scale;
        m = s[i] > m ? s[i] : m;
    }
    if (m > st->m) {
        float c = exp_f32(st->m - m);
        for (int i = 0; i < ATTN_TILE; i++) st->l[i] *= c;
        for (int d = 0; d < d_v; d++) o[d] *= c;
        st->m = m;
    }
    for (int i = lo; i < hi; i++) {
        float p = exp_f32(s[i] - m);
        st->l[i] += p;
        for (int d = 0; d < d_v; d++) o[d] = fmaf(p, v[i * d_v + d], o[d]);
    }
}

static void attn_merge(float *m, float *l, float *out, const struct attn_state *s, const float *o,
                       int d_v)
{
    float top = s->m > *m ? s->m : *m;
    float a = exp_f32(*m - top), b = exp_f32(s->m - top);
    *l = fmaf(tree16(s->l), b, *l * a);
    for (int d = 0; d < d_v; d++) out[d] = fmaf(o[d], b, out[d] * a);
    *m = top;
}

static void attn_finish(float *out, float l, int d_v)
{
    float inv = 1.0f / l;
    for (int d = 0; d < d_v; d++) out[d] *= inv;
}

void KERN_INIT(struct kern *k)
{
    *k = (struct kern){
        .act_q8 = act_q8,
        .act_bf16 = act_bf16,
        .rms_norm = rms_norm,
        .add = add,
        .silu_mul = silu_mul,
        .rope = rope,
        .attn_tile = attn_tile,
        .attn_merge = attn_merge,
        .attn_finish = attn_finish,
    };
    for (int t = 0; t < QT_COUNT; t++) {
        if (qtype_is_block(t)) k->linear[ACT_Q8][t] = linear_q8;
        if (qtype_info[t].ops) k->linear[ACT_F32][t] = linear_f32;
    }
    k->linear[ACT_BF16][QT_bf16] = linear_bf16;
}

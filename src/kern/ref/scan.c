/* scan.c - the reference of recurrent layers: one row of a causal convolution or of a recurrence
 * (kern.h, struct scan_row). This file computes each column separately. tmpl/scan.h gives the same
 * bits in vectors. */
#include "ref.h"

static void conv_row(float *y, const float *const *x, const float *w, int64_t w_row,
                     const float *bias, int n_tap, int n)
{
    for (int c = 0; c < n; c++) {
        float sum = bias ? bias[c] : 0;
        for (int i = 0; i < n_tap; i++) sum = fmaf(w[i * w_row + c], x[i][c], sum);
        y[c] = sum;
    }
}

REF_FMA static void delta_row(const struct scan_row *r)
{
    for (int c = 0; c < r->d_v; c++) {
        float *s = r->s + c, m = 0, y = 0;
        for (int i = 0; i < r->d_k; i++) {
            s[i * r->s_row] *= r->decay[i * r->decay_step];
            m = fmaf(s[i * r->s_row], r->k[i], m);
        }
        const float u = (r->v[c] - m) * r->beta[0];
        for (int i = 0; i < r->d_k; i++) {
            s[i * r->s_row] = fmaf(r->k[i], u, s[i * r->s_row]);
            y = fmaf(s[i * r->s_row], r->q[i], y);
        }
        r->y[c] = y;
    }
}

REF_FMA static void heads_row(const struct scan_row *r)
{
    for (int c = 0; c < r->d_v; c++) {
        float *s = r->s + c, y = 0;
        const float u = r->v[c] * r->beta[0];
        for (int i = 0; i < r->d_k; i++) {
            s[i * r->s_row] = fmaf(r->k[i], u, s[i * r->s_row] * r->decay[i * r->decay_step]);
            y = fmaf(s[i * r->s_row], r->q[i], y);
        }
        r->y[c] = r->skip ? fmaf(r->skip[0], r->v[c], y) : y;
    }
}

REF_FMA static void columns_row(const struct scan_row *r)
{
    for (int c = 0; c < r->d_v; c++) {
        float *s = r->s + c, y = 0;
        const float u = r->v[c] * r->beta[c];
        for (int i = 0; i < r->d_k; i++) {
            const float decay = exp_f32(r->beta[c] * r->a[i * r->s_row + c]);
            s[i * r->s_row] = fmaf(r->k[i], u, s[i * r->s_row] * decay);
            y = fmaf(s[i * r->s_row], r->q[i], y);
        }
        r->y[c] = r->skip ? fmaf(r->skip[c], r->v[c], y) : y;
    }
}

static float larger(float a, float b)
{
    return a > b ? a : b;
}

REF_FMA static void wkv_row(const struct scan_row *r)
{
    for (int c = 0; c < r->d_v; c++) {
        float *sum = r->s + c, *weight = sum + r->s_row, *top = weight + r->s_row;
        const float v = r->v[c], k = r->k[c], first = k + r->skip[c],
                    t = *weight > 0 ? *top : -1e38f, m = larger(t, first), a = exp_f32(t - m),
                    b = exp_f32(first - m);
        r->y[c] = fmaf(a, *sum, b * v) / fmaf(a, *weight, b);
        const float old = t + r->decay[c];
        *top = larger(old, k);
        const float decay = exp_f32(old - *top), own = exp_f32(k - *top);
        *sum = fmaf(decay, *sum, own * v);
        *weight = fmaf(decay, *weight, own);
    }
}

REF_FMA static void wkv_heads_row(const struct scan_row *r)
{
    for (int c = 0; c < r->d_v; c++) {
        float *s = r->s + c, y = 0;
        for (int i = 0; i < r->d_k; i++) {
            const float u = r->k[i] * r->v[c];
            y = fmaf(fmaf(r->skip[i], u, s[i * r->s_row]), r->q[i], y);
            s[i * r->s_row] = fmaf(s[i * r->s_row], r->decay[i * r->decay_step], u);
        }
        r->y[c] = y;
    }
}

REF_FMA static void wkv_delta_row(const struct scan_row *r)
{
    for (int c = 0; c < r->d_v; c++) {
        float *s = r->s + c, m = 0, y = 0;
        for (int i = 0; i < r->d_k; i++) m = fmaf(s[i * r->s_row], r->a[i], m);
        for (int i = 0; i < r->d_k; i++) {
            const float kept = s[i * r->s_row] * r->decay[i * r->decay_step];
            s[i * r->s_row] = fmaf(r->k[i], r->v[c], fmaf(r->b[i], m, kept));
            y = fmaf(s[i * r->s_row], r->q[i], y);
        }
        r->y[c] = y;
    }
}

void kern_scan_ref(struct kern *k)
{
    k->conv_row = conv_row;
    k->scan_row[SCAN_DELTA] = delta_row;
    k->scan_row[SCAN_HEADS] = heads_row;
    k->scan_row[SCAN_COLUMNS] = columns_row;
    k->scan_row[SCAN_WKV] = wkv_row;
    k->scan_row[SCAN_WKV_HEADS] = wkv_heads_row;
    k->scan_row[SCAN_WKV_DELTA] = wkv_delta_row;
}

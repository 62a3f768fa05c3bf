/* scan.h - recurrent layers in vectors: ref/scan.c bit for bit.
 *
 * <level>/ops.c includes this file after the level's vec.h. A lane is a column of the state. A
 * strip of SCAN_VECS vectors of columns is processed for all rows of the state, so that several
 * chains of fma run at once. Only the last strips of a row have fewer columns.
 *
 * The bytes of the state are the bound: a row reads and writes the state once, or twice with the
 * delta rule. A state of 128 x 128 values has 64 kB, so it comes from the L2 cache, and the second
 * pass over a strip of 32 kB from the L1 cache. Any thread; a kernel changes only the memory of its
 * arguments. */
#ifndef QUOTH_KERN_TMPL_SCAN_H
#define QUOTH_KERN_TMPL_SCAN_H

#include "kern/tmpl/ops.h"

enum { SCAN_VECS = 4 };

static void conv_row(float *y, const float *const *x, const float *w, int64_t w_row,
                     const float *bias, int n_tap, int n)
{
    for (int c = 0; c < n; c += VL) {
        vf sum = bias ? load_upto(bias + c, n - c) : vf_zero();
        for (int i = 0; i < n_tap; i++)
            sum = vf_fma(load_upto(w + i * w_row + c, n - c), load_upto(x[i] + c, n - c), sum);
        store_upto(y + c, sum, n - c);
    }
}

/* The functions of strips compute n_vec vectors of columns from column c on. n is the number of
 * columns that are left. With n_vec of 1, n may be below VL. The callers' n_vec is a constant. */

static inline void delta_strip(const struct scan_row *r, int c, int n_vec, int n)
{
    vf m[SCAN_VECS], u[SCAN_VECS];
    const vf beta = vf_set1(r->beta[0]);
    for (int j = 0; j < n_vec; j++) m[j] = vf_zero();
    for (int i = 0; i < r->d_k; i++) {
        float *s = r->s + i * r->s_row + c;
        const vf decay = vf_set1(r->decay[i * r->decay_step]), k = vf_set1(r->k[i]);
        for (int j = 0; j < n_vec; j++) {
            const vf a = vf_mul(load_upto(s + j * VL, n), decay);
            store_upto(s + j * VL, a, n);
            m[j] = vf_fma(a, k, m[j]);
        }
    }
    for (int j = 0; j < n_vec; j++) {
        u[j] = vf_mul(vf_sub(load_upto(r->v + c + j * VL, n), m[j]), beta);
        m[j] = vf_zero();
    }
    for (int i = 0; i < r->d_k; i++) {
        float *s = r->s + i * r->s_row + c;
        const vf q = vf_set1(r->q[i]), k = vf_set1(r->k[i]);
        for (int j = 0; j < n_vec; j++) {
            const vf a = vf_fma(k, u[j], load_upto(s + j * VL, n));
            store_upto(s + j * VL, a, n);
            m[j] = vf_fma(a, q, m[j]);
        }
    }
    for (int j = 0; j < n_vec; j++) store_upto(r->y + c + j * VL, m[j], n);
}

static inline void heads_strip(const struct scan_row *r, int c, int n_vec, int n)
{
    vf y[SCAN_VECS], u[SCAN_VECS];
    const vf beta = vf_set1(r->beta[0]);
    for (int j = 0; j < n_vec; j++) {
        u[j] = vf_mul(load_upto(r->v + c + j * VL, n), beta);
        y[j] = vf_zero();
    }
    for (int i = 0; i < r->d_k; i++) {
        float *s = r->s + i * r->s_row + c;
        const vf decay = vf_set1(r->decay[i * r->decay_step]), k = vf_set1(r->k[i]),
                 q = vf_set1(r->q[i]);
        for (int j = 0; j < n_vec; j++) {
            const vf a = vf_fma(k, u[j], vf_mul(load_upto(s + j * VL, n), decay));
            store_upto(s + j * VL, a, n);
            y[j] = vf_fma(a, q, y[j]);
        }
    }
    for (int j = 0; j < n_vec; j++) {
        if (r->skip) y[j] = vf_fma(vf_set1(r->skip[0]), load_upto(r->v + c + j * VL, n), y[j]);
        store_upto(r->y + c + j * VL, y[j], n);
    }
}

static inline void columns_strip(const struct scan_row *r, int c, int n_vec, int n)
{
    vf y[SCAN_VECS], u[SCAN_VECS], beta[SCAN_VECS];
    for (int j = 0; j < n_vec; j++) {
        beta[j] = load_upto(r->beta + c + j * VL, n);
        u[j] = vf_mul(load_upto(r->v + c + j * VL, n), beta[j]);
        y[j] = vf_zero();
    }
    for (int i = 0; i < r->d_k; i++) {
        float *s = r->s + i * r->s_row + c;
        const float *a = r->a + i * r->s_row + c;
        const vf k = vf_set1(r->k[i]), q = vf_set1(r->q[i]);
        for (int j = 0; j < n_vec; j++) {
            const vf decay = vf_exp(vf_mul(beta[j], load_upto(a + j * VL, n)));
            const vf x = vf_fma(k, u[j], vf_mul(load_upto(s + j * VL, n), decay));
            store_upto(s + j * VL, x, n);
            y[j] = vf_fma(x, q, y[j]);
        }
    }
    for (int j = 0; j < n_vec; j++) {
        const vf v = load_upto(r->v + c + j * VL, n);
        if (r->skip) y[j] = vf_fma(load_upto(r->skip + c + j * VL, n), v, y[j]);
        store_upto(r->y + c + j * VL, y[j], n);
    }
}

static inline vf larger(vf a, vf b)
{
    return vf_select(vf_gt(a, b), a, b);
}

/* The columns are independent, and four exponentials of a vector are enough work, so a strip needs
 * no further chains. */
static inline void wkv_strip(const struct scan_row *r, int c, int n_vec, int n)
{
    for (int j = 0; j < n_vec; j++, c += VL) {
        float *sum = r->s + c, *weight = sum + r->s_row, *top = weight + r->s_row;
        const vf v = load_upto(r->v + c, n), k = load_upto(r->k + c, n), x = load_upto(sum, n),
                 w = load_upto(weight, n), first = vf_add(k, load_upto(r->skip + c, n)),
                 t = vf_select(vf_gt(w, vf_zero()), load_upto(top, n), vf_set1(-1e38f)),
                 m = larger(t, first), a = vf_exp(vf_sub(t, m)), b = vf_exp(vf_sub(first, m));
        store_upto(r->y + c, vf_div(vf_fma(a, x, vf_mul(b, v)), vf_fma(a, w, b)), n);
        const vf old = vf_add(t, load_upto(r->decay + c, n)), next = larger(old, k),
                 decay = vf_exp(vf_sub(old, next)), own = vf_exp(vf_sub(k, next));
        store_upto(sum, vf_fma(decay, x, vf_mul(own, v)), n);
        store_upto(weight, vf_fma(decay, w, own), n);
        store_upto(top, next, n);
    }
}

static inline void wkv_heads_strip(const struct scan_row *r, int c, int n_vec, int n)
{
    vf y[SCAN_VECS], v[SCAN_VECS];
    for (int j = 0; j < n_vec; j++) v[j] = load_upto(r->v + c + j * VL, n), y[j] = vf_zero();
    for (int i = 0; i < r->d_k; i++) {
        float *s = r->s + i * r->s_row + c;
        const vf decay = vf_set1(r->decay[i * r->decay_step]), k = vf_set1(r->k[i]),
                 q = vf_set1(r->q[i]), skip = vf_set1(r->skip[i]);
        for (int j = 0; j < n_vec; j++) {
            const vf u = vf_mul(k, v[j]), a = load_upto(s + j * VL, n);
            y[j] = vf_fma(vf_fma(skip, u, a), q, y[j]);
            store_upto(s + j * VL, vf_fma(a, decay, u), n);
        }
    }
    for (int j = 0; j < n_vec; j++) store_upto(r->y + c + j * VL, y[j], n);
}

static inline void wkv_delta_strip(const struct scan_row *r, int c, int n_vec, int n)
{
    vf y[SCAN_VECS], m[SCAN_VECS], v[SCAN_VECS];
    for (int j = 0; j < n_vec; j++) v[j] = load_upto(r->v + c + j * VL, n), m[j] = y[j] = vf_zero();
    for (int i = 0; i < r->d_k; i++) {
        const float *s = r->s + i * r->s_row + c;
        const vf a = vf_set1(r->a[i]);
        for (int j = 0; j < n_vec; j++) m[j] = vf_fma(load_upto(s + j * VL, n), a, m[j]);
    }
    for (int i = 0; i < r->d_k; i++) {
        float *s = r->s + i * r->s_row + c;
        const vf decay = vf_set1(r->decay[i * r->decay_step]), k = vf_set1(r->k[i]),
                 q = vf_set1(r->q[i]), b = vf_set1(r->b[i]);
        for (int j = 0; j < n_vec; j++) {
            const vf kept = vf_fma(b, m[j], vf_mul(load_upto(s + j * VL, n), decay)),
                     a = vf_fma(k, v[j], kept);
            store_upto(s + j * VL, a, n);
            y[j] = vf_fma(a, q, y[j]);
        }
    }
    for (int j = 0; j < n_vec; j++) store_upto(r->y + c + j * VL, y[j], n);
}

#define SCAN(name)                                                                                 \
    static void name##_row(const struct scan_row *r)                                               \
    {                                                                                              \
        int c = 0;                                                                                 \
        for (; c + SCAN_VECS * VL <= r->d_v; c += SCAN_VECS * VL)                                  \
            name##_strip(r, c, SCAN_VECS, VL);                                                     \
        for (; c < r->d_v; c += VL) name##_strip(r, c, 1, r->d_v - c);                             \
    }
SCAN(delta)
SCAN(heads)
SCAN(columns)
SCAN(wkv)
SCAN(wkv_heads)
SCAN(wkv_delta)
#undef SCAN

/* Set the slots of recurrent layers. */
static void scan_fill(struct kern *k)
{
    k->conv_row = conv_row;
    k->scan_row[SCAN_DELTA] = delta_row;
    k->scan_row[SCAN_HEADS] = heads_row;
    k->scan_row[SCAN_COLUMNS] = columns_row;
    k->scan_row[SCAN_WKV] = wkv_row;
    k->scan_row[SCAN_WKV_HEADS] = wkv_heads_row;
    k->scan_row[SCAN_WKV_DELTA] = wkv_delta_row;
}

#endif

/* attn.c - the scalar reference of attention over blocks of 64 positions: the
 * specification that all levels equal bit for bit (kern.h has it in words). */
#include "kern/ref/kv_value.h"

/* One row's positions of a sub-tile. */
struct tile {
    enum kv_type type;
    const void *k, *v;              /* [d_k, 16], [16, attn_stride(d_v)] */
    const float *k_scale, *v_scale; /* [16] or NULL                      */
    int pos0, lo, hi;               /* lanes [lo, hi) are seen           */
};

static float score(const struct attn_rows *a, int row, const struct tile *t, int i)
{
    float s = 0;
    for (int d = 0; d < a->d_k; d++)
        s = fmaf(a->q[(int64_t)row * a->d_k + d], kv_value(t->type, t->k, d * ATTN_TILE + i), s);
    s *= a->scale;
    if (t->k_scale) s *= t->k_scale[i];
    if (a->softcap != 0) s = a->softcap * tanh_f32(s * (1.0f / a->softcap));
    if (a->slope) s = fmaf(a->slope[row], (float)(t->pos0 + i - a->pos[row]), s);
    return s;
}

static void tile_row(const struct attn_rows *a, int row, const struct tile *t)
{
    int stride = attn_stride(a->d_v);
    float *l = a->l + row * ATTN_TILE, *o = a->o + (int64_t)row * stride;
    float s[ATTN_TILE], m = a->m[row];
    for (int i = t->lo; i < t->hi; i++) {
        s[i] = score(a, row, t, i);
        m = s[i] > m ? s[i] : m;
    }
    if (m > a->m[row]) {
        float c = exp_f32(a->m[row] - m);
        for (int i = 0; i < ATTN_TILE; i++) l[i] *= c;
        for (int d = 0; d < a->d_v; d++) o[d] *= c;
        a->m[row] = m;
    }
    for (int i = t->lo; i < t->hi; i++) {
        float p = exp_f32(s[i] - (m == -INFINITY ? 0 : m));
        l[i] += p;
        if (t->v_scale) p *= t->v_scale[i];
        for (int d = 0; d < a->d_v; d++)
            o[d] = fmaf(p, kv_value(t->type, t->v, i * stride + d), o[d]);
    }
}

static void attn_block(const struct attn_rows *a, const struct attn_kv *kv, int pos0)
{
    for (int i = 0; i < ATTN_TILES; i++)
        for (int row = 0; row < a->n_row; row++) {
            struct tile t = {
                kv->type, kv->k[i], kv->v[i], kv->k_scale[i], kv->v_scale[i], pos0 + i * ATTN_TILE,
                0,        ATTN_TILE};
            if (a->from[row] > t.pos0) t.lo = a->from[row] - t.pos0;
            if (a->to[row] < t.pos0 + ATTN_TILE) t.hi = a->to[row] - t.pos0;
            if (t.lo < t.hi) tile_row(a, row, &t);
        }
}

static void attn_merge(float *m, float *l, float *out, const float *span_m, const float *span_l,
                       const float *span_o, int d_v)
{
    float top = *span_m > *m ? *span_m : *m, base = top == -INFINITY ? 0 : top;
    float a = exp_f32(*m - base), b = exp_f32(*span_m - base);
    *l = fmaf(tree16(span_l), b, *l * a);
    for (int d = 0; d < d_v; d++) out[d] = fmaf(span_o[d], b, out[d] * a);
    *m = top;
}

static void attn_finish(float *y, const float *out, float l, int d_v)
{
    float inv = l == 0 ? 0 : 1.0f / l;
    for (int d = 0; d < d_v; d++) y[d] = out[d] * inv;
}

void kern_attn_ref(struct kern *k)
{
    k->attn_block = attn_block;
    k->attn_rows_narrow = 2;
    k->attn_tile_rows = 1;
    k->attn_merge = attn_merge;
    k->attn_finish = attn_finish;
}

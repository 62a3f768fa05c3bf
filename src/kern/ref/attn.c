/* attn.c - the scalar reference of attention over blocks of 64 positions. The reference is the
 * specification of kern.h, and all levels equal it bit for bit.
 *
 *   m    f32 [n_row]              largest score so far, in units of ln 2
 *   l    f32 [n_row, ATTN_TILE]   sums of weights 2^(s - m), by position mod ATTN_TILE
 *   o    f32 [n_row, stride]      sum of weight * V
 *
 * The algorithm makes one pass over the positions ("online softmax", arXiv 1805.02867). All earlier
 * sums are multiplied by 2^-d if the maximum grows by d. Spans of positions are computed separately
 * and merged in a fixed order, so that all threads can share a long context. */
#include "ref.h"
#include "kv_value.h"

/* Return the bias of a position at `distance` from the row (T5, arXiv 1910.10683). */
static float bias(const struct attn_rows *a, int row, int distance)
{
    const int reach = a->bias_reach;
    const float *of_head = a->bias + (int64_t)a->head[row] * bias_floats(reach);
    return of_head[bias_at(reach, distance)];
}

/* Return the score of position pos0 + i for a row: q * k, scale of int8 K, softcap (Gemma 2), slope
 * of ALiBi, bias (T5). K of a tile is transposed, [d_k, ATTN_TILE]. */
static float score(const struct attn_rows *a, int row, const struct attn_kv *kv, int pos0, int i)
{
    float s = 0;
    int t = i / ATTN_TILE, in = i % ATTN_TILE;
    for (int d = 0; d < a->d_k; d++)
        s = fmaf(a->q[(int64_t)row * a->d_k + d], kv_value(kv->type, kv->k[t], d * ATTN_TILE + in),
                 s);
    if (kv->k_scale[t]) s *= kv->k_scale[t][in];
    if (a->softcap != 0) s = a->softcap * tanh_f32(s * (1.0f / a->softcap));
    if (a->slope) s = fmaf(a->slope[row], (float)(pos0 + i - a->pos[row]), s);
    if (a->bias) s = fmaf(bias(a, row, pos0 + i - a->pos[row]), ATTN_UNIT, s);
    return s;
}

/* Compute positions [lo, hi) of the block. On entry and exit m, l and o describe all computed
 * positions. l and o are scaled only if the block has a larger maximum. */
REF_FMA static void block_row(const struct attn_rows *a, int row, const struct attn_kv *kv,
                              int pos0, int lo, int hi)
{
    int stride = attn_stride(a->d_v);
    float *l = a->l + row * ATTN_TILE, *o = a->o + (int64_t)row * stride;
    float s[ATTN_BLOCK], m = a->m[row];
    for (int i = lo; i < hi; i++) {
        s[i] = score(a, row, kv, pos0, i);
        m = s[i] > m ? s[i] : m;
    }
    if (m > a->m[row]) {
        float c = exp2_weight(a->m[row] - m);
        for (int i = 0; i < ATTN_TILE; i++) l[i] *= c;
        for (int d = 0; d < a->d_v; d++) o[d] *= c;
        a->m[row] = m;
    }
    for (int i = lo; i < hi; i++) {
        int t = i / ATTN_TILE, in = i % ATTN_TILE;
        float p = exp2_weight(s[i] - (m == -INFINITY ? 0 : m));
        l[in] += p;
        if (kv->v_scale[t]) p *= kv->v_scale[t][in];
        for (int d = 0; d < a->d_v; d++)
            o[d] = fmaf(p, kv_value(kv->type, kv->v[t], in * stride + d), o[d]);
    }
}

/* Compute one block for all rows. A row attends to the positions [from, to): the window begins at
 * `from`, and the causal limit is `to`. */
static void attn_block(const struct attn_rows *a, const struct attn_kv *kv, int pos0)
{
    for (int row = 0; row < a->n_row; row++) {
        int lo = a->from[row] > pos0 ? a->from[row] - pos0 : 0;
        int hi = a->to[row] < pos0 + ATTN_BLOCK ? a->to[row] - pos0 : ATTN_BLOCK;
        if (lo < hi) block_row(a, row, kv, pos0, lo, hi);
    }
}

/* Merge a span into the sums of a row. The base 0 avoids the NaN of inf - inf if both maxima are
 * -INFINITY. */
static void attn_merge(float *m, float *l, float *out, const float *span_m, const float *span_l,
                       const float *span_o, int d_v)
{
    float top = *span_m > *m ? *span_m : *m, base = top == -INFINITY ? 0 : top;
    float a = exp2_weight(*m - base), b = exp2_weight(*span_m - base);
    *l = fmaf(tree16(span_l), b, *l * a);
    for (int d = 0; d < d_v; d++) out[d] = fmaf(span_o[d], b, out[d] * a);
    *m = top;
}

/* Divide the sums by their total weight. A row without positions becomes zeros, not NaNs. */
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

/* kv.c - write and read K and V in pages on the CPU. The comment of struct kv_layer has the layout.
 *
 *   page of K    [n_head_kv][page_rows / w][d_k][w]    w = panel_width: w adjacent tokens
 *   page of V    [n_head_kv][page_rows][d_v]
 *   scales       f32 [n_head_kv][page_rows], after the values, KV_Q8 only
 *
 * K is transposed within panels of ATTN_TILE tokens, because one vector has the scores of 16
 * positions. V keeps its rows, because a weight multiplies a whole row. A latent layer has only K,
 * and V is transposed from K when a block is read. */
#include "cpu_impl.h"

#include <string.h>

static int panel_width(const struct kv_layer *kv)
{
    return kv->page_rows < ATTN_TILE ? kv->page_rows : ATTN_TILE;
}

static int value_bytes(const struct kv_layer *kv)
{
    return kv->type == KV_F32 ? 4 : kv->type == KV_F16 || kv->type == KV_BF16 ? 2 : 1;
}

/* Return the offset of the K panel that contains a token of a page. */
static int64_t k_offset(const struct kv_layer *kv, int head, int row)
{
    int64_t first = (int64_t)head * kv->page_rows + (row & -panel_width(kv));
    return first * kv->d_k * value_bytes(kv);
}

static int64_t v_offset(const struct kv_layer *kv, int head, int row)
{
    return ((int64_t)head * kv->page_rows + row) * kv->d_v * value_bytes(kv);
}

/* Return the address of a token's scale, which is after the page's values (d per token). Return
 * NULL if the type is not KV_Q8. */
static float *scale_of(const struct kv_layer *kv, uint8_t *page, int d, int head, int row)
{
    int64_t n = (int64_t)kv->n_head_kv * kv->page_rows * d;
    if (kv->type != KV_Q8) return NULL;
    return (float *)(page + (n + 3) / 4 * 4) + (int64_t)head * kv->page_rows + row;
}

/* ---- into pages ---- */

enum { PUT_ROWS = 16 }; /* rows of one chunk; measurements.md, "Constants" */

/* Arguments of kv_put. All pointers are borrowed for the op. */
struct put_job {
    struct cpu_backend *c;
    const struct kern *kern;
    const struct kv_layer *kv;
    const float *k, *v;  /* f32 [n_row, n_head_kv, d_k], [n_row, n_head_kv, d_v] */
    const int32_t *slot; /* i32 [n_row] */
    int n_row;
};

/* Store K of one head of one token. The values are w apart in the panel. */
static void put_k(const struct put_job *j, uint8_t *page, int head, int row, const float *k,
                  uint8_t *code)
{
    const struct kv_layer *kv = j->kv;
    int w = panel_width(kv);
    uint8_t *to = page + k_offset(kv, head, row);
    float *at = scale_of(kv, page, kv->d_k, head, row);
    float scale = j->kern->kv_put[kv->type](code, k, kv->d_k);
    if (at) *at = scale;
    switch (value_bytes(kv)) {
    case 1:
        for (int d = 0; d < kv->d_k; d++) to[d * w + row % w] = code[d];
        break;
    case 2:
        for (int d = 0; d < kv->d_k; d++) memcpy(to + (d * w + row % w) * 2, code + d * 2, 2);
        break;
    default:
        for (int d = 0; d < kv->d_k; d++) memcpy(to + (d * w + row % w) * 4, code + d * 4, 4);
    }
}

static void put_v(const struct put_job *j, uint8_t *page, int head, int row, const float *v)
{
    const struct kv_layer *kv = j->kv;
    float *at = scale_of(kv, page, kv->d_v, head, row);
    float scale = j->kern->kv_put[kv->type](page + v_offset(kv, head, row), v, kv->d_v);
    if (at) *at = scale;
}

/* Store K and V of row i: slot = page * page_rows + row in the page. */
static void put_row(const struct put_job *j, int i, int worker)
{
    const struct kv_layer *kv = j->kv;
    int64_t page = j->slot[i] / kv->page_rows;
    int row = j->slot[i] % kv->page_rows;
    const float *k = j->k + (int64_t)i * kv->n_head_kv * kv->d_k;
    const int64_t at_v = (int64_t)i * kv->n_head_kv * kv->d_v;
    for (int h = 0; h < kv->n_head_kv; h++, k += kv->d_k) {
        put_k(j, kv->k + page * kv->k_page_bytes, h, row, k, cpu_kv_code(j->c, worker));
        if (!kv->latent)
            put_v(j, kv->v + page * kv->v_page_bytes, h, row, j->v + at_v + h * kv->d_v);
    }
}

static void put_rows(void *ctx, int chunk, int worker)
{
    const struct put_job *j = ctx;
    for (int i = chunk * PUT_ROWS; i < (chunk + 1) * PUT_ROWS && i < j->n_row; i++)
        put_row(j, i, worker);
}

void cpu_kv_put(struct backend *b, const struct kv_layer *kv, const float *k, const float *v,
                const int32_t *slot, int n_row)
{
    struct cpu_backend *c = cpu_of(b);
    struct put_job j = {c, &c->kern, kv, k, v, slot, n_row};
    pool_run(c->pool, put_rows, &j, (n_row + PUT_ROWS - 1) / PUT_ROWS);
}

/* Arguments of rope_put. All pointers are borrowed for the op. */
struct rope_put_job {
    struct put_job put;
    const struct rope_put *r;
};

/* Normalize and rotate the heads of row i in place. x: f32 [n_row, n_head, d] */
static void heads_row(const struct rope_put_job *j, float *x, const float *norm, int n_head, int i)
{
    const struct kern *kern = j->put.kern;
    const struct rope_spec *rope = j->r->rope;
    const int d = j->put.kv->d_k;
    x += (int64_t)i * n_head * d;
    if (norm) kern->rms_norm(x, x, norm, n_head, d, j->r->eps);
    if (!rope) return;
    const int64_t angles = (int64_t)j->r->pos[i] * (rope->d_rot / 2);
    kern->rope(x, n_head, d, rope->cos + angles, rope->sin + angles, rope->d_rot, rope->neox);
}

/* Normalize, rotate and store the rows of a chunk. The rows of q, k and v stay in the cache between
 * norm, rope and the store. */
static void rope_put_rows(void *ctx, int chunk, int worker)
{
    const struct rope_put_job *j = ctx;
    for (int i = chunk * PUT_ROWS; i < (chunk + 1) * PUT_ROWS && i < j->put.n_row; i++) {
        heads_row(j, j->r->q, j->r->q_norm, j->r->n_head, i);
        heads_row(j, j->r->k, j->r->k_norm, j->put.kv->n_head_kv, i);
        put_row(&j->put, i, worker);
    }
}

void cpu_rope_put(struct backend *b, const struct rope_put *r, int n_row)
{
    struct cpu_backend *c = cpu_of(b);
    struct rope_put_job j = {{c, &c->kern, r->kv, r->k, r->v, r->slot, n_row}, r};
    pool_run(c->pool, rope_put_rows, &j, (n_row + PUT_ROWS - 1) / PUT_ROWS);
}

/* ---- out of pages ---- */

/* Address of a position's K and V. Pointers are borrowed from the KV store. */
struct kv_place {
    /* panel [d_k, w] of K that contains the position, and row [d_v] of V, of the KV type. v equals
     * k in a latent layer. */
    uint8_t *k, *v;
    const float *k_scale, *v_scale; /* f32 [1], NULL if not KV_Q8 */
};

static struct kv_place place_of(const struct kv_block *b, int head, int pos)
{
    const struct kv_layer *kv = b->kv;
    int row = pos & (kv->page_rows - 1), page = b->page[pos >> __builtin_ctz(kv->page_rows)];
    uint8_t *k = kv->k + page * kv->k_page_bytes, *at_k = k + k_offset(kv, head, row);
    const float *k_scale = scale_of(kv, k, kv->d_k, head, row);
    if (kv->latent) return (struct kv_place){at_k, at_k, k_scale, k_scale};
    uint8_t *v = kv->v + page * kv->v_page_bytes;
    return (struct kv_place){at_k, v + v_offset(kv, head, row), k_scale,
                             scale_of(kv, v, kv->d_v, head, row)};
}

/* Set the pointers to sub-tile t in its page, and prefetch the same sub-tile of the next block. */
static void refer_tile(struct attn_kv *out, const struct kv_block *b, int t, int pos)
{
    int next = pos - b->pos0 + b->next_pos0;
    struct kv_place at = place_of(b, b->head, pos);
    struct kv_place ahead = next < b->end ? place_of(b, b->next_head, next) : at;
    out->k[t] = at.k, out->v[t] = at.v;
    out->k_scale[t] = at.k_scale, out->v_scale[t] = at.v_scale;
    out->k_ahead[t] = ahead.k, out->v_ahead[t] = ahead.v;
}

/* Widen sub-tile t, whose positions are in one page. */
static void widen_tile(struct attn_kv *out, const struct kern *kern, const struct kv_block *b,
                       int t, int pos)
{
    const struct kv_layer *kv = b->kv;
    float *k = b->k + t * ATTN_TILE * kv->d_k, *v = b->v + t * ATTN_TILE * attn_stride(kv->d_v);
    int n = b->hi - pos < ATTN_TILE ? b->hi - pos : ATTN_TILE;
    refer_tile(out, b, t, pos);
    kern->kv_get[kv->type](k, out->k[t], kv->d_k, ATTN_TILE, out->k_ahead[t]);
    if (kv->latent)
        kern->kv_turn(v, k, kv->d_v);
    else
        kern->kv_get[kv->type](v, out->v[t], n, kv->d_v, out->v_ahead[t]);
    out->k[t] = k, out->v[t] = v;
    out->k_ahead[t] = out->v_ahead[t] = NULL;
}

/* Widen the positions of a smaller page to lanes [lane, lane + page_rows) of sub-tile t. A panel of
 * K is narrower than a sub-tile, so the panel is widened as one long row. */
static void widen_page(const struct kern *kern, const struct kv_block *b, int pos, int t, int lane)
{
    const struct kv_layer *kv = b->kv;
    const int w = kv->page_rows, at0 = t * ATTN_TILE + lane;
    struct kv_place at = place_of(b, b->head, pos);
    float *k = b->k + t * ATTN_TILE * kv->d_k + lane;
    kern->kv_get[kv->type](b->part, at.k, 1, w * kv->d_k, at.k);
    for (int d = 0; d < kv->d_k; d++)
        for (int i = 0; i < w; i++) k[d * ATTN_TILE + i] = b->part[d * w + i];
    if (!kv->latent)
        kern->kv_get[kv->type](b->v + at0 * attn_stride(kv->d_v), at.v, w, kv->d_v, at.v);
    for (int i = 0; i < w && at.k_scale; i++)
        b->k_scale[at0 + i] = at.k_scale[i], b->v_scale[at0 + i] = at.v_scale[i];
}

static void gather_tile(struct attn_kv *out, const struct kern *kern, const struct kv_block *b,
                        int t, int pos)
{
    const struct kv_layer *kv = b->kv;
    for (int p = pos; p < pos + ATTN_TILE && p < b->hi; p += kv->page_rows)
        if (p + kv->page_rows > b->lo) widen_page(kern, b, p, t, p - pos);
    float *k = b->k + t * ATTN_TILE * kv->d_k, *v = b->v + t * ATTN_TILE * attn_stride(kv->d_v);
    if (kv->latent) kern->kv_turn(v, k, kv->d_v);
    out->k[t] = k, out->v[t] = v;
    out->k_scale[t] = kv->type == KV_Q8 ? b->k_scale + t * ATTN_TILE : NULL;
    out->v_scale[t] = kv->type == KV_Q8 ? b->v_scale + t * ATTN_TILE : NULL;
}

static void copy_tile(struct attn_kv *out, int t, int from)
{
    out->k[t] = out->k[from], out->v[t] = out->v[from];
    out->k_scale[t] = out->k_scale[from], out->v_scale[t] = out->v_scale[from];
    out->k_ahead[t] = out->k_ahead[from], out->v_ahead[t] = out->v_ahead[from];
}

void cpu_kv_block(struct attn_kv *out, const struct kern *kern, const struct kv_block *b)
{
    const struct kv_layer *kv = b->kv;
    const bool small = kv->page_rows < ATTN_TILE;
    const bool wide =
        small || kv->latent || kv->d_v % ATTN_TILE || b->n_row > kern->attn_rows_narrow;
    bool overlaps[ATTN_TILES];
    int some = 0;
    *out = (struct attn_kv){.type = wide ? KV_F32 : kv->type};
    for (int t = 0; t < ATTN_TILES; t++) {
        int pos = b->pos0 + t * ATTN_TILE;
        overlaps[t] = pos < b->hi && pos + ATTN_TILE > b->lo;
        if (!overlaps[t]) continue;
        some = t;
        if (small)
            gather_tile(out, kern, b, t, pos);
        else if (wide)
            widen_tile(out, kern, b, t, pos);
        else
            refer_tile(out, b, t, pos);
    }
    for (int t = 0; t < ATTN_TILES; t++)
        if (!overlaps[t]) copy_tile(out, t, some);
}

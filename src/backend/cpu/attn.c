/* attn.c - attention over pages on the CPU: flash-style, with an online softmax in spans of 512
 * positions.
 *
 * A work item is (sequence, KV head, up to 16 query rows). It walks the positions that its rows
 * can see, 16 at a time; each tile of K and V is decoded once and used by every row and every
 * query head of the group. Which rows share an item never matters: each row and head has its own
 * state, and sees the tiles in the same order (kern.h). */
#include "cpu_impl.h"

#include <math.h>
#include <string.h>

struct attn_job {
    struct cpu_backend *c;
    float *y;
    const float *q;
    const struct kv_layer *kv;
    const struct batch *batch;
    const struct attn_spec *spec;
};

/* Per query row and head of an item: the span so far, and the total of the spans before it. */
struct attn_row {
    struct attn_state span;
    float m, l;
    float *o;   /* f32 [d_v] of the span  */
    float *out; /* f32 [d_v] of the total: the row's place in y */
};

static int64_t row_floats(void)
{
    return (int64_t)((sizeof(struct attn_row) + sizeof(float) - 1) / sizeof(float) + 15) / 16 * 16;
}

int64_t cpu_attn_work_floats(int d_head, int n_group)
{
    int64_t tiles = 2 * (int64_t)ATTN_TILE * d_head;
    return tiles + (int64_t)ATTN_ROWS * n_group * (row_floats() + d_head);
}

static int n_tile_of(const struct batch *b, int s)
{
    return (b->row0[s + 1] - b->row0[s] + ATTN_ROWS - 1) / ATTN_ROWS;
}

/* First visible position of a row at pos. */
static int visible_from(const struct attn_spec *spec, int pos)
{
    return spec->window > 0 && pos >= spec->window ? pos - spec->window + 1 : 0;
}

struct item {
    int seq, head;        /* KV head */
    int row0, n_row;      /* rows of the batch */
    int n_group;          /* query heads per KV head */
    struct attn_row *row; /* [n_row * n_group] */
    float *k, *v;         /* decoded tiles */
};

static void item_rows_init(const struct attn_job *j, struct item *it, float *work)
{
    const struct attn_spec *spec = j->spec;
    it->k = work;
    it->v = it->k + (int64_t)ATTN_TILE * spec->d_k;
    it->row = (struct attn_row *)(it->v + (int64_t)ATTN_TILE * spec->d_v);
    float *o = (float *)(it->row + it->n_row * it->n_group);
    for (int i = 0; i < it->n_row * it->n_group; i++, o += spec->d_v) {
        int row = it->row0 + i / it->n_group, head = it->head * it->n_group + i % it->n_group;
        float *out = j->y + ((int64_t)row * spec->n_head + head) * spec->d_v;
        it->row[i] = (struct attn_row){.m = -INFINITY, .o = o, .out = out};
        memset(out, 0, (size_t)spec->d_v * sizeof *out);
    }
}

static void span_begin(const struct attn_job *j, struct item *it)
{
    for (int i = 0; i < it->n_row * it->n_group; i++) {
        it->row[i].span = (struct attn_state){.m = -INFINITY};
        memset(it->row[i].o, 0, (size_t)j->spec->d_v * sizeof(float));
    }
}

static void tile_rows(const struct attn_job *j, struct item *it, int pos0)
{
    const struct attn_spec *spec = j->spec;
    for (int i = 0; i < it->n_row * it->n_group; i++) {
        int row = it->row0 + i / it->n_group, head = it->head * it->n_group + i % it->n_group;
        int pos = j->batch->pos[row];
        int lo = visible_from(spec, pos) - pos0, hi = pos + 1 - pos0;
        if (lo < 0) lo = 0;
        if (hi > ATTN_TILE) hi = ATTN_TILE;
        if (lo >= hi) continue;
        const float *q = j->q + ((int64_t)row * spec->n_head + head) * spec->d_k;
        j->c->kern.attn_tile(&it->row[i].span, it->row[i].o, q, it->k, it->v, spec->d_k, spec->d_v,
                             lo, hi, spec->scale);
    }
}

static void span_end(const struct attn_job *j, struct item *it, int span0)
{
    for (int i = 0; i < it->n_row * it->n_group; i++) {
        struct attn_row *r = &it->row[i];
        int pos = j->batch->pos[it->row0 + i / it->n_group];
        bool seen = pos >= span0 && visible_from(j->spec, pos) < span0 + ATTN_SPAN;
        if (seen) j->c->kern.attn_merge(&r->m, &r->l, r->out, &r->span, r->o, j->spec->d_v);
    }
}

static void item_run(const struct attn_job *j, struct item *it)
{
    const struct batch *b = j->batch;
    const int32_t *page = b->page + (int64_t)it->seq * b->page_stride;
    int from = visible_from(j->spec, b->pos[it->row0]), to = b->pos[it->row0 + it->n_row - 1] + 1;
    for (int span0 = from / ATTN_SPAN * ATTN_SPAN; span0 < to; span0 += ATTN_SPAN) {
        span_begin(j, it);
        int first = from > span0 ? from / ATTN_TILE * ATTN_TILE : span0;
        for (int pos0 = first; pos0 < span0 + ATTN_SPAN && pos0 < to; pos0 += ATTN_TILE) {
            int n = to - pos0 < ATTN_TILE ? to - pos0 : ATTN_TILE;
            cpu_kv_tile(j->kv, it->head, page, pos0, n, it->k, it->v);
            tile_rows(j, it, pos0);
        }
        span_end(j, it, span0);
    }
    for (int i = 0; i < it->n_row * it->n_group; i++)
        j->c->kern.attn_finish(it->row[i].out, it->row[i].l, j->spec->d_v);
}

static void attn_chunk(void *ctx, int chunk, int worker)
{
    const struct attn_job *j = ctx;
    const struct batch *b = j->batch;
    int s = 0, n_head_kv = j->spec->n_head_kv;
    for (; chunk >= n_tile_of(b, s) * n_head_kv; s++) chunk -= n_tile_of(b, s) * n_head_kv;
    struct item it = {.seq = s, .head = chunk % n_head_kv, .n_group = j->spec->n_head / n_head_kv};
    it.row0 = b->row0[s] + chunk / n_head_kv * ATTN_ROWS;
    it.n_row = b->row0[s + 1] - it.row0 < ATTN_ROWS ? b->row0[s + 1] - it.row0 : ATTN_ROWS;
    item_rows_init(j, &it, j->c->attn_work + worker * j->c->attn_work_floats);
    item_run(j, &it);
}

void cpu_attn(struct backend *b, float *y, const float *q, const struct kv_layer *kv,
              const struct batch *batch, const struct attn_spec *spec)
{
    struct attn_job j = {cpu_of(b), y, q, kv, batch, spec};
    int n = 0;
    for (int s = 0; s < batch->n_seq; s++) n += n_tile_of(batch, s) * spec->n_head_kv;
    pool_run(cpu_of(b)->pool, attn_chunk, &j, n);
}

/* other.c - embeddings of ids that belong to another part, such as images (Gemma 3n):
 *
 *   table[id - first] --norm--> --project--> norm without weights --> x
 *
 * The drawing shows the computation for ids of another part. The rows of all other ids come from
 * the embedding of the text part. */
#include "model/model_impl.h"

#include <stdio.h>

/* ---- binding ---- */

/* Write the prefix of the part's tensor names. The file may omit "model." in the prefix. */
static void names_of(const struct binder *b, char out[64], const char *begin)
{
    snprintf(out, 64, "model.%s", begin);
    char table[96];
    snprintf(table, sizeof table, "%sembedding", out);
    if (!bind_has(b, table, -1)) snprintf(out, 64, "%s", begin);
}

static void bind_other(struct binder *b, struct other_embedding *o, const struct other_ids *ids)
{
    const int d = b->m->config.d;
    char begin[64], stem[96];
    o->ids = ids;
    names_of(b, begin, ids->begin);
    snprintf(stem, sizeof stem, "%sembedding", begin);
    bind_sized_table(b, &o->table, stem, ids->n_row, ids->d);
    snprintf(stem, sizeof stem, "%sembedding_projection", begin);
    bind_sized(b, &o->project, stem, d, ids->d, BIAS_NONE);
    snprintf(stem, sizeof stem, "%shard_embedding_norm.weight", begin);
    o->norm = (struct norm){.g = bind_required(b, stem, ids->d), .eps = ids->eps, .n = ids->d};
    bind_vector(b, &o->norm.g, ids->d);
    bind_ones(b, &o->project_norm, d, 0);
    o->project_norm.eps = ids->eps;
    o->at_id = bind_rows(b, "other ids", 1);
    o->at_row = bind_rows(b, "other embeddings", ids->d);
}

void bind_others(struct binder *b, struct other_embeddings *e)
{
    const struct config *c = &b->m->config;
    for (int i = 0; i < c->n_other; i++) /* an empty range needs no tensors */
        if (c->other[i].first < c->other[i].end) bind_other(b, &e->part[e->n++], &c->other[i]);
}

/* ---- the forward pass ---- */

static bool has_id(const struct other_embedding *o, int32_t id)
{
    return id >= o->ids->first && id < o->ids->end;
}

/* Set the rows [r, end) of f->x to the embeddings of their ids. */
static void embed(struct fwd *f, const struct other_embedding *o, const int32_t *id, int r, int end)
{
    struct backend *b = f->m->backend;
    struct fwd rows = *f;
    float *row = fwd_at(f, o->at_row), *x = f->x + (int64_t)r * f->m->config.d;
    rows.n_row = end - r;
    b->op->embed(b, row, &o->table, id + r, rows.n_row);
    fwd_norm(&rows, row, row, &o->norm);
    fwd_linear(&rows, x, &o->project, row, rows.n_row);
    fwd_norm(&rows, x, x, &o->project_norm);
}

/* Replace the rows of one part. Consecutive rows are computed by one call. */
static void replace(struct fwd *f, const struct other_embedding *o)
{
    const int32_t *token = f->batch->token;
    int32_t *row = fwd_host_ids(f, o->at_id);
    bool any = false;
    for (int i = 0; i < f->n_row; i++) {
        const bool own = has_id(o, token[i]);
        row[i] = own ? token[i] - o->ids->first : 0;
        any |= own;
    }
    const int32_t *id = any ? fwd_put_ids(f, o->at_id) : NULL;
    for (int i = 0, end; i < f->n_row && any; i = end) {
        const bool own = has_id(o, token[i]);
        for (end = i + 1; end < f->n_row && has_id(o, token[end]) == own;) end++;
        if (own) embed(f, o, id, i, end);
    }
}

void fwd_others(struct fwd *f, const struct other_embeddings *e)
{
    for (int i = 0; i < e->n; i++) replace(f, &e->part[i]);
}

/* attn.c - the attention block: q, k, v, their norms and rope, the KV pages, attention, output
 * projection. */
#include "model/model_impl.h"

#include <math.h>

void bind_attn(struct binder *b, struct attn_block *a, int il)
{
    const struct config *c = &b->m->config;
    int64_t d_q = (int64_t)c->n_head * c->d_head, d_kv = (int64_t)c->n_head_kv * c->d_head;
    bind_linear(b, &a->q, "blk.%d.attn_q.weight", il, d_q, c->d);
    bind_linear(b, &a->k, "blk.%d.attn_k.weight", il, d_kv, c->d);
    bind_linear(b, &a->v, "blk.%d.attn_v.weight", il, d_kv, c->d);
    bind_linear(b, &a->o, "blk.%d.attn_output.weight", il, c->d, d_q);
}

static void head_norm(struct fwd *f, float *x, const struct norm *n, int n_head)
{
    struct backend *b = f->m->backend;
    if (n->g) b->op->rms_norm(b, x, x, n->g, f->n_row * n_head, n->n, n->eps);
}

void fwd_attn(struct fwd *f, float *y, const float *x, const struct attn_block *a)
{
    struct backend *b = f->m->backend;
    const struct config *c = &f->m->config;
    const struct layer_config *l = &c->layer[f->il];
    const struct kv_layer *kv = &f->m->kv.layer[f->il];

    b->op->linear(b, f->q, &a->q, x, f->n_row);
    b->op->linear(b, f->k, &a->k, x, f->n_row);
    b->op->linear(b, f->v, &a->v, x, f->n_row);
    head_norm(f, f->q, &a->q_norm, c->n_head);
    head_norm(f, f->k, &a->k_norm, c->n_head_kv);
    if (l->rope) {
        b->op->rope(b, f->q, c->n_head, c->d_head, f->batch->pos, f->n_row, &f->m->rope);
        b->op->rope(b, f->k, c->n_head_kv, c->d_head, f->batch->pos, f->n_row, &f->m->rope);
    }
    trace(f, "q", f->q, (int64_t)c->n_head * c->d_head);
    trace(f, "k", f->k, (int64_t)c->n_head_kv * c->d_head);
    b->op->kv_put(b, kv, f->k, f->v, f->batch->slot, f->n_row);
    b->op->attn(b, f->attn, f->q, kv, f->batch,
                &(struct attn_spec){
                    .n_head = c->n_head,
                    .n_head_kv = c->n_head_kv,
                    .d_k = c->d_head,
                    .d_v = c->d_head,
                    .scale = 1.0f / sqrtf((float)c->d_head),
                    .window = l->window,
                });
    trace(f, "attn", f->attn, (int64_t)c->n_head * c->d_head);
    b->op->linear(b, y, &a->o, f->attn, f->n_row);
    trace(f, "attn_out", y, c->d);
}

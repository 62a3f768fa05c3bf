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

void fwd_attn(struct fwd *f, const struct norm *norm, const struct attn_block *a)
{
    struct backend *b = f->m->backend;
    const struct config *c = &f->m->config;
    const struct layer_config *l = &c->layer[f->il];
    const struct kv_layer *kv = &f->m->kv.layer[f->il];

    backend_linears(b, (struct output[]){{&a->q, f->q}, {&a->k, f->k}, {&a->v, f->v}}, 3,
                    &(struct input){.x = f->x, .g = norm->g, .eps = norm->eps, .h = f->h},
                    f->n_row);
    backend_rope_put(b,
                     &(struct rope_put){
                         .q = f->q,
                         .k = f->k,
                         .v = f->v,
                         .n_head = c->n_head,
                         .q_norm = a->q_norm.g,
                         .k_norm = a->k_norm.g,
                         .eps = a->q_norm.eps,
                         .rope = l->rope ? &f->m->rope : NULL,
                         .kv = kv,
                         .pos = f->batch->pos,
                         .slot = f->batch->slot,
                     },
                     f->n_row);
    trace(f, "q", f->q, (int64_t)c->n_head * c->d_head);
    trace(f, "k", f->k, (int64_t)c->n_head_kv * c->d_head);
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
    backend_linear_add(b, f->x, &a->o, f->attn, f->n_row, f->y);
    trace(f, "attn_out", f->y, c->d);
}

/* gated.c - attention whose result is multiplied by a gate per value ("Gated Attention for Large
 * Language Models", arXiv 2505.06708): o(attn(q, k, v) * sigmoid(gate)). The rows of the matrix q
 * have for each head its q, then its gate. Heads of q and k are normalized. */
#include "model/recurrent_impl.h"

void bind_gated_attn(struct binder *b, struct gated_attn *g, int il)
{
    static const char q[] = "blk.%d.attn_q";
    const struct config *c = &b->m->config;
    const struct layer_config *l = &c->layer[il];
    const int64_t d = l->d_head, n = l->n_head * d;
    struct attn_block *a = &g->attn;
    bind_part(b, &a->q, q, il, c->qkv_bias, &(struct row_part){.n = n, .run = d, .step = 2 * d});
    bind_part(b, &g->gate, q, il, c->qkv_bias,
              &(struct row_part){.first = d, .n = n, .run = d, .step = 2 * d});
    bind_linear(b, &a->k, "blk.%d.attn_k", il, c->qkv_bias);
    bind_linear(b, &a->v, "blk.%d.attn_v", il, c->qkv_bias);
    bind_linear(b, &a->o, "blk.%d.attn_output", il, c->o_bias);
    bind_norm(b, &a->q_norm, "blk.%d.attn_q_norm", il);
    bind_norm(b, &a->k_norm, "blk.%d.attn_k_norm", il);
    bind_attend(b, a, il, &(struct kv_geometry){l->n_head_kv, l->d_head, l->d_head, false});
    g->at_gate = bind_rows(b, "attn gate", n);
}

void fwd_gated_attn_add(struct fwd *f, float *x, struct input in, const struct gated_attn *g)
{
    struct backend *b = f->m->backend;
    const struct input made = fwd_plain(fwd_made(f, in, g->gate.w.k));
    float *gate = fwd_at(f, g->at_gate), *y = fwd_at(f, g->attn.at_attn);
    fwd_qkv(f, made, &g->attn);
    fwd_linears(f, &(struct output){&g->gate, gate}, 1, &made);
    fwd_attend(f, &g->attn);
    b->op->curve_mul(b, gate, gate, y, f->n_row * g->gate.w.n_out, CURVE_sigmoid);
    fwd_linear_add(f, x, &g->attn.o, gate);
}

/* ffn.c - the feed-forward block: SwiGLU ("GLU Variants Improve Transformer", arXiv 2002.05202). */
#include "model/model_impl.h"

void bind_glu(struct binder *b, struct glu_block *g, int il)
{
    const struct config *c = &b->m->config;
    bind_linear(b, &g->gate, "blk.%d.ffn_gate.weight", il, c->d_ff, c->d);
    bind_linear(b, &g->up, "blk.%d.ffn_up.weight", il, c->d_ff, c->d);
    bind_linear(b, &g->down, "blk.%d.ffn_down.weight", il, c->d, c->d_ff);
}

void fwd_glu(struct fwd *f, float *y, const float *x, const struct glu_block *g)
{
    struct backend *b = f->m->backend;
    int d_ff = f->m->config.d_ff;
    b->op->linear(b, f->gate, &g->gate, x, f->n_row);
    b->op->linear(b, f->up, &g->up, x, f->n_row);
    b->op->silu_mul(b, f->gate, f->gate, f->up, (int64_t)f->n_row * d_ff);
    b->op->linear(b, y, &g->down, f->gate, f->n_row);
    trace(f, "ffn_out", y, f->m->config.d);
}

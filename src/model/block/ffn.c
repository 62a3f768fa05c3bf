/* ffn.c - the feed-forward block: SwiGLU ("GLU Variants Improve Transformer", arXiv 2002.05202). */
#include "model/model_impl.h"

void bind_glu(struct binder *b, struct glu_block *g, int il)
{
    const struct config *c = &b->m->config;
    bind_linear(b, &g->gate, "blk.%d.ffn_gate.weight", il, c->d_ff, c->d);
    bind_linear(b, &g->up, "blk.%d.ffn_up.weight", il, c->d_ff, c->d);
    bind_linear(b, &g->down, "blk.%d.ffn_down.weight", il, c->d, c->d_ff);
}

void fwd_glu(struct fwd *f, const struct norm *norm, const struct glu_block *g)
{
    backend_glu(
        f->m->backend, f->x,
        &(struct glu){
            .gate = &g->gate, .up = &g->up, .down = &g->down, .a = f->gate, .b = f->up, .y = f->y},
        &(struct input){.x = f->x, .g = norm->g, .eps = norm->eps, .h = f->h}, f->n_row);
    trace(f, "ffn_out", f->y, f->m->config.d);
}

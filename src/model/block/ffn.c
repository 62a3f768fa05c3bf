/* ffn.c - the gated feed-forward block: down(curve(gate x) * up x) ("GLU Variants Improve
 * Transformer", arXiv 2002.05202), and the block without a gate: down(curve(up x)). The
 * architecture defines the operations before and after it. */
#include "model/model_impl.h"

/* Phi-3 and GLM store gate and up as one matrix [2 * d_ff, d]. */
void bind_glu(struct binder *b, struct glu_block *g, int il)
{
    const struct config *c = &b->m->config;
    const int64_t d_ff = c->layer[il].d_ff;
    if (bind_is_fused(b, "blk.%d.ffn_up", "blk.%d.ffn_gate", il)) { /* gate, then up */
        bind_part(b, &g->gate, "blk.%d.ffn_up", il, c->ffn_bias, 0, d_ff);
        bind_part(b, &g->up, "blk.%d.ffn_up", il, c->ffn_bias, d_ff, d_ff);
    } else {
        bind_linear(b, &g->gate, "blk.%d.ffn_gate", il, c->ffn_bias);
        bind_linear(b, &g->up, "blk.%d.ffn_up", il, c->ffn_bias);
    }
    bind_linear(b, &g->down, "blk.%d.ffn_down", il, c->ffn_bias);
    g->curve = c->curve;
    g->at_gate = bind_rows(b, "gate", d_ff);
    g->at_up = bind_rows(b, "up", d_ff);
}

/* Return the operands of backend_glu. a and b are f32 [n_row, d_ff], y f32 [n_row, d]: scratch of
 * backend_glu. */
static struct glu glu_of(const struct fwd *f, const struct glu_block *g, bool add)
{
    return (struct glu){.gate = &g->gate,
                        .up = &g->up,
                        .down = &g->down,
                        .curve = g->curve,
                        .add = add,
                        .a = fwd_at(f, g->at_gate),
                        .b = fwd_at(f, g->at_up),
                        .y = f->y};
}

void fwd_glu(struct fwd *f, float *y, struct input in, const struct glu_block *g)
{
    const struct glu glu = glu_of(f, g, false);
    fwd_glu_linears(f, y, &glu, &in);
    trace(f, "ffn_out", y, g->down.w.n_out);
}

void fwd_glu_add(struct fwd *f, float *x, struct input in, const struct glu_block *g)
{
    const struct glu glu = glu_of(f, g, true);
    fwd_glu_linears(f, x, &glu, &in);
    trace(f, "ffn_out", f->y, g->down.w.n_out);
}

void bind_mlp(struct binder *b, struct mlp_block *g, int il)
{
    const struct config *c = &b->m->config;
    bind_linear(b, &g->up, "blk.%d.ffn_up", il, c->ffn_bias);
    bind_linear(b, &g->down, "blk.%d.ffn_down", il, c->ffn_bias);
    g->curve = c->curve;
    g->at_up = bind_rows(b, "up", c->layer[il].d_ff);
}

void fwd_mlp_add(struct fwd *f, float *x, struct input in, const struct mlp_block *g)
{
    struct backend *b = f->m->backend;
    float *up = fwd_at(f, g->at_up);
    fwd_linears(f, &(struct output){&g->up, up}, 1, &in);
    b->op->curve(b, up, f->n_row * g->up.w.n_out, g->curve);
    fwd_linear_add(f, x, &g->down, up);
    trace(f, "ffn_out", f->y, g->down.w.n_out);
}

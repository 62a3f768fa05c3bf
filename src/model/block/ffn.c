/* ffn.c - the feed-forward block, with a gate: down(curve(gate x) * up x) ("GLU Variants Improve
 * Transformer", arXiv 2002.05202), or without one: down(curve(up x)). The architecture defines the
 * operations before and after it. */
#include "model/model_impl.h"

/* Bind gate and up as the halves of one matrix: rows of gate, then rows of up. */
static void bind_halves(struct binder *b, struct ffn_block *g, const char *stem, int il, int64_t d)
{
    const enum bias bias = b->m->config.ffn_bias;
    bind_part(b, &g->gate, stem, il, bias, &(struct row_part){.n = d});
    bind_part(b, &g->up, stem, il, bias, &(struct row_part){.first = d, .n = d});
}

/* Set the activation, and reserve scratch. */
static void finish(struct binder *b, struct ffn_block *g, int d)
{
    g->curve = b->m->config.curve;
    g->at_gate = g->gated ? bind_rows(b, "gate", d) : 0;
    g->at_up = bind_rows(b, "up", d);
}

/* Phi-3 and GLM store gate and up as one matrix [2 * d_ff, d]. */
void bind_ffn(struct binder *b, struct ffn_block *g, int il)
{
    static const char gate[] = "blk.%d.ffn_gate", up[] = "blk.%d.ffn_up";
    const struct config *c = &b->m->config;
    const struct tensor_row *row = bind_row(b, up);
    const int d_ff = c->layer[il].d_ff;
    const bool fused = row && row->n_out == SIZE_D_FF_2;
    g->gated = fused || (bind_row(b, gate) && !c->no_gate);
    if (fused) {
        bind_halves(b, g, up, il, d_ff);
    } else {
        if (g->gated) bind_linear(b, &g->gate, gate, il, c->ffn_bias);
        bind_linear(b, &g->up, up, il, c->ffn_bias);
    }
    bind_linear(b, &g->down, "blk.%d.ffn_down", il, c->ffn_bias);
    finish(b, g, d_ff);
}

void bind_glu(struct binder *b, struct ffn_block *g, const struct glu_names *name, int il, int d)
{
    const enum bias bias = b->m->config.ffn_bias;
    g->gated = bind_row(b, name->gate) || bind_row(b, name->both);
    if (bind_row(b, name->both) && bind_has(b, name->both, il)) {
        bind_halves(b, g, name->both, il, d);
    } else {
        if (g->gated) bind_linear(b, &g->gate, name->gate, il, bias);
        bind_linear(b, &g->up, name->up, il, bias);
    }
    bind_linear(b, &g->down, name->down, il, bias);
    finish(b, g, d);
}

/* Return the operands of backend_glu. Its scratch is a and b, f32 [n_row, d_ff], and y, f32 [n_row,
 * d]. */
static struct glu glu_of(const struct fwd *f, const struct ffn_block *g, bool add)
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

/* Return curve(up in), f32 [n_row, d_ff], for a block without a gate. */
static const float *inner(struct fwd *f, struct input in, const struct ffn_block *g)
{
    struct backend *b = f->m->backend;
    float *up = fwd_at(f, g->at_up);
    fwd_linears(f, &(struct output){&g->up, up}, 1, &in);
    if (g->act)
        g->act(f, up, f->n_row * g->up.w.n_out, g->act_param);
    else
        b->op->curve(b, up, f->n_row * g->up.w.n_out, g->curve);
    return up;
}

void fwd_ffn(struct fwd *f, float *y, struct input in, const struct ffn_block *g)
{
    const struct glu glu = glu_of(f, g, false);
    if (g->gated)
        fwd_glu_linears(f, y, &glu, &in);
    else
        fwd_linear(f, y, &g->down, inner(f, in, g), f->n_row);
    trace(f, "ffn_out", y, g->down.w.n_out);
}

void fwd_ffn_add(struct fwd *f, float *x, struct input in, const struct ffn_block *g)
{
    const struct glu glu = glu_of(f, g, true);
    if (g->gated)
        fwd_glu_linears(f, x, &glu, &in);
    else
        fwd_linear_add(f, x, &g->down, inner(f, in, g));
    trace(f, "ffn_out", f->y, g->down.w.n_out);
}

float *fwd_ffn_inner(struct fwd *f, struct input in, const struct ffn_block *g)
{
    struct backend *b = f->m->backend;
    float *gate = fwd_at(f, g->at_gate), *up = fwd_at(f, g->at_up);
    const struct output out[] = {{&g->gate, gate}, {&g->up, up}};
    fwd_linears(f, out, 2, &in);
    if (g->gate_scale != 0) b->op->scale(b, gate, f->n_row * g->gate.w.n_out, g->gate_scale);
    b->op->curve_mul(b, gate, gate, up, f->n_row * g->gate.w.n_out, g->curve);
    return gate;
}

void fwd_ffn_out_add(struct fwd *f, float *x, const struct ffn_block *g)
{
    fwd_linear_add(f, x, &g->down, fwd_at(f, g->at_gate));
    trace(f, "ffn_out", f->y, g->down.w.n_out);
}

/* C has no inverse of the normal distribution. The function runs once per layer at load, so 100
 * halvings cost nothing, and they are more than the 53 bits of a double. */
float ffn_cut_of(double part)
{
    double lo = -40, hi = 40;
    for (int i = 0; i < 100; i++) {
        const double mid = (lo + hi) / 2;
        if (erfc(-mid / sqrt(2)) / 2 < part)
            lo = mid;
        else
            hi = mid;
    }
    return (float)((lo + hi) / 2);
}

/* The cut needs all gates of a row, because it depends on their mean and deviation. The block
 * therefore does not use the fused op. */
void fwd_ffn_cut(struct fwd *f, float *y, struct input in, const struct ffn_block *g, float by)
{
    struct backend *b = f->m->backend;
    const int64_t n = g->gate.w.n_out;
    float *gate = fwd_at(f, g->at_gate), *up = fwd_at(f, g->at_up);
    const struct output out[] = {{&g->gate, gate}, {&g->up, up}};
    fwd_linears(f, out, 2, &in);
    b->op->cut(b, gate, f->n_row, n, by);
    b->op->curve_mul(b, gate, gate, up, f->n_row * n, g->curve);
    fwd_linear(f, y, &g->down, gate, f->n_row);
    trace(f, "ffn_out", y, g->down.w.n_out);
}

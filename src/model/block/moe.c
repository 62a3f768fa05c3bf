/* moe.c - a mixture of experts. Papers: "Outrageously Large Neural Networks", arXiv 1701.06538;
 * "Mixtral of Experts", arXiv 2401.04088. A router selects gated feed-forward blocks for each row.
 * The block adds the weighted results of the experts in ascending order of experts.
 *
 *   x [n_row, d] --router--> logits --route--> experts, weights, entries
 *   x by row --gate, up--> [n_entry, d_expert] --curve_mul--> --down--> [n_entry, d] --combine--> y
 *
 * n_entry is n_row * n_used. For each entry, gate and up read row r->row[entry] of x, and down
 * reads row `entry` of its input. */
#include "model/model_impl.h"

/* Bind gate and up of the experts. Some files have both in one tensor: the rows of gate, then the
 * rows of up. */
static void bind_gate_and_up(struct binder *b, struct moe_block *m, int il)
{
    static const char both[] = "blk.%d.ffn_gate_up_exps";
    const int64_t d = b->m->config.layer[il].d_expert;
    if (bind_row(b, both) && bind_has(b, both, il)) {
        bind_expert_part(b, &m->gate, both, il, 0, d);
        bind_expert_part(b, &m->up, both, il, d, d);
        return;
    }
    bind_experts(b, &m->gate, "blk.%d.ffn_gate_exps", il);
    bind_experts(b, &m->up, "blk.%d.ffn_up_exps", il);
}

/* Reserve scratch for all entries of a row. i32 lists use f32 scratch, because both types have 4
 * bytes. */
void bind_moe(struct binder *b, struct moe_block *m, int il)
{
    const struct config *c = &b->m->config;
    const struct layer_config *l = &c->layer[il];
    const int64_t n = l->n_expert_used;
    if (b->rc == 0 && (l->n_expert_used < 1 || l->n_expert_used > l->n_expert))
        b->rc = err_set(b->e, ERR_FORMAT, "%s: experts per token: must be in [1, %d], got %d",
                        checkpoint_path(b->checkpoint), l->n_expert, l->n_expert_used);
    if (b->rc != 0) return;
    bind_linear(b, &m->router, "blk.%d.ffn_gate_inp", il, BIAS_NONE);
    bind_gate_and_up(b, m, il);
    bind_experts(b, &m->down, "blk.%d.ffn_down_exps", il);
    m->curve = c->curve;
    m->n_expert = l->n_expert;
    m->n_used = l->n_expert_used;
    m->normalize = l->norm_experts;
    m->at_logits = bind_rows(b, "moe logits", l->n_expert);
    m->at_gate = bind_rows(b, "moe gate", n * l->d_expert);
    m->at_up = bind_rows(b, "moe up", n * l->d_expert);
    m->at_out = bind_rows(b, "moe out", n * c->d);
    m->at_expert = bind_rows(b, "moe expert", n);
    m->at_weight = bind_rows(b, "moe weight", n);
    m->at_entry = bind_rows(b, "moe entry", n);
    m->at_row = bind_rows(b, "moe row", n);
    m->at_first = bind_fixed(b, "moe first", l->n_expert + 1);
    if (l->n_expert_used > b->m->used_max) b->m->used_max = l->n_expert_used;
}

/* Return a scratch buffer as i32. */
static int32_t *ints_at(const struct fwd *f, int scratch)
{
    return (int32_t *)(void *)fwd_at(f, scratch);
}

/* Return the assignment of rows to experts. Its arrays are in scratch. */
static struct route route_of(const struct fwd *f, const struct moe_block *m)
{
    return (struct route){.n_expert = m->n_expert,
                          .n_used = m->n_used,
                          .normalize = m->normalize,
                          .scale = m->scale,
                          .expert = ints_at(f, m->at_expert),
                          .weight = fwd_at(f, m->at_weight),
                          .entry = ints_at(f, m->at_entry),
                          .row = ints_at(f, m->at_row),
                          .first = ints_at(f, m->at_first)};
}

void fwd_route(struct fwd *f, const float *x, const struct moe_block *m)
{
    struct backend *b = f->m->backend;
    const struct route r = route_of(f, m);
    float *logits = fwd_at(f, m->at_logits);
    fwd_linear(f, logits, &m->router, x, f->n_row);
    trace(f, "router", logits, m->n_expert);
    b->op->route(b, &r, logits, f->n_row);
}

void fwd_mix(struct fwd *f, float *y, const float *x, const struct moe_block *m, bool add)
{
    struct backend *b = f->m->backend;
    const struct route r = route_of(f, m);
    const int64_t d = m->down.w.n_out, n_entry = (int64_t)f->n_row * m->n_used;
    float *gate = fwd_at(f, m->at_gate), *up = fwd_at(f, m->at_up), *out = fwd_at(f, m->at_out);
    fwd_experts(f, gate, &m->gate, x, &r, false);
    fwd_experts(f, up, &m->up, x, &r, false);
    b->op->curve_mul(b, gate, gate, up, n_entry * m->gate.w.n_out, m->curve);
    fwd_experts(f, out, &m->down, gate, &r, true);
    b->op->combine(b, y, out, &r, f->n_row, d, add);
}

/* Compute the mixture of all rows, and set y [n_row, d] to the result. add: add the result to y. */
static void mixture(struct fwd *f, float *y, struct input in, const struct moe_block *m, bool add)
{
    const float *x = fwd_made(f, in, m->router.w.k);
    fwd_route(f, x, m);
    fwd_mix(f, y, x, m, add);
}

void fwd_moe(struct fwd *f, float *y, struct input in, const struct moe_block *m)
{
    mixture(f, y, in, m, false);
    trace(f, "moe_out", y, m->down.w.n_out);
}

void fwd_moe_add(struct fwd *f, float *x, struct input in, const struct moe_block *m)
{
    mixture(f, x, in, m, true);
}

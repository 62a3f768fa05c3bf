/* moe.c - a mixture of experts. Papers: "Outrageously Large Neural Networks", arXiv 1701.06538;
 * "Mixtral of Experts", arXiv 2401.04088. A router selects gated feed-forward blocks for each row.
 * The block adds the weighted results of the experts in ascending order of experts, then the result
 * of a block that all rows use (DeepSeekMoE, arXiv 2401.06066).
 *
 *   x [n_row, d] --router--> logits --route--> experts, weights, entries
 *   x by row --gate, up--> [n_entry, d_expert] --unit--> --down--> [n_entry, d] --combine--> y
 *
 * n_entry is n_row * n_used. For each entry, gate and up read row r->row[entry] of x, and down
 * reads row `entry` of its input. */
#include "model/model_impl.h"

static const char both_exps[] = "blk.%d.ffn_gate_up_exps", gate_exps[] = "blk.%d.ffn_gate_exps",
                  up_exps[] = "blk.%d.ffn_up_exps", down_exps[] = "blk.%d.ffn_down_exps";

/* Return the rows of gate, or of up, in the matrices of both: the rows of gate, then the rows of
 * up, or alternating rows. */
static struct row_part half_of(const struct binder *b, int64_t d, bool second)
{
    if (config_is_hf(b) && b->m->arch->hf_pairs)
        return (struct row_part){.first = second, .n = d, .run = 1, .step = 2};
    return (struct row_part){.first = second ? d : 0, .n = d};
}

/* Bind gate and up of the experts. Some files have both in one tensor, and some classes have no
 * gate. */
static void bind_gate_and_up(struct binder *b, struct moe_block *m, int il)
{
    const int64_t d = b->m->config.layer[il].d_expert;
    m->gated = bind_row(b, gate_exps) || bind_row(b, both_exps);
    if (bind_row(b, both_exps) && bind_has_stack(b, both_exps, il)) {
        const struct row_part first = half_of(b, d, false), second = half_of(b, d, true);
        bind_expert_part(b, &m->gate, both_exps, il, &first);
        bind_expert_part(b, &m->up, both_exps, il, &second);
        return;
    }
    if (m->gated) bind_experts(b, &m->gate, gate_exps, il);
    bind_experts(b, &m->up, up_exps, il);
}

/* Bind the biases of the experts' matrices, f32 [n_expert, n_out], if the table has them. A Hugging
 * Face directory has those of gate and up in one tensor; second: those of up. */
static void bind_biases(struct binder *b, struct linear *l, const char *stem, int il, bool second)
{
    static const char both_bias[] = "blk.%d.ffn_gate_up_exps_bias",
                      down_bias[] = "blk.%d.ffn_down_exps_bias";
    const int64_t n_expert = b->m->config.layer[il].n_expert, d = l->w.n_out;
    if (!bind_bias_row(b, stem) || b->rc != 0) return;
    const bool hf = config_is_hf(b), halved = hf && stem != down_exps;
    const float *v =
        hf ? bind_floats(b, halved ? both_bias : down_bias, il, n_expert, halved ? 2 * d : d)
           : bind_bias_values(b, stem, il, n_expert, d);
    float *own = halved ? bind_memory(b, stem, (size_t)(n_expert * d) * sizeof *own) : NULL;
    const struct row_part part = half_of(b, d, second);
    for (int64_t i = 0; i < n_expert * d && own && v; i++)
        own[i] = v[i / d * 2 * d + part.first + i % d * (part.run > 0 ? part.step : 1)];
    l->bias = halved ? own : v;
    bind_vector(b, &l->bias, n_expert * d);
}

/* Bind the projections of the experts' inputs and results, and reserve their scratch. */
static void bind_narrow(struct binder *b, struct moe_block *m, int il)
{
    const struct config *c = &b->m->config;
    m->narrows = c->layer[il].d_latent > 0;
    if (!m->narrows) return;
    bind_linear(b, &m->narrow, "blk.%d.ffn_latent_down", il, c->ffn_bias);
    bind_linear(b, &m->widen, "blk.%d.ffn_latent_up", il, c->ffn_bias);
    m->at_narrow = bind_rows(b, "moe narrow", c->layer[il].d_latent);
    m->at_mixed = bind_rows(b, "moe mixed", c->layer[il].d_latent);
}

/* Bind the vectors of the rule of selection: addends of the scores for the choice. If only some
 * files of the architecture have addends, random weights have them with sigmoid scores. */
static void bind_rule(struct binder *b, struct moe_block *m, int il)
{
    static const char stem[] = "blk.%d.exp_probs_b";
    const struct tensor_row *row = bind_bias_row(b, stem);
    char name[160];
    m->route = b->m->config.route;
    bind_name(b, name, stem, il, "bias");
    if (!row || b->rc != 0) return;
    const bool has = !row->some || checkpoint_tensor(b->checkpoint, name) ||
                     (b->maker && m->route.score == ROUTE_SIGMOID);
    if (!has) return;
    m->route.bias = bind_bias_values(b, stem, il, 1, m->n_expert);
    bind_vector(b, &m->route.bias, m->n_expert);
}

/* Bind the block that all rows use, and its gate. */
static void bind_shared(struct binder *b, struct moe_block *m, int il)
{
    static const char share[] = "blk.%d.ffn_gate_inp_shexp";
    static const struct glu_names name = {"blk.%d.ffn_gate_shexp", "blk.%d.ffn_up_shexp",
                                          "blk.%d.ffn_down_shexp", "blk.%d.ffn_gate_up_shexp"};
    const int d = b->m->config.layer[il].d_shared;
    m->shares = d > 0;
    if (!m->shares) return;
    bind_glu(b, &m->shared, &name, il, d);
    if (bind_row(b, share)) bind_linear(b, &m->shared_gate, share, il, BIAS_NONE);
    m->at_share = bind_rows(b, "moe share", 1);
    m->at_part = bind_rows(b, "moe part", b->m->config.d);
}

/* Reserve scratch for all entries of a row. i32 lists use f32 scratch, because both types have 4
 * bytes. */
static void reserve(struct binder *b, struct moe_block *m, const struct layer_config *l)
{
    const int64_t n = l->n_expert_used;
    m->at_logits = bind_rows(b, "moe logits", l->n_expert);
    if (m->gated) m->at_gate = bind_rows(b, "moe gate", n * l->d_expert);
    m->at_up = bind_rows(b, "moe up", n * l->d_expert);
    m->at_out = bind_rows(b, "moe out", n * (m->narrows ? l->d_latent : b->m->config.d));
    m->at_expert = bind_rows(b, "moe expert", n);
    m->at_weight = bind_rows(b, "moe weight", n);
    m->at_entry = bind_rows(b, "moe entry", n);
    m->at_row = bind_rows(b, "moe row", n);
    m->at_first = bind_fixed(b, "moe first", l->n_expert + 1);
    if (l->n_expert_used > b->m->used_max) b->m->used_max = l->n_expert_used;
}

void bind_moe(struct binder *b, struct moe_block *m, int il)
{
    static const char router[] = "blk.%d.ffn_gate_inp";
    const struct config *c = &b->m->config;
    const struct layer_config *l = &c->layer[il];
    if (b->rc == 0 && (l->n_expert_used < 1 || l->n_expert_used > l->n_expert))
        b->rc = err_set(b->e, ERR_FORMAT, "%s: experts per token: must be in [1, %d], got %d",
                        checkpoint_path(b->checkpoint), l->n_expert, l->n_expert_used);
    if (b->rc != 0) return;
    m->curve = c->curve;
    m->clamped = c->clamped;
    m->n_expert = l->n_expert;
    m->n_used = l->n_expert_used;
    bind_linear(b, &m->router, router, il, bind_bias_row(b, router) ? BIAS_NEEDED : BIAS_NONE);
    bind_rule(b, m, il);
    bind_gate_and_up(b, m, il);
    bind_experts(b, &m->down, down_exps, il);
    if (m->gated) bind_biases(b, &m->gate, gate_exps, il, false);
    bind_biases(b, &m->up, up_exps, il, true);
    bind_biases(b, &m->down, down_exps, il, false);
    bind_narrow(b, m, il);
    bind_shared(b, m, il);
    reserve(b, m, l);
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
                          .spec = m->route,
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

/* Compute the gated unit of all entries, in place in `gate`. Without a gate, apply the activation
 * to `up`. */
static void unit(struct fwd *f, float *gate, float *up, const struct route *r,
                 const struct moe_block *m)
{
    struct backend *b = f->m->backend;
    const int64_t n = m->up.w.n_out, n_value = (int64_t)f->n_row * m->n_used * n;
    if (m->route.weighs_input) {
        if (m->gated) b->op->weigh(b, gate, r, f->n_row, n);
        b->op->weigh(b, up, r, f->n_row, n);
    }
    if (!m->gated)
        b->op->curve(b, up, n_value, m->curve);
    else if (m->clamped.limit > 0)
        b->op->clamped_glu(b, gate, up, n_value, &m->clamped);
    else
        b->op->curve_mul(b, gate, gate, up, n_value, m->curve);
}

void fwd_mix(struct fwd *f, float *y, const float *x, const struct moe_block *m, bool add)
{
    struct backend *b = f->m->backend;
    const struct route r = route_of(f, m);
    float *up = fwd_at(f, m->at_up), *gate = m->gated ? fwd_at(f, m->at_gate) : up,
          *out = fwd_at(f, m->at_out);
    const struct output in[] = {{&m->gate, gate}, {&m->up, up}};
    fwd_experts(f, m->gated ? in : &in[1], m->gated ? 2 : 1, x, &r, false);
    unit(f, gate, up, &r, m);
    fwd_experts(f, &(struct output){&m->down, out}, 1, gate, &r, true);
    b->op->combine(b, y, out, &r, f->n_row, m->down.w.n_out, add);
}

/* Add the block of all rows to y [n_row, d]. Without a gate, the addition needs fewer passes if y
 * is not the scratch f->y. With a gate, the block's result is complete before its factor. */
static void add_shared(struct fwd *f, float *y, const float *x, const struct moe_block *m)
{
    struct backend *b = f->m->backend;
    const bool gated = m->shared_gate.w.n_out > 0;
    if (!gated && y != f->y) {
        fwd_ffn_add(f, y, fwd_plain(x), &m->shared);
        return;
    }
    float *share = fwd_at(f, m->at_share), *part = fwd_at(f, m->at_part);
    if (gated) fwd_linear(f, share, &m->shared_gate, x, f->n_row);
    if (gated) b->op->curve(b, share, f->n_row, CURVE_sigmoid);
    fwd_ffn(f, part, fwd_plain(x), &m->shared);
    if (gated) b->op->scale_rows(b, part, share, f->n_row, m->shared.down.w.n_out);
    b->op->add(b, y, part, f->n_row * m->shared.down.w.n_out);
}

/* Compute the mixture of projected rows x [n_row, d], as fwd_mix does. */
static void mix_narrow(struct fwd *f, float *y, const float *x, const struct moe_block *m, bool add)
{
    float *narrow = fwd_at(f, m->at_narrow), *mixed = fwd_at(f, m->at_mixed);
    fwd_linear(f, narrow, &m->narrow, x, f->n_row);
    fwd_mix(f, mixed, narrow, m, false);
    if (add)
        fwd_linear_add(f, y, &m->widen, mixed);
    else
        fwd_linear(f, y, &m->widen, mixed, f->n_row);
}

/* Compute the mixture of all rows, and set y [n_row, d] to the result. add: add the result to y. */
static void mixture(struct fwd *f, float *y, struct input in, const struct moe_block *m, bool add)
{
    const float *x = fwd_made(f, in, m->router.w.k);
    fwd_route(f, x, m);
    if (m->narrows)
        mix_narrow(f, y, x, m, add);
    else
        fwd_mix(f, y, x, m, add);
    if (m->shares) add_shared(f, y, x, m);
}

void fwd_moe(struct fwd *f, float *y, struct input in, const struct moe_block *m)
{
    mixture(f, y, in, m, false);
    trace(f, "moe_out", y, m->router.w.k);
}

void fwd_moe_add(struct fwd *f, float *x, struct input in, const struct moe_block *m)
{
    mixture(f, x, in, m, true);
}

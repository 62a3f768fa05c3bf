/* wkv.c - time mixing of RWKV-4 ("RWKV", arXiv 2305.13048), RWKV-5 and RWKV-6 ("Eagle and Finch",
 * arXiv 2404.05892).
 *
 *   h --+--> shift --> factors * difference + h --> k, v --> scan --+
 *       |                                     +--> r --sigmoid--> product --> o       (RWKV-4)
 *       |                                     +--> r, k, v --> scan --norm--+
 *       |                                     +--> g --silu-----------> product --> o (RWKV-5, 6)
 *       +--> low --tanh--> high --> addends of the factors                            (RWKV-6)
 *
 * RWKV-4 has a weighted mean per column. RWKV-5 and 6 have a state per head. In RWKV-6 the factors
 * and the decays depend on the row. */
#include "model/rwkv_impl.h"

#include <math.h>

int64_t rwkv_size(const struct rwkv_sizes *s, enum tensor_size size)
{
    switch (size) {
    case SIZE_D_INNER:
        return s->d_att;
    case SIZE_N_MIX:
        return MIX_COUNT;
    case SIZE_RANK_MIX:
        return s->rank_mix;
    case SIZE_RANK_MIXES:
        return MIX_COUNT * (int64_t)s->rank_mix;
    default:
        CHECK(size == SIZE_RANK_DECAY, "size %d", (int)size);
        return s->rank_decay;
    }
}

/* ---- binding ---- */

/* Bind the factors and the matrices of the mixed inputs. */
static void bind_mixed(struct binder *b, struct time_block *t, int il)
{
    static const char *const by[MIX_COUNT] = {"blk.%d.time_mix_lerp_w", "blk.%d.time_mix_lerp_k",
                                              "blk.%d.time_mix_lerp_v", "blk.%d.time_mix_lerp_r",
                                              "blk.%d.time_mix_lerp_g"};
    for (int i = 0; i < MIX_COUNT; i++)
        if (bind_row(b, by[i]))
            bind_lerp_part(b, &t->by[i], by[i], il, i, MIX_COUNT, t->s.rank_mix == 0);
    bind_linear(b, &t->r, "blk.%d.time_mix_receptance", il, BIAS_NONE);
    bind_linear(b, &t->k, "blk.%d.time_mix_key", il, BIAS_NONE);
    bind_linear(b, &t->v, "blk.%d.time_mix_value", il, BIAS_NONE);
    if (t->s.n_head > 0) bind_linear(b, &t->g, "blk.%d.time_mix_gate", il, BIAS_NONE);
    bind_linear(b, &t->o, "blk.%d.time_mix_output", il, BIAS_NONE);
    if (t->s.rank_mix == 0) return;
    bind_lerp(b, &t->all, "blk.%d.time_mix_lerp_x", il, false);
    bind_parts(b, &t->low, "blk.%d.time_mix_w1", il);
    bind_parts(b, &t->high, "blk.%d.time_mix_w2", il);
    bind_parts(b, &t->decay_low, "blk.%d.time_mix_decay_w1", il);
    bind_parts(b, &t->decay_high, "blk.%d.time_mix_decay_w2", il);
}

/* Bind decays and factors of the own row. The decay of a state is exp(-exp(x)): RWKV-4 needs the
 * inner product, RWKV-5 the whole, and RWKV-6 the factor of the part that depends on the row. */
static void bind_decay(struct binder *b, struct time_block *t, int il)
{
    const int64_t d = t->s.d_att;
    float *decay = bind_transposed(b, "blk.%d.time_mix_decay", il, d, 1);
    for (int64_t i = 0; i < d && decay; i++) {
        const double inner = -exp((double)decay[i]);
        decay[i] = (float)(t->s.n_head > 0 && t->s.rank_mix == 0 ? exp(inner) : inner);
    }
    t->decay = decay;
    bind_vector(b, &t->decay, d);
    t->first = bind_transposed(b, "blk.%d.time_mix_first", il, d, 1);
    bind_vector(b, &t->first, d);
}

void bind_time(struct binder *b, struct time_block *t, int il, const struct rwkv_sizes *s)
{
    const int64_t d = b->m->config.d, d_att = s->d_att;
    t->s = *s;
    bind_shift(b, &t->shift);
    bind_mixed(b, t, il);
    bind_decay(b, t, il);
    t->at_state = bind_state(b, s->n_head > 0 ? d_att * s->d_head : 3 * d_att);
    t->at_in = bind_rows(b, "mixed", d);
    t->at_r = bind_rows(b, "scan q", d_att);
    t->at_k = bind_rows(b, "scan k", d_att);
    t->at_v = bind_rows(b, "scan v", d_att);
    t->at_y = bind_rows(b, "scan out", d_att);
    if (s->n_head == 0) return;
    t->at_g = bind_rows(b, "scan z", d_att);
    bind_norm(b, &t->norm, "blk.%d.time_mix_ln", il);
    t->norm.n_part = s->n_head, t->norm.eps = s->head_eps;
    if (s->rank_mix == 0) return;
    t->at_low = bind_rows(b, "mix low", MIX_COUNT * (int64_t)s->rank_mix);
    t->at_high = bind_rows(b, "mix high", MIX_COUNT * d);
    t->at_decay_low = bind_rows(b, "scan low", s->rank_decay);
    t->at_decay = bind_rows(b, "scan decay", d_att);
}

/* ---- the forward pass ---- */

/* Multiply x f32 [n_row, k] by the only matrix of l. */
static void linear_part(struct fwd *f, float *y, const struct linear *l, const float *x)
{
    fwd_parts(f, y, l, x,
              &(struct columns){
                  .n_part = 1, .y_row = l->w.n_out, .x_row = l->w.k, .y_part = 0, .x_part = 0});
}

/* Compute the addends of the factors, f32 [MIX_COUNT, n_row, d] (RWKV-6). */
static void mix_rows(struct fwd *f, const float *h, const float *xx, const struct time_block *t)
{
    struct backend *b = f->m->backend;
    const int64_t d = f->m->config.d, rank = t->s.rank_mix;
    float *in = fwd_at(f, t->at_in), *low = fwd_at(f, t->at_low);
    fwd_lerp(f, in, h, xx, t->all);
    linear_part(f, low, &t->low, in);
    b->op->curve(b, low, f->n_row * MIX_COUNT * rank, CURVE_tanh);
    fwd_parts(f, fwd_at(f, t->at_high), &t->high, low,
              &(struct columns){.n_part = MIX_COUNT,
                                .y_row = d,
                                .y_part = f->n_row * d,
                                .x_row = MIX_COUNT * rank,
                                .x_part = rank});
}

/* Return the mixed input i, f32 [n_row, d], in scratch. */
static const float *mixed(struct fwd *f, const float *h, const float *xx, enum rwkv_mix i,
                          const struct time_block *t)
{
    struct backend *b = f->m->backend;
    const int64_t n = f->n_row * (int64_t)f->m->config.d;
    float *in = fwd_at(f, t->at_in);
    fwd_lerp(f, in, h, xx, t->by[i]);
    if (t->s.rank_mix == 0) return in;
    float *own = fwd_at(f, t->at_high) + i * n;
    b->op->mul(b, own, xx, n);
    b->op->add(b, in, own, n);
    return in;
}

/* Compute the decays of RWKV-6 from the mixed input x: exp(-exp(decay) exp(high(tanh(low x)))). */
static void decay_rows(struct fwd *f, const float *x, const struct time_block *t)
{
    struct backend *b = f->m->backend;
    const int64_t d = t->s.d_att;
    float *low = fwd_at(f, t->at_decay_low), *decay = fwd_at(f, t->at_decay);
    linear_part(f, low, &t->decay_low, x);
    b->op->curve(b, low, f->n_row * (int64_t)t->s.rank_decay, CURVE_tanh);
    linear_part(f, decay, &t->decay_high, low);
    b->op->curve(b, decay, f->n_row * d, CURVE_exp);
    b->op->scale_columns(b, decay, decay, t->decay, f->n_row, d);
    b->op->curve(b, decay, f->n_row * d, CURVE_exp);
}

/* Return the arguments of the scan. */
static struct scan scan_of(const struct fwd *f, const struct time_block *t)
{
    const bool heads = t->s.n_head > 0, rows = t->s.rank_mix > 0;
    return (struct scan){.kind = heads ? SCAN_WKV_HEADS : SCAN_WKV,
                         .n_head = heads ? t->s.n_head : 1,
                         .n_head_k = heads ? t->s.n_head : 1,
                         .d_k = heads ? t->s.d_head : 3,
                         .d_v = heads ? t->s.d_head : t->s.d_att,
                         .q = heads ? fwd_at(f, t->at_r) : NULL,
                         .k = fwd_at(f, t->at_k),
                         .v = fwd_at(f, t->at_v),
                         .decay = rows ? fwd_at(f, t->at_decay) : t->decay,
                         .by_channel = heads,
                         .same_decay = !rows,
                         .skip = t->first,
                         .state = fwd_state(f, t->at_state)};
}

void fwd_time_add(struct fwd *f, float *x, const float *h, const struct time_block *t)
{
    struct backend *b = f->m->backend;
    const int64_t n = f->n_row * (int64_t)t->s.d_att;
    const bool heads = t->s.n_head > 0;
    float *r = fwd_at(f, t->at_r), *g = heads ? fwd_at(f, t->at_g) : r, *y = fwd_at(f, t->at_y);
    const float *xx = fwd_shift(f, h, &t->shift);
    if (t->s.rank_mix > 0) {
        mix_rows(f, h, xx, t);
        decay_rows(f, mixed(f, h, xx, MIX_W, t), t);
    }
    fwd_linear(f, fwd_at(f, t->at_k), &t->k, mixed(f, h, xx, MIX_K, t), f->n_row);
    fwd_linear(f, fwd_at(f, t->at_v), &t->v, mixed(f, h, xx, MIX_V, t), f->n_row);
    fwd_linear(f, r, &t->r, mixed(f, h, xx, MIX_R, t), f->n_row);
    if (heads) fwd_linear(f, g, &t->g, mixed(f, h, xx, MIX_G, t), f->n_row);
    const struct scan scan = scan_of(f, t);
    b->op->scan(b, y, &scan, f->on_device);
    trace(f, "scan", y, t->s.d_att);
    if (heads) fwd_norm(f, y, y, &t->norm);
    b->op->curve_mul(b, g, g, y, n, heads ? CURVE_silu : CURVE_sigmoid);
    if (t->factor != 0) b->op->scale(b, g, n, t->factor);
    fwd_linear_add(f, x, &t->o, g);
    trace(f, "attn_out", f->y, t->o.w.n_out);
}

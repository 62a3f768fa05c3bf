/* rwkv7.c - time mixing of RWKV-7 ("RWKV-7 Goose with Expressive Dynamic State Evolution", arXiv
 * 2503.14456): a delta rule whose removed and added keys differ.
 *
 *   h --shift, factors--> r, k, v
 *      --> decay --sigmoid--> exp(-exp(-1/2) x)
 *      --> a --sigmoid--> rate of learning in context
 *      --> v --sigmoid--> share of the first layer's values in v
 *   removed key: -k k_k / |k k_k| = -q;  added key: q a;  key: k (1 + (a - 1) k_a)
 *   scan --norm--> + v (r k r_k summed over the head) --> * gate --> o */
#include "model/rwkv_impl.h"

#define DECAY_SCALE  -0.6065306597126334f /* -exp(-1/2) */
#define LENGTH_LEAST 1e-12                /* least length of a key, a constant of the reference */

int64_t rwkv7_size(const struct rwkv7_sizes *s, enum tensor_size size)
{
    switch (size) {
    case SIZE_N_HEAD_STATE:
        return s->n_head;
    case SIZE_D_HEAD_STATE:
        return s->d_head;
    case SIZE_RANK_DECAY:
        return s->rank_decay;
    case SIZE_RANK_A:
        return s->rank_a;
    case SIZE_RANK_V:
        return s->rank_v;
    default:
        CHECK(size == SIZE_RANK_GATE, "size %d", (int)size);
        return s->rank_gate;
    }
}

void rwkv7_read_gguf(const struct config *c, struct binder *b, struct rwkv7_sizes *s,
                     int gate_least)
{
    rwkv_read_gguf_heads(c, b, &s->n_head, &s->d_head, &s->head_eps);
    s->rank_decay = config_int(b, "attention.decay_lora_rank", 1, WIDTH_MAX, 0);
    s->rank_a = config_int(b, "attention.iclr_lora_rank", 1, WIDTH_MAX, 0);
    s->rank_v = config_int(b, "attention.value_residual_mix_lora_rank", 1, WIDTH_MAX, 0);
    s->rank_gate = config_int(b, "attention.gate_lora_rank", gate_least, WIDTH_MAX, 0);
}

/* ---- binding ---- */

/* Bind both matrices. base: the bias of `high` in a GGUF, which has it as a tensor with another
 * name; NULL: no bias. */
static void bind_low_rank(struct binder *b, struct low_rank *l, const char *low, const char *high,
                          const char *base, int il)
{
    const bool hf = config_is_hf(b);
    bind_linear(b, &l->low, low, il, BIAS_NONE);
    bind_linear(b, &l->high, high, il, base && hf ? BIAS_NEEDED : BIAS_NONE);
    if (!base || hf || b->rc != 0) return;
    l->high.bias = bind_floats(b, base, il, 1, l->high.w.n_out);
    bind_vector(b, &l->high.bias, l->high.w.n_out);
}

/* Bind the matrices and the factors of the mixed inputs. */
static void bind_goose_inputs(struct binder *b, struct goose_block *t, int il)
{
    const int n = t->s.rank_gate > 0 ? MIX7_COUNT : MIX7_G;
    static const char *const by[MIX7_COUNT] = {"blk.%d.time_mix_lerp_r", "blk.%d.time_mix_lerp_w",
                                               "blk.%d.time_mix_lerp_k", "blk.%d.time_mix_lerp_v",
                                               "blk.%d.time_mix_lerp_a", "blk.%d.time_mix_lerp_g"};
    for (int i = 0; i < n; i++) bind_lerp_part(b, &t->by[i], by[i], il, i, n, false);
    bind_linear(b, &t->r, "blk.%d.time_mix_receptance", il, BIAS_NONE);
    bind_linear(b, &t->k, "blk.%d.time_mix_key", il, BIAS_NONE);
    bind_linear(b, &t->v, "blk.%d.time_mix_value", il, BIAS_NONE);
    bind_linear(b, &t->o, "blk.%d.time_mix_output", il, BIAS_NONE);
    bind_heads(b, &t->bonus, "blk.%d.time_mix_r_k", il, &(struct row_part){.n = 1, .step = 1},
               false);
    bind_low_rank(b, &t->decay, "blk.%d.time_mix_w1", "blk.%d.time_mix_w2", "blk.%d.time_mix_w0",
                  il);
    bind_low_rank(b, &t->a, "blk.%d.time_mix_a1", "blk.%d.time_mix_a2", "blk.%d.time_mix_a0", il);
    if (t->s.rank_gate > 0)
        bind_low_rank(b, &t->gate, "blk.%d.time_mix_g1", "blk.%d.time_mix_g2", NULL, il);
    if (!t->first)
        bind_low_rank(b, &t->mix, "blk.%d.time_mix_v1", "blk.%d.time_mix_v2", "blk.%d.time_mix_v0",
                      il);
}

/* Bind the norm of results, which files of arwkv7 may lack. */
static void bind_results(struct binder *b, struct norm *n, int il)
{
    static const char stem[] = "blk.%d.time_mix_ln";
    const int d = b->m->config.d;
    char name[160];
    if (b->m->arch->layer_norm_eps) {
        bind_norm(b, n, stem, il);
        return;
    }
    if (b->rc != 0 || !bind_has(b, stem, il)) return;
    bind_name(b, name, stem, il, "weight");
    n->g = bind_required(b, name, d);
    bind_name(b, name, stem, il, "bias");
    n->b = bind_required(b, name, d);
    n->n = d;
    bind_vector(b, &n->g, d);
    bind_vector(b, &n->b, d);
}

/* Bind the factors of keys, and the norms. */
static void bind_goose_keys(struct binder *b, struct goose_block *t, int il)
{
    const int64_t d = b->m->config.d;
    const int n = t->s.d_head;
    float *unit = bind_memory(b, "a norm", (size_t)n * sizeof *unit);
    for (int i = 0; i < n && unit; i++) unit[i] = (float)(1 / sqrt(n));
    t->length = (struct norm){.g = unit, .eps = (float)(LENGTH_LEAST * LENGTH_LEAST / n), .n = n};
    bind_vector(b, &t->length.g, n);
    bind_lerp(b, &t->k_k, "blk.%d.time_mix_k_k", il, false);
    bind_lerp(b, &t->k_a, "blk.%d.time_mix_k_a", il, false);
    float *rest = bind_memory(b, "the factors of keys", (size_t)d * sizeof *rest);
    for (int64_t i = 0; i < d && rest && t->k_a; i++) rest[i] = 1 - t->k_a[i];
    t->k_rest = rest;
    bind_vector(b, &t->k_rest, d);
    bind_results(b, &t->norm, il);
    t->norm.n_part = t->s.n_head, t->norm.eps = t->s.head_eps;
}

void bind_goose(struct binder *b, struct goose_block *t, int il, const struct rwkv7_sizes *s)
{
    const int64_t d = b->m->config.d;
    const int rank[] = {s->rank_decay, s->rank_a, s->rank_v, s->rank_gate};
    t->s = *s;
    t->first = il == 0;
    bind_shift(b, &t->shift);
    bind_goose_inputs(b, t, il);
    bind_goose_keys(b, t, il);
    t->at_state = bind_state(b, d * s->d_head);
    for (int i = 0; i < 4; i++)
        if (rank[i] > 0) t->at_low = bind_rows(b, "scan low", rank[i]);
    t->at_in = bind_rows(b, "mixed", d);
    t->at_r = bind_rows(b, "scan q", d);
    t->at_k = bind_rows(b, "scan k", d);
    t->at_v = bind_rows(b, "scan v", d);
    t->at_decay = bind_rows(b, "scan decay", d);
    t->at_a = bind_rows(b, "scan a", d);
    t->at_gate = bind_rows(b, "scan z", d);
    t->at_remove = bind_rows(b, "scan remove", d);
    t->at_add = bind_rows(b, "scan add", d);
    t->at_t = bind_rows(b, "scan t", d);
    t->at_y = bind_rows(b, "scan out", d);
    t->at_first = bind_rows(b, "first values", d);
    t->at_bonus = bind_rows(b, "bonus", s->n_head);
}

/* ---- the forward pass ---- */

static void copy_rows(struct fwd *f, float *y, const float *x)
{
    struct backend *b = f->m->backend;
    const size_t n = (size_t)f->n_row * (size_t)f->m->config.d;
    b->op->copy(b, y, x, n * sizeof *y);
}

/* Compute y = high(curve(low x)). curved: low has the curve. */
static void fwd_low_rank(struct fwd *f, float *y, const float *x, const struct low_rank *l,
                         bool curved, enum curve curve, const struct goose_block *t)
{
    struct backend *b = f->m->backend;
    float *low = fwd_at(f, t->at_low);
    fwd_linear(f, low, &l->low, x, f->n_row);
    if (curved) b->op->curve(b, low, f->n_row * l->low.w.n_out, curve);
    fwd_linear(f, y, &l->high, low, f->n_row);
}

/* Return the mixed input i, f32 [n_row, d], in scratch. */
static const float *mixed(struct fwd *f, const float *h, const float *xx, enum rwkv7_mix i,
                          const struct goose_block *t)
{
    float *in = fwd_at(f, t->at_in);
    fwd_lerp(f, in, h, xx, t->by[i]);
    return in;
}

/* Compute v, and mix it with the values of the first layer. */
static void values(struct fwd *f, const float *in, const struct goose_block *t)
{
    struct backend *b = f->m->backend;
    const int64_t n = f->n_row * (int64_t)f->m->config.d;
    float *v = fwd_at(f, t->at_v), *share = fwd_at(f, t->at_t), *first = fwd_at(f, t->at_first),
          *d = fwd_at(f, t->at_add);
    fwd_linear(f, v, &t->v, in, f->n_row);
    if (t->first) {
        copy_rows(f, first, v);
        return;
    }
    fwd_low_rank(f, share, in, &t->mix, false, CURVE_tanh, t);
    b->op->curve(b, share, n, CURVE_sigmoid);
    copy_rows(f, d, v);
    b->op->scale(b, d, n, -1);
    b->op->add(b, d, first, n);
    b->op->mul(b, d, share, n);
    b->op->add(b, v, d, n);
}

/* Compute the removed, the added and the own key from k and a. */
static void keys(struct fwd *f, const struct goose_block *t)
{
    struct backend *b = f->m->backend;
    const int64_t n = f->n_row * (int64_t)f->m->config.d;
    float *k = fwd_at(f, t->at_k), *a = fwd_at(f, t->at_a), *remove = fwd_at(f, t->at_remove),
          *add = fwd_at(f, t->at_add), *part = fwd_at(f, t->at_t);
    fwd_scale_columns(f, remove, k, t->k_k);
    fwd_head_norm(f, remove, t->s.n_head, &t->length);
    copy_rows(f, add, remove);
    b->op->mul(b, add, a, n);
    b->op->scale(b, remove, n, -1);
    fwd_scale_columns(f, part, k, t->k_a);
    b->op->mul(b, part, a, n);
    fwd_scale_columns(f, k, k, t->k_rest);
    b->op->add(b, k, part, n);
}

/* Add v times the sum of r k r_k over each head to y. */
static void add_bonus(struct fwd *f, float *y, const struct goose_block *t)
{
    struct backend *b = f->m->backend;
    const int64_t d = f->m->config.d, n = f->n_row * d;
    float *part = fwd_at(f, t->at_t), *bonus = fwd_at(f, t->at_bonus);
    copy_rows(f, part, fwd_at(f, t->at_r));
    b->op->mul(b, part, fwd_at(f, t->at_k), n);
    fwd_parts(f, bonus, &t->bonus, part,
              &(struct columns){.n_part = t->s.n_head,
                                .y_row = t->s.n_head,
                                .y_part = 1,
                                .x_row = d,
                                .x_part = t->s.d_head});
    copy_rows(f, part, fwd_at(f, t->at_v));
    b->op->scale_rows(b, part, bonus, f->n_row * t->s.n_head, t->s.d_head);
    b->op->add(b, y, part, n);
}

void fwd_goose_add(struct fwd *f, float *x, const float *h, const struct goose_block *t)
{
    struct backend *b = f->m->backend;
    const int64_t n = f->n_row * (int64_t)f->m->config.d;
    float *y = fwd_at(f, t->at_y), *decay = fwd_at(f, t->at_decay), *a = fwd_at(f, t->at_a),
          *gate = fwd_at(f, t->at_gate);
    const float *xx = fwd_shift(f, h, &t->shift);
    fwd_linear(f, fwd_at(f, t->at_r), &t->r, mixed(f, h, xx, MIX7_R, t), f->n_row);
    fwd_low_rank(f, decay, mixed(f, h, xx, MIX7_W, t), &t->decay, true, CURVE_tanh, t);
    b->op->curve(b, decay, n, CURVE_sigmoid);
    b->op->scale(b, decay, n, DECAY_SCALE);
    b->op->curve(b, decay, n, CURVE_exp);
    fwd_linear(f, fwd_at(f, t->at_k), &t->k, mixed(f, h, xx, MIX7_K, t), f->n_row);
    values(f, mixed(f, h, xx, MIX7_V, t), t);
    fwd_low_rank(f, a, mixed(f, h, xx, MIX7_A, t), &t->a, false, CURVE_tanh, t);
    b->op->curve(b, a, n, CURVE_sigmoid);
    const bool gated = t->s.rank_gate > 0;
    if (gated) fwd_low_rank(f, gate, mixed(f, h, xx, MIX7_G, t), &t->gate, true, CURVE_sigmoid, t);
    keys(f, t);
    const struct scan scan = {.kind = SCAN_WKV_DELTA,
                              .n_head = t->s.n_head,
                              .n_head_k = t->s.n_head,
                              .d_k = t->s.d_head,
                              .d_v = t->s.d_head,
                              .q = fwd_at(f, t->at_r),
                              .k = fwd_at(f, t->at_k),
                              .v = fwd_at(f, t->at_v),
                              .decay = decay,
                              .by_channel = true,
                              .a = fwd_at(f, t->at_remove),
                              .b = fwd_at(f, t->at_add),
                              .state = fwd_state(f, t->at_state)};
    b->op->scan(b, y, &scan, f->on_device);
    trace(f, "scan", y, f->m->config.d);
    if (t->norm.g) fwd_norm(f, y, y, &t->norm);
    add_bonus(f, y, t);
    if (gated) b->op->mul(b, y, gate, n);
    fwd_linear_add(f, x, &t->o, y);
    trace(f, "attn_out", f->y, t->o.w.n_out);
}

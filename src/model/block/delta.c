/* delta.c - a layer with the gated delta rule ("Gated Delta Networks", arXiv 2412.06464), as in
 * Qwen3-Next and Qwen3.5.
 *
 *   in --> q k v --conv, curve--> q / |q| / sqrt(d_k), k / |k|, v --+
 *      --> beta --sigmoid-----------------------------------------> scan --norm--+
 *      --> decay --exp(a softplus(x + bias))------------------------+            |
 *      --> z --silu--------------------------------------------------------> product --> o
 *
 * Files have q, k and v in one matrix: rows of q, then k, then v, or the rows of each k head with
 * its z together (ssm_in). The second form is divided into a matrix each. The convolution is
 * computed for q, k and v separately, so that each result is contiguous. */
#include "model/recurrent_impl.h"

#include <math.h>

#define LENGTH_EPSILON 1e-6

int64_t delta_size(const struct delta_sizes *s, enum tensor_size size)
{
    const int64_t d_k = (int64_t)s->n_head_k * s->d_k, d_v = (int64_t)s->n_head * s->d_v;
    switch (size) {
    case SIZE_D_CONV:
        return 2 * d_k + d_v;
    case SIZE_D_INNER:
        return d_v;
    case SIZE_D_INNER_IN:
        return 2 * d_k + 2 * d_v;
    case SIZE_N_HEAD_STATE:
        return s->n_head;
    case SIZE_N_HEAD_STATE_2:
        return 2 * (int64_t)s->n_head;
    case SIZE_D_HEAD_STATE:
        return s->d_v;
    default:
        CHECK(size == SIZE_N_TAP, "size %d", (int)size);
        return s->n_tap;
    }
}

/* ---- binding ---- */

/* Bind the matrices of q, k, v and z. */
static void bind_inputs_of(struct binder *b, struct delta_block *d, int il)
{
    static const char qkv[] = "blk.%d.attn_qkv", z[] = "blk.%d.attn_gate", all[] = "blk.%d.ssm_in";
    const int64_t d_k = d->s.d_k, d_v = (int64_t)d->s.n_head / d->s.n_head_k * d->s.d_v,
                  n = d->s.n_head_k, step = 2 * d_k + 2 * d_v;
    if (!bind_row(b, all) || !bind_has(b, all, il)) {
        bind_linear(b, &d->qkv, qkv, il, BIAS_NONE);
        bind_linear(b, &d->z, z, il, BIAS_NONE);
        return;
    }
    bind_part(b, &d->q, all, il, BIAS_NONE,
              &(struct row_part){.n = n * d_k, .run = d_k, .step = step});
    bind_part(b, &d->k, all, il, BIAS_NONE,
              &(struct row_part){.first = d_k, .n = n * d_k, .run = d_k, .step = step});
    bind_part(b, &d->v, all, il, BIAS_NONE,
              &(struct row_part){.first = 2 * d_k, .n = n * d_v, .run = d_v, .step = step});
    bind_part(b, &d->z, all, il, BIAS_NONE,
              &(struct row_part){.first = 2 * d_k + d_v, .n = n * d_v, .run = d_v, .step = step});
}

/* Bind the matrices of beta and decay, which may be one matrix in groups of k heads, and the
 * parameters of the decay. */
static void bind_gates(struct binder *b, struct delta_block *d, int il)
{
    static const char both[] = "blk.%d.ssm_ba";
    const int n = d->s.n_head, run = n / d->s.n_head_k;
    if (bind_row(b, both)) {
        bind_part(b, &d->beta, both, il, BIAS_NONE,
                  &(struct row_part){.n = n, .run = run, .step = 2 * run});
        bind_part(b, &d->decay, both, il, BIAS_NONE,
                  &(struct row_part){.first = run, .n = n, .run = run, .step = 2 * run});
    } else {
        bind_linear(b, &d->beta, "blk.%d.ssm_beta", il, BIAS_NONE);
        bind_linear(b, &d->decay, "blk.%d.ssm_alpha", il, BIAS_NONE);
    }
    d->decay.bias = bind_transposed(b, "blk.%d.ssm_dt", il, n, 1);
    bind_vector(b, &d->decay.bias, n);
    d->decay.w.joined = true;
    float *a = bind_transposed(b, "blk.%d.ssm_a", il, n, 1);
    for (int i = 0; i < n && a && config_is_hf(b); i++) a[i] = (float)-exp((double)a[i]);
    d->a = a;
    bind_vector(b, &d->a, n);
}

void bind_length(struct binder *b, struct norm *n, int size, double length)
{
    float *g = bind_memory(b, "a norm", (size_t)size * sizeof *g);
    for (int i = 0; i < size && g; i++) g[i] = (float)(length / sqrt(size));
    *n = (struct norm){.g = g, .eps = (float)(LENGTH_EPSILON / size), .n = size};
    bind_vector(b, &n->g, size);
}

void bind_delta(struct binder *b, struct delta_block *d, int il, const struct delta_sizes *s,
                bool tiled)
{
    const int64_t d_k = (int64_t)s->n_head_k * s->d_k, d_v = (int64_t)s->n_head * s->d_v;
    d->s = *s;
    d->tiled = tiled;
    bind_inputs_of(b, d, il);
    bind_gates(b, d, il);
    bind_conv(b, &d->conv, "blk.%d.ssm_conv1d", il, 2 * d_k + d_v, s->n_tap, false);
    d->conv.curved = true, d->conv.curve = b->m->config.curve;
    bind_length(b, &d->q_norm, s->d_k, 1 / sqrt(s->d_k));
    bind_length(b, &d->k_norm, s->d_k, 1);
    d->norm = (struct norm){.g = bind_transposed(b, "blk.%d.ssm_norm", il, s->d_v, 1),
                            .eps = b->m->config.rms_eps,
                            .n = s->d_v};
    bind_vector(b, &d->norm.g, s->d_v);
    bind_linear(b, &d->o, "blk.%d.ssm_out", il, BIAS_NONE);
    d->at_state = bind_state(b, s->d_k * d_v);
    d->at_qkv = bind_rows(b, "scan in", 2 * d_k + d_v);
    d->at_q = bind_rows(b, "scan q", d_k);
    d->at_k = bind_rows(b, "scan k", d_k);
    d->at_v = bind_rows(b, "scan v", d_v);
    d->at_z = bind_rows(b, "scan z", d_v);
    d->at_beta = bind_rows(b, "scan beta", s->n_head);
    d->at_decay = bind_rows(b, "scan decay", s->n_head);
    d->at_y = bind_rows(b, "scan out", d_v);
}

/* ---- the forward pass ---- */

/* Compute the matrices of x, then the convolutions. */
static void project(struct fwd *f, struct input in, const struct delta_block *d)
{
    const int64_t d_k = (int64_t)d->s.n_head_k * d->s.d_k, d_v = (int64_t)d->s.n_head * d->s.d_v,
                  n_row = f->n_row, d_all = 2 * d_k + d_v;
    const bool whole = d->qkv.w.n_out > 0;
    /* addresses of q, k and v: columns of one array, or arrays */
    float *qkv = fwd_at(f, d->at_qkv), *k = qkv + (whole ? d_k : n_row * d_k),
          *v = qkv + (whole ? 2 * d_k : 2 * n_row * d_k);
    const struct input x = fwd_plain(fwd_made(f, in, d->z.w.k));
    const struct output gates[] = {{&d->z, fwd_at(f, d->at_z)},
                                   {&d->beta, fwd_at(f, d->at_beta)},
                                   {&d->decay, fwd_at(f, d->at_decay)}},
                        one[] = {{&d->qkv, qkv}}, three[] = {{&d->q, qkv}, {&d->k, k}, {&d->v, v}};
    fwd_linears(f, whole ? one : three, whole ? 1 : 3, &x);
    fwd_linears(f, gates, 3, &x);
    fwd_conv(f, fwd_at(f, d->at_q), qkv, whole ? d_all : d_k, 0, d_k, &d->conv);
    fwd_conv(f, fwd_at(f, d->at_k), k, whole ? d_all : d_k, d_k, d_k, &d->conv);
    fwd_conv(f, fwd_at(f, d->at_v), v, whole ? d_all : d_v, 2 * d_k, d_v, &d->conv);
}

/* Compute beta and the decay of each head. */
static void gate(struct fwd *f, const struct delta_block *d)
{
    struct backend *b = f->m->backend;
    const int64_t n = d->s.n_head;
    float *beta = fwd_at(f, d->at_beta), *decay = fwd_at(f, d->at_decay);
    b->op->curve(b, beta, f->n_row * n, CURVE_sigmoid);
    b->op->curve(b, decay, f->n_row * n, CURVE_softplus);
    b->op->scale_columns(b, decay, decay, d->a, f->n_row, n);
    b->op->curve(b, decay, f->n_row * n, CURVE_exp);
}

void fwd_delta_end_add(struct fwd *f, float *x, const struct scan *s, const struct delta_end *end,
                       float *y, float *z)
{
    struct backend *b = f->m->backend;
    const int64_t n = (int64_t)s->n_head * s->d_v;
    b->op->scan(b, y, s, f->on_device);
    trace(f, "scan", y, n);
    fwd_head_norm(f, y, s->n_head, end->norm);
    b->op->curve_mul(b, z, z, y, f->n_row * n, end->curve);
    fwd_linear_add(f, x, end->o, z);
}

void fwd_delta_add(struct fwd *f, float *x, struct input in, const struct delta_block *d)
{
    const struct delta_sizes *s = &d->s;
    float *q = fwd_at(f, d->at_q), *k = fwd_at(f, d->at_k);
    project(f, in, d);
    gate(f, d);
    fwd_head_norm(f, q, s->n_head_k, &d->q_norm);
    fwd_head_norm(f, k, s->n_head_k, &d->k_norm);
    const struct scan scan = {.kind = SCAN_DELTA,
                              .n_head = s->n_head,
                              .n_head_k = s->n_head_k,
                              .d_k = s->d_k,
                              .d_v = s->d_v,
                              .tiled = d->tiled,
                              .q = q,
                              .k = k,
                              .v = fwd_at(f, d->at_v),
                              .decay = fwd_at(f, d->at_decay),
                              .beta = fwd_at(f, d->at_beta),
                              .state = fwd_state(f, d->at_state)};
    const struct delta_end end = {.norm = &d->norm, .o = &d->o, .curve = CURVE_silu};
    fwd_delta_end_add(f, x, &scan, &end, fwd_at(f, d->at_y), fwd_at(f, d->at_z));
}

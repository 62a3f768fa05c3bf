/* kda.c - Kimi delta attention ("Kimi Linear", arXiv 2510.26692): the gated delta rule (delta.c)
 * with a decay per value of a key.
 *
 *   in --> q, k, v --conv, curve each--> q / |q| / sqrt(d), k / |k|, v --+
 *      --> beta --sigmoid-----------------------------------------> scan --norm--+
 *      --> decay_a, decay_b --exp(a softplus(x + bias))------------------+       |
 *      --> gate_a, gate_b --sigmoid----------------------------------------> product --> o */
#include "model/recurrent_impl.h"

#include <math.h>

/* ---- binding ---- */

/* Bind a matrix of q, k or v, and its convolution. */
static void bind_convolved(struct binder *b, struct linear *l, struct conv_block *conv,
                           const char *matrix, const char *taps, int il, int n_tap)
{
    const struct layer_config *c = &b->m->config.layer[il];
    bind_linear(b, l, matrix, il, BIAS_NONE);
    bind_conv(b, conv, taps, il, (int64_t)c->n_head * c->d_head, n_tap, false);
    conv->curved = true, conv->curve = b->m->config.curve;
}

/* Bind the matrices and the parameters of the decay. */
static void bind_decay(struct binder *b, struct kda_block *a, int il)
{
    const int64_t n = (int64_t)a->n_head * a->d_head;
    bind_linear(b, &a->decay_a, "blk.%d.ssm_f_a", il, BIAS_NONE);
    bind_linear(b, &a->decay_b, "blk.%d.ssm_f_b", il, BIAS_NONE);
    a->decay_b.bias = bind_transposed(b, "blk.%d.ssm_dt", il, n, 1);
    bind_vector(b, &a->decay_b.bias, n);
    a->decay_b.w.joined = true;
    const float *log_a = bind_transposed(b, "blk.%d.ssm_a", il, a->n_head, 1);
    float *rate = bind_memory(b, "the decays of heads", (size_t)n * sizeof *rate);
    for (int64_t i = 0; i < n && log_a && rate; i++) {
        const float x = log_a[i / a->d_head];
        rate[i] = config_is_hf(b) ? (float)-exp((double)x) : x; /* a GGUF has the decays */
    }
    a->a = rate;
    bind_vector(b, &a->a, n);
}

void bind_kda(struct binder *b, struct kda_block *a, int il, int n_tap)
{
    const struct layer_config *c = &b->m->config.layer[il];
    const int64_t n = (int64_t)c->n_head * c->d_head;
    a->n_head = c->n_head, a->d_head = c->d_head;
    bind_convolved(b, &a->q, &a->q_conv, "blk.%d.attn_q", "blk.%d.ssm_conv1d_q", il, n_tap);
    bind_convolved(b, &a->k, &a->k_conv, "blk.%d.attn_k", "blk.%d.ssm_conv1d_k", il, n_tap);
    bind_convolved(b, &a->v, &a->v_conv, "blk.%d.attn_v", "blk.%d.ssm_conv1d_v", il, n_tap);
    bind_decay(b, a, il);
    bind_linear(b, &a->beta, "blk.%d.ssm_beta", il, BIAS_NONE);
    bind_linear(b, &a->gate_a, "blk.%d.ssm_g_a", il, BIAS_NONE);
    bind_linear(b, &a->gate_b, "blk.%d.ssm_g_b", il, BIAS_NONE);
    bind_length(b, &a->q_norm, a->d_head, 1 / sqrt(a->d_head));
    bind_length(b, &a->k_norm, a->d_head, 1);
    a->norm = (struct norm){.g = bind_transposed(b, "blk.%d.ssm_norm", il, a->d_head, 1),
                            .eps = b->m->config.rms_eps,
                            .n = a->d_head};
    bind_vector(b, &a->norm.g, a->d_head);
    bind_linear(b, &a->o, "blk.%d.attn_output", il, BIAS_NONE);
    a->at_state = bind_state(b, n * a->d_head);
    a->at_in = bind_rows(b, "scan in", 3 * n);
    a->at_q = bind_rows(b, "scan q", n);
    a->at_k = bind_rows(b, "scan k", n);
    a->at_v = bind_rows(b, "scan v", n);
    a->at_decay_a = bind_rows(b, "compressed decay", a->d_head);
    a->at_gate_a = bind_rows(b, "compressed gate", a->d_head);
    a->at_decay = bind_rows(b, "scan decay", n);
    a->at_gate = bind_rows(b, "scan gate", n);
    a->at_beta = bind_rows(b, "scan beta", a->n_head);
    a->at_y = bind_rows(b, "scan out", n);
}

/* ---- the forward pass ---- */

/* Compute the matrices of the input, and the convolutions of q, k and v. */
static void project(struct fwd *f, struct input in, const struct kda_block *a)
{
    const int64_t n = (int64_t)a->n_head * a->d_head;
    float *q = fwd_at(f, a->at_in), *k = q + f->n_row * n, *v = k + f->n_row * n,
          *decay = fwd_at(f, a->at_decay_a), *gate = fwd_at(f, a->at_gate_a);
    const struct input x = fwd_plain(fwd_made(f, in, a->q.w.k));
    const struct output inputs[] = {{&a->q, q}, {&a->k, k}, {&a->v, v}},
                        gates[] = {{&a->decay_a, decay},
                                   {&a->gate_a, gate},
                                   {&a->beta, fwd_at(f, a->at_beta)}};
    fwd_linears(f, inputs, 3, &x);
    fwd_linears(f, gates, 3, &x);
    fwd_linear(f, fwd_at(f, a->at_decay), &a->decay_b, decay, f->n_row);
    fwd_linear(f, fwd_at(f, a->at_gate), &a->gate_b, gate, f->n_row);
    fwd_conv(f, fwd_at(f, a->at_q), q, n, 0, n, &a->q_conv);
    fwd_conv(f, fwd_at(f, a->at_k), k, n, 0, n, &a->k_conv);
    fwd_conv(f, fwd_at(f, a->at_v), v, n, 0, n, &a->v_conv);
}

/* Compute beta of each head, and the decay of each value. */
static void gate(struct fwd *f, const struct kda_block *a)
{
    struct backend *b = f->m->backend;
    const int64_t n = (int64_t)a->n_head * a->d_head;
    float *decay = fwd_at(f, a->at_decay);
    b->op->curve(b, fwd_at(f, a->at_beta), (int64_t)f->n_row * a->n_head, CURVE_sigmoid);
    b->op->curve(b, decay, f->n_row * n, CURVE_softplus);
    b->op->scale_columns(b, decay, decay, a->a, f->n_row, n);
    b->op->curve(b, decay, f->n_row * n, CURVE_exp);
}

void fwd_kda_add(struct fwd *f, float *x, struct input in, const struct kda_block *a)
{
    float *q = fwd_at(f, a->at_q), *k = fwd_at(f, a->at_k);
    project(f, in, a);
    gate(f, a);
    fwd_head_norm(f, q, a->n_head, &a->q_norm);
    fwd_head_norm(f, k, a->n_head, &a->k_norm);
    const struct scan scan = {.kind = SCAN_DELTA,
                              .n_head = a->n_head,
                              .n_head_k = a->n_head,
                              .d_k = a->d_head,
                              .d_v = a->d_head,
                              .q = q,
                              .k = k,
                              .v = fwd_at(f, a->at_v),
                              .decay = fwd_at(f, a->at_decay),
                              .by_channel = true,
                              .beta = fwd_at(f, a->at_beta),
                              .state = fwd_state(f, a->at_state)};
    const struct delta_end end = {.norm = &a->norm, .o = &a->o, .curve = CURVE_sigmoid};
    fwd_delta_end_add(f, x, &scan, &end, fwd_at(f, a->at_y), fwd_at(f, a->at_gate));
}

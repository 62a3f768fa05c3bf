/* mamba.c - a layer of Mamba ("Linear-Time Sequence Modeling with Selective State Spaces", arXiv
 * 2312.00752).
 *
 *   in --> x --conv, curve--> v -------------------------------------+
 *      |                      +--> low --norm--> dt --softplus--> dt |
 *      |                      +--> B, C --norm--------------------> scan --> y + D v
 *      +-> z --silu------------------------------------------------> product --> o
 *
 * The norms exist only in some classes, with weights (Jamba) or without (Falcon-Mamba). x and z are
 * the rows of one matrix, and low, B and C those of another. */
#include "model/recurrent_impl.h"

#include <math.h>

int64_t mamba_size(const struct mamba_sizes *s, enum tensor_size size)
{
    switch (size) {
    case SIZE_D_INNER:
        return s->d_inner;
    case SIZE_D_INNER_IN:
        return 2 * (int64_t)s->d_inner;
    case SIZE_D_STATE:
        return s->d_state;
    case SIZE_DT_RANK:
        return s->rank;
    case SIZE_DT_B_C:
        return s->rank + 2 * (int64_t)s->d_state;
    default:
        CHECK(size == SIZE_N_TAP, "size %d", (int)size);
        return s->n_tap;
    }
}

/* ---- binding ---- */

/* Bind a norm of n values. Without a row in the table, the norm has no weights. */
static void bind_part_norm_of(struct binder *b, struct norm *norm, const char *stem, int il, int n,
                              float eps)
{
    if (bind_row(b, stem))
        bind_norm(b, norm, stem, il);
    else
        bind_ones(b, norm, n, 0);
    norm->eps = eps;
}

/* Bind the matrices of the convolved rows, and their norms. */
static void bind_selection(struct binder *b, struct mamba_block *m, int il)
{
    static const char x[] = "blk.%d.ssm_x";
    const int64_t rank = m->s.rank, d = m->s.d_state;
    bind_part(b, &m->low, x, il, BIAS_NONE, &(struct row_part){.n = rank});
    bind_part(b, &m->b, x, il, BIAS_NONE, &(struct row_part){.first = rank, .n = d});
    bind_part(b, &m->c, x, il, BIAS_NONE, &(struct row_part){.first = rank + d, .n = d});
    bind_linear(b, &m->dt, "blk.%d.ssm_dt", il, BIAS_NEEDED);
    if (!m->s.normed) return;
    const float eps = m->s.norm_eps;
    bind_part_norm_of(b, &m->low_norm, "blk.%d.ssm_dt_norm", il, m->s.rank, eps);
    bind_part_norm_of(b, &m->b_norm, "blk.%d.ssm_b_norm", il, m->s.d_state, eps);
    bind_part_norm_of(b, &m->c_norm, "blk.%d.ssm_c_norm", il, m->s.d_state, eps);
}

/* Bind the decays and the factors D. */
static void bind_vectors(struct binder *b, struct mamba_block *m, int il)
{
    const int64_t d = m->s.d_inner, n = d * m->s.d_state;
    float *a = bind_transposed(b, "blk.%d.ssm_a", il, d, m->s.d_state);
    for (int64_t i = 0; i < n && a && config_is_hf(b); i++) a[i] = (float)-exp((double)a[i]);
    m->a = a;
    bind_vector(b, &m->a, n);
    m->skip = bind_transposed(b, "blk.%d.ssm_d", il, d, 1);
    bind_vector(b, &m->skip, d);
}

void bind_mamba(struct binder *b, struct mamba_block *m, int il, const struct mamba_sizes *s)
{
    static const char in[] = "blk.%d.ssm_in";
    const enum bias bias = s->biased ? BIAS_NEEDED : BIAS_NONE;
    const int64_t d = s->d_inner;
    m->s = *s;
    bind_part(b, &m->x, in, il, bias, &(struct row_part){.n = d});
    bind_part(b, &m->z, in, il, bias, &(struct row_part){.first = d, .n = d});
    bind_conv(b, &m->conv, "blk.%d.ssm_conv1d", il, d, s->n_tap, s->conv_biased);
    m->conv.curved = true, m->conv.curve = b->m->config.curve;
    bind_selection(b, m, il);
    bind_vectors(b, m, il);
    bind_linear(b, &m->o, "blk.%d.ssm_out", il, bias);
    m->at_state = bind_state(b, s->d_state * d);
    m->at_x = bind_rows(b, "scan in", d);
    m->at_z = bind_rows(b, "scan z", d);
    m->at_v = bind_rows(b, "scan v", d);
    m->at_low = bind_rows(b, "scan low", s->rank);
    m->at_b = bind_rows(b, "scan k", s->d_state);
    m->at_c = bind_rows(b, "scan q", s->d_state);
    m->at_dt = bind_rows(b, "scan beta", d);
    m->at_y = bind_rows(b, "scan out", d);
}

/* ---- the forward pass ---- */

/* Compute the time steps, B and C of the convolved rows v. */
static void select_rows(struct fwd *f, const float *v, const struct mamba_block *m)
{
    struct backend *b = f->m->backend;
    float *low = fwd_at(f, m->at_low), *dt = fwd_at(f, m->at_dt);
    const struct output out[] = {
        {&m->low, low}, {&m->b, fwd_at(f, m->at_b)}, {&m->c, fwd_at(f, m->at_c)}};
    const struct input in = fwd_plain(v);
    fwd_linears(f, out, 3, &in);
    if (m->s.normed) {
        fwd_norm(f, low, low, &m->low_norm);
        fwd_norm(f, out[1].y, out[1].y, &m->b_norm);
        fwd_norm(f, out[2].y, out[2].y, &m->c_norm);
    }
    fwd_linear(f, dt, &m->dt, low, f->n_row);
    b->op->curve(b, dt, f->n_row * (int64_t)m->s.d_inner, CURVE_softplus);
}

void fwd_mamba_add(struct fwd *f, float *x, struct input in, const struct mamba_block *m)
{
    struct backend *b = f->m->backend;
    const struct mamba_sizes *s = &m->s;
    const int64_t d = s->d_inner;
    float *own = fwd_at(f, m->at_x), *z = fwd_at(f, m->at_z), *v = fwd_at(f, m->at_v),
          *y = fwd_at(f, m->at_y);
    fwd_linears(f, (struct output[]){{&m->x, own}, {&m->z, z}}, 2, &in);
    fwd_conv(f, v, own, d, 0, d, &m->conv);
    select_rows(f, v, m);
    const struct scan scan = {.kind = SCAN_COLUMNS,
                              .n_head = 1,
                              .n_head_k = 1,
                              .d_k = s->d_state,
                              .d_v = s->d_inner,
                              .q = fwd_at(f, m->at_c),
                              .k = fwd_at(f, m->at_b),
                              .v = v,
                              .beta = fwd_at(f, m->at_dt),
                              .a = m->a,
                              .skip = m->skip,
                              .state = fwd_state(f, m->at_state)};
    b->op->scan(b, y, &scan, f->on_device);
    trace(f, "scan", y, d);
    b->op->curve_mul(b, z, z, y, f->n_row * d, CURVE_silu);
    fwd_linear_add(f, x, &m->o, z);
}

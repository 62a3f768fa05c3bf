/* mamba2.c - a layer of Mamba-2 ("Transformers are SSMs", arXiv 2405.21060).
 *
 *   in --> x B C --conv, curve--> x, B, C ------------------+
 *      --> dt --softplus(dt + bias)--> dt, exp(a dt) -----> scan --> y + D x
 *      --> z --silu------------------------------------------> product --> norm of groups --> o
 *
 * The rows of one matrix are those of z, x, B, C, dt. */
#include "model/recurrent_impl.h"

#include <math.h>

static int64_t d_inner(const struct mamba2_sizes *s)
{
    return (int64_t)s->n_head * s->d_head;
}

static int64_t d_conv(const struct mamba2_sizes *s)
{
    return d_inner(s) + 2 * (int64_t)s->n_group * s->d_state;
}

int64_t mamba2_size(const struct mamba2_sizes *s, enum tensor_size size)
{
    switch (size) {
    case SIZE_D_CONV:
        return d_conv(s);
    case SIZE_D_INNER:
        return d_inner(s);
    case SIZE_D_INNER_IN:
        return d_inner(s) + d_conv(s) + s->n_head;
    case SIZE_N_HEAD_STATE:
        return s->n_head;
    default:
        CHECK(size == SIZE_N_TAP, "size %d", (int)size);
        return s->n_tap;
    }
}

/* ---- binding ---- */

/* Return the bias of the matrix of dt: the bias of the time steps, `own` f32 [n_head], plus that of
 * the first matrix. Factors are applied to the result of the matrix, so the bias is divided by
 * them. */
static const float *dt_bias(struct binder *b, const struct mamba2_block *m, float *own)
{
    const struct mamba2_sizes *s = &m->s;
    for (int64_t i = 0; i < s->n_head && own && b->rc == 0; i++) {
        const double first = m->dt.bias ? (double)m->dt.bias[i] : 0;
        if (s->scaled)
            own[i] =
                (float)((first + (double)own[i] / (double)s->part_scale[4]) / (double)s->in_scale);
        else if (m->dt.bias)
            own[i] += m->dt.bias[i];
    }
    return own;
}

/* Set the factors of the results of the first matrix. */
static void bind_scales(struct binder *b, struct mamba2_block *m)
{
    const struct mamba2_sizes *s = &m->s;
    const int64_t d = d_inner(s), n = d_conv(s), n_bc = (n - d) / 2;
    float *own = bind_memory(b, "factors of columns", (size_t)n * sizeof *own);
    for (int64_t i = 0; i < n && own; i++)
        own[i] = s->in_scale * s->part_scale[i < d ? 1 : i < d + n_bc ? 2 : 3];
    m->xbc_scale = own;
    bind_vector(b, &m->xbc_scale, n);
    m->z_scale = s->in_scale * s->part_scale[0];
    m->dt_scale = s->in_scale * s->part_scale[4];
    bind_divide_bias(b, &m->z, s->in_scale);
    bind_divide_bias(b, &m->xbc, s->in_scale);
}

/* Bind the parts of the first matrix. The bias of dt is added to the bias of its matrix. */
static void bind_inputs_of(struct binder *b, struct mamba2_block *m, int il)
{
    static const char in[] = "blk.%d.ssm_in";
    const int64_t d = d_inner(&m->s), n = d_conv(&m->s), n_head = m->s.n_head;
    const enum bias bias = m->s.biased ? BIAS_NEEDED : BIAS_NONE;
    bind_part(b, &m->z, in, il, bias, &(struct row_part){.n = d});
    bind_part(b, &m->xbc, in, il, bias, &(struct row_part){.first = d, .n = n});
    bind_part(b, &m->dt, in, il, bias, &(struct row_part){.first = d + n, .n = n_head});
    const bool listed = m->dt.bias != NULL;
    m->dt.bias = dt_bias(b, m, bind_transposed(b, "blk.%d.ssm_dt", il, n_head, 1));
    m->dt.w.joined = true;
    if (!listed) bind_vector(b, &m->dt.bias, n_head);
    if (m->s.scaled) bind_scales(b, m);
}

/* Bind the parameters of heads, and the norm. */
static void bind_vectors(struct binder *b, struct mamba2_block *m, int il)
{
    const int n_head = m->s.n_head;
    float *a = bind_transposed(b, "blk.%d.ssm_a", il, n_head, 1);
    for (int i = 0; i < n_head && a && config_is_hf(b); i++) a[i] = (float)-exp((double)a[i]);
    m->a = a;
    bind_vector(b, &m->a, n_head);
    m->skip = bind_transposed(b, "blk.%d.ssm_d", il, n_head, 1);
    bind_vector(b, &m->skip, n_head);
    if (m->s.no_norm) return;
    bind_ones(b, &m->group, (int)(d_inner(&m->s) / m->s.n_group), 0);
    m->norm = bind_transposed(b, "blk.%d.ssm_norm", il, d_inner(&m->s), 1);
    bind_vector(b, &m->norm, d_inner(&m->s));
}

void bind_mamba2(struct binder *b, struct mamba2_block *m, int il, const struct mamba2_sizes *s)
{
    const int64_t n_bc = (int64_t)s->n_group * s->d_state;
    m->s = *s;
    bind_inputs_of(b, m, il);
    bind_conv(b, &m->conv, "blk.%d.ssm_conv1d", il, d_conv(s), s->n_tap, s->conv_biased);
    m->conv.curved = true, m->conv.curve = b->m->config.curve;
    bind_vectors(b, m, il);
    bind_linear(b, &m->o, "blk.%d.ssm_out", il, s->o_biased ? BIAS_NEEDED : BIAS_NONE);
    m->at_state = bind_state(b, s->d_state * d_inner(s));
    m->at_z = bind_rows(b, "scan z", d_inner(s));
    m->at_xbc = bind_rows(b, "scan in", d_conv(s));
    m->at_x = bind_rows(b, "scan v", d_inner(s));
    m->at_b = bind_rows(b, "scan k", n_bc);
    m->at_c = bind_rows(b, "scan q", n_bc);
    m->at_dt = bind_rows(b, "scan beta", s->n_head);
    m->at_decay = bind_rows(b, "scan decay", s->n_head);
    m->at_y = bind_rows(b, "scan out", d_inner(s));
}

/* ---- the forward pass ---- */

/* Compute the matrices of `in`, then the convolutions of x, B and C. */
static void project(struct fwd *f, struct input in, const struct mamba2_block *m)
{
    const int64_t d = d_inner(&m->s), n = d_conv(&m->s), n_bc = (n - d) / 2;
    float *xbc = fwd_at(f, m->at_xbc);
    const struct output out[] = {
        {&m->z, fwd_at(f, m->at_z)}, {&m->xbc, xbc}, {&m->dt, fwd_at(f, m->at_dt)}};
    fwd_linears(f, out, 3, &in);
    if (m->s.scaled) {
        struct backend *b = f->m->backend;
        b->op->scale(b, out[0].y, f->n_row * d, m->z_scale);
        b->op->scale_columns(b, xbc, xbc, m->xbc_scale, f->n_row, n);
        b->op->scale(b, out[2].y, f->n_row * (int64_t)m->s.n_head, m->dt_scale);
    }
    fwd_conv(f, fwd_at(f, m->at_x), xbc, n, 0, d, &m->conv);
    fwd_conv(f, fwd_at(f, m->at_b), xbc + d, n, d, n_bc, &m->conv);
    fwd_conv(f, fwd_at(f, m->at_c), xbc + d + n_bc, n, d + n_bc, n_bc, &m->conv);
}

/* Compute the time steps and the decays of all heads. */
static void steps(struct fwd *f, const struct mamba2_block *m)
{
    struct backend *b = f->m->backend;
    const int64_t n = m->s.n_head;
    float *dt = fwd_at(f, m->at_dt), *decay = fwd_at(f, m->at_decay);
    b->op->curve(b, dt, f->n_row * n, CURVE_softplus);
    if (m->s.step_least > 0 || m->s.step_max > 0)
        b->op->clamp(b, dt, f->n_row * n, m->s.step_least,
                     m->s.step_max > 0 ? m->s.step_max : INFINITY);
    b->op->scale_columns(b, decay, dt, m->a, f->n_row, n);
    b->op->curve(b, decay, f->n_row * n, CURVE_exp);
}

/* Multiply y by silu(z), and normalize the groups before or after it. Return the result, f32
 * [n_row, n_head * d_head]. */
static float *gate(struct fwd *f, float *z, float *y, const struct mamba2_block *m)
{
    struct backend *b = f->m->backend;
    const int64_t d = d_inner(&m->s);
    float *own = m->s.norm_first ? y : z;
    if (!m->s.norm_first) b->op->curve_mul(b, z, z, y, f->n_row * d, CURVE_silu);
    if (!m->s.no_norm) {
        fwd_head_norm(f, own, m->s.n_group, &m->group);
        b->op->scale_columns(b, own, own, m->norm, f->n_row, d);
    }
    if (m->s.norm_first) b->op->curve_mul(b, z, z, y, f->n_row * d, CURVE_silu);
    return z;
}

/* Compute the block of `in` before its last matrix. */
static float *inner(struct fwd *f, struct input in, const struct mamba2_block *m)
{
    struct backend *b = f->m->backend;
    const struct mamba2_sizes *s = &m->s;
    const int64_t d = d_inner(s);
    float *z = fwd_at(f, m->at_z), *y = fwd_at(f, m->at_y);
    project(f, in, m);
    steps(f, m);
    const struct scan scan = {.kind = SCAN_HEADS,
                              .n_head = s->n_head,
                              .n_head_k = s->n_group,
                              .d_k = s->d_state,
                              .d_v = s->d_head,
                              .q = fwd_at(f, m->at_c),
                              .k = fwd_at(f, m->at_b),
                              .v = fwd_at(f, m->at_x),
                              .decay = fwd_at(f, m->at_decay),
                              .beta = fwd_at(f, m->at_dt),
                              .skip = m->skip,
                              .state = fwd_state(f, m->at_state)};
    b->op->scan(b, y, &scan, f->on_device);
    trace(f, "scan", y, d);
    return gate(f, z, y, m);
}

void fwd_mamba2_add(struct fwd *f, float *x, struct input in, const struct mamba2_block *m)
{
    fwd_linear_add(f, x, &m->o, inner(f, in, m));
}

void fwd_mamba2(struct fwd *f, float *y, struct input in, const struct mamba2_block *m)
{
    fwd_linear(f, y, &m->o, inner(f, in, m), f->n_row);
}

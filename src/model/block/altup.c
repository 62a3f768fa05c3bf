/* altup.c - several residual streams, one of which each layer computes (Gemma 3n). Paper:
 * "Alternating Updates for Efficient Transformers", arXiv 2301.13310.
 *
 *   streams --mix by the router of the active one--> predictions
 *   the active prediction --layer--> y
 *   predictions + coefficients of y * (y - active prediction) --> streams of the next layer
 *
 * The streams have two buffers [n_stream, n_row, d]. A layer reads one buffer, and writes the
 * predictions and the corrected streams to the other buffer. The next layer reads the other buffer.
 * Coefficients have a constant part, the unit matrix or ones, which is the bias of the matrices
 * that compute the coefficients. */
#include "model/model_impl.h"

#define LEAST_SQUARE 1e-5f /* minimum of a mean square; the value is a constant of the reference */

/* Return a vector of n constants in the arena: 1 at every step-th place, otherwise 0. */
static const float *units(struct binder *b, int64_t n, int64_t step)
{
    float *v = b->rc == 0 ? arena_push0(&b->m->arena, (size_t)n, sizeof *v) : NULL;
    if (b->rc == 0 && !v) b->rc = err_memory(b->e, "coefficients", (size_t)n * sizeof *v);
    for (int64_t i = 0; i < n && v; i += step) v[i] = 1;
    return v;
}

static void bind_streams(struct binder *b, int at[2], int n_stream)
{
    const int64_t n = (int64_t)n_stream * b->m->config.d;
    at[0] = bind_rows(b, "streams", n);
    at[1] = bind_rows(b, "predictions", n);
}

void bind_altup_ends(struct binder *b, struct altup_ends *e, int n_stream)
{
    const struct config *c = &b->m->config;
    e->n_stream = n_stream;
    for (int i = 1; i < n_stream; i++) {
        bind_one_of(b, &e->in[i], "altup_proj", i - 1, n_stream - 1, c->d, c->d);
        bind_one_of(b, &e->out[i], "altup_unembd_proj", i - 1, n_stream - 1, c->d, c->d);
    }
    bind_streams(b, e->at, n_stream);
}

void bind_altup(struct binder *b, struct altup_block *a, int il, int n_stream, int active)
{
    const int64_t n = n_stream;
    a->n_stream = n_stream, a->active = active;
    bind_norm(b, &a->router_norm, "blk.%d.altup_router_norm", il);
    bind_linear(b, &a->router, "blk.%d.altup_router", il, BIAS_NONE);
    bind_linear(b, &a->predict, "blk.%d.altup_predict_coef", il, BIAS_NONE);
    bind_linear(b, &a->correct, "blk.%d.altup_correct_coef", il, BIAS_NONE);
    a->predict.bias = units(b, n * n, n + 1);
    a->correct.bias = units(b, n, 1);
    bind_vector(b, &a->predict.bias, n * n);
    bind_vector(b, &a->correct.bias, n);
    bind_streams(b, a->at, n_stream);
    a->at_modal = bind_rows(b, "altup router", n);
    a->at_coef = bind_rows(b, "altup coefficients", n * n);
}

/* Return stream i, f32 [n_row, d], in the buffer that layer il reads. */
static float *stream(const struct fwd *f, const int at[2], int il, int i)
{
    return fwd_at(f, at[il % 2]) + (int64_t)i * f->n_row * f->m->config.d;
}

float *fwd_prediction(const struct fwd *f, const struct altup_block *a, int i)
{
    return stream(f, a->at, f->il + 1, i);
}

/* Return the coefficients l tanh(router(norm x) / d) of the rows of x, f32 [n_row, d]. */
static const float *coefficients(struct fwd *f, const float *x, const struct altup_block *a,
                                 const struct linear *l)
{
    struct backend *b = f->m->backend;
    float *modal = fwd_at(f, a->at_modal), *coef = fwd_at(f, a->at_coef);
    fwd_norm(f, f->h, x, &a->router_norm);
    fwd_scale(f, f->h, 1 / (float)f->m->config.d);
    fwd_linear(f, modal, &a->router, f->h, f->n_row);
    b->op->curve(b, modal, f->n_row * a->router.w.n_out, CURVE_tanh);
    fwd_linear(f, coef, l, modal, f->n_row);
    return coef;
}

void fwd_split(struct fwd *f, const struct altup_ends *e)
{
    struct backend *b = f->m->backend;
    const int64_t d = f->m->config.d;
    b->op->copy(b, stream(f, e->at, 0, 0), f->x, (size_t)(f->n_row * d) * sizeof *f->x);
    for (int i = 1; i < e->n_stream; i++) {
        float *y = stream(f, e->at, 0, i);
        fwd_linear(f, y, &e->in[i], f->x, f->n_row);
        b->op->match(b, y, f->x, f->n_row, d, LEAST_SQUARE);
    }
}

void fwd_predict(struct fwd *f, const struct altup_block *a)
{
    struct backend *b = f->m->backend;
    const float *x = stream(f, a->at, f->il, 0);
    const float *coef = coefficients(f, stream(f, a->at, f->il, a->active), a, &a->predict);
    b->op->mix_streams(b, fwd_prediction(f, a, 0), x, coef, a->n_stream, f->n_row, f->m->config.d);
}

void fwd_correct(struct fwd *f, const float *y, const struct altup_block *a)
{
    struct backend *b = f->m->backend;
    const int64_t d = f->m->config.d;
    const float *coef = coefficients(f, y, a, &a->correct);
    b->op->copy(b, f->y, fwd_prediction(f, a, a->active), (size_t)(f->n_row * d) * sizeof *f->y);
    fwd_scale(f, f->y, -1);
    fwd_add(f, f->y, y);
    b->op->add_streams(b, fwd_prediction(f, a, 0), f->y, coef, a->n_stream, f->n_row, d);
}

/* Write the result rows of a stream to the beginning of the buffer that no further layer reads. */
float *fwd_merge(struct fwd *f, const struct altup_ends *e)
{
    struct backend *b = f->m->backend;
    const struct config *c = &f->m->config;
    const int n_out = f->batch->n_out, last = c->n_layer;
    const int32_t *row = f->on_device->out_row;
    float *first = fwd_at(f, e->at[(last + 1) % 2]), *other = first + (int64_t)n_out * c->d;
    b->op->gather(b, first, stream(f, e->at, last, 0), row, n_out, c->d);
    b->op->copy(b, f->h, first, (size_t)n_out * (size_t)c->d * sizeof *first);
    const float *x[STREAMS_MAX];
    for (int i = 1; i < e->n_stream; i++) x[i] = stream(f, e->at, last, i);
    f->n_row = n_out;
    for (int i = 1; i < e->n_stream; i++) {
        b->op->gather(b, other, x[i], row, n_out, c->d);
        fwd_linear(f, f->y, &e->out[i], other, n_out);
        b->op->match(b, f->y, first, n_out, c->d, LEAST_SQUARE);
        fwd_add(f, f->h, f->y);
    }
    fwd_scale(f, f->h, 1 / (float)e->n_stream);
    return f->h;
}

/* plain.c - operations between blocks: norms, residuals, scales, caps.
 *
 * The functions pass the sizes of a forward pass (rows, width, vocabulary) to the backend's ops.
 * The code of an architecture is therefore similar to its paper. An input may have a pending norm:
 *
 *   fwd_normed(x, norm) --> fused with the next linear layers if the backend can
 *   fwd_plain(x)        --> used unchanged
 *   fwd_made(input)     --> computed now, for a block that reads its input several times */
#include "model/model_impl.h"

void fwd_norm(struct fwd *f, float *y, const float *x, const struct norm *n)
{
    struct backend *b = f->m->backend;
    if (n->n_part == 0) {
        b->op->rms_norm(b, y, x, n->g, f->n_row, n->n, n->eps);
        return;
    }
    const struct layer_norm norm = {
        .g = n->g, .bias = n->b, .eps = n->eps, .n_part = n->n_part, .n = n->n / n->n_part};
    b->op->layer_norm(b, y, x, &norm, f->n_row);
}

void fwd_add(struct fwd *f, float *x, const float *y)
{
    struct backend *b = f->m->backend;
    b->op->add(b, x, y, (int64_t)f->n_row * f->m->config.d);
}

void fwd_scale(struct fwd *f, float *x, float by)
{
    struct backend *b = f->m->backend;
    b->op->scale(b, x, (int64_t)f->n_row * f->m->config.d, by);
}

void fwd_clamp(struct fwd *f, float *x, int64_t n, float limit)
{
    struct backend *b = f->m->backend;
    b->op->clamp(b, x, f->n_row * n, -limit, limit);
}

/* Call no op if the model has no cap, or if no row of the batch needs logits. */
void fwd_softcap(struct fwd *f, struct model_out *out, float cap)
{
    struct backend *b = f->m->backend;
    if (cap == 0 || out->n_logits == 0) return;
    b->op->softcap(b, out->logits, (int64_t)out->n_logits * f->m->config.n_vocab, cap);
}

void fwd_scale_logits(struct fwd *f, struct model_out *out, float by)
{
    struct backend *b = f->m->backend;
    if (by == 1 || out->n_logits == 0) return;
    b->op->scale(b, out->logits, (int64_t)out->n_logits * f->m->config.n_vocab, by);
}

void fwd_columns(struct fwd *f, float *y, const float *x, const struct columns *c)
{
    struct backend *b = f->m->backend;
    b->op->columns(b, y, x, c, f->n_row);
}

void fwd_head_norm(struct fwd *f, float *x, int n_head, const struct norm *n)
{
    struct backend *b = f->m->backend;
    b->op->rms_norm(b, x, x, n->g, f->n_row * n_head, n->n, n->eps);
}

void fwd_scale_columns(struct fwd *f, float *y, const float *x, const float *by)
{
    struct backend *b = f->m->backend;
    b->op->scale_columns(b, y, x, by, f->n_row, f->m->config.d);
}

void fwd_xielu(struct fwd *f, float *y, int64_t n, const void *param)
{
    struct backend *b = f->m->backend;
    b->op->xielu(b, y, n, param);
}

void fwd_rope(struct fwd *f, float *x, int n_head, int d_head, int rope)
{
    struct backend *b = f->m->backend;
    b->op->rope(b, x, n_head, d_head, f->angle, f->n_row, &f->m->rope[rope]);
}

/* Return an input whose values are in the shared scratch f->h until the next norm is computed. A
 * LayerNorm is not fused. */
struct input fwd_normed(struct fwd *f, const float *x, const struct norm *n)
{
    if (n->n_part != 0) {
        fwd_norm(f, f->h, x, n);
        return fwd_plain(f->h);
    }
    return (struct input){.x = x, .g = n->g, .eps = n->eps, .h = f->h};
}

struct input fwd_plain(const float *x)
{
    return (struct input){.x = x};
}

const float *fwd_made(struct fwd *f, struct input in, int64_t n)
{
    return backend_normed(f->m->backend, &in, n, f->n_row).x;
}

/* plain.c - operations between blocks: norms, residuals, scales, caps. */
#include "model/model_impl.h"

void fwd_norm(struct fwd *f, float *y, const float *x, const struct norm *n)
{
    struct backend *b = f->m->backend;
    b->op->rms_norm(b, y, x, n->g, f->n_row, n->n, n->eps);
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

void fwd_softcap(struct fwd *f, struct model_out *out, float cap)
{
    struct backend *b = f->m->backend;
    if (cap == 0 || out->n_logits == 0) return;
    b->op->softcap(b, out->logits, (int64_t)out->n_logits * f->m->config.n_vocab, cap);
}

struct input fwd_normed(struct fwd *f, const float *x, const struct norm *n)
{
    return (struct input){.x = x, .g = n->g, .eps = n->eps, .h = f->h};
}

struct input fwd_plain(const float *x)
{
    return (struct input){.x = x};
}

const float *fwd_made(struct fwd *f, struct input in, int64_t n)
{
    struct backend *b = f->m->backend;
    if (!in.g) return in.x;
    b->op->rms_norm(b, in.h, in.x, in.g, f->n_row, (int)n, in.eps);
    return in.h;
}

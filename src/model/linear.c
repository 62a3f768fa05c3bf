/* linear.c - the only caller of linear ops. It has the batch, so it is the one place for
 * per-sequence additions to a linear layer (an adapter), and for parts computed by other ranks. */
#include "model_impl.h"

void fwd_linear(struct fwd *f, float *y, const struct linear *l, const float *x, int n_row)
{
    struct backend *b = f->m->backend;
    b->op->linear(b, y, l, x, n_row);
}

void fwd_linears(struct fwd *f, const struct output *out, int n, const struct input *in)
{
    backend_linears(f->m->backend, out, n, in, f->n_row);
}

void fwd_linear_add(struct fwd *f, float *y, const struct linear *l, const float *x)
{
    backend_linear_add(f->m->backend, y, l, x, f->n_row, f->y);
}

void fwd_experts(struct fwd *f, float *y, const struct linear *l, const float *x,
                 const struct route *r, bool by_entry)
{
    struct backend *b = f->m->backend;
    b->op->experts(b, y, l, x, r, by_entry, f->n_row);
}

void fwd_glu_linears(struct fwd *f, float *y, const struct glu *g, const struct input *in)
{
    backend_glu(f->m->backend, y, g, in, f->n_row);
}

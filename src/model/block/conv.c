/* conv.c - a causal convolution of columns, before a recurrence or instead of attention ("Hungry
 * Hungry Hippos", arXiv 2212.14052). Each column is the sum of the last rows of its input with its
 * own weights. Files have the weights of a column in one row. The op needs n_tap rows. */
#include "model/recurrent_impl.h"

void bind_conv(struct binder *b, struct conv_block *c, const char *stem, int il, int64_t n,
               int n_tap, bool biased)
{
    char name[160];
    c->n = n, c->n_tap = n_tap;
    c->w = bind_turned(b, stem, il, n, n_tap);
    bind_vector(b, &c->w, n * n_tap);
    bind_name(b, name, stem, il, "bias");
    if (biased) {
        c->bias = b->rc == 0 ? bind_extra(b, name, n) : NULL;
        if (!c->bias) bind_missing(b, name);
        bind_vector(b, &c->bias, n);
    }
    c->at_state = bind_state(b, n * (n_tap - 1));
}

void fwd_conv(struct fwd *f, float *y, const float *x, int64_t x_row, int64_t first, int64_t n,
              const struct conv_block *c)
{
    struct backend *b = f->m->backend;
    const struct conv conv = {.x = x,
                              .x_row = x_row,
                              .w = c->w,
                              .bias = c->bias,
                              .n_tap = c->n_tap,
                              .n_all = c->n,
                              .first = first,
                              .n = n,
                              .curved = c->curved,
                              .curve = c->curve,
                              .state = fwd_state(f, c->at_state)};
    b->op->conv(b, y, &conv, f->on_device);
}

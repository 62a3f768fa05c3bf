/* conv.c - a causal convolution of columns, before a recurrence or instead of attention ("Hungry
 * Hungry Hippos", arXiv 2212.14052). Each column is the sum of the last rows of its input with its
 * own weights. Files have the weights of a column in one row. The op needs n_tap rows. */
#include "model/recurrent_impl.h"

void bind_conv(struct binder *b, struct conv_block *c, const char *stem, int il, int64_t n,
               int n_tap, bool biased)
{
    char name[160];
    c->n = n, c->n_tap = n_tap;
    c->w = bind_transposed(b, stem, il, n, n_tap);
    bind_vector(b, &c->w, n * n_tap);
    bind_name(b, name, stem, il, "bias");
    if (biased) {
        c->bias = bind_required(b, name, n);
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

void bind_short_conv(struct binder *b, struct short_conv_block *s, int il, int n_tap, bool biased)
{
    static const char in[] = "blk.%d.shortconv.in_proj";
    const int64_t d = b->m->config.d;
    const enum bias bias = biased ? BIAS_NEEDED : BIAS_NONE;
    bind_part(b, &s->b, in, il, bias, &(struct row_part){.n = d});
    bind_part(b, &s->c, in, il, bias, &(struct row_part){.first = d, .n = d});
    bind_part(b, &s->x, in, il, bias, &(struct row_part){.first = 2 * d, .n = d});
    bind_conv(b, &s->conv, "blk.%d.shortconv.conv", il, d, n_tap, biased);
    bind_linear(b, &s->out, "blk.%d.shortconv.out_proj", il, bias);
    s->at_b = bind_rows(b, "conv b", d);
    s->at_c = bind_rows(b, "conv c", d);
    s->at_x = bind_rows(b, "conv x", d);
    s->at_y = bind_rows(b, "conv out", d);
}

void fwd_short_conv_add(struct fwd *f, float *x, struct input in, const struct short_conv_block *s)
{
    struct backend *b = f->m->backend;
    const int64_t d = s->conv.n;
    float *own = fwd_at(f, s->at_x), *y = fwd_at(f, s->at_y);
    const struct output out[] = {
        {&s->b, fwd_at(f, s->at_b)}, {&s->c, fwd_at(f, s->at_c)}, {&s->x, own}};
    fwd_linears(f, out, 3, &in);
    b->op->mul(b, own, out[0].y, f->n_row * d);
    fwd_conv(f, y, own, d, 0, d, &s->conv);
    b->op->mul(b, y, out[1].y, f->n_row * d);
    fwd_linear_add(f, x, &s->out, y);
}

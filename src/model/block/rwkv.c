/* rwkv.c - token shift and channel mixing of RWKV (arXiv 2305.13048).
 *
 *   h --+--> previous row - row --> * k_by --> + h --> k --> relu^2 --> v --+
 *       +--> previous row - row --> * r_by --> + h --> r --> sigmoid ---> product --> x
 *
 * The difference is a convolution with the weights 1 and -1, so its state and its bits do not
 * depend on steps. */
#include "model/rwkv_impl.h"

void bind_shift(struct binder *b, struct shift_block *s)
{
    const int64_t d = b->m->config.d;
    float *w = bind_memory(b, "the weights of a shift", (size_t)(2 * d) * sizeof *w);
    for (int64_t i = 0; i < 2 * d && w; i++) w[i] = i < d ? 1 : -1;
    s->conv = (struct conv_block){.w = w, .n_tap = 2, .n = d, .at_state = bind_state(b, d)};
    bind_vector(b, &s->conv.w, 2 * d);
    s->at_x = bind_rows(b, "shift", d);
}

float *fwd_shift(struct fwd *f, const float *x, const struct shift_block *s)
{
    const int64_t d = s->conv.n;
    float *y = fwd_at(f, s->at_x);
    fwd_conv(f, y, x, d, 0, d, &s->conv);
    return y;
}

void bind_lerp(struct binder *b, const float **by, const char *stem, int il, bool rest)
{
    const int64_t d = b->m->config.d;
    float *v = bind_transposed(b, stem, il, d, 1);
    for (int64_t i = 0; i < d && v && rest; i++) v[i] = 1 - v[i];
    *by = v;
    bind_vector(b, by, d);
}

void fwd_lerp(struct fwd *f, float *y, const float *x, const float *xx, const float *by)
{
    fwd_scale_columns(f, y, xx, by);
    fwd_add(f, y, x);
}

void bind_channel(struct binder *b, struct channel_block *c, int il, bool rest)
{
    static const char r[] = "blk.%d.channel_mix_receptance";
    const struct config *config = &b->m->config;
    bind_shift(b, &c->shift);
    bind_lerp(b, &c->k_by, "blk.%d.channel_mix_lerp_k", il, rest);
    bind_linear(b, &c->k, "blk.%d.channel_mix_key", il, BIAS_NONE);
    bind_linear(b, &c->v, "blk.%d.channel_mix_value", il, BIAS_NONE);
    c->at_in = bind_rows(b, "mixed", config->d);
    c->at_k = bind_rows(b, "up", config->layer[il].d_ff);
    if (!bind_row(b, r)) return;
    bind_lerp(b, &c->r_by, "blk.%d.channel_mix_lerp_r", il, rest);
    bind_linear(b, &c->r, r, il, BIAS_NONE);
    c->at_r = bind_rows(b, "gate", config->d);
}

void fwd_channel_add(struct fwd *f, float *x, const float *h, const struct channel_block *c)
{
    struct backend *b = f->m->backend;
    const int64_t n = f->n_row;
    const float *xx = fwd_shift(f, h, &c->shift);
    float *in = fwd_at(f, c->at_in), *k = fwd_at(f, c->at_k);
    fwd_lerp(f, in, h, xx, c->k_by);
    fwd_linear(f, k, &c->k, in, f->n_row);
    b->op->curve(b, k, n * c->k.w.n_out, CURVE_relu2);
    if (c->r.w.n_out == 0) {
        fwd_linear_add(f, x, &c->v, k);
        return;
    }
    float *r = fwd_at(f, c->at_r);
    fwd_lerp(f, in, h, xx, c->r_by);
    fwd_linear(f, r, &c->r, in, f->n_row);
    fwd_linear(f, f->y, &c->v, k, f->n_row);
    b->op->curve_mul(b, r, r, f->y, n * c->r.w.n_out, CURVE_sigmoid);
    trace(f, "ffn_out", r, c->r.w.n_out);
    fwd_add(f, x, r);
}

/* rwkv.c - token shift and channel mixing of RWKV (arXiv 2305.13048).
 *
 *   h --+--> previous row - row --> * k_by --> + h --> k --> relu^2 --> v --+
 *       +--> previous row - row --> * r_by --> + h --> r --> sigmoid ---> product --> x
 *
 * The difference is a convolution with the weights 1 and -1, so its state and its bits do not
 * depend on steps. */
#include "model/rwkv_impl.h"

#include <math.h>

void rwkv_read_gguf_heads(const struct config *c, struct binder *b, int *n_head, int *d_head,
                          float *eps)
{
    static const char size_key[] = "wkv.head_size";
    const double e = config_real(b, RWKV_HEAD_EPS_KEY, RWKV_HEAD_EPS);
    *d_head = config_int(b, size_key, 1, D_HEAD_MAX, 0);
    if (b->rc == 0 && c->d % *d_head)
        config_refuse(b, size_key, ERR_FORMAT, "must divide %d, got %d", c->d, *d_head);
    if (b->rc == 0 && !(e > 0 && isfinite((float)e)))
        config_refuse(b, RWKV_HEAD_EPS_KEY, ERR_FORMAT, "must be above 0, got %g", e);
    *n_head = b->rc == 0 ? c->d / *d_head : 1;
    *eps = (float)e;
}

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

/* Return row i of the tensor of n rows of factors, f32 [d]; NULL after an error. */
static float *fused_row(struct binder *b, const struct tensor_info *t, int i, int n)
{
    const int64_t d = b->m->config.d;
    const size_t row = qtype_bytes(t->type, d);
    b->bound[t - checkpoint_tensor_at(b->checkpoint, 0)] = BOUND_VALUES;
    if (t->dim[0] != d || t->dim[1] * t->dim[2] * t->dim[3] != n)
        bind_wrong_shape(b, t, 1, n, d);
    else if (!qtype_info[t->type].ops || qtype_is_block(t->type))
        bind_refuse(b, t, ERR_UNSUPPORTED, " has type %s: not supported yet",
                    qtype_info[t->type].name);
    float *v = bind_memory(b, t->name, (size_t)d * sizeof *v);
    if (v) qtype_info[t->type].ops->decode(v, t->data + (size_t)i * row, d);
    return v;
}

void bind_lerp_part(struct binder *b, const float **by, const char *stem, int il, int i, int n,
                    bool rest)
{
    char name[160];
    bind_name(b, name, "blk.%d.time_mix_lerp_fused", il, "weight");
    const struct tensor_info *t =
        b->rc == 0 && !config_is_hf(b) ? checkpoint_tensor(b->checkpoint, name) : NULL;
    if (!t) {
        bind_lerp(b, by, stem, il, rest);
        return;
    }
    *by = fused_row(b, t, i, n);
    bind_vector(b, by, b->m->config.d);
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
    if (c->factor != 0) b->op->scale(b, k, n * c->k.w.n_out, c->factor);
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

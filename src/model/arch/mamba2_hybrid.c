/* mamba2_hybrid.c - layers of Mamba-2 next to layers with attention (Bamba, Granite 4): each layer
 * adds its block, then a feed-forward block or a mixture, with a factor.
 *
 *   x += r * mamba2(norm x), or x += r * attn(norm x);  x += r * ffn(norm x) */
#include "mamba2_impl.h"

#include <string.h>

void mamba2_read_limit(struct mamba2_sizes *s, struct binder *b)
{
    static const char key[] = "config.time_step_limit";
    char text[80];
    const struct meta *list = config_meta(b, key);
    if (meta_kind(list) == META_NONE) return;
    const double least = meta_item_real(list, 0, NAN), most = meta_item_real(list, 1, NAN);
    const bool fits = config_fits(least) && (config_fits(most) || isinf(most));
    if (meta_count(list) != 2 || !fits || !(least >= 0 && most > 0 && most >= least))
        config_refuse(b, key, ERR_UNSUPPORTED,
                      "must be [LEAST, MOST] with LEAST in [0, MOST], and MOST above 0, got %s",
                      config_value_text(list, text));
    s->step_least = (float)least;
    s->step_max = isinf(most) ? 0 : (float)most;
}

/* Return the width of a head: a number, or "auto". */
static int head_of(struct binder *b, int d_inner, int n_head)
{
    static const char key[] = "ssm.head_dim", heads_key[] = "ssm.time_step_rank";
    const struct meta *m = config_meta(b, key);
    size_t n = 0;
    const char *text = meta_text(m, &n);
    if (b->rc != 0) return 1;
    if (d_inner % n_head)
        config_refuse(b, heads_key, ERR_FORMAT, "must be a divisor of the width %d, got %d",
                      d_inner, n_head);
    if (!m || (text && n == 4 && memcmp(text, "auto", 4) == 0)) return d_inner / n_head;
    const int d = config_int(b, key, 1, D_HEAD_MAX, 0);
    if (b->rc == 0 && (int64_t)d * n_head != d_inner)
        config_refuse(b, key, ERR_FORMAT, "must give the width %d with %d heads, got %d", d_inner,
                      n_head, d);
    return d;
}

struct mamba2_sizes *mamba2_hybrid_sizes(struct config *c, struct binder *b, int d_inner)
{
    static const char expand_key[] = "config.mamba_expand";
    struct mamba2_sizes *s = bind_memory(b, "the sizes of recurrent layers", sizeof *s);
    const int64_t expand = config_int(b, expand_key, 1, WIDTH_MAX, 0);
    if (!s || b->rc != 0) return NULL;
    if (d_inner == 0 && expand * c->d > WIDTH_MAX)
        config_refuse(b, expand_key, ERR_LIMIT, "must give a width of at most %d, got %lld",
                      WIDTH_MAX, (long long)(expand * c->d));
    s->n_head = config_int(b, "ssm.time_step_rank", 1, HEADS_MAX, 0);
    s->d_head = head_of(b, d_inner > 0 ? d_inner : (int)(expand * c->d), s->n_head);
    s->n_group = config_int(b, "ssm.group_count", 1, HEADS_MAX, 0);
    s->d_state = config_int(b, "ssm.state_size", 1, D_HEAD_MAX, 0);
    s->n_tap = config_int(b, "ssm.conv_kernel", 2, TAPS_MAX, 0);
    s->biased = s->o_biased = config_bool(b, "config.mamba_proj_bias", false);
    s->conv_biased = config_bool(b, "config.mamba_conv_bias", true);
    mamba2_read_limit(s, b);
    if (b->rc == 0 && s->d_head > D_HEAD_MAX)
        config_refuse(b, "ssm.time_step_rank", ERR_LIMIT, "must give heads of at most %d, got %d",
                      D_HEAD_MAX, s->d_head);
    if (b->rc == 0 && s->n_head % s->n_group)
        config_refuse(b, "ssm.time_step_rank", ERR_FORMAT, "must be a multiple of %d, got %d",
                      s->n_group, s->n_head);
    c->own = s, c->own_bytes = sizeof *s;
    return b->rc == 0 ? s : NULL;
}

int64_t mamba2_hybrid_size(const struct config *c, enum tensor_size size)
{
    return mamba2_size(c->own, size);
}

void mamba2_hybrid_bind(struct binder *b, struct mamba2_hybrid_layer *l, int il)
{
    l->recurrent = b->m->config.layer[il].recurrent;
    bind_norm(b, &l->attn_norm, "blk.%d.attn_norm", il);
    if (l->recurrent)
        bind_mamba2(b, &l->mamba, il, b->m->config.own);
    else
        bind_attn(b, &l->attn, il);
    bind_norm(b, &l->ffn_norm, "blk.%d.ffn_norm", il);
}

/* Add f->y to the residual stream, with the factor of the model. */
static void add_result(struct fwd *f)
{
    const float r = f->m->config.residual_scale;
    if (r != 1) fwd_scale(f, f->y, r);
    fwd_add(f, f->x, f->y);
}

void mamba2_hybrid_layer(struct fwd *f, const void *layer)
{
    const struct mamba2_hybrid_layer *l = layer;
    const struct input in = fwd_normed(f, f->x, &l->attn_norm);
    if (l->recurrent)
        fwd_mamba2(f, f->y, in, &l->mamba);
    else
        fwd_attn(f, f->y, in, &l->attn);
    add_result(f);
    const struct input second = fwd_normed(f, f->x, &l->ffn_norm);
    if (l->moe.n_expert > 0)
        fwd_moe(f, f->y, second, &l->moe);
    else
        fwd_ffn(f, f->y, second, &l->ffn);
    add_result(f);
}

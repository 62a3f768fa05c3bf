/* mamba2_hybrid.c - layers of Mamba-2 next to layers with attention (Bamba, Granite 4): each layer
 * adds its block, then a feed-forward block or a mixture, with a factor.
 *
 *   x += r * mamba2(norm x), or x += r * attn(norm x);  x += r * ffn(norm x) */
#include "mamba2_impl.h"

struct mamba2_sizes *mamba2_hybrid_sizes(struct config *c, struct binder *b, int d_inner)
{
    static const char expand_key[] = "config.mamba_expand";
    struct mamba2_sizes *s = bind_memory(b, "the sizes of recurrent layers", sizeof *s);
    if (!s || b->rc != 0) return NULL;
    c->own = s, c->own_bytes = sizeof *s;
    if (!config_is_hf(b)) {
        mamba2_read_gguf(s, b);
        return b->rc == 0 ? s : NULL;
    }
    const int64_t expand = config_int(b, expand_key, 1, WIDTH_MAX, 0);
    if (b->rc != 0) return NULL;
    if (d_inner == 0 && expand * c->d > WIDTH_MAX)
        config_refuse(b, expand_key, ERR_LIMIT, "must give a width of at most %d, got %lld",
                      WIDTH_MAX, (long long)(expand * c->d));
    mamba2_read_sizes(s, b, d_inner > 0 ? d_inner : expand * c->d);
    s->biased = s->o_biased = config_bool(b, "config.mamba_proj_bias", false);
    s->conv_biased = config_bool(b, "config.mamba_conv_bias", true);
    mamba2_read_limit(s, b);
    return b->rc == 0 ? s : NULL;
}

void mamba2_hybrid_end(struct config *c)
{
    int il = 0;
    while (il < c->n_layer && !c->layer[il].recurrent) il++;
    if (il == c->n_layer) c->own_bytes = 0;
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
    fwd_feed(f, f->y, fwd_normed(f, f->x, &l->ffn_norm), &l->feed);
    add_result(f);
}

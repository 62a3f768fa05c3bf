/* feed.c - the second block of a layer: a mixture of experts if the config of the layer has
 * experts, otherwise a feed-forward block. */
#include "model/model_impl.h"

void bind_feed(struct binder *b, struct feed_block *l, int il)
{
    if (b->m->config.layer[il].n_expert > 0)
        bind_moe(b, &l->moe, il);
    else
        bind_ffn(b, &l->ffn, il);
}

void fwd_feed(struct fwd *f, float *y, struct input in, const struct feed_block *l)
{
    if (l->moe.n_expert > 0)
        fwd_moe(f, y, in, &l->moe);
    else
        fwd_ffn(f, y, in, &l->ffn);
}

void fwd_feed_add(struct fwd *f, float *x, struct input in, const struct feed_block *l)
{
    if (l->moe.n_expert > 0)
        fwd_moe_add(f, x, in, &l->moe);
    else
        fwd_ffn_add(f, x, in, &l->ffn);
}

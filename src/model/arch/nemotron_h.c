/* nemotron_h.c - Nemotron-H (arXiv 2504.03624): each layer has one block after a norm: Mamba-2,
 * attention without a rope, a feed-forward block without a gate, or a mixture of such blocks
 * (Nemotron 3). */
#include "nemotron_h_impl.h"

struct nemotron_h_layer {
    struct norm norm;
    bool recurrent, feeds; /* true: the layer has `mamba`, or `feed`, in place of `attn` */
    struct attn_block attn;
    struct mamba2_block mamba;
    struct feed_block feed;
};

static void bind(struct binder *b, void *layer, int il)
{
    struct nemotron_h_layer *l = layer;
    const struct layer_config *c = &b->m->config.layer[il];
    const struct nemotron_h_own *own = b->m->config.own;
    l->recurrent = c->recurrent, l->feeds = c->d_ff > 0 || c->n_expert > 0;
    bind_norm(b, &l->norm, "blk.%d.attn_norm", il);
    if (l->recurrent)
        bind_mamba2(b, &l->mamba, il, &own->mamba);
    else if (l->feeds)
        bind_feed(b, &l->feed, il);
    else
        bind_attn(b, &l->attn, il);
    l->mamba.conv.curve = own->curve;
}

static void layer(struct fwd *f, const void *layer)
{
    const struct nemotron_h_layer *l = layer;
    const struct input in = fwd_normed(f, f->x, &l->norm);
    if (l->recurrent)
        fwd_mamba2_add(f, f->x, in, &l->mamba);
    else if (l->feeds)
        fwd_feed_add(f, f->x, in, &l->feed);
    else
        fwd_attn_add(f, f->x, in, &l->attn);
}

static const char *const drafts[] = {"mtp.", NULL};

const struct arch arch_nemotron_h = {
    .name = "nemotron_h",
    .hf_key = nemotron_h_hf_key,
    .gguf_key = nemotron_h_gguf_key,
    .gguf_other = "nemotron_h_moe",
    .gguf_lists = true,
    .gguf_kinds = true,
    .gguf_single = true,
    .convert = &nemotron_h_convert,
    .hf_layers = nemotron_h_layer_keys,
    .no_rope = true,
    .curve = CURVE_relu2,
    .left_out = drafts,
    .left_out_why = "layers that draft tokens (MTP); not supported yet",
    .layer_bytes = sizeof(struct nemotron_h_layer),
    .size = mamba2_hybrid_size,
    .config = nemotron_h_config,
    .bind = bind,
    .layer = layer,
};

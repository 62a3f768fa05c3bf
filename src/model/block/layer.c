/* layer.c - a layer of most decoders: attention, and a feed-forward block or a mixture of experts,
 * with norms before the blocks, after the blocks, or both. The architecture's table of tensors
 * defines the norms of a layer. The config defines the order of the blocks, and the factor r of
 * their results.
 *
 *   BLOCKS_SERIAL     x += r post(attn(pre x)); x += r post(ffn(pre x))
 *                     with a source, between both: x += r post(cross(pre x))
 *   BLOCKS_PARALLEL   x += attn(h) + ffn(h), h = pre x
 *   BLOCKS_2_NORMS    x += attn(pre x) + ffn(pre' x)
 *   BLOCKS_POST       x = post(x + attn(x)); x = post(x + ffn(x))
 *                     with a source, between both: x = post(x + cross(x)) */
#include "model/model_impl.h"

/* Bind a norm of a layer. The struct of a norm without a row in the table remains zero if any
 * norm of the architecture has weights. */
static void bind_own(struct binder *b, struct norm *n, const char *stem, int il)
{
    if (b->m->arch->plain_norms || bind_row(b, stem)) bind_norm(b, n, stem, il);
}

/* Return true if the norm before the feed-forward block is labelled post_attention_norm, as in GGUF
 * files of some architectures. */
static bool has_late_name(const struct binder *b)
{
    return !bind_row(b, "blk.%d.ffn_norm") && bind_row(b, "blk.%d.attn_norm") &&
           !bind_row(b, "blk.%d.post_ffw_norm");
}

void decoder_bind_layer(struct binder *b, void *layer, int il)
{
    struct decoder_layer *l = layer;
    const bool post = !b->m->arch->plain_norms;
    const bool sums = b->m->config.order == BLOCKS_POST, late = has_late_name(b);
    if (!sums) bind_own(b, &l->attn_norm, "blk.%d.attn_norm", il);
    bind_attn(b, &l->attn, il);
    if (sums)
        bind_norm(b, &l->attn_post, "blk.%d.attn_output_norm", il);
    else if (post && !late)
        bind_own(b, &l->attn_post, "blk.%d.post_attention_norm", il);
    l->crosses = bind_row(b, "blk.%d.cross_attn_q") != NULL;
    if (l->crosses && !sums) bind_norm(b, &l->cross_norm, "blk.%d.cross_attn_norm", il);
    if (l->crosses) bind_cross(b, &l->cross, il);
    if (l->crosses && sums) bind_norm(b, &l->cross_post, "blk.%d.cross_attn_output_norm", il);
    if (!sums && b->m->config.order != BLOCKS_PARALLEL)
        bind_own(b, &l->ffn_norm, late ? "blk.%d.post_attention_norm" : "blk.%d.ffn_norm", il);
    if (b->m->config.ffn_and_moe)
        bind_ffn(b, &l->feed.ffn, il);
    else
        bind_feed(b, &l->feed, il);
    if (sums)
        bind_norm(b, &l->ffn_post, "blk.%d.layer_output_norm", il);
    else if (post)
        bind_own(b, &l->ffn_post, "blk.%d.post_ffw_norm", il);
}

/* Return the input of a block: the norm of x if the layer has this norm, otherwise x. */
static struct input pre(struct fwd *f, const struct norm *n)
{
    return n->g ? fwd_normed(f, f->x, n) : fwd_plain(f->x);
}

/* Return true if a block's result is added to x unchanged. The addition then needs fewer passes
 * over memory. */
static bool adds_plainly(const struct fwd *f, const struct norm *post)
{
    return !post->g && f->m->config.residual_scale == 1;
}

/* Add a block's result y to x. */
static void add_result(struct fwd *f, float *y, const struct norm *post)
{
    const float r = f->m->config.residual_scale;
    if (post->g) fwd_norm(f, y, y, post);
    if (r != 1) fwd_scale(f, y, r);
    fwd_add(f, f->x, y);
}

static void serial(struct fwd *f, const struct decoder_layer *l)
{
    if (adds_plainly(f, &l->attn_post))
        fwd_attn_add(f, f->x, pre(f, &l->attn_norm), &l->attn);
    else {
        fwd_attn(f, f->y, pre(f, &l->attn_norm), &l->attn);
        add_result(f, f->y, &l->attn_post);
    }
    if (l->crosses) {
        fwd_cross(f, f->y, pre(f, &l->cross_norm), &l->cross);
        add_result(f, f->y, &l->cross_post);
    }
    if (adds_plainly(f, &l->ffn_post))
        fwd_feed_add(f, f->x, pre(f, &l->ffn_norm), &l->feed);
    else {
        fwd_feed(f, f->y, pre(f, &l->ffn_norm), &l->feed);
        add_result(f, f->y, &l->ffn_post);
    }
}

/* Add parallel blocks. The norms of both blocks read x before attention changes x. Only q, k and v
 * read the result of the first norm. */
static void parallel(struct fwd *f, const struct decoder_layer *l)
{
    fwd_norm(f, f->h, f->x, &l->attn_norm);
    fwd_qkv(f, fwd_plain(f->h), &l->attn);
    if (l->ffn_norm.g) fwd_norm(f, f->h, f->x, &l->ffn_norm);
    fwd_attend(f, &l->attn);
    fwd_attn_out_add(f, f->x, &l->attn);
    fwd_feed_add(f, f->x, fwd_plain(f->h), &l->feed);
}

static void post(struct fwd *f, const struct decoder_layer *l)
{
    fwd_attn_add(f, f->x, fwd_plain(f->x), &l->attn);
    fwd_norm(f, f->x, f->x, &l->attn_post);
    if (l->crosses) {
        fwd_cross_add(f, f->x, fwd_plain(f->x), &l->cross);
        fwd_norm(f, f->x, f->x, &l->cross_post);
    }
    fwd_feed_add(f, f->x, fwd_plain(f->x), &l->feed);
    fwd_norm(f, f->x, f->x, &l->ffn_post);
}

void decoder_layer(struct fwd *f, const void *layer)
{
    if (f->m->config.order == BLOCKS_POST)
        post(f, layer);
    else if (f->m->config.order == BLOCKS_SERIAL)
        serial(f, layer);
    else
        parallel(f, layer);
}

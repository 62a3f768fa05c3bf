/* lfm2.c - LFM2 ("LFM2 Technical Report", arXiv 2511.23404): gated convolutions in most layers,
 * attention with normalized heads in the others, then a feed-forward block. */
#include "lfm2_impl.h"

/* defaults of Lfm2Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 65536),
    KEY("embedding_length", 2560),
    KEY("feed_forward_length", 12288),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY("attention.head_count_kv", 8),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 128000),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 1000000),
    KEY("config.tie_word_embeddings", 1),
    KEY("config.conv_bias", 0),
    KEY("shortconv.l_cache", 3),
    KEY_UNSET("config.block_ff_dim"),
    KEY("config.block_multiple_of", 256),
    KEY("config.block_ffn_dim_multiplier", 1),
    KEY("config.block_auto_adjust_ff_dim", 1),
    KEY_UNSET("config.full_attn_idxs"),
    KEY_UNSET("config.layer_types"),
    ONLY("config.tie_embedding", 1, "older files have this field for tie_word_embeddings"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("shortconv.l_cache"),
    ONLY("attention.sliding_window", 0, "windows are not supported yet"),
    KEYS_END,
};

/* Set the layers with convolutions by the names of layers, or by the numbers of layers with
 * attention. Without both, all layers have attention. */
static void set_kinds(struct config *c, struct binder *b)
{
    static const char *const name[] = {"full_attention", "conv", NULL};
    const int *kind = config_layer_kinds(b, name);
    const bool *full = config_listed_layers(b, "config.full_attn_idxs", 0, true);
    for (int i = 0; i < c->n_layer && b->rc == 0; i++)
        c->layer[i].recurrent = kind ? kind[i] == 1 : full && !full[i];
}

/* Return the width of the feed-forward block: two thirds of the field, which with a factor are
 * multiplied by it and rounded up to a multiple. */
static int adjusted(struct binder *b, int d_ff)
{
    static const char times_key[] = "config.block_ffn_dim_multiplier";
    const int multiple = config_int(b, "config.block_multiple_of", 1, D_FF_MAX, 1);
    const double times = config_real(b, times_key, NAN), third = 2.0 * d_ff / 3;
    const bool adjusts = config_bool(b, "config.block_auto_adjust_ff_dim", true);
    if (!adjusts || b->rc != 0) return d_ff;
    const double whole =
        isnan(times) ? floor(third) : ceil(floor(times * floor(third)) / multiple) * multiple;
    if (!(whole >= 1 && whole <= D_FF_MAX))
        config_refuse(b, times_key, ERR_FORMAT, "must give a width in [1, %d], got %g", D_FF_MAX,
                      whole);
    return b->rc == 0 ? (int)whole : 1;
}

/* Return true if the first convolution of a GGUF has a bias. */
static bool holds_biases(const struct binder *b, const struct config *c)
{
    int il = 0;
    while (il + 1 < c->n_layer && !c->layer[il].recurrent) il++;
    return bind_has_bias(b, "blk.%d.shortconv.conv", il);
}

static void config(struct config *c, struct binder *b)
{
    struct lfm2_own *own = bind_memory(b, "the sizes of convolutions", sizeof *own);
    if (!own) return;
    own->n_tap = config_int(b, "shortconv.l_cache", 2, TAPS_MAX, 0);
    c->own = own, c->own_bytes = sizeof *own;
    if (!config_is_hf(b)) {
        own->biased = holds_biases(b, c);
        return;
    }
    own->biased = config_bool(b, "config.conv_bias", false);
    /* the name of the first files, which the class prefers */
    c->d_ff = adjusted(b, config_int(b, "config.block_ff_dim", 1, D_FF_MAX, c->d_ff));
    for (int i = 0; i < c->n_layer; i++) c->layer[i].d_ff = c->d_ff;
    set_kinds(c, b);
    bool any = false;
    for (int i = 0; i < c->n_layer; i++) any |= c->layer[i].recurrent;
    own->biased = own->biased && any;
}

/* Return a size of tensors.def. */
static int64_t size(const struct config *c, enum tensor_size size)
{
    const struct lfm2_own *own = c->own;
    return size == SIZE_D_INNER_IN ? 3 * (int64_t)c->d : own->n_tap;
}

struct lfm2_layer {
    struct norm attn_norm, ffn_norm;
    bool recurrent; /* true: the layer has `conv` in place of `attn` */
    struct attn_block attn;
    struct short_conv_block conv;
    struct ffn_block ffn;
};

static void bind(struct binder *b, void *layer, int il)
{
    struct lfm2_layer *l = layer;
    const struct lfm2_own *own = b->m->config.own;
    l->recurrent = b->m->config.layer[il].recurrent;
    bind_norm(b, &l->attn_norm, "blk.%d.attn_norm", il);
    if (l->recurrent)
        bind_short_conv(b, &l->conv, il, own->n_tap, own->biased);
    else
        bind_attn(b, &l->attn, il);
    bind_norm(b, &l->ffn_norm, "blk.%d.ffn_norm", il);
    bind_ffn(b, &l->ffn, il);
}

/* Add the convolution or attention, then the feed-forward block. */
static void layer(struct fwd *f, const void *layer)
{
    const struct lfm2_layer *l = layer;
    const struct input in = fwd_normed(f, f->x, &l->attn_norm);
    if (l->recurrent)
        fwd_short_conv_add(f, f->x, in, &l->conv);
    else
        fwd_attn_add(f, f->x, in, &l->attn);
    fwd_ffn_add(f, f->x, fwd_normed(f, f->x, &l->ffn_norm), &l->ffn);
}

const struct arch arch_lfm2 = {
    .name = "lfm2",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .gguf_lists = true,
    .gguf_kinds = true,
    .output_norm = "token_embd_norm",
    .convert = &lfm2_convert,
    .layer_bytes = sizeof(struct lfm2_layer),
    .size = size,
    .config = config,
    .bind = bind,
    .layer = layer,
};

/* nemotron_h.c - Nemotron-H (arXiv 2504.03624): each layer has one block after a norm: Mamba-2,
 * attention without a rope, or a feed-forward block without a gate. Layers with mixtures of experts
 * are rejected. */
#include "mamba2_impl.h"
#include "nemotron_h_impl.h"

#include <string.h>

/* defaults of NemotronHConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 131072),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 21504),
    IDLE("block_count", "the list of layers gives their number"),
    KEY("attention.head_count", 32),
    KEY("attention.head_count_kv", 8),
    KEY("attention.key_length", 128),
    KEY("context_length", 4096),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.mlp_bias", 0),
    KEY_UNSET("config.mlp_hidden_act"),
    KEY_UNSET("config.mamba_hidden_act"),
    KEY_UNSET("config.layers_block_type"),
    KEY_UNSET("config.layer_types"),
    KEY_UNSET("config.hybrid_override_pattern"),
    KEY("ssm.time_step_rank", 128),
    KEY("ssm.head_dim", 64),
    KEY("ssm.group_count", 8),
    KEY("ssm.state_size", 128),
    KEY("ssm.conv_kernel", 4),
    KEY("config.time_step_min", 0.001),
    KEY("config.use_bias", 0),
    KEY("config.use_conv_bias", 1),
    KEY_UNSET("config.mamba_dt_min"),
    KEY_UNSET("config.mamba_conv_bias"),
    NEMOTRON_H_IDLE_KEYS,
    KEYS_END,
};

/* Values that only this class has. mamba2_hybrid_size reads the first member. */
struct nemotron_h_own {
    struct mamba2_sizes mamba;
    enum curve curve; /* activation of the convolutions */
};

static const char types_key[] = "config.layers_block_type",
                  pattern_key[] = "config.hybrid_override_pattern";
static const char *const layer_keys[] = {types_key, pattern_key, NULL};

/* Set *curve to an activation of the class. Without the field, it stays. */
static void read_curve(struct binder *b, const char *key, enum curve *curve)
{
    char text[80];
    size_t n = 0;
    const struct meta *m = config_meta(b, key);
    const char *name = meta_text(m, &n);
    if (meta_kind(m) != META_NONE && !(name && config_curve(name, n, curve)))
        config_refuse(b, key, ERR_UNSUPPORTED,
                      "must be silu, gelu, gelu_pytorch_tanh, relu or relu2, got %s",
                      config_value_text(m, text));
}

/* Return the letter of layer i: M for Mamba-2, * for attention, - for the feed-forward block, and
 * another letter for all other kinds. */
static char kind_of(const struct meta *types, const struct meta *pattern, int i)
{
    static const struct {
        const char *name;
        char kind;
    } list[] = {{"linear_attention", 'M'},
                {"mamba", 'M'},
                {"full_attention", '*'},
                {"attention", '*'},
                {"mlp", '-'}};
    if (meta_kind(types) == META_NONE) {
        size_t n = 0;
        const char *text = meta_text(pattern, &n);
        return text && (size_t)i < n ? text[i] : '?';
    }
    for (size_t k = 0; k < sizeof list / sizeof list[0]; k++)
        if (config_item_is(types, (size_t)i, list[k].name)) return list[k].kind;
    return '?';
}

/* Set the kinds of layers. A layer with only a feed-forward block is the only kind with a width of
 * that block. */
static void set_kinds(struct config *c, struct binder *b)
{
    const struct meta *types = config_meta(b, types_key), *pattern = config_meta(b, pattern_key);
    const bool typed = meta_kind(types) != META_NONE;
    if (meta_kind(config_meta(b, "config.layer_types")) != META_NONE)
        config_refuse(b, "config.layer_types", ERR_UNSUPPORTED,
                      "must have the name layers_block_type");
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) {
        const char kind = kind_of(types, pattern, i);
        if (!strchr("M*-", kind) || !kind)
            config_refuse(b, typed ? types_key : pattern_key, ERR_UNSUPPORTED,
                          "[%d]: must be linear_attention (M), full_attention (*) or mlp (-): "
                          "other layers are not supported yet",
                          i);
        c->layer[i].recurrent = kind == 'M';
        if (kind != '-') c->layer[i].d_ff = 0;
    }
}

/* Reject the older name of a field, which the class prefers. */
static void refuse_older(struct binder *b, const char *key, const char *name)
{
    if (config_meta(b, key))
        config_refuse(b, key, ERR_UNSUPPORTED, "older name of %s: not supported yet", name);
}

static void config(struct config *c, struct binder *b)
{
    static const char least_key[] = "config.time_step_min";
    struct nemotron_h_own *own = bind_memory(b, "the sizes of recurrent layers", sizeof *own);
    if (!own) return;
    struct mamba2_sizes *s = &own->mamba;
    mamba2_read_sizes(s, b, 0);
    s->biased = s->o_biased = config_bool(b, "config.use_bias", false);
    s->conv_biased = config_bool(b, "config.use_conv_bias", true);
    refuse_older(b, "config.mamba_dt_min", "time_step_min");
    refuse_older(b, "config.mamba_conv_bias", "use_conv_bias");
    s->step_least = (float)config_real(b, least_key, 0);
    if (b->rc == 0 && !(s->step_least >= 0))
        config_refuse(b, least_key, ERR_FORMAT, "must be at least 0, got %g",
                      (double)s->step_least);
    own->curve = CURVE_silu;
    read_curve(b, "config.mamba_hidden_act", &own->curve);
    read_curve(b, "config.mlp_hidden_act", &c->curve);
    c->own = own, c->own_bytes = sizeof *own;
    set_kinds(c, b);
}

struct nemotron_h_layer {
    struct norm norm;
    bool recurrent, feeds; /* true: the layer has `mamba`, or `ffn`, in place of `attn` */
    struct attn_block attn;
    struct mamba2_block mamba;
    struct ffn_block ffn;
};

static void bind(struct binder *b, void *layer, int il)
{
    struct nemotron_h_layer *l = layer;
    const struct layer_config *c = &b->m->config.layer[il];
    const struct nemotron_h_own *own = b->m->config.own;
    l->recurrent = c->recurrent, l->feeds = c->d_ff > 0;
    bind_norm(b, &l->norm, "blk.%d.attn_norm", il);
    if (l->recurrent)
        bind_mamba2(b, &l->mamba, il, &own->mamba);
    else if (l->feeds)
        bind_ffn(b, &l->ffn, il);
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
        fwd_ffn_add(f, f->x, in, &l->ffn);
    else
        fwd_attn_add(f, f->x, in, &l->attn);
}

static const char *const drafts[] = {"mtp.", NULL};

const struct arch arch_nemotron_h = {
    .name = "nemotron_h",
    .hf_key = hf_key,
    .gguf_why = "not supported yet",
    .hf_layers = layer_keys,
    .no_rope = true,
    .curve = CURVE_relu2,
    .left_out = drafts,
    .left_out_why = "layers that draft tokens (MTP); not supported yet",
    .layer_bytes = sizeof(struct nemotron_h_layer),
    .size = mamba2_hybrid_size,
    .config = config,
    .bind = bind,
    .layer = layer,
};

/* nemotron_h_config.c - metadata of Nemotron-H -> struct config: the kinds of layers, the sizes of
 * Mamba-2 and of the mixtures. Fields have older names, which the class prefers. */
#include "nemotron_h_impl.h"

#include <string.h>

/* defaults of NemotronHConfig of transformers 5 */
const struct config_key nemotron_h_hf_key[] = {
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
    KEY("expert_count", 8),
    KEY("expert_used_count", 2),
    KEY("expert_feed_forward_length", 7688),
    KEY("expert_shared_feed_forward_length", 7688),
    KEY("expert_weights_norm", 1),
    KEY("expert_weights_scale", 1),
    KEY("expert_group_count", 1),
    KEY("expert_group_used_count", 1),
    KEY_UNSET("moe_latent_size"),
    KEY_UNSET("config.mamba_dt_min"),
    KEY_UNSET("config.mamba_conv_bias"),
    NEMOTRON_H_IDLE_KEYS,
    KEYS_END,
};

const struct config_key nemotron_h_gguf_key[] = {
    MAMBA2_GGUF_KEYS,
    KEY("expert_count", 0),
    KEY("expert_used_count", 0),
    KEY_UNSET("expert_feed_forward_length"),
    KEY("expert_shared_feed_forward_length", 0),
    KEY("expert_weights_norm", 0),
    KEY("expert_weights_scale", 0),
    KEY("expert_group_count", 0),
    KEY("expert_group_used_count", 0),
    KEY_UNSET("moe_latent_size"),
    ONLY("expert_gating_func", 2, "Nemotron 3 has sigmoid scores"),
    KEY("expert_shared_count", 0),
    IDLE("rope.dimension_count", "the model has no rope"),
    IDLE("rope.freq_base", "the model has no rope"),
    KEYS_END,
};

static const char types_key[] = "config.layers_block_type",
                  pattern_key[] = "config.hybrid_override_pattern";
const char *const nemotron_h_layer_keys[] = {types_key, pattern_key, NULL};

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

/* Return the letter of layer i: M for Mamba-2, * for attention, - for the feed-forward block, E for
 * a mixture, and another letter for all other kinds. */
static char kind_of(const struct meta *types, const struct meta *pattern, int i)
{
    static const struct {
        const char *name;
        char kind;
    } list[] = {{"linear_attention", 'M'}, {"mamba", 'M'}, {"full_attention", '*'},
                {"attention", '*'},        {"mlp", '-'},   {"moe", 'E'}};
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
 * that block, and a layer with a mixture the only one with experts. */
static void set_kinds(struct config *c, struct binder *b)
{
    const struct meta *types = config_meta(b, types_key), *pattern = config_meta(b, pattern_key);
    const bool typed = meta_kind(types) != META_NONE;
    if (meta_kind(config_meta(b, "config.layer_types")) != META_NONE)
        config_refuse(b, "config.layer_types", ERR_UNSUPPORTED,
                      "must have the name layers_block_type");
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) {
        const char kind = kind_of(types, pattern, i);
        if (!strchr("M*-E", kind) || !kind)
            config_refuse(b, typed ? types_key : pattern_key, ERR_UNSUPPORTED,
                          "[%d]: must be linear_attention (M), full_attention (*), mlp (-) or moe "
                          "(E): other layers are not supported yet",
                          i);
        c->layer[i].recurrent = kind == 'M';
        if (kind != '-') c->layer[i].d_ff = 0;
        if (kind != 'E') config_no_moe(&c->layer[i]);
    }
}

/* Return the key of a field with an older name, which the class prefers. */
static const char *prefer(struct binder *b, const char *older, const char *key)
{
    const struct meta *m = config_meta(b, older);
    config_meta(b, key);
    return m ? older : key;
}

/* Set the mixtures of all layers. The class computes a block of all rows of the usual width if its
 * own width is 0. All feed-forward blocks of a GGUF with experts are mixtures. */
static void set_mixtures(struct config *c, struct binder *b)
{
    static const char latent_key[] = "moe_latent_size";
    const bool narrow = meta_kind(config_meta(b, latent_key)) != META_NONE;
    const int d_latent = narrow ? config_int(b, latent_key, 1, WIDTH_MAX, 0) : 0;
    c->route = (struct route_spec){.score = ROUTE_SIGMOID, .group_pairs = true, .sum_add = 1e-20f};
    config_moe(c, b, 0);
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) {
        struct layer_config *l = &c->layer[i];
        l->d_latent = d_latent;
        if (l->d_shared == 0) l->d_shared = c->d_ff;
    }
}

/* Read the sizes of a GGUF. The kinds of its layers are already set by their widths. */
static void read_gguf(struct config *c, struct binder *b, struct nemotron_h_own *own)
{
    mamba2_read_gguf(&own->mamba, b);
    own->curve = CURVE_silu;
    if (config_int(b, "expert_count", 0, EXPERTS_MAX, 0) > 0)
        set_mixtures(c, b);
    else
        config_meta(b, "expert_used_count");
    for (int i = 0; i < c->n_layer; i++) {
        struct layer_config *l = &c->layer[i];
        if (l->d_ff == 0) config_no_moe(l);
        if (l->n_expert > 0) l->d_ff = 0;
    }
}

void nemotron_h_config(struct config *c, struct binder *b)
{
    const char *const least_key = prefer(b, "config.mamba_dt_min", "config.time_step_min");
    struct nemotron_h_own *own = bind_memory(b, "the sizes of recurrent layers", sizeof *own);
    if (!own) return;
    struct mamba2_sizes *s = &own->mamba;
    c->own = own, c->own_bytes = sizeof *own;
    if (!config_is_hf(b)) {
        read_gguf(c, b, own);
        return;
    }
    mamba2_read_sizes(s, b, 0);
    s->biased = s->o_biased = config_bool(b, "config.use_bias", false);
    s->conv_biased =
        config_bool(b, prefer(b, "config.mamba_conv_bias", "config.use_conv_bias"), true);
    s->step_least = (float)config_real(b, least_key, NAN);
    if (b->rc == 0 && !(s->step_least >= 0))
        config_refuse(b, least_key, ERR_FORMAT, "must be at least 0, got %g",
                      (double)s->step_least);
    own->curve = CURVE_silu;
    read_curve(b, "config.mamba_hidden_act", &own->curve);
    read_curve(b, "config.mlp_hidden_act", &c->curve);
    set_mixtures(c, b);
    set_kinds(c, b);
}

/* mpt.c - MPT (MosaicML, 2023): ALiBi, LayerNorm without bias, a feed-forward block without a gate,
 * no biases. Some models clamp q, k and v. */
#include "model/convert_impl.h"

#include "base/text.h"

/* defaults of MptConfig and MptAttentionConfig of transformers 5, which has one width of the
 * feed-forward block */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 50368),
    KEY("embedding_length", 2048),
    KEY("block_count", 24),
    KEY("attention.head_count", 16),
    KEY("context_length", 2048),
    KEY("config.layer_norm_epsilon", 1e-5),
    KEY("config.tie_word_embeddings", 1),
    KEY_UNSET("config.norm_type"),
    KEY_UNSET("config.attn_config"),
    KEY_UNSET("config.attn_config.attn_type"),
    KEY_UNSET("config.attn_config.clip_qkv"),
    KEY_UNSET("config.attn_config.softmax_scale"),
    ONLY("config.attn_config.alibi", 1, "learned positions are not supported yet"),
    ONLY("config.attn_config.alibi_bias_max", 8, "transformers ignores other values"),
    ONLY("config.attn_config.prefix_lm", 0, "attention to later positions is not supported yet"),
    ONLY("config.attn_config.qk_ln", 0, "norms of q and k are not supported yet"),
    ONLY("config.expansion_ratio", 4, "transformers ignores other values"),
    ONLY("config.no_bias", 1, "biases are not supported yet"),
    ONLY("config.logit_scale", 1, "transformers ignores other values"),
    IDLE("config.learned_pos_emb", "the class uses ALiBi in place of positions"),
    IDLE("config.attn_config.attn_uses_sequence_id", "training"),
    IDLE("config.attn_config.attn_pdrop", "training"),
    IDLE("config.attn_config.attn_impl", "implementation of the reference"),
    IDLE("config.attn_config.model_type", "name of the class"),
    IDLE("config.attn_config.id2label", "the labels of a classifier are at the top level"),
    IDLE("config.embedding_fraction", "training"),
    IDLE("config.emb_pdrop", "training"),
    IDLE("config.resid_pdrop", "training"),
    IDLE("config.init_device", "implementation of the reference"),
    IDLE("config.init_config", "field of published files that transformers ignores"),
    IDLE("config.verbose", "field of published files that transformers ignores"),
    IDLE("config.tokenizer_name", "origin of the file"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    KEY_UNSET("attention.max_alibi_bias"),
    KEY_UNSET("attention.clamp_kqv"),
    KEYS_END,
};

/* Return the exponent of the slopes: a constant of the class, or a key of a GGUF. In a GGUF, 0 or
 * an absent key means learned positions. */
static double slopes(struct binder *b)
{
    static const char key[] = "attention.max_alibi_bias";
    const double v = config_is_hf(b) ? 8 : config_real(b, key, 0);
    if (!(v > 0 && v <= 64)) /* f32 can represent the slopes for exponents up to 64 */
        config_refuse(b, key, ERR_UNSUPPORTED, "must be in (0, 64], got %g", v);
    return v;
}

/* Set the scale of the scores. null: the usual scale. */
static void scale(struct config *c, struct binder *b)
{
    const double s = config_real(b, "config.attn_config.softmax_scale", NAN);
    for (int i = 0; i < c->n_layer && !isnan(s); i++) c->layer[i].attn_scale = (float)s;
}

/* Reject values that select other kinds of models. In transformers, all norm types are one
 * class. */
static void check(struct binder *b)
{
    static const char norm[] = "config.norm_type";
    char text[80];
    const struct meta *type = config_meta(b, norm);
    const char *name = meta_text(type, NULL);
    config_object(b, "config.attn_config");
    if (meta_kind(type) != META_NONE && !(name && text_ends_with(name, "layernorm")))
        config_refuse(b, norm, ERR_UNSUPPORTED, "must be low_precision_layernorm, got %s",
                      config_value_text(type, text));
    config_only_text(b, "config.attn_config.attn_type", "multihead_attention");
}

static void config(struct config *c, struct binder *b)
{
    check(b);
    c->qkv_limit = config_qkv_limit(b, "config.attn_config.clip_qkv", true);
    c->alibi = slopes(b);
    scale(c, b);
}

/* ---- conversion ---- */

/* Append the object of the attention. */
static void mpt_attn(struct config_writer *w, const char *name)
{
    hf_put_name(w, name);
    buf_add_text(w->b, "{\"alibi\":true,\"alibi_bias_max\":8,\"attn_type\":"
                       "\"multihead_attention\"");
    hf_put_limit(w, "clip_qkv", (double)w->c->qkv_limit);
    buf_add_char(w->b, '}');
}

static const struct hf_field own_field[] = {{"config.attn_config", mpt_attn}, {0}};
static const struct arch_convert own_convert = {.field = own_field};

const struct arch arch_mpt = {
    .name = "mpt",
    .convert = &own_convert,
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .no_rope = true,
    .layer_norm_eps = "config.layer_norm_epsilon",
    .curve = CURVE_gelu_erf,
    .ffn_times = 4,
    .config = config,
};

/* nomic_bert.c - Nomic Embed: BERT with rope and a gated feed-forward block. Paper: "Nomic Embed:
 * Training a Reproducible Long Context Text Embedder", arXiv 2402.01613.
 *
 * The published config.json belongs to a class in the checkpoint's own Python code, with GPT-2's
 * names of sizes (hf_keys.def). The published class has more kinds of layers than the class of
 * transformers 5, and other defaults. */
#include "bert_impl.h"

#include <string.h>

/* defaults of NomicBertConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 30528),
    KEY("embedding_length", 768),
    KEY("feed_forward_length", 3072),
    KEY("block_count", 12),
    KEY("attention.head_count", 12),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 2048),
    KEY("config.layer_norm_eps", 1e-12),
    KEY("config.type_vocab_size", 2),
    KEY_UNSET("config.hidden_act"),
    KEY("rope.freq_base", 1000),
    IDLE("config.tie_word_embeddings", "quoth does not use the head of masked tokens"),
    IDLE("config.hidden_dropout_prob", "training"),
    IDLE("config.attention_probs_dropout_prob", "training"),
    IDLE("config.classifier_dropout", "training"),
    /* ---- the class of the published files ---- */
    KEY_UNSET("config.rotary_emb_fraction"),
    KEY_UNSET("config.rotary_emb_base"),
    KEY_UNSET("config.activation_function"),
    KEY_UNSET("config.qkv_proj_bias"),
    KEY_UNSET("config.mlp_fc1_bias"),
    KEY_UNSET("config.mlp_fc2_bias"),
    KEY_UNSET("config.layer_norm_epsilon"),
    ONLY("config.rotary_emb_interleaved", 0, "adjacent rotary lanes are not supported yet"),
    ONLY("config.rotary_emb_scale_base", 0, "a rope with a decay is not supported yet"),
    ONLY("config.rotary_scaling_factor", 0, "a base that grows with the text is not supported yet"),
    ONLY("config.rotary_head_dim", 0, "a rope over heads is not supported yet"),
    ONLY("config.num_heads_kv", 0, "fewer heads of k and v are not supported yet"),
    ONLY("config.prenorm", 0, "norms before the blocks are not supported yet"),
    ONLY("config.parallel_block", 0, "parallel blocks are not supported yet"),
    ONLY("config.parallel_block_tied_norm", 0, "parallel blocks are not supported yet"),
    ONLY("config.use_rms_norm", 0, "RMSNorm is not supported yet"),
    ONLY("config.causal", 0, "a causal encoder is not supported yet"),
    ONLY("config.moe_every_n_layers", 0, "mixtures of experts are not supported yet"),
    IDLE("config.max_trained_positions", "a parameter of rotary_scaling_factor"),
    IDLE("config.pad_vocab_size_multiple", "quoth uses the number of rows of the embedding"),
    IDLE("config.fused_bias_fc", "implementation of the reference"),
    IDLE("config.fused_dropout_add_ln", "implementation of the reference"),
    IDLE("config.use_flash_attn", "implementation of the reference"),
    IDLE("config.use_xentropy", "training"),
    IDLE("config.dense_seq_output", "quoth does not use the head of masked tokens"),
    IDLE("config.attn_pdrop", "training"),
    IDLE("config.embd_pdrop", "training"),
    IDLE("config.resid_pdrop", "training"),
    IDLE("config.reorder_and_upcast_attn", "a field of GPT-2 that the class ignores"),
    IDLE("config.scale_attn_weights", "a field of GPT-2 that the class ignores"),
    IDLE("config.scale_attn_by_inverse_layer_idx", "a field of GPT-2 that the class ignores"),
    IDLE("config.summary_activation", "a field of GPT-2 that the class ignores"),
    IDLE("config.summary_first_dropout", "a field of GPT-2 that the class ignores"),
    IDLE("config.summary_proj_to_labels", "a field of GPT-2 that the class ignores"),
    IDLE("config.summary_type", "a field of GPT-2 that the class ignores"),
    IDLE("config.summary_use_proj", "a field of GPT-2 that the class ignores"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    MUST("attention.causal", 0, "a causal encoder is not supported yet"), /* llama.cpp's default */
    KEYS_END,
};

static const char *const left_out[] = {"cls.predictions.", "pooler.", "nomic_bert.pooler.", NULL};

/* Return the first field in the file that only the published class has; NULL if none. One such
 * field selects the class, because both classes use the same model_type. */
static const char *published_field(struct binder *b)
{
    static const char *const own[] = {"config.rotary_emb_fraction", "config.rotary_emb_base",
                                      "config.activation_function", "config.qkv_proj_bias",
                                      "config.mlp_fc1_bias",        "config.mlp_fc2_bias",
                                      "config.layer_norm_epsilon"};
    const char *found = NULL;
    for (size_t i = sizeof own / sizeof own[0]; i-- > 0;)
        if (config_meta(b, own[i])) found = own[i];
    return found;
}

/* Require the value of a key, because the default of the published class is another value. `found`
 * is a field of the published class in the file. */
static void need(struct binder *b, const char *found, const char *key, double value)
{
    char text[80];
    const struct meta *m = config_meta(b, key);
    const bool is_bool = meta_kind(m) == META_BOOL;
    if (!m)
        config_refuse(b, found, ERR_MISSING, "must come with %s %g", key + strlen("config."),
                      value);
    else if ((is_bool ? meta_bool(m, false) : meta_real(m, NAN)) != value)
        config_refuse(b, key, ERR_UNSUPPORTED, "must be %g, got %s", value,
                      config_value_text(m, text));
}

/* Read the function of the gate from the published class's name of the block: swiglu or geglu. */
static void published_gate(struct config *c, struct binder *b, const char *found)
{
    static const char key[] = "config.activation_function";
    char text[80];
    const struct meta *m = config_meta(b, key);
    const char *name = meta_text(m, NULL);
    if (!m)
        config_refuse(b, found, ERR_MISSING, "must come with activation_function");
    else if (name && strcmp(name, "geglu") == 0)
        c->curve = CURVE_gelu_erf;
    else if (!name || strcmp(name, "swiglu") != 0)
        config_refuse(b, key, ERR_UNSUPPORTED, "must be swiglu or geglu, got %s",
                      config_value_text(m, text));
}

/* Read the fields of the published class. */
static void published_config(struct config *c, struct binder *b, const char *found)
{
    static const char base[] = "config.rotary_emb_base", eps[] = "config.layer_norm_epsilon";
    static const struct {
        const char *key, *field; /* key and field in the class of transformers 5 */
    } other[] = {{"rope.freq_base", "rope_theta"},
                 {"config.rope_parameters", "rope_parameters"},
                 {"config.hidden_act", "hidden_act"},
                 {"config.layer_norm_eps", "layer_norm_eps"}};
    need(b, found, "config.rotary_emb_fraction", 1);
    need(b, found, "config.qkv_proj_bias", 0);
    need(b, found, "config.mlp_fc1_bias", 0);
    need(b, found, "config.mlp_fc2_bias", 0);
    published_gate(c, b, found);
    if (!config_meta(b, "feed_forward_length"))
        config_refuse(b, found, ERR_MISSING, "must come with n_inner");
    c->rope[ROPE_MAIN].base = config_real(b, base, 10000);
    c->rms_eps = (float)config_real(b, eps, 1e-5);
    if (!(c->rope[ROPE_MAIN].base > 0))
        config_refuse(b, base, ERR_FORMAT, "must be above 0, got %g", c->rope[ROPE_MAIN].base);
    if (!(c->rms_eps >= 0))
        config_refuse(b, eps, ERR_FORMAT, "must be at least 0, got %g", (double)c->rms_eps);
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        if (config_meta(b, other[i].key))
            config_refuse(b, found, ERR_UNSUPPORTED, "must not come with %s", other[i].field);
}

static void config(struct config *c, struct binder *b)
{
    const char *found = published_field(b);
    if (found) published_config(c, b, found);
    c->order = BLOCKS_POST;
    c->n_segment = encoder_segments(b);
    c->qkv_bias = c->o_bias = c->ffn_bias = config_is_hf(b) ? BIAS_NONE : BIAS_HELD;
}

const struct arch arch_nomic_bert = {
    .name = "nomic-bert",
    BERT_ARCH,
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .curve = CURVE_silu,
    .left_out = left_out,
    .left_out_why = "head or pooler of pretraining",
    .config = config,
    .bind_ends = encoder_bind,
};

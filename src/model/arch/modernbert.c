/* modernbert.c - ModernBERT ("Smarter, Better, Faster, Longer", arXiv 2412.13663): an encoder with
 * rope, norms before the blocks and GeGLU. Every third layer attends to the whole text. All other
 * layers attend to a window on both sides, with a second rope base. */
#include "model/model_impl.h"

#include <limits.h>
#include <string.h>

static const char class_bias[] = "config.classifier_bias";

/* defaults of ModernBertConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 50368),
    KEY("embedding_length", 768),
    KEY("feed_forward_length", 1152),
    KEY("block_count", 22),
    KEY("attention.head_count", 12),
    KEY("context_length", 8192),
    KEY("config.norm_eps", 1e-5),
    KEY_UNSET("config.hidden_activation"),
    KEY("rope.freq_base", 160000),
    KEY_UNSET("config.local_rope_theta"),
    KEY_UNSET("config.rope_parameters.sliding_attention.rope_theta"),
    KEY_UNSET("config.rope_parameters.sliding_attention.rope_type"),
    KEY("config.local_attention", 128),
    KEY_UNSET("attention.sliding_window"),
    KEY("config.global_attn_every_n_layers", 3),
    KEY_UNSET("config.layer_types"),
    KEY("config.attention_bias", 0),
    KEY("config.mlp_bias", 0),
    KEY(class_bias, 0),
    KEY_UNSET("config.classifier_pooling"),
    KEY_UNSET("config.classifier_activation"),
    ONLY("config.norm_bias", 0, "norms with a bias are not supported yet"),
    IDLE("config.rope_parameters.full_attention", "its fields are read"),
    IDLE("config.rope_parameters.sliding_attention", "its fields are read"),
    IDLE("config.tie_word_embeddings", "quoth does not use the head of masked tokens"),
    IDLE("config.decoder_bias", "quoth does not use the head of masked tokens"),
    IDLE("config.sparse_prediction", "quoth does not use the head of masked tokens"),
    IDLE("config.sparse_pred_ignore_index", "quoth does not use the head of masked tokens"),
    IDLE("config.initializer_cutoff_factor", "training"),
    IDLE("config.embedding_dropout", "training"),
    IDLE("config.mlp_dropout", "training"),
    IDLE("config.classifier_dropout", "training"),
    IDLE("config.deterministic_flash_attn", "implementation of the reference"),
    IDLE("config.reference_compile", "implementation of the reference"),
    IDLE("config.repad_logits_with_grad", "implementation of the reference"),
    IDLE("config.position_embedding_type", "the class always uses rope and ignores this field"),
    IDLE("config.layer_norm_eps", "the class reads norm_eps"),
    IDLE("config.cls_token_id", "quoth reads this value from the tokenizer's own files"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    KEY_UNSET("attention.sliding_window"),
    KEY("attention.sliding_window_pattern", 3),
    KEY("rope.freq_base_swa", 10000),
    MUST("attention.causal", 0, "a causal encoder is not supported yet"), /* llama.cpp's default */
    KEYS_END,
};

static const char *const left_out[] = {"decoder.", "head.", NULL}; /* of masked tokens */

/* Set the windows: `half` positions on each side, except in every n-th layer, beginning with the
 * first layer. A list of layers in config.json has priority. */
static void windows(struct config *c, struct binder *b, int half, int every)
{
    if (b->rc != 0) return;
    if (!config_layer_types(b, c, half + 1))
        for (int i = 0; i < c->n_layer; i++) c->layer[i].window = i % every ? half + 1 : 0;
    for (int i = 0; i < c->n_layer; i++)
        if (c->layer[i].window) c->layer[i].n_later = half;
}

/* Return the number of positions on each side to which a layer with a window attends. In the class,
 * the window is the sum of both sides, and twice the value of a field sliding_window. */
static int half_window(struct binder *b)
{
    const int whole = config_int(b, "config.local_attention", 2, INT_MAX - 2, 128);
    return config_int(b, "attention.sliding_window", 1, INT_MAX / 2 - 1, whole / 2);
}

/* Read the config as in llama.cpp: the window is the sum of both sides, and a classifier pools by
 * the mean. */
static void gguf_config(struct config *c, struct binder *b)
{
    static const char linear[] = "rope.scale_linear"; /* names of these fields in older files */
    const int window = config_window(b),
              every = config_int(b, "attention.sliding_window_pattern", 1, INT_MAX, 3);
    if (window > 0) windows(c, b, window / 2, every);
    config_local_rope(c, b, "rope.freq_base_swa", config_real(b, "rope.freq_base_swa", 10000));
    c->rope[ROPE_LOCAL].magnitude = config_real(b, "rope.scaling.attn_factor", 1);
    if (c->rope[ROPE_MAIN].scaling == ROPE_YARN || c->rope[ROPE_MAIN].factor != 1)
        config_refuse(b, config_meta(b, linear) ? linear : "rope.scaling.factor", ERR_UNSUPPORTED,
                      "a scaling next to a second base is not supported yet");
    c->class_pooling = 1;
}

/* Scale both ropes by a rope_scaling of config.json, as the class does. Parameters of one type of
 * layer scale only its rope. */
static void scale_each(struct config *c, struct binder *b)
{
    if (!config_meta(b, "config.rope_parameters.each")) return;
    const double base = c->rope[ROPE_LOCAL].base;
    if (c->rope[ROPE_MAIN].scaling == ROPE_LONG)
        config_refuse(b, "rope.scaling.type", ERR_UNSUPPORTED,
                      "must not be longrope for layers with a window");
    c->rope[ROPE_LOCAL] = c->rope[ROPE_MAIN];
    c->rope[ROPE_LOCAL].base = base;
}

static void hf_config(struct config *c, struct binder *b)
{
    const char *pooling = meta_text(config_meta(b, "config.classifier_pooling"), NULL);
    const double older = config_real(b, "config.local_rope_theta", 10000);
    const int half = half_window(b),
              every = config_int(b, "config.global_attn_every_n_layers", 1, INT_MAX, 3);
    windows(c, b, half, every);
    config_local_rope(c, b, "config.local_rope_theta", config_sliding_base(b, older));
    scale_each(c, b);
    if (pooling && strcmp(pooling, "mean") == 0)
        c->class_pooling = 1;
    else
        config_only_text(b, "config.classifier_pooling", "cls");
    config_only_text(b, "config.classifier_activation", "gelu");
    config_bool(b, class_bias, false); /* bind_ends uses this value */
}

static void config(struct config *c, struct binder *b)
{
    if (config_is_hf(b))
        hf_config(c, b);
    else
        gguf_config(c, b);
}

/* Bind the ends and the classifier. A field of config.json decides if the classifier has a bias. In
 * a GGUF, the tensors decide. */
static void bind_ends(struct binder *b, void *ends)
{
    const enum curve gelu = CURVE_gelu_erf;
    encoder_bind(b, ends);
    bind_classifier(b, &gelu,
                    !config_is_hf(b)                    ? BIAS_HELD
                    : config_bool(b, class_bias, false) ? BIAS_NEEDED
                                                        : BIAS_NONE);
}

/* Bind a layer. Layer 0 has no first norm, because the embedded rows are already normalized. */
static void bind(struct binder *b, void *layer, int il)
{
    struct decoder_layer *l = layer;
    if (il > 0) bind_norm(b, &l->attn_norm, "blk.%d.attn_norm", il);
    bind_attn(b, &l->attn, il);
    bind_norm(b, &l->ffn_norm, "blk.%d.ffn_norm", il);
    bind_ffn(b, &l->feed.ffn, il);
}

const struct arch arch_modernbert = {
    .name = "modern-bert",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .gguf_curve = true,
    .encoder = true,
    .layer_norm_eps = "config.norm_eps",
    .curve = CURVE_gelu_erf,
    .left_out = left_out,
    .left_out_why = "the head of pretraining",
    .ends_bytes = sizeof(struct encoder_ends),
    .config = config,
    .bind_ends = bind_ends,
    .bind = bind,
    .embed = encoder_embed,
    .output = encoder_output,
};

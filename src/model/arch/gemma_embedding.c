/* gemma_embedding.c - EmbeddingGemma ("EmbeddingGemma: Powerful and Lightweight Text
 * Representations", arXiv 2509.20354): Gemma 3, text, as an encoder. Each row attends to the whole
 * text, or in five of six layers to a window on both sides. Hugging Face files have the model type
 * gemma3_text, and use_bidirectional_attention is true. */
#include "gemma_impl.h"

/* defaults of Gemma3TextConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 262208),
    KEY("embedding_length", 2304),
    KEY("feed_forward_length", 9216),
    KEY("block_count", 26),
    KEY("attention.head_count", 8),
    KEY("attention.head_count_kv", 4),
    KEY("attention.key_length", 256),
    KEY("context_length", 131072),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 1000000),
    KEY_UNSET("config.hidden_activation"),
    KEY("config.attention_bias", 0),
    KEY("config.query_pre_attn_scalar", 256),
    KEY("attention.sliding_window", 4096),
    KEY("config.sliding_window_pattern", 6),
    KEY_UNSET("config.layer_types"),
    KEY("config.rope_local_base_freq", 10000),
    KEY_UNSET("config.rope_parameters.sliding_attention.rope_theta"),
    KEY_UNSET("config.rope_parameters.sliding_attention.rope_type"),
    ONLY("config.rope_parameters.truncate", 1,
         "transformers ignores this parameter in an object per layer type"),
    IDLE("config.rope_parameters.full_attention", "its fields are read"),
    IDLE("config.rope_parameters.sliding_attention", "its fields are read"),
    IDLE("config.use_bidirectional_attention", "true selects this architecture"),
    IDLE("config.tie_word_embeddings", "quoth does not use the head of tokens"),
    IDLE("config.final_logit_softcapping", "quoth does not use the head of tokens"),
    IDLE("config._sliding_window_pattern", "the class reads layer_types in place of this field"),
    IDLE("config.cache_implementation", "implementation of the reference"),
    ONLY("config.attn_logit_softcapping", 0, "transformers ignores other values"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.sliding_window"),
    KEY("attention.sliding_window_pattern", 6),
    KEY("rope.freq_base_swa", 10000),
    ONLY("attention.causal", 0, "a causal encoder is not supported yet"),
    IDLE("dense_2_feat_in", "quoth reads this size from the tensor"),
    IDLE("dense_2_feat_out", "quoth reads this size from the tensor"),
    IDLE("dense_3_feat_in", "quoth reads this size from the tensor"),
    IDLE("dense_3_feat_out", "quoth reads this size from the tensor"),
    KEYS_END,
};

static const char *const left_out[] = {"lm_head.", "output.", NULL};

/* Read the config. A row with the window w attends to w / 2 positions on each side. As in
 * transformers, a classifier reads the last row. */
static void config(struct config *c, struct binder *b)
{
    gemma3_config(c, b);
    if (!config_is_hf(b)) gemma_attn_scale(c, c->d_head);
    c->class_pooling = 3;
    for (int i = 0; i < c->n_layer; i++) {
        struct layer_config *l = &c->layer[i];
        const int half = l->window / 2;
        if (l->window) l->window = half + 1, l->n_later = half;
    }
}

static void bind_ends(struct binder *b, void *ends)
{
    encoder_bind(b, ends);
    bind_classifier(b, NULL, BIAS_HELD);
}

const struct arch arch_gemma_embedding = {
    .name = "gemma-embedding",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .encoder = true,
    .curve = CURVE_gelu_tanh,
    .left_out = left_out,
    .left_out_why = "head for text; embeddings do not use it",
    .ends_bytes = sizeof(struct encoder_ends),
    .config = config,
    .bind_ends = bind_ends,
    .embed = encoder_embed,
    .output = encoder_output,
};

/* starcoder2.c - StarCoder 2 ("StarCoder 2 and The Stack v2", arXiv 2402.19173): LayerNorm, biases,
 * a feed-forward block without a gate. */
#include "model/model_impl.h"

/* defaults of Starcoder2Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 49152),
    KEY("embedding_length", 3072),
    KEY("feed_forward_length", 12288),
    KEY("block_count", 30),
    KEY("attention.head_count", 24),
    KEY("attention.head_count_kv", 2),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 4096),
    KEY("config.norm_epsilon", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 1),
    KEY("config.use_bias", 1),
    KEY_UNSET("attention.sliding_window"),
    IDLE("config.residual_dropout", "training"),
    IDLE("config.embedding_dropout", "training"),
    IDLE("config.activation_function", "field of published files that transformers ignores"),
    IDLE("config.layer_norm_epsilon", "field of published files that transformers ignores"),
    IDLE("config.mlp_type", "field of published files that transformers ignores"),
    IDLE("config.norm_type", "field of published files that transformers ignores"),
    IDLE("config.num_layers", "field of published files that transformers ignores"),
    KEYS_END,
};

/* llama.cpp does not support a window of starcoder2. In transformers the window has an effect. */
static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    KEY_UNSET("attention.sliding_window"),
    KEYS_END,
};

static void config(struct config *c, struct binder *b)
{
    const int window = config_window(b);
    for (int i = 0; i < c->n_layer; i++) c->layer[i].window = window;
    if (config_is_hf(b))
        c->qkv_bias = c->o_bias = c->ffn_bias =
            config_bool(b, "config.use_bias", true) ? BIAS_NEEDED : BIAS_NONE;
}

const struct arch arch_starcoder2 = {
    .name = "starcoder2",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .layer_norm_eps = "config.norm_epsilon",
    .norm_bias = true,
    .curve = CURVE_gelu_tanh,
    .config = config,
};

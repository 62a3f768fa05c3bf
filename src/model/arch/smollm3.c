/* smollm3.c - SmolLM3: a llama in which every fourth layer has no rope (NoPE). Paper: "RoPE to
 * NoRoPE and back again", arXiv 2501.18795. Hugging Face configs contain a list of the layers (1 =
 * rope), or the interval of layers without rope. GGUF files have no field for the interval, which
 * is four. */
#include "model/model_impl.h"

/* defaults of SmolLM3Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 128256),
    KEY("embedding_length", 2048),
    KEY("feed_forward_length", 11008),
    KEY("block_count", 36),
    KEY("attention.head_count", 16),
    KEY("attention.head_count_kv", 4),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 32768),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 2000000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 1),
    KEY("config.attention_bias", 0),
    KEY("config.mlp_bias", 0),
    KEY("config.use_sliding_window", 0),
    KEY_UNSET("attention.sliding_window"),
    KEY_UNSET("config.layer_types"),
    KEY_UNSET("config.no_rope_layers"),
    KEY("config.no_rope_layer_interval", 4),
    IDLE("config.max_window_layers", "field of published files that transformers ignores"),
    IDLE("config.pretraining_tp", "field of published files that transformers ignores"),
    KEYS_END,
};

/* Set rope and window of each layer. Only layers without rope have a window if there is no list of
 * layer types. */
static void config(struct config *c, struct binder *b)
{
    const int window = config_window(b);
    const bool slides = config_bool(b, "config.use_sliding_window", false);
    config_no_rope(c, b, false);
    for (int i = 0; i < c->n_layer && b->rc == 0; i++)
        c->layer[i].window = slides && c->layer[i].rope == ROPE_OFF ? window : 0;
    config_layer_types(b, c, window);
}

const struct arch arch_smollm3 = {
    .name = "smollm3",
    .hf_key = hf_key,
    .gguf_neox = false,
    .config = config,
};

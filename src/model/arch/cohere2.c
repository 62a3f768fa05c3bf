/* cohere2.c - Command-R7B and Command-A ("Command A", arXiv 2504.00698): command-r with a window in
 * three of four layers. Layers without a window have no rope. */
#include "command_r_impl.h"

#include <limits.h>

/* defaults of Cohere2Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 256000),
    KEY("embedding_length", 8192),
    KEY("feed_forward_length", 22528),
    KEY("block_count", 40),
    KEY("attention.head_count", 64),
    KEY_UNSET("attention.head_count_kv"),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 8192),
    KEY("config.layer_norm_eps", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 1),
    KEY("config.attention_bias", 0),
    KEY("config.logit_scale", 0.0625),
    KEY("attention.sliding_window", 4096),
    KEY_UNSET("config.layer_types"),
    KEY("config.sliding_window_pattern", 4),
    IDLE("config._sliding_window_pattern", "field of published files that transformers ignores"),
    IDLE("config.cache_implementation", "implementation of the reference"),
    IDLE("config.layer_switch", "field of published files that transformers ignores"),
    IDLE("config.order_of_interleaved_layers",
         "field of published files that transformers ignores"),
    IDLE("config.position_embedding_type", "field of published files that transformers ignores"),
    IDLE("config.rotary_pct", "field of published files that transformers ignores"),
    IDLE("config.use_embedding_sharing", "field of published files that transformers ignores"),
    IDLE("config.use_gated_activation", "field of published files that transformers ignores"),
    IDLE("config.use_parallel_block", "field of published files that transformers ignores"),
    IDLE("config.use_parallel_embedding", "field of published files that transformers ignores"),
    ONLY("config.use_qk_norm", 0, "the class has no norms of q and k"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    KEY("logit_scale", 0),
    KEY_UNSET("attention.sliding_window"),
    KEY("attention.sliding_window_pattern", 4),
    IDLE("rope.freq_base_swa", "llama.cpp reads this base, but rotates with the main base"),
    KEYS_END,
};

/* Set window and rope of each layer. Published files have the interval in place of the list of
 * layer types. An interval without a window is an error, because every layer would attend to all
 * positions and have no rope. */
static void config(struct config *c, struct binder *b)
{
    const int window = config_window(b);
    const bool listed = config_layer_types(b, c, window);
    const char *key =
        config_is_hf(b) ? "config.sliding_window_pattern" : "attention.sliding_window_pattern";
    const int interval = config_int(b, key, listed ? INT_MIN : 1, INT_MAX, 4);
    command_r_config(c, b);
    if (window == 0 && !listed && interval > 1)
        config_refuse(b, "attention.sliding_window", ERR_FORMAT, "is missing: layers slide");
    for (int i = 0; i < c->n_layer && b->rc == 0; i++) {
        if (!listed) c->layer[i].window = (i + 1) % interval ? window : 0;
        c->layer[i].rope = c->layer[i].window ? ROPE_MAIN : ROPE_OFF;
    }
}

const struct arch arch_cohere2 = {
    .name = "cohere2",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = false,
    .hf_adjacent = true,
    .layer_norm_eps = "config.layer_norm_eps",
    .config = config,
};

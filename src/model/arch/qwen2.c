/* qwen2.c - Qwen2 and Qwen2.5 ("Qwen2 Technical Report", arXiv 2407.10671): a llama with biases on
 * q, k and v. The upper layers have a window if the config enables windows. */
#include "qwen_impl.h"

#include <limits.h>

/* defaults of Qwen2Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 151936),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 22016),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY("attention.head_count_kv", 32),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 32768),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.use_sliding_window", 0),
    KEY("attention.sliding_window", 4096),
    KEY("config.max_window_layers", 28),
    KEY_UNSET("config.layer_types"),
    KEYS_END,
};

/* Set the window of the listed layers, or of the layers from max_window_layers on. No layer has a
 * window if use_sliding_window is false. */
void qwen_windows(struct config *c, struct binder *b)
{
    int window = config_window(b),
        full_below = config_int(b, "config.max_window_layers", INT_MIN, INT_MAX, 0);
    if (!config_bool(b, "config.use_sliding_window", false)) window = 0;
    if (config_layer_types(b, c, window)) return;
    for (int i = 0; i < c->n_layer; i++) c->layer[i].window = i < full_below ? 0 : window;
}

/* Set biases and windows. The class has no field for the biases of q, k and v, because it always
 * has these biases. */
static void config(struct config *c, struct binder *b)
{
    if (checkpoint_kind(b->checkpoint) == CKPT_HF) c->qkv_bias = BIAS_NEEDED;
    qwen_windows(c, b);
}

const struct arch arch_qwen2 = {
    .name = "qwen2",
    .hf_key = hf_key,
    .gguf_neox = true,
    .config = config,
};

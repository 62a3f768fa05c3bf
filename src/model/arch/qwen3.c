/* qwen3.c - Qwen3 ("Qwen3 Technical Report", arXiv 2505.09388): a llama whose q and k heads are
 * RMS-normalized before rope. The width of a head is independent of d / n_head. */
#include "qwen_impl.h"

/* defaults of Qwen3Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 151936),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 22016),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY("attention.head_count_kv", 32),
    KEY("attention.key_length", 128),
    KEY("context_length", 32768),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY("config.use_sliding_window", 0),
    KEY("attention.sliding_window", 4096),
    KEY("config.max_window_layers", 28),
    KEY_UNSET("config.layer_types"),
    KEYS_END,
};

const struct arch arch_qwen3 = {
    .name = "qwen3",
    .hf_key = hf_key,
    .gguf_neox = true,
    .config = qwen_windows,
};

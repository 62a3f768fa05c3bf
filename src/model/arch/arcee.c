/* arcee.c - AFM (Arcee): a llama whose feed-forward block has squared ReLU and no gate. */
#include "model/model_impl.h"

/* defaults of ArceeConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 32000),
    KEY("embedding_length", 2560),
    KEY("feed_forward_length", 18432),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY_UNSET("attention.head_count_kv"),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 4096),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY("config.mlp_bias", 0),
    KEYS_END,
};

const struct arch arch_arcee = {
    .name = "arcee",
    .hf_key = hf_key,
    .gguf_neox = false,
    .curve = CURVE_relu2,
};

/* helium.c - Helium 1 (Kyutai): a llama with a rope of adjacent lanes. No GGUF file has this
 * architecture. */
#include "model/model_impl.h"

/* defaults of HeliumConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 48000),
    KEY("embedding_length", 2560),
    KEY("feed_forward_length", 7040),
    KEY("block_count", 24),
    KEY("attention.head_count", 20),
    KEY("attention.head_count_kv", 20),
    KEY("attention.key_length", 128),
    KEY("context_length", 4096),
    KEY("attention.layer_norm_rms_epsilon", 1e-8),
    KEY("rope.freq_base", 100000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY("config.mlp_bias", 0),
    KEYS_END,
};

/* Read the config. attention_bias is for q, k and v only. */
static void config(struct config *c, struct binder *b)
{
    (void)b;
    c->o_bias = BIAS_NONE;
}

const struct arch arch_helium = {
    .name = "helium",
    .hf_key = hf_key,
    .gguf_neox = false,
    .hf_adjacent = true,
    .config = config,
};

/* ernie4_5.c - ERNIE 4.5 (Baidu), dense: a llama with a rope of adjacent lanes. Either all layers
 * or none have biases. */
#include "model/model_impl.h"

/* defaults of Ernie4_5Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 103424),
    KEY("embedding_length", 1024),
    KEY("feed_forward_length", 3072),
    KEY("block_count", 18),
    KEY("attention.head_count", 16),
    KEY("attention.head_count_kv", 2),
    KEY("attention.key_length", 128),
    KEY("context_length", 131072),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 500000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 1),
    KEY("config.use_bias", 0),
    KEYS_END,
};

/* Set the biases. One field enables the biases of q, k, v, output and feed-forward block. In a
 * GGUF, the presence of the tensors determines the biases. */
static void config(struct config *c, struct binder *b)
{
    if (config_is_hf(b) && config_bool(b, "config.use_bias", false))
        c->qkv_bias = c->o_bias = c->ffn_bias = BIAS_NEEDED;
}

const struct arch arch_ernie4_5 = {
    .name = "ernie4_5",
    .hf_key = hf_key,
    .gguf_neox = false,
    .hf_adjacent = true,
    .config = config,
};

/* olmo2.c - OLMo 2 ("2 OLMo 2 Furious", arXiv 2501.00656). OLMo 2 differs from llama in two ways.
 * Norms are after the blocks, not before the blocks. q and k are RMS-normalized over all heads
 * together.
 *
 *   q = norm(W_q x), k = norm(W_k x)      over all heads, before the division into heads and rope
 *   x += norm(attn(x)); x += norm(ffn(x)) */
#include "model/model_impl.h"

/* defaults of Olmo2Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 50304),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 11008),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY_UNSET("attention.head_count_kv"),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 2048),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEYS_END,
};

const struct arch arch_olmo2 = {
    .name = "olmo2",
    .hf_key = hf_key,
    .gguf_neox = true,
};

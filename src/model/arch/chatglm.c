/* chatglm.c - GLM-4-9B, model_type glm. Paper: "ChatGLM: A Family of Large Language Models", arXiv
 * 2406.12793. The model is a llama with biases of q, k and v. Gate and up are one matrix. The rope
 * rotates adjacent lanes in the first half of each head. */
#include "model/model_impl.h"

/* defaults of GlmConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 151552),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 13696),
    KEY("block_count", 40),
    KEY("attention.head_count", 32),
    KEY("attention.head_count_kv", 2),
    KEY("attention.key_length", 128),
    KEY("context_length", 131072),
    KEY("attention.layer_norm_rms_epsilon", 1.5625e-7),
    KEY("rope.freq_base", 10000),
    KEY("config.rope_parameters.partial_rotary_factor", 0.5),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 1),
    KEYS_END,
};

static void config(struct config *c, struct binder *b)
{
    if (config_is_hf(b)) c->o_bias = BIAS_NONE;
}

const struct arch arch_chatglm = {
    .name = "chatglm",
    .hf_key = hf_key,
    .gguf_neox = false,
    .hf_adjacent = true,
    .partial_rope = true,
    .config = config,
};

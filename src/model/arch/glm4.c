/* glm4.c - GLM-4-0414: glm with norms before and after each block. */
#include "model/model_impl.h"

/* defaults of Glm4Config of transformers 5 */
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

/* Set the bias of the output. attention_bias is for q, k and v only. */
static void config(struct config *c, struct binder *b)
{
    if (config_is_hf(b)) c->o_bias = BIAS_NONE;
}

const struct arch arch_glm4 = {
    .name = "glm4",
    .hf_key = hf_key,
    .gguf_neox = false,
    .hf_adjacent = true,
    .partial_rope = true,
    .config = config,
};

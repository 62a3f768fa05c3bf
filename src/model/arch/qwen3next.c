/* qwen3next.c - Qwen3-Next: layers with the gated delta rule, and attention with gates
 * (qwen_hybrid.c). The feed-forward block is a mixture of experts, in all layers or in the layers
 * that the config selects. All rows of a mixture also use one block, with a gate. */
#include "qwen_impl.h"

/* defaults of Qwen3NextConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 151936),
    KEY("embedding_length", 2048),
    KEY("feed_forward_length", 5632),
    KEY("block_count", 48),
    KEY("attention.head_count", 16),
    KEY("attention.head_count_kv", 2),
    KEY("attention.key_length", 256),
    KEY("context_length", 32768),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 10000),
    KEY("config.rope_parameters.partial_rotary_factor", 0.25),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY("expert_count", 512),
    KEY("expert_used_count", 10),
    KEY("expert_weights_norm", 1),
    KEY("config.decoder_sparse_step", 1),
    KEY_UNSET("config.mlp_only_layers"),
    QWEN_HYBRID_MOE_KEYS,
    QWEN_HYBRID_KEYS,
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    QWEN_HYBRID_MOE_GGUF_KEYS,
    QWEN_HYBRID_GGUF_KEYS,
    KEYS_END,
};

static void config(struct config *c, struct binder *b)
{
    qwen_hybrid_config(c, b);
    c->route.normalize = true;
    config_moe(c, b, 0);
    qwen_sparse_layers(c, b);
}

const struct arch arch_qwen3next = {
    .name = "qwen3next",
    QWEN_HYBRID_ARCH,
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .config = config,
    .convert = &qwen_hybrid_convert,
};

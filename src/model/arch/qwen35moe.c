/* qwen35moe.c - the text part of Qwen3.5 with mixtures of experts: a qwen35 (qwen_hybrid.c). All
 * rows also use one block of usual form, with a gate. */
#include "qwen_impl.h"

/* defaults of Qwen3_5MoeTextConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 248320),
    KEY("embedding_length", 2048),
    KEY_UNSET("feed_forward_length"),
    KEY("block_count", 40),
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
    KEY("expert_count", 256),
    KEY("expert_used_count", 8),
    QWEN_HYBRID_MOE_KEYS,
    QWEN_HYBRID_KEYS,
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("rope.dimension_sections"),
    QWEN_HYBRID_MOE_GGUF_KEYS,
    QWEN_HYBRID_GGUF_KEYS,
    KEYS_END,
};

static void config(struct config *c, struct binder *b)
{
    qwen_hybrid_config(c, b);
    qwen35_check(c, b);
    c->route.normalize = true;
    config_moe(c, b, 0);
}

const struct arch arch_qwen35moe = {
    .name = "qwen35moe",
    QWEN_HYBRID_ARCH,
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_tiled = true,
    .ffn_times = 4,
    .config = config,
    .convert = &qwen_tiled_convert,
};

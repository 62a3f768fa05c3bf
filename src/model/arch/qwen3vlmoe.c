/* qwen3vlmoe.c - the text part of Qwen3-VL with a mixture of experts ("Qwen3-VL Technical Report",
 * arXiv 2511.21631): a qwen3moe with the rope of qwen3vl.c. The weights of a row's experts always
 * have the sum 1. */
#include "qwen_impl.h"

/* defaults of Qwen3VLMoeTextConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 151936),
    KEY("embedding_length", 2048),
    KEY("feed_forward_length", 5632),
    KEY("block_count", 24),
    KEY("attention.head_count", 16),
    KEY("attention.head_count_kv", 16),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 128000),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 500000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 1),
    KEY("config.attention_bias", 0),
    KEY("expert_count", 60),
    KEY("expert_used_count", 4),
    KEY("expert_feed_forward_length", 1408),
    KEY("config.decoder_sparse_step", 1),
    KEY_UNSET("config.mlp_only_layers"),
    KEY_UNSET("config.rope_parameters.mrope_section"),
    IDLE("expert_weights_norm", "the class ignores it"),
    IDLE("config.output_router_logits", "training"),
    IDLE("config.router_aux_loss_coef", "training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("expert_count"),
    KEY_UNSET("expert_used_count"),
    KEY_UNSET("expert_feed_forward_length"),
    KEY_UNSET("rope.dimension_sections"),
    IDLE("n_deepstack_layers", "quoth does not read the part for images"),
    KEYS_END,
};

static void config(struct config *c, struct binder *b)
{
    qwen3moe_config(c, b);
    qwen3vl_config(c, b);
}

const struct arch arch_qwen3vlmoe = {
    .name = "qwen3vlmoe",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .config = config,
    .convert = &qwen_sections_convert,
};

/* glm4moe.c - GLM-4.5 ("GLM-4.5: Agentic, Reasoning, and Coding Foundation Models", arXiv
 * 2508.06471): mixtures with a block of all rows after some layers without a mixture, sigmoid
 * scores with addends for the choice, a partial rope. Some models normalize heads. Files also have
 * layers that predict further tokens. */
#include "model/model_impl.h"

/* defaults of Glm4MoeConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 151552),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 10944),
    KEY("block_count", 46),
    KEY("attention.head_count", 96),
    KEY("attention.head_count_kv", 8),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 131072),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY("config.rope_parameters.partial_rotary_factor", 0.5),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY("config.use_qk_norm", 0),
    KEY("expert_count", 128),
    KEY("expert_used_count", 8),
    KEY("expert_feed_forward_length", 1408),
    KEY("expert_shared_count", 1),
    KEY("expert_weights_scale", 1),
    KEY("expert_weights_norm", 1),
    KEY("expert_group_count", 1),
    KEY("expert_group_used_count", 1),
    KEY("leading_dense_block_count", 1),
    KEY("nextn_predict_layers", 1),
    IDLE("config.output_router_logits", "training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("expert_count"),
    KEY_UNSET("expert_used_count"),
    KEY_UNSET("expert_feed_forward_length"),
    KEY("expert_shared_count", 0),
    KEY("expert_weights_scale", 1),
    KEY("expert_weights_norm", 0),
    KEY("expert_group_count", 1),
    KEY("expert_group_used_count", 1),
    KEY("leading_dense_block_count", 0),
    KEY("nextn_predict_layers", 0),
    ONLY("expert_gating_func", 2, "GLM-4.5 has sigmoid scores"),
    KEYS_END,
};

/* Set the rule of selection. attention_bias is for q, k and v only. */
static void config(struct config *c, struct binder *b)
{
    c->route = (struct route_spec){.score = ROUTE_SIGMOID, .group_pairs = true, .sum_add = 1e-20f};
    if (config_is_hf(b)) c->o_bias = BIAS_NONE;
    c->head_norms = config_bool(b, "config.use_qk_norm", false);
    config_moe(c, b, 0);
}

const struct arch arch_glm4moe = {
    .name = "glm4moe",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .partial_rope = true,
    .config = config,
};

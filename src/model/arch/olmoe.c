/* olmoe.c - OLMoE ("OLMoE: Open Mixture-of-Experts Language Models", arXiv 2409.02060): a llama
 * with mixtures, and norms of q and k over all heads. */
#include "model/model_impl.h"

/* defaults of OlmoeConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 50304),
    KEY("embedding_length", 2048),
    KEY("feed_forward_length", 2048),
    KEY("block_count", 16),
    KEY("attention.head_count", 16),
    KEY_UNSET("attention.head_count_kv"),
    KEY("context_length", 4096),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY_UNSET("config.clip_qkv"),
    KEY("expert_count", 64),
    KEY("expert_used_count", 8),
    KEY("expert_weights_norm", 0),
    IDLE("config.output_router_logits", "training"),
    IDLE("config.router_aux_loss_coef", "training"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.clamp_kqv"),
    KEY_UNSET("expert_count"),
    KEY_UNSET("expert_used_count"),
    KEYS_END,
};

/* Set the limit of q, k and v, which applies after their norms. */
static void config(struct config *c, struct binder *b)
{
    c->qkv_limit = config_qkv_limit(b, "config.clip_qkv", false);
    config_moe(c, b, c->d_ff);
}

const struct arch arch_olmoe = {
    .name = "olmoe",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .config = config,
};

/* olmo.c - OLMo 1: a llama with LayerNorm without weights. Paper: "OLMo: Accelerating the Science
 * of Language Models", arXiv 2402.00838. Some models have a limit of q, k and v. */
#include "model/model_impl.h"

/* defaults of OlmoConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 50304),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 11008),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY_UNSET("attention.head_count_kv"),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 2048),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY_UNSET("config.clip_qkv"),
    ONLY("config.layer_norm_eps", 1e-5, "the class has a constant in place of this field"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    KEY_UNSET("attention.clamp_kqv"),
    KEYS_END,
};

static void config(struct config *c, struct binder *b)
{
    c->qkv_limit = config_qkv_limit(b, "config.clip_qkv", false);
}

const struct arch arch_olmo = {
    .name = "olmo",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = false,
    .layer_norm_eps = "config.layer_norm_eps",
    .plain_norms = true,
    .config = config,
};

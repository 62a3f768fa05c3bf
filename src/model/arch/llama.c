/* llama.c - Llama 1 to 3.x, SmolLM, and other models that GGUF files label llama. Paper: "LLaMA:
 * Open and Efficient Foundation Language Models", arXiv 2302.13971. Llama is a pre-norm decoder:
 * grouped-query attention with rope, SwiGLU, RMSNorm. */
#include "model/model_impl.h"

/* defaults of LlamaConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 32000),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 11008),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY_UNSET("attention.head_count_kv"),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 2048),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY("config.mlp_bias", 0),
    IDLE("config.pretraining_tp", "split of the matrices in training"),
    KEYS_END,
};

/* additional keys for mistral and mixtral, which GGUF files label llama */
static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.sliding_window"),
    KEY("expert_count", 0),
    KEY("expert_used_count", 0),
    KEYS_END,
};

/* Set the window, which only Mistral has, and the mixtures, which only Mixtral has. GGUF files of
 * both are labelled llama. */
static void config(struct config *c, struct binder *b)
{
    c->route.normalize = true;
    if (!config_is_hf(b)) config_moe(c, b, c->d_ff);
    int window = config_has(b, "attention.sliding_window") ? config_window(b) : 0;
    for (int i = 0; i < c->n_layer; i++) c->layer[i].window = window;
}

const struct arch arch_llama = {
    .name = "llama",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = false,
    .config = config,
};

/* internlm3.c - InternLM 3 (Shanghai AI Laboratory): a llama with other names of its fields. GGUF
 * files label the architecture llama. */
#include "model/model_impl.h"

/* defaults of InternLM3Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 128512),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 10240),
    KEY("block_count", 48),
    KEY("attention.head_count", 32),
    KEY("attention.head_count_kv", 2),
    KEY("attention.key_length", 128),
    KEY("context_length", 32768),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY("config.mlp_bias", 0),
    KEY_UNSET("config.qkv_bias"),
    KEY_UNSET("config.bias"),
    KEYS_END,
};

/* Set the biases. Each field has two names. transformers requires that both fields have equal
 * values. */
static void config(struct config *c, struct binder *b)
{
    const bool attn = config_bool(b, "config.qkv_bias", c->qkv_bias == BIAS_NEEDED),
               ffn = config_bool(b, "config.bias", c->ffn_bias == BIAS_NEEDED);
    if (attn != ffn)
        config_refuse(b, "config.qkv_bias", ERR_UNSUPPORTED,
                      "must equal the field bias (%s), got %s", ffn ? "true" : "false",
                      attn ? "true" : "false");
    c->qkv_bias = c->o_bias = c->ffn_bias = attn ? BIAS_NEEDED : BIAS_NONE;
}

const struct arch arch_internlm3 = {
    .name = "internlm3",
    .hf_key = hf_key,
    .gguf_neox = false,
    .config = config,
};

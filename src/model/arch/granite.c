/* granite.c - Granite 3 (IBM): a llama with a factor each for embeddings, attention scores,
 * residual branches and logits. GGUF files omit a factor of 1, and the scale of scores if it is 1 /
 * sqrt(d_head).
 *
 *   x = embed * embed_scale;  x += residual_scale * block(norm(x));  logits * (1 / logits_scaling)
 *
 * config.json and GGUF have different names for the factors: embedding_multiplier in config.json is
 * embedding_scale in a GGUF. */
#include "granite_impl.h"

/* defaults of GraniteConfig of transformers 5 */
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
    GRANITE_HF_KEYS,
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    GRANITE_GGUF_KEYS,
    IDLE("expert_shared_feed_forward_length", "the model has no mixtures"),
    KEYS_END,
};

/* In a GGUF, 0 means that the factor is absent and has the value 1. */
void granite_factors(struct config *c, struct binder *b)
{
    char text[80];
    const bool hf = config_is_hf(b);
    double embed = config_real(b, hf ? "config.embedding_multiplier" : "embedding_scale", 0),
           scores = config_real(b, hf ? "config.attention_multiplier" : "attention.scale", 0),
           residual = config_real(b, hf ? "config.residual_multiplier" : "residual_scale", 0),
           logits = config_real(b, hf ? "config.logits_scaling" : "logit_scale", 0);
    if (logits == 0)
        config_refuse(
            b, hf ? "config.logits_scaling" : "logit_scale", ERR_FORMAT,
            "must be a number other than 0, got %s",
            config_value_text(config_meta(b, hf ? "config.logits_scaling" : "logit_scale"), text));
    c->embed_scale = (float)(hf || embed != 0 ? embed : 1);
    c->residual_scale = (float)(hf || residual != 0 ? residual : 1);
    c->logit_scale = (float)(1 / logits);
    for (int i = 0; i < c->n_layer && (hf || scores != 0); i++)
        c->layer[i].attn_scale = (float)scores;
}

const struct arch arch_granite = {
    .name = "granite",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = false,
    .gguf_lists = true,
    .config = granite_factors,
};

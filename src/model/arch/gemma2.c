/* gemma2.c - Gemma 2. Paper: "Gemma 2: Improving Open Language Models at a Practical Size", arXiv
 * 2408.00118. The model has norms before and after each block, a window in every other layer, and
 * caps of attention scores and logits. */
#include "gemma_impl.h"

/* defaults of Gemma2Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 256000),
    KEY("embedding_length", 2304),
    KEY("feed_forward_length", 9216),
    KEY("block_count", 26),
    KEY("attention.head_count", 8),
    KEY("attention.head_count_kv", 4),
    KEY("attention.key_length", 256),
    KEY("context_length", 8192),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_activation"),
    KEY("config.tie_word_embeddings", 1),
    KEY("config.attention_bias", 0),
    KEY("config.query_pre_attn_scalar", 256),
    KEY("attention.sliding_window", 4096),
    KEY_UNSET("config.layer_types"),
    KEY("config.final_logit_softcapping", 30),
    KEY("config.attn_logit_softcapping", 50),
    IDLE("config.hidden_act", "field of published files that transformers ignores"),
    IDLE("config.cache_implementation", "implementation of the reference"),
    ONLY("config.use_bidirectional_attention", 0,
         "attention to later positions is not supported yet"),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY("attention.sliding_window", 4096),
    KEY("final_logit_softcapping", 30),
    KEY("attn_logit_softcapping", 50),
    KEYS_END,
};

/* Reject a rope factor without a type of scaling. llama.cpp would apply this factor only to layers
 * with a window. */
static void check_factor(const struct config *c, struct binder *b)
{
    const struct rope_config *r = &c->rope[ROPE_MAIN];
    if (r->scaling == ROPE_NONE && r->factor != 1)
        config_refuse(b, "rope.scaling.type", ERR_UNSUPPORTED,
                      "must be linear or yarn with rope.scaling.factor %g, got none", r->factor);
}

/* Set the cap of attention scores. */
static void score_cap(struct config *c, struct binder *b, const char *key)
{
    const float cap = config_cap(b, key);
    for (int i = 0; i < c->n_layer; i++) c->layer[i].softcap = cap;
}

/* Read the config as in transformers. For a GGUF file, set the scale as in llama.cpp: only the 27B
 * model has a different scale. */
static void config(struct config *c, struct binder *b)
{
    c->embed_scale = (float)sqrt(c->d);
    if (config_is_hf(b)) {
        gemma_hf_config(c, b, 2);
        score_cap(c, b, "config.attn_logit_softcapping");
        return;
    }
    check_factor(c, b);
    gemma_gguf_windows(c, b, 2);
    gemma_attn_scale(c, c->n_layer == 46 ? c->d / c->n_head : c->d_head);
    c->logit_softcap = config_cap(b, "final_logit_softcapping");
    score_cap(c, b, "attn_logit_softcapping");
}

const struct arch arch_gemma2 = {
    .name = "gemma2",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .curve = CURVE_gelu_tanh,
    .config = config,
};

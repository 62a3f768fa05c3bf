/* gemma.c - Gemma 1. Paper: "Gemma: Open Models Based on Gemini Research and Technology", arXiv
 * 2403.08295. Gemma 1 is a llama with GeGLU, embeddings times sqrt(d) and a tied head. Hugging Face
 * files contain g - 1 in place of the weight g of each norm. */
#include "model/model_impl.h"

/* defaults of GemmaConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 256000),
    KEY("embedding_length", 3072),
    KEY("feed_forward_length", 24576),
    KEY("block_count", 28),
    KEY("attention.head_count", 16),
    KEY("attention.head_count_kv", 16),
    KEY("attention.key_length", 256),
    KEY("context_length", 8192),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 1),
    KEY("config.attention_bias", 0),
    IDLE("config.hidden_activation", "field of published files that transformers ignores"),
    ONLY("config.use_bidirectional_attention", 0,
         "attention to later positions is not supported yet"),
    KEYS_END,
};

static void config(struct config *c, struct binder *b)
{
    c->embed_scale = (float)sqrt(c->d);
    if (!config_is_hf(b)) return;
    c->norm_add = 1;
    /* the first files contain "gelu", which the class reads as its tanh form */
    if (c->curve == CURVE_gelu_erf) c->curve = CURVE_gelu_tanh;
}

const struct arch arch_gemma = {
    .name = "gemma",
    .hf_key = hf_key,
    .gguf_neox = true,
    .curve = CURVE_gelu_tanh,
    .config = config,
};

/* nemotron.c - Nemotron-4 and Minitron ("Nemotron-4 15B Technical Report", arXiv 2402.16819):
 * LayerNorm, a partial rope, a feed-forward block with squared ReLU and without a gate. Hugging
 * Face files contain g - 1 in place of the weight g of each norm. */
#include "model/model_impl.h"

/* defaults of NemotronConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 256000),
    KEY("embedding_length", 6144),
    KEY("feed_forward_length", 24576),
    KEY("block_count", 32),
    KEY("attention.head_count", 48),
    KEY_UNSET("attention.head_count_kv"),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 4096),
    KEY("config.norm_eps", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY("config.rope_parameters.partial_rotary_factor", 0.5),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY("config.mlp_bias", 0),
    KEYS_END,
};

static const struct config_key gguf_key[] = {
    KEY_UNSET("attention.layer_norm_epsilon"),
    KEYS_END,
};

static void config(struct config *c, struct binder *b)
{
    if (config_is_hf(b)) c->norm_add = 1;
}

const struct arch arch_nemotron = {
    .name = "nemotron",
    .hf_key = hf_key,
    .gguf_key = gguf_key,
    .gguf_neox = true,
    .partial_rope = true,
    .layer_norm_eps = "config.norm_eps",
    .norm_bias = true,
    .curve = CURVE_relu2,
    .config = config,
};

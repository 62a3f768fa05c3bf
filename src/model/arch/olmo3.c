/* olmo3.c - OLMo 3 (Allen Institute for AI): an olmo2 with windows in three of four layers. Layers
 * with a window have a rope without scaling. GGUF files label the architecture olmo2. */
#include "model/model_impl.h"

/* defaults of Olmo3Config of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 50304),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 11008),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY_UNSET("attention.head_count_kv"),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 2048),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 500000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY("attention.sliding_window", 4096),
    KEY_UNSET("config.layer_types"),
    KEY_UNSET("config.rope_parameters.sliding_attention.rope_theta"),
    KEY_UNSET("config.rope_parameters.sliding_attention.rope_type"),
    ONLY("config.rope_parameters.truncate", 1,
         "transformers ignores this parameter in an object per layer type"),
    IDLE("config.rope_parameters.full_attention", "its fields are read"),
    IDLE("config.rope_parameters.sliding_attention", "its fields are read"),
    KEYS_END,
};

static void config(struct config *c, struct binder *b)
{
    const int window = config_window(b);
    if (!config_layer_types(b, c, window))
        for (int i = 0; i < c->n_layer; i++) c->layer[i].window = (i + 1) % 4 ? window : 0;
    config_local_rope(c, b, "rope.freq_base", config_sliding_base(b, 500000));
}

const struct arch arch_olmo3 = {
    .name = "olmo3",
    .hf_key = hf_key,
    .gguf_neox = true,
    .config = config,
};

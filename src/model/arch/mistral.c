/* mistral.c - Mistral ("Mistral 7B", arXiv 2310.06825): a llama with sliding-window layers. GGUF
 * files label the architecture llama. */
#include "model/model_impl.h"

/* defaults of MistralConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 32000),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 14336),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY("attention.head_count_kv", 8),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 131072),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("attention.sliding_window", 4096),
    KEY_UNSET("config.layer_types"),
    KEYS_END,
};

/* Set the window of all layers. Reject a list of layer types. */
static void config(struct config *c, struct binder *b)
{
    int window = config_window(b);
    for (int i = 0; i < c->n_layer; i++) c->layer[i].window = window;
    if (meta_kind(config_meta(b, "config.layer_types")) != META_NONE)
        config_refuse(b, "config.layer_types", ERR_UNSUPPORTED,
                      "several types of layers are not supported yet");
}

const struct arch arch_mistral = {
    .name = "mistral",
    .hf_key = hf_key,
    .gguf_neox = false,
    .config = config,
};

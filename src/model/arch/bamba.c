/* bamba.c - Bamba (IBM, "Bamba-9B"): layers of Mamba-2, attention with a rope of half of each head
 * in the listed layers, and a feed-forward block in all layers. */
#include "mamba2_impl.h"

/* defaults of BambaConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 128000),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 14336),
    KEY("block_count", 32),
    KEY("attention.head_count", 32),
    KEY("attention.head_count_kv", 8),
    KEY_UNSET("attention.key_length"),
    KEY("context_length", 262144),
    KEY("attention.layer_norm_rms_epsilon", 1e-5),
    KEY("rope.freq_base", 10000),
    KEY("config.rope_parameters.partial_rotary_factor", 0.5),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 0),
    KEY("config.mlp_bias", 0),
    KEY_UNSET("config.attn_layer_indices"),
    MAMBA2_HYBRID_KEYS,
    IDLE("config.z_loss_coefficient", "training"),
    IDLE("config.attn_rotary_emb", "field of the original code, which the class only stores"),
    KEYS_END,
};

/* Set the layers with attention by the list of their numbers. */
static void config(struct config *c, struct binder *b)
{
    /* the class ignores numbers without a layer */
    const bool *attends = config_listed_layers(b, "config.attn_layer_indices", 0, false);
    mamba2_hybrid_sizes(c, b, 0);
    for (int i = 0; i < c->n_layer; i++) c->layer[i].recurrent = !attends || !attends[i];
    mamba2_hybrid_end(c);
}

static void bind(struct binder *b, void *layer, int il)
{
    struct mamba2_hybrid_layer *l = layer;
    mamba2_hybrid_bind(b, l, il);
    bind_feed(b, &l->feed, il);
}

const struct arch arch_bamba = {
    .name = "bamba",
    .hf_key = hf_key,
    .gguf_why = "its GGUF files have the architecture granitehybrid",
    .partial_rope = true,
    .convert = &bamba_convert,
    .layer_bytes = sizeof(struct mamba2_hybrid_layer),
    .size = mamba2_hybrid_size,
    .config = config,
    .bind = bind,
    .layer = mamba2_hybrid_layer,
};

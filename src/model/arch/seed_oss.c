/* seed_oss.c - Seed-OSS (ByteDance): a llama with biases of q, k and v. GGUF files call the norm
 * before the feed-forward block post_attention_norm. */
#include "model/model_impl.h"

/* defaults of SeedOssConfig of transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 155136),
    KEY("embedding_length", 4096),
    KEY("feed_forward_length", 27648),
    KEY("block_count", 64),
    KEY("attention.head_count", 80),
    KEY("attention.head_count_kv", 8),
    KEY("attention.key_length", 128),
    KEY("context_length", 524288),
    KEY("attention.layer_norm_rms_epsilon", 1e-6),
    KEY("rope.freq_base", 10000),
    KEY_UNSET("config.hidden_act"),
    KEY("config.tie_word_embeddings", 0),
    KEY("config.attention_bias", 1),
    KEY("config.attention_out_bias", 0),
    KEY("config.mlp_bias", 0),
    IDLE("config.pretraining_tp", "split of the matrices in training"),
    IDLE("config.residual_dropout", "training"),
    KEYS_END,
};

/* Set the bias of the output by its own field. In a GGUF, the presence of the tensor determines the
 * bias. */
static void config(struct config *c, struct binder *b)
{
    if (config_is_hf(b))
        c->o_bias = config_bool(b, "config.attention_out_bias", false) ? BIAS_NEEDED : BIAS_NONE;
}

/* Bind a layer. Only the name of the second norm differs from the layers of most decoders. */
static void bind(struct binder *b, void *layer, int il)
{
    struct decoder_layer *l = layer;
    bind_norm(b, &l->attn_norm, "blk.%d.attn_norm", il);
    bind_attn(b, &l->attn, il);
    bind_norm(b, &l->ffn_norm, "blk.%d.post_attention_norm", il);
    bind_ffn(b, &l->feed.ffn, il);
}

const struct arch arch_seed_oss = {
    .name = "seed_oss",
    .hf_key = hf_key,
    .gguf_neox = true,
    .config = config,
    .bind = bind,
};

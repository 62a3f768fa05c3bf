/* deepseek_impl.h - the parts that deepseek2.c and deepseek3.c share, and the conversion of
 * deepseek2. The loading thread calls the functions, the engine's thread deepseek_layer, and the
 * converting thread those of deepseek2_convert. */
#ifndef QUOTH_ARCH_DEEPSEEK_IMPL_H
#define QUOTH_ARCH_DEEPSEEK_IMPL_H

#include "model/model_impl.h"

/* keys of both classes with equal defaults */
#define DEEPSEEK_KEYS                                                                              \
    KEY_UNSET("attention.head_count_kv"), KEY_UNSET("config.hidden_act"),                          \
        KEY("attention.layer_norm_rms_epsilon", 1e-6), KEY("rope.freq_base", 10000),               \
        KEY("config.tie_word_embeddings", 0), KEY("config.attention_bias", 0),                     \
        KEY("attention.q_lora_rank", 1536), KEY("attention.kv_lora_rank", 512),                    \
        KEY("config.qk_nope_head_dim", 128), KEY("rope.dimension_count", 64),                      \
        KEY("attention.value_length", 128), KEY_UNSET("config.scoring_func"),                      \
        KEY_UNSET("config.topk_method"),                                                           \
        ONLY("config.moe_layer_freq", 1, "other values are not supported yet"),                    \
        IDLE("attention.key_length", "the class computes this size from the parts of a head"),     \
        IDLE("config.qk_head_dim", "the class computes this size from the parts of a head"),       \
        IDLE("config.pretraining_tp", "split of the matrices in training"),                        \
        IDLE("config.output_router_logits", "training"),                                           \
        IDLE("config.aux_loss_alpha", "training"), IDLE("config.seq_aux", "training"),             \
        IDLE("config.ep_size", "parallel execution")

/* Keys of latent attention in a GGUF. The epsilon of compressed rows is a key of quoth. */
#define LATENT_GGUF_KEYS                                                                           \
    KEY_UNSET("attention.q_lora_rank"), KEY_UNSET("attention.kv_lora_rank"),                       \
        KEY_UNSET("attention.latent_norm_rms_epsilon"), KEY_UNSET("attention.key_length_mla"),     \
        KEY_UNSET("attention.value_length_mla"), KEY_UNSET("rope.dimension_count")

/* Keys of mixtures after layers without a mixture, in a GGUF. */
#define DEEPSEEK_GGUF_MIXTURES                                                                     \
    KEY("leading_dense_block_count", 0), KEY_UNSET("expert_count"),                                \
        KEY_UNSET("expert_used_count"), KEY_UNSET("expert_feed_forward_length"),                   \
        KEY_UNSET("expert_shared_count")

struct deepseek_layer {
    struct norm attn_norm, ffn_norm;
    struct latent_block attn;
    struct feed_block feed;
};

/* Set the rope, the heads of pages and the mixtures, after the version has set c->route. */
void deepseek_config(struct config *c, struct binder *b);
/* Bind layer il, and compute it (struct arch). */
void deepseek_bind(struct binder *b, void *layer, int il);
void deepseek_layer(struct fwd *f, const void *layer);

/* Conversion of V2 (deepseek_convert.c). */
extern const struct arch_convert deepseek2_convert;

#define DEEPSEEK_ARCH                                                                              \
    .hf_adjacent = true, .layer_bytes = sizeof(struct deepseek_layer), .heads = latent_heads,      \
    .size = latent_size, .bind = deepseek_bind, .layer = deepseek_layer

#endif

/* qwen_impl.h - parts that qwen2, qwen3 and text parts of models with images share. The loading
 * thread binds. The engine's thread runs the forward pass. */
#ifndef QUOTH_ARCH_QWEN_IMPL_H
#define QUOTH_ARCH_QWEN_IMPL_H

#include "model/recurrent_impl.h"

/* Set the windows of layers. */
void qwen_windows(struct config *c, struct binder *b);
/* Set n to the number of lane pairs of each section of a rope. n is unchanged if a config.json has
 * no sections. Reject a fourth section, and sections with more pairs than the rope. */
void qwen_sections(const struct config *c, struct binder *b, int64_t n[4]);
/* Read n without the check against the rope's pairs. */
void qwen_read_sections(struct binder *b, int64_t n[4]);
/* Check the interleaved sections of a GGUF. */
void qwen_thirds(const struct config *c, struct binder *b, const int64_t n[4]);
/* Set n as qwen_sections does. Reject a GGUF without sections. Reject a config.json if its sections
 * do not contain all rotated pairs, as the classes do. llama.cpp repeats fewer sections. */
void qwen_whole_sections(const struct config *c, struct binder *b, int64_t n[4]);
/* Set the config of qwen3moe (struct arch). */
void qwen3moe_config(struct config *c, struct binder *b);
/* Remove the mixtures of layers that the class computes without one: layers between every
 * decoder_sparse_step-th layer, and the layers in mlp_only_layers. */
void qwen_sparse_layers(struct config *c, struct binder *b);
/* Check the sections of the rope of Qwen3-VL. */
void qwen3vl_config(struct config *c, struct binder *b);
/* ---- Qwen3-Next and Qwen3.5 (qwen_hybrid.c) ---- */

/* A layer: attention with gates, or the gated delta rule; a mixture or a feed-forward block. */
struct qwen_hybrid_layer {
    struct norm attn_norm, ffn_norm;
    bool recurrent; /* true: the layer has `delta` in place of `attn` */
    struct gated_attn attn;
    struct delta_block delta;
    struct feed_block feed;
};
/* Keys of config.json and of a GGUF that qwen_hybrid_config reads. */
#define QWEN_HYBRID_KEYS                                                                           \
    KEY("ssm.conv_kernel", 4), KEY("ssm.state_size", 128), KEY("ssm.group_count", 16),             \
        KEY("ssm.time_step_rank", 32), KEY("config.linear_value_head_dim", 128),                   \
        KEY("full_attention_interval", 4), KEY_UNSET("config.layer_types"),                        \
        IDLE("config.mamba_ssm_dtype", "quoth computes recurrent states in float32"),              \
        IDLE("config.mtp_num_hidden_layers", "layers that draft tokens are not supported yet"),    \
        IDLE("config.mtp_use_dedicated_embeddings",                                                \
             "layers that draft tokens are not supported yet")
#define QWEN_HYBRID_GGUF_KEYS                                                                      \
    KEY_UNSET("ssm.conv_kernel"), KEY_UNSET("ssm.state_size"), KEY_UNSET("ssm.group_count"),       \
        KEY_UNSET("ssm.time_step_rank"), KEY_UNSET("ssm.inner_size"),                              \
        KEY("full_attention_interval", 4), KEY_UNSET("attention.recurrent_layers"),                \
        KEY_UNSET("nextn_predict_layers")
/* Keys of the mixtures of these models. */
#define QWEN_HYBRID_MOE_KEYS                                                                       \
    KEY("expert_feed_forward_length", 512), KEY("expert_shared_feed_forward_length", 512),         \
        IDLE("config.output_router_logits", "training"),                                           \
        IDLE("config.router_aux_loss_coef", "training")
#define QWEN_HYBRID_MOE_GGUF_KEYS                                                                  \
    KEY_UNSET("expert_count"), KEY_UNSET("expert_used_count"),                                     \
        KEY_UNSET("expert_feed_forward_length"), KEY_UNSET("expert_shared_feed_forward_length")
/* Members of struct arch that these models share. */
#define QWEN_HYBRID_ARCH                                                                           \
    .gguf_neox = true, .partial_rope = true, .layer_bytes = sizeof(struct qwen_hybrid_layer),      \
    .left_out = qwen_draft, .left_out_why = "layers that draft tokens (MTP); not supported yet",   \
    .size = qwen_hybrid_size, .bind = qwen_hybrid_bind, .layer = qwen_hybrid_layer
/* beginnings of the names of tensors of layers that draft tokens */
extern const char *const qwen_draft[];
/* Set the sizes of recurrent layers, c->own, and the kind of each layer (struct arch). */
void qwen_hybrid_config(struct config *c, struct binder *b);
/* Check the sections of the rope and the sizes of a GGUF of Qwen3.5. */
void qwen35_check(struct config *c, struct binder *b);
/* Return a size of recurrent layers (struct arch). */
int64_t qwen_hybrid_size(const struct config *c, enum tensor_size size);
/* Bind layer il (struct arch). */
void qwen_hybrid_bind(struct binder *b, void *layer, int il);
/* Add the blocks of a layer to the residual stream. */
void qwen_hybrid_layer(struct fwd *f, const void *layer);

/* conversion of the sections (qwen_convert.c) */
extern const struct arch_convert qwen_sections_convert;
/* conversion of layers with the gated delta rule, without and with another order of heads */
extern const struct arch_convert qwen_hybrid_convert, qwen_tiled_convert;

#endif

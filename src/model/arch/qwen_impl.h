/* qwen_impl.h - parts that qwen2, qwen3 and text parts of models with images share. The loading
 * thread binds. The engine's thread runs the forward pass. */
#ifndef QUOTH_ARCH_QWEN_IMPL_H
#define QUOTH_ARCH_QWEN_IMPL_H

#include "model/model_impl.h"

/* Set the windows of layers. */
void qwen_windows(struct config *c, struct binder *b);
/* Set n to the number of lane pairs of each section of a rope. n is unchanged if a config.json has
 * no sections. Reject a fourth section, and sections with more pairs than the rope. */
void qwen_sections(const struct config *c, struct binder *b, int64_t n[4]);
/* Set n as qwen_sections does. Reject a GGUF without sections. Reject a config.json if its sections
 * do not contain all rotated pairs, as the classes do. llama.cpp repeats fewer sections. */
void qwen_whole_sections(const struct config *c, struct binder *b, int64_t n[4]);
/* A layer of qwen3moe: attention, and either a mixture of experts or a feed-forward block. */
struct qwen3moe_layer {
    struct norm attn_norm, ffn_norm;
    struct attn_block attn;
    struct moe_block moe; /* mixture of experts; n_expert is 0 if the layer has `ffn` instead */
    struct ffn_block ffn;
};
/* Set the config of qwen3moe (struct arch). */
void qwen3moe_config(struct config *c, struct binder *b);
/* Bind layer il with a mixture or a feed-forward block (struct arch). */
void qwen3moe_bind(struct binder *b, void *layer, int il);
/* Add the blocks of a layer to the residual stream. */
void qwen3moe_layer(struct fwd *f, const void *layer);
/* Check the sections of the rope of Qwen3-VL. */
void qwen3vl_config(struct config *c, struct binder *b);
/* conversion of the sections (qwen_convert.c) */
extern const struct arch_convert qwen_sections_convert;

#endif

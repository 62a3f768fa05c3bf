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
/* Set the config of qwen3moe (struct arch). */
void qwen3moe_config(struct config *c, struct binder *b);
/* Remove the mixtures of layers that the class computes without one: layers between every
 * decoder_sparse_step-th layer, and the layers in mlp_only_layers. */
void qwen_sparse_layers(struct config *c, struct binder *b);
/* Check the sections of the rope of Qwen3-VL. */
void qwen3vl_config(struct config *c, struct binder *b);
/* conversion of the sections (qwen_convert.c) */
extern const struct arch_convert qwen_sections_convert;

#endif

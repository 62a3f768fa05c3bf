/* gemma_impl.h - parts that gemma2, gemma3 and gemma-embedding share, which gemma3.c defines, and
 * the config of gemma4. The loading thread binds. The engine's thread runs the forward pass. */
#ifndef QUOTH_ARCH_GEMMA_IMPL_H
#define QUOTH_ARCH_GEMMA_IMPL_H

#include "model/model_impl.h"

/* Set the scale of attention scores to 1 / sqrt(divisor). */
void gemma_attn_scale(struct config *c, double divisor);
/* Set the windows as in config.json: the layers of layer_types have windows, or all except the last
 * of every `interval` layers. Read the scale and the cap of the logits. */
void gemma_hf_config(struct config *c, struct binder *b, int interval);
/* Set the window of all layers except the last of every `interval`. */
void gemma_gguf_windows(struct config *c, struct binder *b, int interval);
/* Set the scale of the embeddings, the windows, the scale of scores and the ropes of Gemma 3. */
void gemma3_config(struct config *c, struct binder *b);

/* gemma4_config.c: keys of gemma4, static, and its config. */
extern const struct config_key gemma4_hf_key[], gemma4_gguf_key[];
void gemma4_config(struct config *c, struct binder *b);

#endif

/* llama_impl.h - the layer of llama, which many architectures share. */
#ifndef QUOTH_ARCH_LLAMA_IMPL_H
#define QUOTH_ARCH_LLAMA_IMPL_H

#include "model/model_impl.h"

struct llama_layer {
    struct norm attn_norm, ffn_norm;
    struct attn_block attn;
    struct glu_block ffn;
};
/* Set the windows of layers, for qwen2 and qwen3. */
void qwen_windows(struct config *c, struct binder *b);
void llama_bind(struct binder *b, void *layer, int il);
void llama_layer(struct fwd *f, const void *layer);

#endif

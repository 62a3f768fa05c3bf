/* starcoder2_impl.h - the layer of starcoder2, which architectures without a gate share. */
#ifndef QUOTH_ARCH_STARCODER2_IMPL_H
#define QUOTH_ARCH_STARCODER2_IMPL_H

#include "model/model_impl.h"

struct starcoder2_layer {
    struct norm attn_norm, ffn_norm;
    struct attn_block attn;
    struct mlp_block ffn;
};
void starcoder2_bind(struct binder *b, void *layer, int il);
/* Compute x += attn(norm x); x += ffn(norm x). */
void starcoder2_layer(struct fwd *f, const void *layer);

#endif

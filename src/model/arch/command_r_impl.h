/* command_r_impl.h - the layer of command-r, which other architectures with LayerNorm share. */
#ifndef QUOTH_ARCH_COMMAND_R_IMPL_H
#define QUOTH_ARCH_COMMAND_R_IMPL_H

#include "model/model_impl.h"

struct command_r_layer {
    struct norm attn_norm;
    struct norm ffn_norm;       /* no g: attention and feed-forward block have the same input */
    struct norm q_norm, k_norm; /* norms of each head, with weights per head; no g: none */
    struct attn_block attn;
    struct glu_block ffn;
};

/* Compute x += attn(h) with the norms of heads. */
void command_r_attn_add(struct fwd *f, float *x, const float *h, const struct command_r_layer *l);
/* Bind norm, attention, norms of heads if the file has them, and the feed-forward block. */
void command_r_bind(struct binder *b, void *layer, int il);
/* Compute x += attn(h) + ffn(h), h = norm x;
 * or, with ffn_norm, x += attn(norm x); x += ffn(norm x). */
void command_r_layer(struct fwd *f, const void *layer);
/* Read logit_scale, and scale the logits by it. */
void command_r_logit_scale(struct config *c, struct binder *b);
struct model_out command_r_output(struct fwd *f, const void *ends);

#endif

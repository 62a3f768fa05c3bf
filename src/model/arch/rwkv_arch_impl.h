/* rwkv_arch_impl.h - declarations that RWKV-4, 5 and 6 share. One thread at a time calls these
 * functions: first the loading thread, then the engine's thread. */
#ifndef QUOTH_ARCH_RWKV_IMPL_H
#define QUOTH_ARCH_RWKV_IMPL_H

#include "model/rwkv_impl.h"

/* Keys that the classes share, with the defaults of RwkvConfig of transformers 5, except for the
 * sizes. The recurrence has no maximum length. */
#define RWKV_HF_KEYS                                                                               \
    KEY("context_length", RWKV_CONTEXT), KEY_UNSET("feed_forward_length"),                         \
        KEY("config.layer_norm_epsilon", 1e-5), KEY("config.tie_word_embeddings", 0),              \
        KEY_UNSET("config.attention_hidden_size"), KEY("config.rescale_every", 6),                 \
        IDLE("config.context_length", "length of training; the recurrence has no maximum length")

/* Read the sizes that the classes share, and set c->own to them. d_ff: default width of channel
 * mixing. NULL after a failure. */
struct rwkv_sizes *rwkv_read_sizes(struct config *c, struct binder *b, int64_t d_ff);
/* Read the sizes of heads. The width of time mixing must be that of the model. */
void rwkv_read_heads(struct config *c, struct binder *b, struct rwkv_sizes *s);
/* Return a size of tensors.def. The function is a struct arch.size. */
int64_t rwkv_arch_size(const struct config *c, enum tensor_size size);

/* Return the number by which a GGUF's matrices that add to the residual stream are divided in layer
 * il, a power of 2; 0: 1. */
float rwkv_divisor(const struct config *c, int il);

/* A layer: time mixing and channel mixing, each after a norm. */
struct rwkv_layer {
    struct norm time_norm, channel_norm;
    struct time_block time;
    struct channel_block channel;
};
/* Bind and compute a layer and the ends. The functions are members of struct arch. */
void rwkv_bind(struct binder *b, void *layer, int il);
void rwkv_bind_ends(struct binder *b, void *ends);
void rwkv_layer(struct fwd *f, const void *layer);

#define RWKV_ARCH                                                                                  \
    .no_rope = true, .no_attention = true, .layer_norm_eps = "config.layer_norm_epsilon",          \
    .norm_bias = true, .layer_bytes = sizeof(struct rwkv_layer), .size = rwkv_arch_size,           \
    .bind_ends = rwkv_bind_ends, .bind = rwkv_bind, .layer = rwkv_layer

#endif

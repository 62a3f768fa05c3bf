/* mamba2_impl.h - declarations that the classes with layers of Mamba-2 next to attention share. One
 * thread at a time calls these functions: first the loading thread, then the engine's thread. */
#ifndef QUOTH_ARCH_MAMBA2_IMPL_H
#define QUOTH_ARCH_MAMBA2_IMPL_H

#include "model/recurrent_impl.h"

/* Keys of the layers of Mamba-2 in the classes bamba, falcon_h1 and granitemoehybrid of
 * transformers 5, with their defaults. */
#define MAMBA2_HYBRID_KEYS                                                                         \
    KEY("ssm.time_step_rank", 128), KEY_UNSET("ssm.head_dim"), KEY("ssm.group_count", 1),          \
        KEY("ssm.state_size", 256), KEY("ssm.conv_kernel", 4), KEY("config.mamba_expand", 2),      \
        KEY("config.mamba_conv_bias", 1), KEY("config.mamba_proj_bias", 0),                        \
        KEY_UNSET("config.time_step_limit"),                                                       \
        IDLE("config.mamba_chunk_size", "size of the reference's blocks"),                         \
        IDLE("config.num_logits_to_keep", "number of rows for which transformers computes logits")

/* Read the sizes of Mamba-2 into s (mamba2.c): numbers of heads, groups, states and weights of the
 * convolution. d_inner: width of all heads; 0: the product of heads and their size. The caller sets
 * the other members. */
void mamba2_read_sizes(struct mamba2_sizes *s, struct binder *b, int64_t d_inner);
/* Keys of the layers of Mamba-2 in a GGUF. The limits of time steps are keys of quoth, which
 * llama.cpp ignores. */
#define MAMBA2_GGUF_KEYS                                                                           \
    KEY_UNSET("ssm.conv_kernel"), KEY_UNSET("ssm.inner_size"), KEY_UNSET("ssm.state_size"),        \
        KEY_UNSET("ssm.time_step_rank"), KEY_UNSET("ssm.group_count"),                             \
        KEY("ssm.time_step_min", 0), KEY("ssm.time_step_max", 0)
/* Read the sizes and the limits of a GGUF into s, and set the biases by its tensors (mamba2.c). */
void mamba2_read_gguf(struct mamba2_sizes *s, struct binder *b);
/* Conversion of a model with only such layers (mamba2_convert.c), of Bamba, and of Granite 4
 * (granitehybrid_convert.c). */
extern const struct arch_convert mamba2_convert, bamba_convert, granitehybrid_convert;
struct key_writer;
struct source;
struct config_writer;
/* Write the sizes of these layers to a GGUF, and set the form of a tensor (struct arch_convert). */
void mamba2_put_keys(struct key_writer *w);
void mamba2_place(struct source *s, const struct model *m, const char *name);
extern const struct name_pair mamba2_names[];
extern const char *const mamba2_f32[];
/* Append a member of config.json with a size of these layers, or with their limits (struct
 * hf_field). */
void mamba2_put_taps(struct config_writer *w, const char *name);
void mamba2_put_states(struct config_writer *w, const char *name);
void mamba2_put_groups(struct config_writer *w, const char *name);
void mamba2_put_heads(struct config_writer *w, const char *name);
void mamba2_put_head_size(struct config_writer *w, const char *name);
void mamba2_put_expand(struct config_writer *w, const char *name);
void mamba2_put_bias(struct config_writer *w, const char *name);
void mamba2_put_conv_bias(struct config_writer *w, const char *name);
void mamba2_put_limit(struct config_writer *w, const char *name);
/* Rows of struct hf_field of these sizes, and of MAMBA2_HYBRID_KEYS. */
#define MAMBA2_SIZE_FIELDS                                                                         \
    {"ssm.conv_kernel", mamba2_put_taps}, {"ssm.state_size", mamba2_put_states},                   \
        {"ssm.group_count", mamba2_put_groups}, {"ssm.time_step_rank", mamba2_put_heads},          \
        {"ssm.head_dim", mamba2_put_head_size},                                                    \
    {                                                                                              \
        "config.time_step_limit", mamba2_put_limit                                                 \
    }
#define MAMBA2_HYBRID_FIELDS                                                                       \
    MAMBA2_SIZE_FIELDS, {"config.mamba_expand", mamba2_put_expand},                                \
        {"config.mamba_proj_bias", mamba2_put_bias},                                               \
    {                                                                                              \
        "config.mamba_conv_bias", mamba2_put_conv_bias                                             \
    }
/* Read the limits of time steps from the list config.time_step_limit, [least, most]
 * (mamba2.c). */
void mamba2_read_limit(struct mamba2_sizes *s, struct binder *b);
/* Set c->own to the sizes of MAMBA2_HYBRID_KEYS, or of MAMBA2_GGUF_KEYS in a GGUF, and return them.
 * d_inner: width of all heads in a config.json; 0: mamba_expand times the width of the model. NULL
 * after a failure. */
struct mamba2_sizes *mamba2_hybrid_sizes(struct config *c, struct binder *b, int d_inner);
/* Exclude the sizes from comparisons of configs if no layer is recurrent. The kinds of layers are
 * final. */
void mamba2_hybrid_end(struct config *c);
/* Return a size of tensors.def. The function is a struct arch.size. */
int64_t mamba2_hybrid_size(const struct config *c, enum tensor_size size);

/* A layer: attention or Mamba-2, then a feed-forward block or a mixture of experts, which all rows
 * may supplement by a block of their own. */
struct mamba2_hybrid_layer {
    struct norm attn_norm, ffn_norm;
    bool recurrent; /* true: the layer has `mamba` in place of `attn` */
    struct attn_block attn;
    struct mamba2_block mamba;
    struct feed_block feed;
};
/* Bind attention or Mamba-2, and both norms. */
void mamba2_hybrid_bind(struct binder *b, struct mamba2_hybrid_layer *l, int il);
/* Compute a layer. The function is a struct arch.layer. */
void mamba2_hybrid_layer(struct fwd *f, const void *layer);

#endif

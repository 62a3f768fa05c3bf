/* mamba_impl.h - declarations that the classes with layers of Mamba share. One thread at a time
 * calls these functions: first the loading thread, then the engine's thread. */
#ifndef QUOTH_ARCH_MAMBA_IMPL_H
#define QUOTH_ARCH_MAMBA_IMPL_H

#include "model/recurrent_impl.h"

/* Keys of MambaConfig and FalconMambaConfig of transformers 5, with their defaults. The classes
 * have no context length. */
#define MAMBA_HF_KEYS                                                                              \
    KEY("vocab_size", 50280), KEY("embedding_length", 768), KEY("block_count", 32),                \
        KEY("context_length", 1048576), KEY("attention.layer_norm_rms_epsilon", 1e-5),             \
        KEY_UNSET("config.hidden_act"), KEY("config.tie_word_embeddings", 1),                      \
        KEY("ssm.conv_kernel", 4), KEY("ssm.state_size", 16), KEY_UNSET("ssm.time_step_rank"),     \
        KEY_UNSET("ssm.inner_size"), KEY("config.expand", 2), KEY("config.use_bias", 0),           \
        KEY("config.use_conv_bias", 1),                                                            \
        IDLE("config.residual_in_fp32", "quoth computes the residual stream in float32"),          \
        IDLE("config.use_mambapy", "implementation of the reference"),                             \
        IDLE("config.use_falcon_mambapy", "implementation of the reference"),                      \
        IDLE("config.use_associative_scan", "implementation of the reference"),                    \
        IDLE("config.time_step_scale", "initial values of training"),                              \
        IDLE("config.time_step_min", "initial values of training"),                                \
        IDLE("config.time_step_max", "initial values of training"),                                \
        IDLE("config.time_step_init_scheme", "initial values of training"),                        \
        IDLE("config.time_step_floor", "initial values of training"),                              \
        IDLE("config.rescale_prenorm_residual", "training"),                                       \
        IDLE("config.d_model", "field of the original code, which the class only stores"),         \
        IDLE("config.d_inner", "field of the original code, which the class only stores"),         \
        IDLE("config.n_layer", "field of the original code, which the class only stores"),         \
        IDLE("config.rms_norm", "field of the original code, which the class only stores"),        \
        IDLE("config.ssm_cfg", "field of the original code, which the class only stores"),         \
        IDLE("config.fused_add_norm", "field of the original code, which the class only stores"),  \
        IDLE("config.pad_vocab_size_multiple",                                                     \
             "field of the original code, which the class only stores")

/* Read the sizes of Mamba's layers into s (mamba.c). normed: the class has norms of dt, B and C.
 * The caller sets biases and epsilon. */
void mamba_read_sizes(struct mamba_sizes *s, struct config *c, struct binder *b);
/* Set c->own to the sizes of a model with only such layers. eps_key: key of the epsilon of the
 * norms of dt, B and C; NULL if the class has none. */
void mamba_config(struct config *c, struct binder *b, const char *eps_key);
/* Return a size of tensors.def. The function is a struct arch.size. */
int64_t mamba_arch_size(const struct config *c, enum tensor_size size);

/* A layer: its block is added to the residual stream, after a norm. */
struct mamba_layer {
    struct norm norm;
    struct mamba_block mixer;
};
/* Bind and compute a layer. The functions are members of struct arch. */
void mamba_bind(struct binder *b, void *layer, int il);
void mamba_layer(struct fwd *f, const void *layer);

/* Conversion of a model with only such layers (mamba_convert.c). */
extern const struct arch_convert mamba_convert;
/* Conversion of a model with some such layers. */
extern const struct arch_convert jamba_convert;

/* members of struct arch of a model with only such layers */
#define MAMBA_ARCH                                                                                 \
    .no_rope = true, .no_attention = true, .layer_bytes = sizeof(struct mamba_layer),              \
    .size = mamba_arch_size, .bind = mamba_bind, .layer = mamba_layer, .convert = &mamba_convert

#endif

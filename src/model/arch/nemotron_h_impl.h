/* nemotron_h_impl.h - declarations of nemotron_h.c and nemotron_h_config.c: the config, and keys
 * without an effect on results. One thread at a time calls these functions: first the loading
 * thread, then the engine's thread. */
#ifndef QUOTH_ARCH_NEMOTRON_H_IMPL_H
#define QUOTH_ARCH_NEMOTRON_H_IMPL_H

#include "mamba2_impl.h"

/* Values that only this class has. mamba2_hybrid_size reads the first member. */
struct nemotron_h_own {
    struct mamba2_sizes mamba;
    enum curve curve; /* activation of the convolutions */
};

/* Keys of config.json and of a GGUF, and those with the list of layers. */
extern const struct config_key nemotron_h_hf_key[], nemotron_h_gguf_key[];
extern const char *const nemotron_h_layer_keys[];
/* Set c->own and the kinds of layers (struct arch). */
void nemotron_h_config(struct config *c, struct binder *b);

/* Conversion (nemotron_h_convert.c). */
extern const struct arch_convert nemotron_h_convert;

#define NEMOTRON_H_INITIAL "initial values of training"
#define NEMOTRON_H_IDLE_KEYS                                                                       \
    IDLE("config.attention_bias", "the attention of the class has no biases"),                     \
        IDLE("config.time_step_limit", "the class limits time steps by time_step_min only"),       \
        IDLE("config.time_step_max", NEMOTRON_H_INITIAL),                                          \
        IDLE("config.time_step_floor", NEMOTRON_H_INITIAL),                                        \
        IDLE("config.rescale_prenorm_residual", NEMOTRON_H_INITIAL),                               \
        IDLE("config.hidden_dropout", "training"),                                                 \
        IDLE("config.expand", "the class has the product of heads and their size"),                \
        IDLE("config.chunk_size", "size of the reference's blocks"),                               \
        IDLE("config.mamba_proj_bias", "field that the class only stores"),                        \
        IDLE("config.mamba_ssm_cache_dtype", "quoth computes states in float32"),                  \
        IDLE("config.use_mamba_kernels", "implementation of the reference"),                       \
        IDLE("config.residual_in_fp32", "quoth computes the residual stream in float32"),          \
        IDLE("config.num_logits_to_keep",                                                          \
             "number of rows for which transformers computes logits"),                             \
        IDLE("attention.sliding_window", "the class has no window"),                               \
        IDLE("config.mtp_layers_block_type", "layers that draft tokens; not supported yet"),       \
        IDLE("config.mtp_hybrid_override_pattern", "layers that draft tokens; not supported yet"), \
        IDLE("config.num_nextn_predict_layers", "layers that draft tokens; not supported yet"),    \
        IDLE("expert_shared_count", "the class has one block of all rows"),                        \
        IDLE("config.moe_shared_expert_overlap", "implementation of the reference"),               \
        IDLE("config.mamba_dt_max", NEMOTRON_H_INITIAL),                                           \
        IDLE("config.mamba_dt_limit", "the class limits time steps by time_step_min only"),        \
        IDLE("config.mamba_dt_init_floor", NEMOTRON_H_INITIAL),                                    \
        IDLE("config.mamba_expand", "the class has the product of heads and their size"),          \
        IDLE("config.mamba_chunk_size", "size of the reference's blocks"),                         \
        IDLE("config.output_router_logits", "training")

#endif

/* nemotron_h_impl.h - keys of Nemotron-H without an effect on results. Private to nemotron_h.c. */
#ifndef QUOTH_ARCH_NEMOTRON_H_IMPL_H
#define QUOTH_ARCH_NEMOTRON_H_IMPL_H

#define NEMOTRON_H_MIXTURE "value of layers with a mixture, which are rejected"
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
        IDLE("expert_count", NEMOTRON_H_MIXTURE), IDLE("expert_used_count", NEMOTRON_H_MIXTURE),   \
        IDLE("expert_shared_count", NEMOTRON_H_MIXTURE),                                           \
        IDLE("expert_feed_forward_length", NEMOTRON_H_MIXTURE),                                    \
        IDLE("expert_weights_norm", NEMOTRON_H_MIXTURE),                                           \
        IDLE("expert_weights_scale", NEMOTRON_H_MIXTURE),                                          \
        IDLE("expert_group_count", NEMOTRON_H_MIXTURE),                                            \
        IDLE("expert_group_used_count", NEMOTRON_H_MIXTURE),                                       \
        IDLE("config.moe_shared_expert_intermediate_size", NEMOTRON_H_MIXTURE),                    \
        IDLE("config.moe_shared_expert_overlap", NEMOTRON_H_MIXTURE),                              \
        IDLE("config.moe_latent_size", NEMOTRON_H_MIXTURE),                                        \
        IDLE("config.output_router_logits", NEMOTRON_H_MIXTURE)

#endif

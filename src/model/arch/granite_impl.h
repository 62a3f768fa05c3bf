/* granite_impl.h - the factors that the classes of Granite share. Only the loading thread calls its
 * function. */
#ifndef QUOTH_ARCH_GRANITE_IMPL_H
#define QUOTH_ARCH_GRANITE_IMPL_H

#include "model/model_impl.h"

/* Keys of the factors in a config.json, and in a GGUF. */
#define GRANITE_HF_KEYS                                                                            \
    KEY("config.embedding_multiplier", 1), KEY("config.attention_multiplier", 1),                  \
        KEY("config.residual_multiplier", 1), KEY("config.logits_scaling", 1)
#define GRANITE_GGUF_FACTORS                                                                       \
    KEY_UNSET("embedding_scale"), KEY_UNSET("attention.scale"), KEY_UNSET("residual_scale"),       \
        KEY("logit_scale", 1)
/* Files of Granite 4 without recurrent layers have the sizes of such layers. */
#define GRANITE_GGUF_KEYS                                                                          \
    GRANITE_GGUF_FACTORS,                                                                          \
        ONLY("rope.scaling.finetuned", 1, "llama.cpp disables rope if this key is false"),         \
        IDLE("ssm.conv_kernel", GRANITE_NO_STATE), IDLE("ssm.inner_size", GRANITE_NO_STATE),       \
        IDLE("ssm.state_size", GRANITE_NO_STATE), IDLE("ssm.time_step_rank", GRANITE_NO_STATE),    \
        IDLE("ssm.group_count", GRANITE_NO_STATE)
#define GRANITE_NO_STATE "the model has no recurrent layers"

/* Read the factors of embeddings, scores, residuals and logits (granite.c). */
void granite_factors(struct config *c, struct binder *b);

#endif

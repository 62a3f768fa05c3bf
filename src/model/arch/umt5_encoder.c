/* umt5_encoder.c - the encoder of UMT5 alone, for embeddings: UMT5EncoderModel. In GGUF files the
 * architecture is t5encoder. */
#include "t5_impl.h"

const struct arch arch_umt5_encoder = {
    .name = "umt5encoder",
    .hf_key = mt5_encoder_hf_key,
    .config = mt5_encoder_config,
    T5_ENCODER,
    .bind = umt5_bind,
};

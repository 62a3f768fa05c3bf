/* umt5_encoder.c - the encoder of UMT5 alone, for embeddings: UMT5EncoderModel. In GGUF files the
 * architecture is t5encoder. */
#include "t5_impl.h"

/* defaults of UMT5Config in transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 250112),
    KEY("feed_forward_length", 1024),
    KEY("block_count", 8),
    KEY("attention.head_count", 6),
    T5_KEYS,
    T5_ENCODER_KEYS,
    KEYS_END,
};

static void config(struct config *c, struct binder *b)
{
    t5_config(c, b, "gated-gelu");
}

const struct arch arch_umt5_encoder = {
    .name = "umt5encoder",
    .hf_key = hf_key,
    .config = config,
    T5_ENCODER,
    .bind = umt5_bind,
};

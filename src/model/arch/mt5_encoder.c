/* mt5_encoder.c - the encoder of mT5 alone, for embeddings: MT5EncoderModel. Its GGUF files have
 * the architecture t5encoder. */
#include "t5_impl.h"

/* defaults of MT5Config in transformers 5 */
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

const struct arch arch_mt5_encoder = {
    .name = "mt5encoder",
    .hf_key = hf_key,
    .config = config,
    T5_ENCODER,
    .bind = t5_bind,
};

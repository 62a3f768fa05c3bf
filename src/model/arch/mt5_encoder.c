/* mt5_encoder.c - the encoder of mT5 alone, for embeddings: MT5EncoderModel. Its GGUF files have
 * the architecture t5encoder. */
#include "t5_impl.h"

/* defaults of MT5Config and UMT5Config in transformers 5 */
const struct config_key mt5_encoder_hf_key[] = {
    MT5_SIZES,
    T5_KEYS,
    T5_ENCODER_KEYS,
    KEYS_END,
};

void mt5_encoder_config(struct config *c, struct binder *b)
{
    t5_config(c, b, "gated-gelu");
}

const struct arch arch_mt5_encoder = {
    .name = "mt5encoder",
    .hf_key = mt5_encoder_hf_key,
    .config = mt5_encoder_config,
    T5_ENCODER,
    .bind = t5_bind,
};

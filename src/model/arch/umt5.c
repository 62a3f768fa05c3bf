/* umt5.c - UMT5: mT5 with biases by distance in each layer. Paper: "UniMax: Fairer and more
 * Effective Language Sampling for Large-Scale Multilingual Pretraining", arXiv 2304.09151. Its GGUF
 * files have the architecture of T5. */
#include "t5_impl.h"

/* defaults of UMT5Config in transformers 5 */
static const struct config_key hf_key[] = {
    MT5_SIZES,
    KEY("decoder_block_default", 8),
    KEY("decoder_start_token_id", 0),
    KEY("config.tie_word_embeddings", 1),
    KEY_UNSET("config.scale_decoder_outputs"),
    T5_KEYS,
    T5_DECODER_KEYS,
    KEYS_END,
};

static void config(struct config *c, struct binder *b)
{
    t5_scaled_config(c, b, "gated-gelu");
}

const struct arch arch_umt5 = {
    .name = "umt5",
    T5_ARCH,
    .bind = umt5_bind,
    .hf_key = hf_key,
    .config = config,
};

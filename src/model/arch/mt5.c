/* mt5.c - mT5: T5 of version 1.1 with other sizes. Paper: "mT5: A massively multilingual
 * pre-trained text-to-text transformer", arXiv 2010.11934. Its GGUF files have the architecture of
 * T5. */
#include "t5_impl.h"

/* defaults of MT5Config in transformers 5; the class never scales logits */
static const struct config_key hf_key[] = {
    MT5_SIZES,
    KEY("decoder_block_default", 8),
    KEY("decoder_start_token_id", 0),
    IDLE("config.tie_word_embeddings",
         "the class uses the embedding as the head if the file has no head"),
    T5_KEYS,
    T5_DECODER_KEYS,
    KEYS_END,
};

static void config(struct config *c, struct binder *b)
{
    t5_config(c, b, "gated-gelu");
}

const struct arch arch_mt5 = {
    .name = "mt5",
    T5_ARCH,
    .bind = t5_bind,
    .hf_key = hf_key,
    .config = config,
};

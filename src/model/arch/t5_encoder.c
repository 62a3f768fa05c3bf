/* t5_encoder.c - the encoder of T5 or mT5 alone, for embeddings: T5EncoderModel, as in Sentence-T5
 * (arXiv 2108.08877) and GTR (arXiv 2112.07899). sentence-transformers reads only the encoder of a
 * T5, whatever its class. In GGUF files the architecture is t5encoder. */
#include "t5_impl.h"

/* defaults of T5Config in transformers 5 */
static const struct config_key hf_key[] = {
    KEY("vocab_size", 32128),
    KEY("feed_forward_length", 2048),
    KEY("block_count", 6),
    KEY("attention.head_count", 8),
    T5_KEYS,
    T5_ENCODER_KEYS,
    KEYS_END,
};

const struct config_key t5_encoder_gguf_key[] = {
    KEY("attention.relative_buckets_count", 32),
    IDLE("decoder_block_count", T5_UNUSED),
    IDLE("decoder_start_token_id", T5_UNUSED),
    IDLE("attention.layer_norm_epsilon", "the norms have attention.layer_norm_rms_epsilon"),
    KEYS_END,
};

const char *const t5_encoder_left_out[] = {"decoder.", "lm_head.", "dec.", "output.", NULL};

static void config(struct config *c, struct binder *b)
{
    t5_config(c, b, "relu");
}

void t5_encoder_bind_ends(struct binder *b, void *ends)
{
    b->part = b->m->arch->part;
    encoder_bind(b, ends);
    if (b->rc == 0) bind_check_copies(b);
}

const struct arch arch_t5_encoder = {
    .name = "t5encoder",
    .hf_key = hf_key,
    .config = config,
    T5_ENCODER,
    .bind = t5_bind,
};

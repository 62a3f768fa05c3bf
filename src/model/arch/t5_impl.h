/* t5_impl.h - parts of T5's architectures. t5.c defines the shared functions. */
#ifndef QUOTH_MODEL_ARCH_T5_IMPL_H
#define QUOTH_MODEL_ARCH_T5_IMPL_H

#include "model/model_impl.h"

/* Fields that T5Config and MT5Config share with equal defaults. The decoder has num_layers layers,
 * even if num_hidden_layers overrides num_layers for the encoder (decoder_block_default). */
#define T5_KEYS                                                                                    \
    KEY("embedding_length", 512), KEY("attention.key_length", 64),                                 \
        KEY("attention.relative_buckets_count", 32),                                               \
        KEY("config.relative_attention_max_distance", 128),                                        \
        KEY("attention.layer_norm_rms_epsilon", 1e-6), KEY("context_length", 512),                 \
        KEY_UNSET("config.feed_forward_proj"),                                                     \
        IDLE("config.is_decoder", "the encoder and the decoder have copies of this field"),        \
        IDLE("config.dropout_rate", "training"), IDLE("config.initializer_factor", "training"),    \
        IDLE("config.classifier_dropout", "training"), KEY_UNSET("config.dense_act_fn"),           \
        KEY_UNSET("config.is_gated_act"),                                                          \
        IDLE("config.output_past", "implementation of the reference")

/* Defaults of sizes that MT5Config and UMT5Config share. */
#define MT5_SIZES                                                                                  \
    KEY("vocab_size", 250112), KEY("feed_forward_length", 1024), KEY("block_count", 8),            \
        KEY("attention.head_count", 6)

/* Fields of the decoder. */
#define T5_DECODER_KEYS                                                                            \
    KEY_UNSET("decoder_block_count"), KEY_UNSET("forced_bos_token_id"),                            \
        KEY_UNSET("config.force_bos_token_to_be_generated"),                                       \
        ONLY("config.is_encoder_decoder", 1,                                                       \
             "a T5 without an encoder or a decoder is not supported yet")

/* Fields that an encoder without decoder does not use. */
#define T5_UNUSED "only the decoder, or the head, uses this field"
#define T5_ENCODER_KEYS                                                                            \
    IDLE("config.num_decoder_layers", T5_UNUSED),                                                  \
        IDLE("config.decoder_start_token_id", T5_UNUSED),                                          \
        IDLE("config.forced_bos_token_id", T5_UNUSED),                                             \
        IDLE("config.force_bos_token_to_be_generated", T5_UNUSED),                                 \
        IDLE("config.tie_word_embeddings", T5_UNUSED),                                             \
        IDLE("config.scale_decoder_outputs", T5_UNUSED),                                           \
        IDLE("config.is_encoder_decoder", "the class sets false")

/* Members of struct arch of an encoder with its decoder. */
#define T5_ARCH                                                                                    \
    .convert = &t5_convert, .gguf_key = t5_gguf_key, .no_rope = true, .crosses = true,             \
    .left_out = t5_left_out,                                                                       \
    .left_out_why = "biases by the distance to the source; the class does not use these biases",   \
    .ends_bytes = sizeof(struct cross_ends), .size = t5_size, .bind_ends = cross_bind_ends

/* Members of struct arch of an encoder without decoder (t5_encoder.c). */
#define T5_ENCODER                                                                                 \
    .convert = &t5_convert, .gguf_key = t5_encoder_gguf_key, .no_rope = true, .encoder = true,     \
    .part = "enc.", .left_out = t5_encoder_left_out,                                               \
    .left_out_why = "the decoder and the head; embeddings do not use them",                        \
    .ends_bytes = sizeof(struct encoder_ends), .size = t5_size, .bind_ends = t5_encoder_bind_ends, \
    .embed = encoder_embed, .output = encoder_output

extern const struct config_key t5_gguf_key[], t5_encoder_gguf_key[], mt5_encoder_hf_key[];
extern const char *const t5_encoder_left_out[];
/* Bind the embedding and the last norm of an encoder without decoder. */
void t5_encoder_bind_ends(struct binder *b, void *ends);
extern const char *const t5_left_out[];
extern const struct arch_convert t5_convert; /* t5_convert.c */

/* Return a size of T5 in tensors.def (struct arch). */
int64_t t5_size(const struct config *c, enum tensor_size size);
/* Set the fields that T5Config and MT5Config share. `proj` is the default of feed_forward_proj. */
void t5_config(struct config *c, struct binder *b, const char *proj);
/* Set the fields of the encoder of mT5 or UMT5 (struct arch). */
void mt5_encoder_config(struct config *c, struct binder *b);
/* Set the fields of t5_config, and the factor of the logits of T5Config and UMT5Config. */
void t5_scaled_config(struct config *c, struct binder *b, const char *proj);
/* Bind layer il, of the encoder or the decoder (struct arch). */
void t5_bind(struct binder *b, void *layer, int il);
/* Bind layer il of a UMT5, in which each layer has its own biases (struct arch). */
void umt5_bind(struct binder *b, void *layer, int il);

#endif

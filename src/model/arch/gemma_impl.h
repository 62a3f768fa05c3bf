/* gemma_impl.h - parts that gemma2, gemma3 and gemma-embedding share, which gemma3.c defines, and
 * the configs of gemma3n and gemma4. The loading thread binds. The engine's thread runs the
 * forward pass. */
#ifndef QUOTH_ARCH_GEMMA_IMPL_H
#define QUOTH_ARCH_GEMMA_IMPL_H

#include "model/model_impl.h"

/* Set the window of all layers except the last of every `interval`. */
void gemma_windows(struct config *c, int window, int interval);
/* Set the scale of attention scores to 1 / sqrt(divisor). */
void gemma_attn_scale(struct config *c, double divisor);
/* Set the windows as in config.json: the layers of layer_types have windows, or all except the last
 * of every `interval` layers. Read the scale and the cap of the logits. */
void gemma_hf_config(struct config *c, struct binder *b, int interval);
/* Set the window of all layers except the last of every `interval`. */
void gemma_gguf_windows(struct config *c, struct binder *b, int interval);
/* Set the scale of the embeddings, the windows, the scale of scores and the ropes of Gemma 3. */
void gemma3_config(struct config *c, struct binder *b);

/* Return a size of gemma3n and gemma4 in tensors.def (struct arch). */
int64_t gemma_size(const struct config *c, enum tensor_size size);

/* Fields of config.json around a text part that are for images and audio. */
#define GEMMA_OTHER_KEYS                                                                           \
    IDLE("config.outer.vision_config", "the part of images is not read"),                          \
        IDLE("config.outer.audio_config", "the part of audio is not read"),                        \
        IDLE("config.outer.vision_soft_tokens_per_image", "the part of images is not read"),       \
        IDLE("config.outer.boi_token_id", "tokens around images"),                                 \
        IDLE("config.outer.eoi_token_id", "tokens around images"),                                 \
        IDLE("config.outer.image_token_id", "tokens in place of images"),                          \
        IDLE("config.outer.boa_token_id", "tokens around audio"),                                  \
        IDLE("config.outer.eoa_token_id", "tokens around audio"),                                  \
        IDLE("config.outer.audio_token_id", "tokens in place of audio")

/* gemma3n_config.c: keys of gemma3n, static, and its config. gemma3n_active returns the stream that
 * layers compute, gemma3n_cut the number of standard deviations below which gates of layer il are
 * 0; -INFINITY if the layer keeps all. */
extern const struct config_key gemma3n_hf_key[], gemma3n_gguf_key[];
void gemma3n_config(struct config *c, struct binder *b);
int gemma3n_active(struct binder *b);
float gemma3n_cut(struct binder *b, int il);
/* Begins of the names of the parts for images and audio; ends with NULL. */
extern const char *const gemma_other_parts[];

/* gemma4_config.c: keys of gemma4, static, and its config. */
extern const struct config_key gemma4_hf_key[], gemma4_gguf_key[];
void gemma4_config(struct config *c, struct binder *b);
void gemma4_hf_config(struct config *c, struct binder *b);
void gemma4_gguf_config(struct config *c, struct binder *b);
/* Read the sizes of the mixture, the same in all layers. */
void gemma4_mixture(struct config *c, struct binder *b, bool enabled);
/* Set what both sources have in common, from the layers' sizes and windows. local_base: base of the
 * sliding layers' rope, whose key is local_key. */
void gemma4_finish(struct config *c, struct binder *b, double local_base, const char *local_key);
/* Return true if rope_parameters has the object of a layer type, whose key is given. Rejects
 * another kind of value. */
bool gemma_has_rope(struct binder *b, const char *key);

#endif

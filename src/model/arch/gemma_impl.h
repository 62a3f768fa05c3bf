/* gemma_impl.h - parts that gemma2, gemma3 and gemma-embedding share, and the configs of gemma3n
 * and gemma4. gemma3.c defines the shared parts. The loading thread binds. The engine's thread runs
 * the forward pass. */
#ifndef QUOTH_ARCH_GEMMA_IMPL_H
#define QUOTH_ARCH_GEMMA_IMPL_H

#include "model/model_impl.h"

/* Set the window of all layers except the last of every `interval`. */
void gemma_windows(struct config *c, int window, int interval);
/* Set the scale of attention scores to 1 / sqrt(divisor). */
void gemma_attn_scale(struct config *c, double divisor);
/* Set the windows by layer_types of a config.json. Without layer_types, set the window of all
 * layers except the last of every `interval`. Read the scale and the cap of the logits. */
void gemma_hf_config(struct config *c, struct binder *b, int interval);
/* Set the window of all layers except the last of every `interval`. */
void gemma_gguf_windows(struct config *c, struct binder *b, int interval);
/* Set the scale of the embeddings, the windows, the scale of scores and the ropes of Gemma 3. */
void gemma3_config(struct config *c, struct binder *b);

/* gemma_own.c: values that only gemma3n and gemma4 have (config.own) */
struct gemma_own {
    int d_input; /* width of a layer's own input; 0: no own inputs */
    int n_input; /* rows of the table of own inputs; 0 if none */
    /* gemma3n: number of residual streams, index of the active stream, and rank of the learned
     * residual */
    int n_stream, active, d_laurel;
    bool scales; /* gemma3n: true if layers have factors of the active stream */
};
/* Set config.own to zeroed values in the model's arena, and return them; NULL if b->rc is not 0. */
struct gemma_own *gemma_own(struct config *c, struct binder *b);
/* Return the number of rows of a file's table of inputs; 0 if the file has no table. */
int gemma_table_rows(const struct binder *b);
/* Return a size of gemma3n and gemma4 in tensors.def (struct arch). */
int64_t gemma_size(const struct config *c, enum tensor_size size);

/* gemma_convert.c */
extern const struct arch_convert gemma3n_convert, gemma4_convert;

/* gemma3n_config.c: keys of gemma3n, static, and its config. */
extern const struct config_key gemma3n_hf_key[], gemma3n_gguf_key[];
void gemma3n_config(struct config *c, struct binder *b);
/* gemma3n_gates.c: set the limits of gates by the list in the file, or by the default. */
void gemma3n_gates(struct config *c, struct binder *b);

/* gemma4_config.c: keys of gemma4, static, and its config. */
extern const struct config_key gemma4_hf_key[], gemma4_gguf_key[];
void gemma4_config(struct config *c, struct binder *b);
/* Set the config from config.json. */
void gemma4_hf_config(struct config *c, struct gemma_own *own, struct binder *b);
/* Set the config from the metadata of a GGUF. */
void gemma4_gguf_config(struct config *c, struct gemma_own *own, struct binder *b);
/* Read the sizes of the mixture, which are equal in all layers. */
void gemma4_mixture(struct config *c, struct binder *b, bool enabled);
/* Set the fields that config.json and GGUF have in common. The sizes and windows of the layers are
 * already set. local_base is the base of the sliding layers' rope, and local_key its key. */
void gemma4_finish(struct config *c, struct binder *b, double local_base, const char *local_key);

#endif

/* llama4_impl.h - parts of llama4.c, llama4_config.c and llama4_convert.c. The loading thread
 * reads the config, and the converting thread writes it. */
#ifndef QUOTH_ARCH_LLAMA4_IMPL_H
#define QUOTH_ARCH_LLAMA4_IMPL_H

#include "model/model_impl.h"

/* Keys of config.json with the defaults of Llama4TextConfig of transformers 5, and of a GGUF. */
extern const struct config_key llama4_hf_key[], llama4_gguf_key[];
/* Set ropes, chunks, factors of queries and mixtures. */
void llama4_config(struct config *c, struct binder *b);
/* Conversion (llama4_convert.c). */
extern const struct arch_convert llama4_convert;

#endif

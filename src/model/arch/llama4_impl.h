/* llama4_impl.h - parts of llama4.c and llama4_config.c. The loading thread reads the config. */
#ifndef QUOTH_ARCH_LLAMA4_IMPL_H
#define QUOTH_ARCH_LLAMA4_IMPL_H

#include "model/model_impl.h"

/* Keys of config.json with the defaults of Llama4TextConfig of transformers 5, and of a GGUF. */
extern const struct config_key llama4_hf_key[], llama4_gguf_key[];
/* Set ropes, chunks, factors of queries and mixtures. */
void llama4_config(struct config *c, struct binder *b);

#endif

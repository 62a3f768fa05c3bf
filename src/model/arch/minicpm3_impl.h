/* minicpm3_impl.h - the parts that minicpm3.c and minicpm3_config.c share. The loading thread calls
 * the functions. */
#ifndef QUOTH_ARCH_MINICPM3_IMPL_H
#define QUOTH_ARCH_MINICPM3_IMPL_H

#include "model/model_impl.h"

/* minicpm3_config.c: keys, static, and functions of struct arch. config.own is a struct latent. */
extern const struct config_key minicpm3_hf_key[], minicpm3_gguf_key[];
void minicpm3_heads(struct config *c, struct binder *b);
int64_t minicpm3_size(const struct config *c, enum tensor_size size);
/* Read the config. */
void minicpm3_config(struct config *c, struct binder *b);

#endif

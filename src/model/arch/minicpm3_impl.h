/* minicpm3_impl.h - the parts that minicpm3.c and minicpm3_config.c share. The loading thread calls
 * the functions. */
#ifndef QUOTH_ARCH_MINICPM3_IMPL_H
#define QUOTH_ARCH_MINICPM3_IMPL_H

#include "model/model_impl.h"

/* Sizes of latent attention. A head of q or k has d_nope values without rope, then d_rope values
 * with rope. A head of v has d_v values. */
struct latent {
    int q_rank;  /* width of compressed queries; 0: queries are not compressed */
    int kv_rank; /* width of compressed keys and values */
    int d_nope, d_rope, d_v;
};

/* minicpm3_config.c: keys, static, and functions of struct arch. config.own is a struct latent. */
extern const struct config_key minicpm3_hf_key[], minicpm3_gguf_key[];
void minicpm3_heads(struct config *c, struct binder *b);
int64_t minicpm3_size(const struct config *c, enum tensor_size size);
/* Read the config. */
void minicpm3_config(struct config *c, struct binder *b);

#endif

/* bert_impl.h - parts that BERT, RoBERTa, DistilBERT and Nomic BERT share. */
#ifndef QUOTH_ARCH_BERT_IMPL_H
#define QUOTH_ARCH_BERT_IMPL_H

#include "model/model_impl.h"

/* Members of struct arch that these encoders share. */
#define BERT_ARCH                                                                                  \
    .encoder = true, .layer_norm_eps = "config.layer_norm_eps", .norm_bias = true,                 \
    .ends_bytes = sizeof(struct encoder_ends), .embed = encoder_embed, .output = encoder_output

/* Bind the ends of BERT, with a classifier if the file has one. */
void bert_bind_ends(struct binder *b, void *ends);

#endif

/* bert_impl.h - the ends of BERT, which several encoders share. */
#ifndef QUOTH_ARCH_BERT_IMPL_H
#define QUOTH_ARCH_BERT_IMPL_H

#include "model/model_impl.h"

/* Bind the ends of BERT, with a classifier if the file has one. */
void bert_bind_ends(struct binder *b, void *ends);

#endif

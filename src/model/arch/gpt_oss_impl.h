/* gpt_oss_impl.h - declarations of gpt_oss.c and gpt_oss_convert.c. Only the converting thread
 * calls these functions. */
#ifndef QUOTH_ARCH_GPT_OSS_IMPL_H
#define QUOTH_ARCH_GPT_OSS_IMPL_H

#include "model/model_impl.h"

/* Conversion (gpt_oss_convert.c). */
extern const struct arch_convert gpt_oss_convert;

#endif

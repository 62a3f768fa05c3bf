/* lfm2_impl.h - declarations that lfm2.c and lfm2_convert.c share. The converting thread, or the
 * loading thread, uses them. */
#ifndef QUOTH_ARCH_LFM2_IMPL_H
#define QUOTH_ARCH_LFM2_IMPL_H

#include "model/recurrent_impl.h"

/* Sizes of the convolutions. */
struct lfm2_own {
    int n_tap, biased; /* 1: the matrices and the convolutions have biases */
};

/* Conversion of the class (lfm2_convert.c). */
extern const struct arch_convert lfm2_convert;

#endif

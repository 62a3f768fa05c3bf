/* kimi_linear_impl.h - declarations of kimi_linear.c and kimi_linear_convert.c. Only the loading or
 * converting thread uses them. */
#ifndef QUOTH_ARCH_KIMI_LINEAR_IMPL_H
#define QUOTH_ARCH_KIMI_LINEAR_IMPL_H

#include "deepseek_impl.h"
#include "model/recurrent_impl.h"

/* Sizes of recurrent layers. */
struct kimi_own {
    int n_head, d_head, n_tap;
};

/* Conversion (kimi_linear_convert.c). */
extern const struct arch_convert kimi_linear_convert;

#endif

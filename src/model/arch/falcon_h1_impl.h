/* falcon_h1_impl.h - declarations of falcon_h1.c and falcon_h1_convert.c: the factors of Falcon-H1.
 * Only the loading or converting thread uses them. */
#ifndef QUOTH_ARCH_FALCON_H1_IMPL_H
#define QUOTH_ARCH_FALCON_H1_IMPL_H

#include "mamba2_impl.h"

/* Values that only this class has. mamba2_hybrid_size reads the first member. */
struct falcon_h1_own {
    struct mamba2_sizes mamba;
    /* factors of the input and the keys of attention, of the results of both blocks, of the gate
     * and of the result of the feed-forward block */
    float attn_in, key, attn_out, ssm_out, gate, down;
};

/* Remove the factors of Mamba-2. */
void falcon_h1_unscale(struct mamba2_sizes *s);
/* The factors of a GGUF, with sizes of 0. */
extern const struct falcon_h1_own falcon_h1_folded;
/* Conversion (falcon_h1_convert.c). */
extern const struct arch_convert falcon_h1_convert;

#endif

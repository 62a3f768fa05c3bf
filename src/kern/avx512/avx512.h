/* avx512.h - private to src/kern/avx512: families of slots. Each family is a file of this folder.
 * Any thread may call kernels, because they change only the memory of their arguments. */
#ifndef QUOTH_KERN_AVX512_AVX512_H
#define QUOTH_KERN_AVX512_AVX512_H

#include "kern/kern_impl.h"

/* Set the slots that linear.c computes. */
void kern_linear_avx512(struct kern *k);
/* Set the slots that linear_float.c computes. */
void kern_linear_float_avx512(struct kern *k);
/* Set the slots that ops.c computes. */
void kern_ops_avx512(struct kern *k);
/* Set the slots that attn.c computes. */
void kern_attn_avx512(struct kern *k);

/* Multiply quantized weights by int8 activations. The level amx also uses this kernel, for cases
 * that AMX does not support. */
linear_fn linear_q8_avx512;

#endif

/* avx2.h - private to src/kern/avx2: families of slots. Each family is a file of this folder. Any
 * thread may call kernels, because they change only the memory of their arguments. */
#ifndef QUOTH_KERN_AVX2_AVX2_H
#define QUOTH_KERN_AVX2_AVX2_H

#include "kern/kern_impl.h"

/* Set the slots that linear.c computes. */
void kern_linear_avx2(struct kern *k);
/* Set the slots that linear_float.c computes. */
void kern_linear_float_avx2(struct kern *k);
/* Set the slots that ops.c computes. */
void kern_ops_avx2(struct kern *k);
/* Set the slots that attn.c computes. */
void kern_attn_avx2(struct kern *k);

#endif

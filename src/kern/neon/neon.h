/* neon.h - private to src/kern/neon: families of slots. Each family is a file of this folder. Any
 * thread may call kernels, because they change only the memory of their arguments. */
#ifndef QUOTH_KERN_NEON_NEON_H
#define QUOTH_KERN_NEON_NEON_H

#include "kern/kern_impl.h"

/* Set the slots that linear.c computes. */
void kern_linear_neon(struct kern *k);
/* Set the slots that linear_float.c computes. */
void kern_linear_float_neon(struct kern *k);
/* Set the slots that ops.c computes. */
void kern_ops_neon(struct kern *k);
/* Set the slots that attn.c computes. */
void kern_attn_neon(struct kern *k);

#endif

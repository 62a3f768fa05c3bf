/* neon.h - private to src/kern/neon: families of slots. Each is a file of this folder. Any thread:
 * kernels change only the memory of their arguments. */
#ifndef QUOTH_KERN_NEON_NEON_H
#define QUOTH_KERN_NEON_NEON_H

#include "kern/kern_impl.h"

void kern_linear_neon(struct kern *k);
void kern_linear_float_neon(struct kern *k);
void kern_ops_neon(struct kern *k);
void kern_attn_neon(struct kern *k);

#endif

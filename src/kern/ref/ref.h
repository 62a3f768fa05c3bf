/* ref.h - private to src/kern/ref: families of slots. Each is a file of this folder. Any thread:
 * kernels change only the memory of their arguments. */
#ifndef QUOTH_KERN_REF_REF_H
#define QUOTH_KERN_REF_REF_H

#include "kern/kern_impl.h"

void kern_linear_ref(struct kern *k);
void kern_act_ref(struct kern *k);
void kern_ops_ref(struct kern *k);
void kern_rows_ref(struct kern *k);
void kern_attn_ref(struct kern *k);
void kern_kv_ref(struct kern *k);

#endif

/* ref.h - private to src/kern/ref: families of slots. Each family is a file of this folder. Any
 * thread may call kernels, because they change only the memory of their arguments. */
#ifndef QUOTH_KERN_REF_REF_H
#define QUOTH_KERN_REF_REF_H

#include "kern/kern_impl.h"

/* Attribute of the functions whose time is mostly fmaf. gcc compiles each function with and without
 * the instruction fma. glibc selects one version at the start of the program. Both versions give
 * the same results. Without the attribute, calls of libm took a tenth of the tests' time.
 * Sanitizers do not support functions of two versions. Processors other than x86-64 always have the
 * instruction. */
#if defined __x86_64__ && defined __GLIBC__ && !defined __clang__ &&                               \
    !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
#define REF_FMA __attribute__((target_clones("fma", "default")))
#else
#define REF_FMA
#endif

/* Set the slots that linear.c computes. */
void kern_linear_ref(struct kern *k);
/* Set the slots that act.c computes. */
void kern_act_ref(struct kern *k);
/* Set the slots that ops.c computes. */
void kern_ops_ref(struct kern *k);
/* Set the slots that rows.c computes. */
void kern_rows_ref(struct kern *k);
/* Set the slots that attn.c computes. */
void kern_attn_ref(struct kern *k);
/* Set the slots that kv.c computes. */
void kern_kv_ref(struct kern *k);
/* Set the slots that scan.c computes. */
void kern_scan_ref(struct kern *k);

#endif

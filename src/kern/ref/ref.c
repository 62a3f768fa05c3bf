/* ref.c - the scalar reference of every kernel: the specification that all levels equal bit for
 * bit. One file per family in this folder.
 *
 * Inner loops run over independent outputs if that costs no clarity, so a compiler can vectorize
 * them without changing the order of operations (-ffp-contract=off, no fast-math). */
#include "kern/kern_impl.h"

void kern_init_ref(struct kern *k)
{
    *k = (struct kern){0};
    kern_linear_ref(k);
    kern_act_ref(k);
    kern_ops_ref(k);
    kern_rows_ref(k);
    kern_attn_ref(k);
    kern_kv_ref(k);
}

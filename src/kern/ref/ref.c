/* ref.c - the scalar reference of every kernel. The reference is the specification, and all levels
 * equal it bit for bit. Each family has a file in this folder.
 *
 * Inner loops iterate over independent outputs if the code stays clear. A compiler can vectorize
 * loops over independent outputs without changing the order of operations (-ffp-contract=off, no
 * fast-math). */
#include "ref.h"

void kern_init_ref(struct kern *k)
{
    *k = (struct kern){0};
    kern_linear_ref(k);
    kern_act_ref(k);
    kern_ops_ref(k);
    kern_rows_ref(k);
    kern_attn_ref(k);
    kern_kv_ref(k);
    kern_scan_ref(k);
}

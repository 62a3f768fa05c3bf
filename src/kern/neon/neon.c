/* neon.c - the slots that ASIMD with DotProd improves over the reference, one file per family in
 * this folder. */
#include "kern/kern_impl.h"

void kern_init_neon(struct kern *k)
{
    kern_linear_neon(k);
    kern_linear_float_neon(k);
    kern_ops_neon(k);
    kern_attn_neon(k);
}

/* neon.c - the slots in which ASIMD with DotProd improves on the reference. Each family has a file
 * in this folder. The speed is not measured, because no Arm machine was available. */
#include "neon.h"

void kern_init_neon(struct kern *k)
{
    kern_linear_neon(k);
    kern_linear_float_neon(k);
    kern_ops_neon(k);
    kern_attn_neon(k);
}

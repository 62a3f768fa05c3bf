/* neon_i8mm.c - the slots in which I8MM improves on DotProd: integer products. Not measured: no Arm
 * machine was available. */
#include "kern/kern_impl.h"

void kern_init_neon_i8mm(struct kern *k)
{
    kern_linear_neon_i8mm(k);
}

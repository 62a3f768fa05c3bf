/* neon_i8mm.c - the slots that I8MM improves over DotProd: integer products. */
#include "kern/kern_impl.h"

void kern_init_neon_i8mm(struct kern *k)
{
    kern_linear_neon_i8mm(k);
}

/* linear.c - linear layers by I8MM, the slots in which it improves on DotProd: integer products.
 * The speed is not measured, because no Arm machine was available. */
#include "dot.h"

#include "kern/tmpl/linear_level.h"

void kern_init_neon_i8mm(struct kern *k)
{
    linear_slots(k);
}

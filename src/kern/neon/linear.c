/* linear.c - linear layers by Armv8.2 with DotProd. The speed is not measured, because no Arm
 * machine was available. */
#include "neon.h"
#include "dot.h"

#include "kern/tmpl/linear_level.h"

void kern_linear_neon(struct kern *k)
{
    linear_slots(k);
}

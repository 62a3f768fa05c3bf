/* linear.c - linear layers by I8MM. Not measured: no Arm machine was available. */
#include "dot.h"

#include "kern/tmpl/linear_level.h"

void kern_linear_neon_i8mm(struct kern *k)
{
    linear_slots(k);
}

/* linear.c - linear layers by AVX-VNNI. */
#include "dot.h"

#include "kern/tmpl/linear_level.h"

void kern_linear_avxvnni(struct kern *k)
{
    linear_slots(k);
}

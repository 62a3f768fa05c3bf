/* linear.c - linear layers by AVX-VNNI, the slots in which it improves on AVX2: integer dot
 * products. */
#include "dot.h"

#include "kern/tmpl/linear_level.h"

void kern_init_avxvnni(struct kern *k)
{
    linear_slots(k);
}

/* linear.c - linear layers by AVX2. */
#include "avx2.h"
#include "dot.h"

#include "kern/tmpl/linear_level.h"

void kern_linear_avx2(struct kern *k)
{
    linear_slots(k);
}

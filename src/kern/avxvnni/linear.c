/* linear.c - linear layers by AVX-VNNI, the slots in which it improves on AVX2: integer dot
 * products.
 *
 * Bound: the product of bytes, twice as fast as AVX2's pair of instructions. On Zen 5, 8 rows reach
 * 0.37 to 0.47 of its measured peak, 32 rows 0.59 to 0.66. These rates are 1.04 to 1.62 times the
 * rates of AVX2, with the largest ratio for Q8_0 (docs/measurements.md, "AVX-VNNI, and shares of
 * small ops"). */
#include "dot.h"

#include "kern/tmpl/linear_level.h"

void kern_init_avxvnni(struct kern *k)
{
    linear_slots(k);
}

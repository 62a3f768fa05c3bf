/* avx2.c - the slots in which AVX2 with FMA and F16C improves on the reference. Each family has a
 * file in this folder. */
#include "avx2.h"

void kern_init_avx2(struct kern *k)
{
    kern_linear_avx2(k);
    kern_linear_float_avx2(k);
    kern_ops_avx2(k);
    kern_attn_avx2(k);
}

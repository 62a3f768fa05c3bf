/* avx512.c - the slots in which AVX-512 (F BW VL DQ VNNI) improves on AVX2. Each family has a file
 * in this folder. */
#include "avx512.h"

void kern_init_avx512(struct kern *k)
{
    kern_linear_avx512(k);
    kern_linear_float_avx512(k);
    kern_ops_avx512(k);
    kern_attn_avx512(k);
}

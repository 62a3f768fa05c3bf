/* avx2.c - the reference compiled for AVX2, FMA and F16C: the compiler vectorizes over
 * independent outputs, and fma is one instruction instead of a library call. Hand-written kernels
 * overwrite its slots one by one. */
#define KERN_INIT kern_init_avx2
#include "kern/ref/ref.c"

/* avxvnni.c - the slots in which AVX-VNNI improves on AVX2: integer dot products. */
#include "kern/kern_impl.h"

void kern_init_avxvnni(struct kern *k)
{
    kern_linear_avxvnni(k);
}

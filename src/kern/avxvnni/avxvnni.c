/* avxvnni.c - the slots that AVX-VNNI improves over AVX2: integer dot products. */
#include "kern/kern_impl.h"

void kern_init_avxvnni(struct kern *k)
{
    kern_linear_avxvnni(k);
}

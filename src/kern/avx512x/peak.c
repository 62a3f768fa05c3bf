/* peak.c - measuring loop of AVX-512 BF16. */
#include "kern/peak_impl.h"

PEAK_LOOP(bf16, "vdpbf16ps %2, %1, %0", peak_512, 64)

const struct peak peak_avx512x = {
    .name = "avx512x",
    .bf16_name = "vdpbf16ps",
    .bf16 = bf16,
};

/* peak.c - measuring loops of AVX-512 with VNNI. */
#include "kern/peak_impl.h"

PEAK_LOOP(int8, "vpdpbusd %2, %1, %0", peak_512, 128)
PEAK_LOOP(f32, "vfmadd231ps %2, %1, %0", peak_512, 32)

static void read_bytes(const void *data, size_t n_byte)
{
    const uint8_t *x = data;
    for (size_t i = 0; i < n_byte; i += 256)
        __asm__ volatile("vmovdqa64 (%0), %%zmm0\n\tvmovdqa64 64(%0), %%zmm1\n\t"
                         "vmovdqa64 128(%0), %%zmm2\n\tvmovdqa64 192(%0), %%zmm3"
                         :
                         : "r"(x + i)
                         : "xmm0", "xmm1", "xmm2", "xmm3", "memory");
}

const struct peak peak_avx512 = {
    .name = "avx512",
    .read = read_bytes,
    .int8_name = "vpdpbusd zmm",
    .int8 = int8,
    .f32_name = "vfmadd231ps",
    .f32 = f32,
};

/* peak.c - measuring loops of AVX2 with FMA. An int8 dot product takes three instructions: products
 * of pairs in 16 bits, sums of pairs in 32 bits, an addition. */
#include "kern/peak_impl.h"

PEAK_LOOP(int8,
          "vpmaddubsw %2, %1, %%ymm15\n\tvpmaddwd %%ymm15, %1, %%ymm15\n\tvpaddd %%ymm15, %0, %0",
          peak_256, 64)
PEAK_LOOP(f32, "vfmadd231ps %2, %1, %0", peak_256, 16)

static void read_bytes(const void *data, size_t n_byte)
{
    const uint8_t *x = data;
    for (size_t i = 0; i < n_byte; i += 128)
        __asm__ volatile("vmovdqa (%0), %%ymm0\n\tvmovdqa 32(%0), %%ymm1\n\t"
                         "vmovdqa 64(%0), %%ymm2\n\tvmovdqa 96(%0), %%ymm3"
                         :
                         : "r"(x + i)
                         : "xmm0", "xmm1", "xmm2", "xmm3", "memory");
}

const struct peak peak_avx2 = {
    .name = "avx2",
    .read = read_bytes,
    .int8_name = "vpmaddubsw",
    .int8 = int8,
    .f32_name = "vfmadd231ps",
    .f32 = f32,
};

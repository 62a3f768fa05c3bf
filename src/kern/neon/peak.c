/* peak.c - measuring loops of ASIMD with DotProd. */
#include "kern/neon/peak_one.h"

PEAK_LOOP(int8, "sdot %0.4s, %1.16b, %2.16b", int8x16_t, 32)
PEAK_LOOP(f32, "fmla %0.4s, %1.4s, %2.4s", float32x4_t, 8)

static void read_bytes(const void *data, size_t n_byte)
{
    const uint8_t *x = data;
    for (size_t i = 0; i < n_byte; i += 64)
        __asm__ volatile("ldp q0, q1, [%0]\n\tldp q2, q3, [%0, #32]"
                         :
                         : "r"(x + i)
                         : "v0", "v1", "v2", "v3", "memory");
}

const struct peak peak_neon = {
    .name = "neon",
    .read = read_bytes,
    .int8_name = "sdot",
    .int8 = int8,
    .f32_name = "fmla",
    .f32 = f32,
};

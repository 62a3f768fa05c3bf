/* peak.c - measuring loop of I8MM. */
#include "kern/neon/peak_one.h"

PEAK_LOOP(int8, "usmmla %0.4s, %1.16b, %2.16b", int8x16_t, 64)

const struct peak peak_neon_i8mm = {
    .name = "neon_i8mm",
    .int8_name = "usmmla",
    .int8 = int8,
};

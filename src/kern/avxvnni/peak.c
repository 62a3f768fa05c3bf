/* peak.c - measuring loop of AVX-VNNI. */
#include "kern/peak_impl.h"

PEAK_LOOP(int8, "%{vex%} vpdpbusd %2, %1, %0", peak_256, 64)

const struct peak peak_avxvnni = {
    .name = "avxvnni",
    .int8_name = "vpdpbusd ymm",
    .int8 = int8,
};

/* peak_one.h - PEAK_LOOP of peak_impl.h for Arm registers. Any thread. */
#ifndef QUOTH_KERN_NEON_PEAK_ONE_H
#define QUOTH_KERN_NEON_PEAK_ONE_H

#include "kern/peak_impl.h"

#include <arm_neon.h>

#undef PEAK_ONE
#define PEAK_ONE(text, r) __asm__ volatile(text : "+w"(r) : "w"(a), "w"(b))

#endif

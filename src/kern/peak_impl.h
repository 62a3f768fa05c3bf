/* peak_impl.h - private to the peak.c of levels: one instruction on twelve accumulators. The
 * latency times the instructions issued per cycle is less than twelve (at most 5 times 2). Any
 * thread may call kernels, because they change only the memory of their arguments. */
#ifndef QUOTH_KERN_PEAK_IMPL_H
#define QUOTH_KERN_PEAK_IMPL_H

#include "kern_impl.h"

/* Define vectors of 256 and of 512 bits without immintrin.h, whose compilation takes 0.2 s. */
typedef float peak_256 __attribute__((vector_size(32)));
typedef float peak_512 __attribute__((vector_size(64)));

/* Define `static double name(int n)`: n rounds of 12 times `text`. `text` is assembly, so the
 * compiler cannot optimize it away. %0 is the accumulator, %1 and %2 are sources, and register 15
 * is free. `vec` is the type of all these registers. n_op is the number of operations of one
 * instruction. */
#define PEAK_LOOP(name, text, vec, n_op)                                                           \
    static double name(int n)                                                                      \
    {                                                                                              \
        vec a = {0}, b = {0}, r0 = a, r1 = a, r2 = a, r3 = a, r4 = a, r5 = a, r6 = a, r7 = a,      \
            r8 = a, r9 = a, r10 = a, r11 = a;                                                      \
        for (int i = 0; i < n; i++) {                                                              \
            PEAK_ONE(text, r0);                                                                    \
            PEAK_ONE(text, r1);                                                                    \
            PEAK_ONE(text, r2);                                                                    \
            PEAK_ONE(text, r3);                                                                    \
            PEAK_ONE(text, r4);                                                                    \
            PEAK_ONE(text, r5);                                                                    \
            PEAK_ONE(text, r6);                                                                    \
            PEAK_ONE(text, r7);                                                                    \
            PEAK_ONE(text, r8);                                                                    \
            PEAK_ONE(text, r9);                                                                    \
            PEAK_ONE(text, r10);                                                                   \
            PEAK_ONE(text, r11);                                                                   \
        }                                                                                          \
        return 12.0 * n_op * n;                                                                    \
    }
#define PEAK_ONE(text, r) __asm__ volatile(text : "+x"(r) : "x"(a), "x"(b) : "xmm15")

#endif

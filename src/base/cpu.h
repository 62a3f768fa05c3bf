/* cpu.h - features of this processor, detected once. Only cpu.c uses cpuid and auxv for these
 * features. Any thread. */
#ifndef QUOTH_BASE_CPU_H
#define QUOTH_BASE_CPU_H

#include <stdint.h>

enum cpu_flag {
    CPU_AVX2 = 1 << 0,    /* AVX2, FMA, F16C                          */
    CPU_AVXVNNI = 1 << 1, /* + AVX-VNNI                               */
    CPU_AVX512 = 1 << 2,  /* AVX-512 F BW VL DQ VNNI                  */
    CPU_AVX512X = 1 << 3, /* + BF16 VBMI                              */
    CPU_NEON = 1 << 4,    /* ASIMD with dot product                   */
    CPU_NEON_I8MM = 1 << 5,
    CPU_AMX = 1 << 6, /* CPU_AVX512X + AMX tiles, int8 and bf16   */
};

/* Return the flags of the features that the processor and the operating system support. The first
 * call requests the process's permission to use AMX. */
unsigned cpu_flags(void);

/* Return the marketing name for reports, static; never empty. */
const char *cpu_name(void);

/* Return the processor's clock in its own unit. A call takes 9 ns. Use the clock for fractions of a
 * span that time_us() measures. All cores share this clock. */
uint64_t cpu_ticks(void);

/* Execute the processor's pause hint. Call it in loops that wait for another core's store. */
void cpu_pause(void);

/* Set rounding to nearest even, without flushing of subnormals. Every thread that computes must
 * call it, because a host program may have set other modes (docs/design.md 5). Return the previous
 * state for cpu_float_restore. */
unsigned cpu_float_canonical(void);
/* Restore the state of rounding that cpu_float_canonical returned. The call affects the calling
 * thread only. */
void cpu_float_restore(unsigned former);

#endif

/* cpu.h - features of this processor, detected once. The only place that uses cpuid and auxv. */
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

/* Return the flags of this machine that the operating system supports too (it saves the registers).
 * AMX needs a permission of the process, which the first call requests. Any thread. */
unsigned cpu_flags(void);

/* Return the marketing name, e.g. for reports; never empty. */
const char *cpu_name(void);

/* Return a clock that is cheap to read (9 ns), in units of its own. Use it for fractions of a span
 * that time_us() measures. One clock for all cores. */
uint64_t cpu_ticks(void);

/* Pause hint for a loop that waits for another core's store. */
void cpu_pause(void);

/* Set rounding to nearest even, without flush of subnormals: determinism requires this of every
 * thread that computes, whatever the host program set (docs/design.md 5). Returns the former state
 * for cpu_float_restore. */
unsigned cpu_float_canonical(void);
void cpu_float_restore(unsigned former);

#endif

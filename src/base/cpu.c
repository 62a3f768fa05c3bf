/* cpu.c - see cpu.h. */
#include "cpu.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

/* Bits that clang 14's __builtin_cpu_supports has no names for. They say what the processor has; that
 * the system saves the registers is asked through the builtin (AVX2, AVX-512F). */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & 1u << 29;
}

enum { LEAF7_AVX_VNNI = 1 << 4, LEAF7_AVX512_BF16 = 1 << 5 };
static unsigned leaf7_1_eax(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) ? a : 0;
}

unsigned cpu_flags(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) return 0;
    unsigned f = CPU_AVX2;
    if (leaf7_1_eax() & LEAF7_AVX_VNNI) f |= CPU_AVXVNNI;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vnni"))
        f |= CPU_AVX512;
    if ((f & CPU_AVX512) && leaf7_1_eax() & LEAF7_AVX512_BF16 &&
        __builtin_cpu_supports("avx512vbmi"))
        f |= CPU_AVX512X;
    return f;
}

unsigned cpu_float_canonical(void)
{
    unsigned former = _mm_getcsr();
    _mm_setcsr((former & ~0xE040u) | 0x1F80u); /* RC=nearest, FZ=0, DAZ=0, exceptions masked */
    return former;
}

void cpu_float_restore(unsigned former)
{
    _mm_setcsr(former);
}

#elif defined(__aarch64__)
#include <sys/auxv.h>

unsigned cpu_flags(void)
{
    unsigned f = 0;
    if (getauxval(AT_HWCAP) & (1ul << 20)) f |= CPU_NEON;              /* HWCAP_ASIMDDP */
    if (f && (getauxval(AT_HWCAP2) & (1ul << 13))) f |= CPU_NEON_I8MM; /* HWCAP2_I8MM   */
    return f;
}

unsigned cpu_float_canonical(void)
{
    unsigned long former;
    __asm__ volatile("mrs %0, fpcr" : "=r"(former));
    __asm__ volatile("msr fpcr, %0" : : "r"(former & ~0x1C80000ul)); /* RMode, FZ, FZ16 off */
    return (unsigned)former;
}

void cpu_float_restore(unsigned former)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((unsigned long)former));
}

#else
unsigned cpu_flags(void)
{
    return 0;
}

unsigned cpu_float_canonical(void)
{
    return 0;
}

void cpu_float_restore(unsigned former)
{
    (void)former;
}
#endif

const char *cpu_name(void)
{
    static char name[128] = "unknown CPU";
    FILE *f = fopen("/proc/cpuinfo", "re");
    if (!f) return name;
    char line[256];
    while (fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    fclose(f);
    return name;
}

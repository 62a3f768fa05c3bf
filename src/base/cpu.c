/* cpu.c - see cpu.h.
 *
 * Flags are cumulative: AMX implies AVX512X, which implies AVX512, which implies AVX2. AVXVNNI
 * implies AVX2 only. Each kernel folder may therefore use the instructions of the folders below it.
 *
 * cpu_float_canonical sets rounding to nearest, and disables flushing of denormals and traps. A
 * host program may have changed these settings, and results would then differ between programs. */
#include "cpu.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <xmmintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Read CPUID bits that clang 14's __builtin_cpu_supports does not support. These bits describe the
 * processor only. The builtin (AVX2, AVX-512F) also checks that the system saves the registers. */
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

/* Request AMX. Tiles are 8 KB of state per thread. Linux (since 5.16) saves tiles only for a
 * process that requests AMX. The request fails on older kernels and on kernels that do not support
 * the processor. */
enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
enum { LEAF7_AMX_BF16 = 1 << 22, LEAF7_AMX_TILE = 1 << 24, LEAF7_AMX_INT8 = 1 << 25 };
static bool may_use_amx(void)
{
    const unsigned need = LEAF7_AMX_BF16 | LEAF7_AMX_TILE | LEAF7_AMX_INT8;
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & need) == need &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

static unsigned find_flags(void)
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
    if ((f & CPU_AVX512X) && may_use_amx()) f |= CPU_AMX;
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

uint64_t cpu_ticks(void)
{
    return __builtin_ia32_rdtsc();
}

void cpu_pause(void)
{
    _mm_pause();
}

#elif defined(__aarch64__)
#include <sys/auxv.h>

static unsigned find_flags(void)
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
    /* clear AHP DN FZ RMode FZ16, the traps, EBF, NEP AH FIZ */
    __asm__ volatile("msr fpcr, %0" : : "r"(former & ~0x7C8BF07ul));
    return (unsigned)former;
}

void cpu_float_restore(unsigned former)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((unsigned long)former));
}

uint64_t cpu_ticks(void)
{
    uint64_t t;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    return t;
}

void cpu_pause(void)
{
    __asm__ volatile("yield");
}

#else
static unsigned find_flags(void)
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

uint64_t cpu_ticks(void)
{
    return (uint64_t)clock();
}

void cpu_pause(void)
{
}
#endif

unsigned cpu_flags(void)
{
    /* bit that marks `flags` as detected, because a processor may have none of the features */
    enum { DETECTED = 1 << 30 };
    /* cached, because cpuid traps in a virtual machine: 60 us for all flags */
    static _Atomic unsigned flags;
    unsigned f = atomic_load_explicit(&flags, memory_order_relaxed);
    if (f == 0) atomic_store_explicit(&flags, f = find_flags() | DETECTED, memory_order_relaxed);
    return f & ~(unsigned)DETECTED;
}

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

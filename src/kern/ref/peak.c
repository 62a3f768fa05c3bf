/* peak.c - measuring loops in plain C, compiled for the oldest supported processor. */
#include "kern/kern_impl.h"

enum { N = 4096 }; /* values, in the L1 cache */

/* Make the compiler treat the memory at p as modified and needed. */
static void touch(void *p)
{
    __asm__ volatile("" : : "r"(p) : "memory");
}

static void read_bytes(const void *data, size_t n_byte)
{
    const uint64_t *x = data;
    uint64_t some[8] = {0};
    for (size_t i = 0; i < n_byte / 8; i += 8)
        for (size_t k = 0; k < 8; k++) some[k] |= x[i + k];
    touch(some);
}

static double int8(int n)
{
    static _Thread_local int8_t a[N], b[N];
    int n_pass = n / 64 + 1;
    for (int pass = 0; pass < n_pass; pass++) {
        touch(a), touch(b);
        int32_t sum = 0;
        for (int i = 0; i < N; i++) sum += (int32_t)a[i] * b[i];
        touch(&sum);
    }
    return 2.0 * N * n_pass;
}

static double f32(int n)
{
    static _Thread_local float a[N], b[N];
    float sum[64] = {0};
    int n_pass = n / 64 + 1;
    for (int pass = 0; pass < n_pass; pass++) {
        touch(a), touch(b);
        for (int i = 0; i < N; i += 64)
            for (int k = 0; k < 64; k++) sum[k] += a[i + k] * b[i + k];
    }
    touch(sum);
    return 2.0 * N * n_pass;
}

const struct peak peak_ref = {
    .name = "ref",
    .read = read_bytes,
    .int8_name = "C",
    .int8 = int8,
    .f32_name = "C",
    .f32 = f32,
};

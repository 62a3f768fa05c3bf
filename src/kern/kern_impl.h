/* kern_impl.h - private to src/kern: the level table, and scalar functions of all levels. Any
 * thread may call kernels, because they change only the memory of their arguments. */
#ifndef QUOTH_KERN_IMPL_H
#define QUOTH_KERN_IMPL_H

#include "base/bits.h"

#include "kern.h"
#include "kern_math.h"

#include <math.h>
#include <string.h>

#define LEVEL(name, flag) void kern_init_##name(struct kern *k);
#include "levels.def"
#undef LEVEL

/* Return 2^x as attention defines it, x <= 0 or NaN. The result is 0 if x < -100, because an x86
 * vector instruction takes 190 cycles for a result that is subnormal or rounds to zero. A
 * multiplication by a scale of KV_Q8 may follow. 2^x = 2^n (1 + r P(r)), x = n + r, |r| <= 1/2; P
 * by scripts/minimax.py. Error within 2 ulp (kern_math_test.c); 2^0 = 1. */
static inline float exp2_weight(float x)
{
    const float magic = 0x1.8p23f; /* adding it rounds to an integer */
    float t = x + magic, r = x - (t - magic);
    float p = 0x1.5cbe7cp-10f;
    p = fmaf(p, r, 0x1.3cf40ap-7f);
    p = fmaf(p, r, 0x1.c6b596p-5f);
    p = fmaf(p, r, 0x1.ebf9a4p-3f);
    p = fmaf(p, r, 0x1.62e42ap-1f);
    p = fmaf(p, r, 1.0f);
    uint32_t e = bits_of_f32(t) - bits_of_f32(magic);
    return x < -100 ? 0 : p * f32_of_bits((e + 127) << 23);
}

/* Return the sum of 16 lanes by the tree +8 +4 +2 +1. */
static inline float tree16(const float s[16])
{
    float a[8], b[4];
    for (int i = 0; i < 8; i++) a[i] = s[i] + s[i + 8];
    for (int i = 0; i < 4; i++) b[i] = a[i] + a[i + 4];
    return (b[0] + b[2]) + (b[1] + b[3]);
}

static inline float flush_subnormal(float x)
{
    uint32_t u = bits_of_f32(x);
    return u & 0x7F800000u ? x : f32_of_bits(u & 0x80000000u);
}

/* Return fma with subnormal operands as 0. A result below 2^-126 after rounding to 24 bits becomes
 * 0. Near 2^-126 the sum is exact in double. The result is equal to the result of tdpbf16ps, and of
 * vfmadd with FTZ and DAZ. */
static inline float fma_flush(float x, float y, float sum)
{
    x = flush_subnormal(x), y = flush_subnormal(y), sum = flush_subnormal(sum);
    double exact = (double)x * (double)y + (double)sum;
    float r = fmaf(x, y, sum);
    return fabs(exact) < 0x1p-126 - 0x1p-151 ? f32_of_bits(bits_of_f32(r) & 0x80000000u) : r;
}

/* Return c + the products of 16 pairs, as tdpbf16ps computes it. a, b bf16 [32]. */
static inline float dot32_bf16(float c, const uint16_t *a, const uint16_t *b)
{
    float even = 0, odd = 0;
    for (int i = 0; i < 32; i += 2) {
        even = fma_flush(f32_of_bf16(a[i]), f32_of_bf16(b[i]), even);
        odd = fma_flush(f32_of_bf16(a[i + 1]), f32_of_bf16(b[i + 1]), odd);
    }
    return flush_subnormal(flush_subnormal(c) + flush_subnormal(even + odd));
}

#endif

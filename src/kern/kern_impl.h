/* kern_impl.h - private to src/kern: the level table, and scalar math that all levels share. */
#ifndef QUOTH_KERN_IMPL_H
#define QUOTH_KERN_IMPL_H

#include "base/bits.h"

#include "kern.h"

#include <math.h>
#include <string.h>

#define LEVEL(name, flag) void kern_init_##name(struct kern *k);
#include "levels.def"
#undef LEVEL

/* exp(x) = 2^n * p(r), x = n ln2 + r, |r| <= ln2 / 2; p is Cephes' expf polynomial (S. Moshier),
 * evaluated by fma. 2^n in two factors, so that results in the subnormal range round once.
 * Branch-free: vectorizes. */
static inline float exp_f32(float x)
{
    /* adding it leaves the nearest integer in the low mantissa bits */
    const float magic = 0x1.8p23f;
    float c = x > 89.0f ? 89.0f : x < -105.0f ? -105.0f : x; /* a NaN stays */
    float t = fmaf(c, 0x1.715476p0f, magic);
    float n = t - magic;
    float r = fmaf(n, -0x1.62e400p-1f, c);
    r = fmaf(n, -0x1.7f7d1cp-20f, r);
    float p = 1.9875691500e-4f;
    p = fmaf(p, r, 1.3981999507e-3f);
    p = fmaf(p, r, 8.3334519073e-3f);
    p = fmaf(p, r, 4.1665795894e-2f);
    p = fmaf(p, r, 1.6666665459e-1f);
    p = fmaf(p, r, 5.0000001201e-1f);
    p = fmaf(p * r, r, r) + 1.0f;
    int32_t e = (int32_t)(bits_of_f32(t) - bits_of_f32(magic));
    int32_t half = e >> 1;
    return p * f32_of_bits((uint32_t)(half + 127) << 23) *
           f32_of_bits((uint32_t)(e - half + 127) << 23);
}

/* Sum of 16 lanes by the tree +8 +4 +2 +1. */
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

/* vdpbf16ps for one lane: acc + a1 b1, then + a0 b0. */
static inline float dot2_bf16(float acc, uint16_t a0, uint16_t a1, uint16_t b0, uint16_t b1)
{
    float x1 = flush_subnormal(f32_of_bf16(a1)), y1 = flush_subnormal(f32_of_bf16(b1));
    float x0 = flush_subnormal(f32_of_bf16(a0)), y0 = flush_subnormal(f32_of_bf16(b0));
    acc = flush_subnormal(fmaf(x1, y1, flush_subnormal(acc)));
    return flush_subnormal(fmaf(x0, y0, acc));
}

#endif

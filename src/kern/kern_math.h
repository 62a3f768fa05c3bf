/* kern_math.h - exp, log, tanh, erf and activations of one f32. Every level computes these
 * algorithms, lane by lane. tmpl/math.h has the same code in vectors.
 *
 * The algorithms use only + - * / fma and operations on bits. No branch depends on the argument: a
 * condition selects one of two computed values. scripts/minimax.py prints the coefficients of all
 * polynomials except exp's.
 *
 * Errors over all arguments (kern_math_test.c): exp 1.03 ulp, log 0.75, tanh 1.1, erf 1.1, expm1
 * 2.5. silu and both gelu have 2 ulp of their argument. gelu_erf's 1 + erf cancels for x < 0, as in
 * every f32 form of gelu. The result for a NaN is a NaN with an undefined payload. Any thread; pure
 * functions. */
#ifndef QUOTH_KERN_MATH_H
#define QUOTH_KERN_MATH_H

#include "base/bits.h"

#include <math.h>
#include <stdbool.h>

/* Return exp(x) = 2^n * p(r), x = n ln2 + r, |r| <= ln2 / 2. p is Cephes' expf polynomial (S.
 * Moshier), evaluated by fma. 2^n is applied in two factors, so a subnormal result is rounded
 * once. */
static inline float exp_f32(float x)
{
    /* adding `magic` rounds to an integer, whose bits are then the low bits of the mantissa */
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

/* Return ln x = n ln2 + ln(1 + f). n and f are defined by x = 2^n (1 + f), with 1 + f in [1/sqrt 2,
 * sqrt 2). With s = f / (2 + f) and z = s^2, ln(1 + f) is s (2 + z R(z)). The function computes
 * this value as f - (f^2/2 - s (f^2/2 + z R)) (FreeBSD's logf). The large part f is exact, and the
 * rounding error of f^2/2 is added to the small part. ln 0 = -inf; ln of a negative number is
 * NaN. */
static inline float log_f32(float x)
{
    const uint32_t sqrt_half = 0x3F3504F3u;
    bool tiny = x < 0x1p-126f;
    uint32_t u = bits_of_f32(tiny ? x * 0x1p24f : x) - sqrt_half;
    float n = (float)((int32_t)u >> 23) - (tiny ? 24.0f : 0.0f);
    float f = f32_of_bits((u & 0x007FFFFFu) + sqrt_half) - 1.0f;
    float s = f / (f + 2.0f), z = s * s, h = 0.5f * f * f;
    float r = 0x1.f13b20p-3f;
    r = fmaf(r, z, 0x1.23d3e0p-2f);
    r = fmaf(r, z, 0x1.999c26p-2f);
    r = fmaf(r, z, 0x1.555554p-1f);
    float lost = fmaf(-0.5f * f, f, h);
    float low = fmaf(s, fmaf(r, z, h), fmaf(n, 0x1.7f7d1cp-20f, lost));
    float y = fmaf(n, 0x1.62e400p-1f, f - (h - low));
    y = x <= 0x1.fffffep127f ? y : x; /* infinity and NaN */
    return x > 0.0f ? y : x == 0.0f ? -INFINITY : NAN;
}

/* Return ln(1 + exp(x)). With e = exp(-|x|) and u = 1 + e, the result is max(x, 0) + ln(1 + e), and
 * ln(1 + e) is ln u + (e - (u - 1)) / u. The last term is the rounding error of u. */
static inline float softplus_f32(float x)
{
    float e = exp_f32(0.0f - fabsf(x)), u = 1.0f + e;
    float low = log_f32(u) + (e - (u - 1.0f)) / u;
    return x > 0.0f ? x + low : low;
}

/* Return `value`, which is >= 0, with the sign of x. */
static inline float with_sign(float value, float x)
{
    return f32_of_bits(bits_of_f32(value) | (bits_of_f32(x) & 0x80000000u));
}

/* Return tanh x. tanh x is x + x z P(z), z = x^2, if |x| < 0.75. Otherwise tanh x is 1 - 2 / (exp(2
 * |x|) + 1), with the sign of x. */
static inline float tanh_f32(float x)
{
    float a = fabsf(x), z = a * a;
    float p = 0x1.c89750p-10f;
    p = fmaf(p, z, -0x1.f662fep-8f);
    p = fmaf(p, z, 0x1.5f9082p-6f);
    p = fmaf(p, z, -0x1.b98108p-5f);
    p = fmaf(p, z, 0x1.110ddap-3f);
    p = fmaf(p, z, -0x1.55554ap-2f);
    float small = fmaf(p * z, a, a);
    float large = 1.0f - 2.0f / (exp_f32(a + a) + 1.0f);
    return with_sign(a < 0.75f ? small : large, x);
}

/* Return erf x. erf x is x + x P(x^2) if |x| < 61/64. Otherwise erf x is 1 - exp(-Q(|x|)), with the
 * sign of x. Q(t) ~ -ln erfc(t) up to t = 4. For larger t, erf is 1 in f32. */
static inline float erf_f32(float x)
{
    float a = fabsf(x), z = a * a, t = a < 4.0f ? a : 4.0f;
    float p = 0x1.4f8e58p-14f;
    p = fmaf(p, z, -0x1.a6126ep-11f);
    p = fmaf(p, z, 0x1.544aa8p-8f);
    p = fmaf(p, z, -0x1.b80120p-6f);
    p = fmaf(p, z, 0x1.ce2d64p-4f);
    p = fmaf(p, z, -0x1.812740p-2f);
    p = fmaf(p, z, 0x1.06eba8p-3f);
    float q = -0x1.96ac00p-13f;
    q = fmaf(q, t, 0x1.8c443ap-9f);
    q = fmaf(q, t, -0x1.6adb0cp-6f);
    q = fmaf(q, t, 0x1.a9052cp-4f);
    q = fmaf(q, t, 0x1.4655d4p-1f);
    q = fmaf(q, t, 0x1.20a7dcp0f);
    q = fmaf(q, t, 0x1.d4b938p-13f);
    float small = fmaf(p, a, a), large = 1.0f - exp_f32(-q);
    float y = a < 0.953125f ? small : large;
    return with_sign(a <= INFINITY ? y : a, x); /* a NaN stays */
}

/* Return exp(x) - 1. The result is x + x^2 P(x), the Taylor polynomial up to x^10, if |x| < 0.7. */
static inline float expm1_f32(float x)
{
    float p = 0x1.27e4fcp-22f;
    p = fmaf(p, x, 0x1.71de3ap-19f);
    p = fmaf(p, x, 0x1.a01a02p-16f);
    p = fmaf(p, x, 0x1.a01a02p-13f);
    p = fmaf(p, x, 0x1.6c16c2p-10f);
    p = fmaf(p, x, 0x1.111112p-7f);
    p = fmaf(p, x, 0x1.555556p-5f);
    p = fmaf(p, x, 0x1.555556p-3f);
    p = fmaf(p, x, 0.5f);
    float small = fmaf(p * x, x, x), large = exp_f32(x) - 1.0f;
    return fabsf(x) < 0.7f ? small : large;
}

/* Return 1 / (1 + exp(-x)). */
static inline float sigmoid_f32(float x)
{
    return 1.0f / (1.0f + exp_f32(-x));
}

/* Return x / (1 + exp(-x)). */
static inline float silu_f32(float x)
{
    return x / (1.0f + exp_f32(-x));
}

/* Return x (1 + tanh u) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3). The function computes the
 * equal value x / (1 + exp(-2 u)), which needs no tanh and has no cancellation for x < 0. */
static inline float gelu_tanh_f32(float x)
{
    float minus_2u = x * fmaf(x * x, -0x1.2444f2p-4f, -0x1.988454p0f);
    return x / (1.0f + exp_f32(minus_2u));
}

/* Return x (1 + erf(x / sqrt 2)) / 2. */
static inline float gelu_erf_f32(float x)
{
    return 0.5f * x * (1.0f + erf_f32(x * 0x1.6a09e6p-1f));
}

/* Return the larger of x and 0. A NaN stays. */
static inline float relu_f32(float x)
{
    return x <= 0.0f ? 0.0f : x;
}

/* Return the square of relu ("Primer", arXiv 2109.08668). */
static inline float relu2_f32(float x)
{
    float y = relu_f32(x);
    return y * y;
}

#endif

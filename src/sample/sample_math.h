/* sample_math.h - exp and log in double with one defined order of + - * and /, equal on every
 * machine.
 *
 * These functions compute the few values of a pick that are not weights: thresholds and the
 * logarithm of the total. Weights use exp_f32, in the kernels. Results of libm differ between
 * versions and processors by an ulp. A difference of an ulp can change the picked token. Relative
 * error: exp 3e-10, log 1e-13. Any thread. */
#ifndef QUOTH_SAMPLE_MATH_H
#define QUOTH_SAMPLE_MATH_H

#include "base/bits.h"

#include <math.h>
#include <stdint.h>

/* ln 2 in two parts. The high part has 33 bits, so n * SAMPLE_LN2_HI is exact for |n| < 2^20. */
#define SAMPLE_LN2_HI 0x1.62e42feep-1
#define SAMPLE_LN2_LO 0x1.a39ef35793c76p-33

/* Return e^x for x <= 709; 0 for x <= -708 and for NaN. exp(0) is exactly 1. x = n ln2 + r with |r|
 * <= ln2 / 2. e^r is computed by its series up to r^8. Adding 1.5 * 2^52 rounds to the integer n
 * and puts n in the low bits. A shift then moves n to the exponent. */
static inline double sample_exp(double x)
{
    if (!(x > -708)) return 0;
    double t = x * 0x1.71547652b82fep+0 + 0x1.8p52;
    double n = t - 0x1.8p52;
    double r = (x - n * SAMPLE_LN2_HI) - n * SAMPLE_LN2_LO;
    double p = 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    return f64_of_bits(bits_of_f64(p) + (bits_of_f64(t) << 52));
}

/* Return ln x for a normal x > 0, or -inf for 0. e and m are defined by x = 2^e m, with m in
 * [1/sqrt 2, sqrt 2). ln m is 2 atanh s with s = (m - 1) / (m + 1), computed by its series up to
 * s^17. */
static inline double sample_log(double x)
{
    if (x <= 0) return -INFINITY;
    uint64_t u = bits_of_f64(x) - 0x3fe6a09e667f3bcdu; /* 1/sqrt 2 */
    int64_t e = (int64_t)u >> 52;
    double m = f64_of_bits((u & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu);
    double s = (m - 1) / (m + 1), z = s * s;
    double p = 1.0 / 17;
    p = p * z + 1.0 / 15;
    p = p * z + 1.0 / 13;
    p = p * z + 1.0 / 11;
    p = p * z + 1.0 / 9;
    p = p * z + 1.0 / 7;
    p = p * z + 1.0 / 5;
    p = p * z + 1.0 / 3;
    return (double)e * SAMPLE_LN2_HI + (2 * s + (2 * s * z * p + (double)e * SAMPLE_LN2_LO));
}

#endif

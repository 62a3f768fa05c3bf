/* float_impl.h - small floats to f32 and back, in integer arithmetic plus one exact float
 * operation.
 *
 * A small float here is sign | n_exp exponent bits | n_man mantissa bits with the IEEE bias. These
 * helpers see magnitudes only; what the top exponent means (infinity and NaN, or numbers) is the
 * format's own business. The only assumption is the thread's canonical rounding mode: nearest even,
 * subnormals kept. */
#ifndef QUOTH_QUANT_FLOAT_IMPL_H
#define QUOTH_QUANT_FLOAT_IMPL_H

#include "base/bits.h"

#include <stdint.h>

#define F32_INF_BITS 0x7F800000u
#define F32_QUIET    0x00400000u

static inline uint32_t f32_magnitude(float x)
{
    return bits_of_f32(x) & 0x7FFFFFFFu;
}

static inline uint32_t f32_sign(float x)
{
    return bits_of_f32(x) >> 31;
}

/* The code read as an f32 with the same fields is off by the difference of the biases: one exact
 * multiplication, which also normalizes subnormal codes. */
static inline float widen(uint32_t code, int n_exp, int n_man)
{
    int bias = (1 << (n_exp - 1)) - 1;
    float rebias = f32_of_bits((uint32_t)(254 - bias) << 23);
    return f32_of_bits(code << (23 - n_man)) * rebias;
}

/* |x| rounded to nearest even. Too large a value gives a code past the format's top (an infinity
 * does too): the caller caps it. Not for NaN. */
static inline uint32_t narrow(float x, int n_exp, int n_man)
{
    int bias = (1 << (n_exp - 1)) - 1;
    int n_cut = 23 - n_man;
    uint32_t a = f32_magnitude(x);
    if (a < (uint32_t)(128 - bias) << 23) {
        /* Subnormal result: a power of two whose last mantissa bit weighs one step of the target
         * lets the addition do the rounding. */
        uint32_t anchor = (uint32_t)(128 - bias + n_cut) << 23;
        return bits_of_f32(f32_of_bits(a) + f32_of_bits(anchor)) - anchor;
    }
    uint32_t tie_to_even = (a >> n_cut) & 1;
    a += (1u << (n_cut - 1)) - 1 + tie_to_even;
    return (a >> n_cut) - ((uint32_t)(127 - bias) << n_man);
}

#endif

/* float_impl.h - conversion between small floats and f32, in integer arithmetic plus one exact
 * float operation.
 *
 * A small float is sign | n_exp exponent bits | n_man mantissa bits with the IEEE bias. These
 * functions use magnitudes only. The format defines the meaning of the top exponent (infinity and
 * NaN, or numbers). The thread must be in the canonical rounding mode: nearest even, subnormals
 * kept. */
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

/* Convert a code to f32. The exponent of an f32 with the fields of the code is wrong by the
 * difference of the biases. One exact multiplication corrects the exponent and normalizes subnormal
 * codes. */
static inline float widen(uint32_t code, int n_exp, int n_man)
{
    int bias = (1 << (n_exp - 1)) - 1;
    float rebias = f32_of_bits((uint32_t)(254 - bias) << 23);
    return f32_of_bits(code << (23 - n_man)) * rebias;
}

/* Round |x| to nearest even. An infinity or a value above the maximum gives a code above the
 * format's top. The caller clamps this code. x must not be NaN. */
static inline uint32_t narrow(float x, int n_exp, int n_man)
{
    int bias = (1 << (n_exp - 1)) - 1;
    int n_cut = 23 - n_man;
    uint32_t a = f32_magnitude(x);
    if (a < (uint32_t)(128 - bias) << 23) {
        /* The result is subnormal. Round by adding a power of two whose last mantissa bit is one
         * step of the target. */
        uint32_t anchor = (uint32_t)(128 - bias + n_cut) << 23;
        return bits_of_f32(f32_of_bits(a) + f32_of_bits(anchor)) - anchor;
    }
    uint32_t tie_to_even = (a >> n_cut) & 1;
    a += (1u << (n_cut - 1)) - 1 + tie_to_even;
    return (a >> n_cut) - ((uint32_t)(127 - bias) << n_man);
}

#endif

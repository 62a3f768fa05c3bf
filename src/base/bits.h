/* bits.h - convert a float or double to an integer of the same bits, and back. Any thread. */
#ifndef QUOTH_BASE_BITS_H
#define QUOTH_BASE_BITS_H

#include <stdint.h>
#include <string.h>

/* Return the bits of x. */
static inline uint32_t bits_of_f32(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* Return the float with these bits. */
static inline float f32_of_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Return the bits of x. */
static inline uint64_t bits_of_f64(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* Return the double with these bits. */
static inline double f64_of_bits(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

#endif

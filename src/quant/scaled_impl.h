/* scaled_impl.h - private to src/quant: floats with a scale per block, the formats of SCALED lines
 * of types.def.
 *
 *     0            4
 *     [ f32 scale ][ codes ]     8 bits: a byte per value; 4 bits: value 2 i in the low nibble of
 *                                byte i, value 2 i + 1 in the high nibble
 *
 *     value = f32(level[code] * scale), rounded once
 *
 * Published checkpoints have weights of this kind (model/form): codes of floats with scales of any
 * number. The layout is quoth's own and is never read from a file. Linear layers use bf16
 * activations for E4M3, whose codes are bf16 numbers, and int8 for levels of 4-bit codes as
 * integers of 14 bits (types.def). Any thread. */
#ifndef QUOTH_QUANT_SCALED_IMPL_H
#define QUOTH_QUANT_SCALED_IMPL_H

#include "quant_impl.h"

#include <string.h>

/* Write the values of n / run blocks of 4-bit codes. */
static inline void scaled_decode4(float *y, const uint8_t *x, int64_t n, int run,
                                  const float level[16])
{
    for (int64_t i = 0; i < n; i += run, x += 4 + run / 2) {
        float scale;
        memcpy(&scale, x, sizeof scale);
        for (int j = 0; j < run; j++) y[i + j] = level[x[4 + j / 2] >> j % 2 * 4 & 15] * scale;
    }
}

/* Read a block of 4-bit codes: the scale and the codes. */
static inline void scaled_unpack4(struct block *b, const uint8_t *x, int run)
{
    memcpy(&b->d, x, sizeof b->d);
    fields_unpack(b->q, x + 4, run, 1, 4);
}

/* Return the largest finite magnitude of x f32 [n]. */
static inline float scaled_amax(const float *x, int n)
{
    float amax = 0;
    for (int i = 0; i < n; i++)
        if (isfinite(x[i]) && fabsf(x[i]) > amax) amax = fabsf(x[i]);
    return amax;
}

/* Return the code of the level nearest to v. The lower code has precedence if two levels are
 * equally near. A NaN becomes the level
 * 0. */
static inline int scaled_nearest(float v, const float level[16])
{
    int best = 0;
    if (v != v) v = 0;
    for (int c = 1; c < 16; c++)
        if (fabsf(level[c] - v) < fabsf(level[best] - v)) best = c;
    return best;
}

/* Encode n / run blocks of 4-bit codes. The scale is the largest magnitude. */
static inline void scaled_encode4(uint8_t *y, const float *x, int64_t n, int run,
                                  const float level[16])
{
    for (int64_t i = 0; i < n; i += run, y += 4 + run / 2) {
        const float scale = scaled_amax(x + i, run);
        memcpy(y, &scale, sizeof scale);
        memset(y + 4, 0, (size_t)run / 2);
        for (int j = 0; j < run; j++) {
            const float v = scale > 0 ? x[i + j] / scale : 0;
            y[4 + j / 2] |= (uint8_t)(scaled_nearest(v, level) << j % 2 * 4);
        }
    }
}

#endif

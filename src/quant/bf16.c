/* bf16.c - BF16: the upper half of an f32, little-endian.
 *
 * Decoding appends 16 zero bits (inline function in quant.h). Encoding rounds to nearest even, also
 * for subnormals. A NaN becomes a quiet NaN, because rounding its payload up could give an
 * infinity. */
#include "quant_impl.h"

uint16_t bf16_of_f32(float x)
{
    uint32_t u = bits_of_f32(x);
    if (f32_magnitude(x) > F32_INF_BITS) return (uint16_t)((u | F32_QUIET) >> 16);
    uint32_t tie_to_even = (u >> 16) & 1;
    return (uint16_t)((u + 0x7FFFu + tie_to_even) >> 16);
}

static void decode(float *y, const void *x, int64_t n)
{
    const uint8_t *h = x;
    for (int64_t i = 0; i < n; i++) y[i] = f32_of_bf16(u16_load(h + 2 * i));
}

static void encode(void *y, const float *x, int64_t n, const float *importance)
{
    (void)importance;
    uint8_t *h = y;
    for (int64_t i = 0; i < n; i++) u16_store(h + 2 * i, bf16_of_f32(x[i]));
}

const struct qtype_ops qtype_ops_bf16 = {decode, encode, NULL, NULL};

/* f16.c - F16: IEEE binary16, little-endian.
 *
 *     15 14   10 9        0
 *     [s][ exp  ][ mantissa ]     bias 15, infinities and NaN at exp = 31
 *
 * A NaN keeps its sign and the payload bits that fit, and becomes quiet, as with F16C and NEON.
 * Therefore kernels with the instructions of F16C and NEON compute the same bits. */
#include "quant_impl.h"

#define F16_INF   0x7C00u
#define F16_QUIET 0x0200u

float f32_of_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t m = h & 0x7FFFu;
    if (m >= F16_INF) {
        uint32_t quiet = m > F16_INF ? F32_QUIET : 0;
        return f32_of_bits(sign | F32_INF_BITS | quiet | m << 13);
    }
    return f32_of_bits(sign | bits_of_f32(widen(m, 5, 10)));
}

uint16_t f16_of_f32(float x)
{
    uint32_t a = f32_magnitude(x), m;
    if (a > F32_INF_BITS) {
        m = F16_INF | F16_QUIET | ((a >> 13) & 0x3FFu);
    } else {
        m = narrow(x, 5, 10);
        if (m > F16_INF) m = F16_INF;
    }
    return (uint16_t)(f32_sign(x) << 15 | m);
}

static void decode(float *y, const void *x, int64_t n)
{
    const uint8_t *h = x;
    for (int64_t i = 0; i < n; i++) y[i] = f32_of_f16(u16_load(h + 2 * i));
}

static void encode(void *y, const float *x, int64_t n, const float *importance)
{
    (void)importance;
    uint8_t *h = y;
    for (int64_t i = 0; i < n; i++) u16_store(h + 2 * i, f16_of_f32(x[i]));
}

const struct qtype_ops qtype_ops_f16 = {decode, encode, NULL, NULL};

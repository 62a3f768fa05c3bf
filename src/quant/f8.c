/* f8.c - the two 8-bit floats of "FP8 Formats for Deep Learning" (Micikevicius et al., 2022).
 *
 *     E4M3  [s][exp:4][man:3]  bias 7; max 448, no infinity; NaN is 0x7F and 0xFF only ("FN")
 *     E5M2  [s][exp:5][man:2]  bias 15; infinity 0x7C, NaN above; the upper byte of an f16
 *
 * The scalar conversions overflow as in IEEE rounding. E4M3 gives NaN above 464. The value 464 is a
 * tie and rounds to the even 448. E5M2 gives infinity from 61,440 on. Encoding a tensor saturates
 * instead, as programs that write checkpoints do: values above the maximum and infinities become
 * the largest finite value. A NaN stays a NaN. */
#include "quant_impl.h"

#define E4M3_NAN   0x7Fu
#define E4M3_MAX   0x7Eu
#define E5M2_INF   0x7Cu
#define E5M2_QUIET 0x02u
#define E5M2_MAX   0x7Bu

float f32_of_e4m3(uint8_t b)
{
    uint32_t sign = (uint32_t)(b & 0x80u) << 24;
    uint32_t m = b & 0x7Fu;
    uint32_t u = m == E4M3_NAN ? F32_INF_BITS | F32_QUIET : bits_of_f32(widen(m, 4, 3));
    return f32_of_bits(sign | u);
}

uint8_t e4m3_of_f32(float x)
{
    uint32_t m = f32_magnitude(x) > F32_INF_BITS ? E4M3_NAN : narrow(x, 4, 3);
    if (m > E4M3_NAN) m = E4M3_NAN;
    return (uint8_t)(f32_sign(x) << 7 | m);
}

float f32_of_e5m2(uint8_t b)
{
    return f32_of_f16((uint16_t)(b << 8));
}

uint8_t e5m2_of_f32(float x)
{
    uint32_t a = f32_magnitude(x), m;
    if (a > F32_INF_BITS) {
        m = E5M2_INF | E5M2_QUIET | ((a >> 21) & 1u);
    } else {
        m = narrow(x, 5, 2);
        if (m > E5M2_INF) m = E5M2_INF;
    }
    return (uint8_t)(f32_sign(x) << 7 | m);
}

/* Clamp the magnitude of a converted number. x is the original number and may be a NaN. */
static uint8_t saturate(uint8_t code, uint8_t max, float x)
{
    bool is_nan = x != x;
    bool over = (code & 0x7F) > max;
    return over && !is_nan ? (uint8_t)((code & 0x80) | max) : code;
}

static void decode_e4m3(float *y, const void *x, int64_t n)
{
    const uint8_t *b = x;
    for (int64_t i = 0; i < n; i++) y[i] = f32_of_e4m3(b[i]);
}

static void decode_e5m2(float *y, const void *x, int64_t n)
{
    const uint8_t *b = x;
    for (int64_t i = 0; i < n; i++) y[i] = f32_of_e5m2(b[i]);
}

static void encode_e4m3(void *y, const float *x, int64_t n, const float *importance)
{
    (void)importance;
    uint8_t *b = y;
    for (int64_t i = 0; i < n; i++) b[i] = saturate(e4m3_of_f32(x[i]), E4M3_MAX, x[i]);
}

static void encode_e5m2(void *y, const float *x, int64_t n, const float *importance)
{
    (void)importance;
    uint8_t *b = y;
    for (int64_t i = 0; i < n; i++) b[i] = saturate(e5m2_of_f32(x[i]), E5M2_MAX, x[i]);
}

const struct qtype_ops qtype_ops_f8_e4m3 = {decode_e4m3, encode_e4m3, NULL, NULL};
const struct qtype_ops qtype_ops_f8_e5m2 = {decode_e5m2, encode_e5m2, NULL, NULL};

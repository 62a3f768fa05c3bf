/* float_test.c - goal: every code of the small floats and all rounding is correct. Method: compare
 * with the formats' definition, evaluated in double by fields and by distances to both neighbours.
 * Also compare with the compiler's conversions. */
#include "quant_impl.h"

#include "../../tests/unit.h"
#include "base/rng.h"

static float widen_f16(uint32_t c)
{
    return f32_of_f16((uint16_t)c);
}
static float widen_bf16(uint32_t c)
{
    return f32_of_bf16((uint16_t)c);
}
static float widen_e4m3(uint32_t c)
{
    return f32_of_e4m3((uint8_t)c);
}
static float widen_e5m2(uint32_t c)
{
    return f32_of_e5m2((uint8_t)c);
}
static uint32_t narrow_f16(float x)
{
    return f16_of_f32(x);
}
static uint32_t narrow_bf16(float x)
{
    return bf16_of_f32(x);
}
static uint32_t narrow_e4m3(float x)
{
    return e4m3_of_f32(x);
}
static uint32_t narrow_e5m2(float x)
{
    return e5m2_of_f32(x);
}

static const struct small {
    const char *name;
    int n_bit, n_man;
    uint32_t top; /* magnitude code after the largest finite code: infinity or E4M3's NaN */
    bool top_is_nan;
    float (*widen)(uint32_t);
    uint32_t (*narrow)(float);
} small[] = {
    {"f16", 16, 10, 0x7C00, false, widen_f16, narrow_f16},
    {"bf16", 16, 7, 0x7F80, false, widen_bf16, narrow_bf16},
    {"e4m3", 8, 3, 0x7F, true, widen_e4m3, narrow_e4m3},
    {"e5m2", 8, 2, 0x7C, false, widen_e5m2, narrow_e5m2},
};
enum { N_SMALL = sizeof small / sizeof *small };

/* Return the value of a magnitude code by its fields. From `top` on, the range continues. */
static double value_of(const struct small *s, uint32_t m)
{
    int bias = (1 << (s->n_bit - s->n_man - 2)) - 1;
    int exp = (int)(m >> s->n_man), man = (int)(m & ((1u << s->n_man) - 1));
    return exp ? ldexp((1 << s->n_man) + man, exp - bias - s->n_man)
               : ldexp(man, 1 - bias - s->n_man);
}

static bool code_is_nan(const struct small *s, uint32_t m)
{
    return s->top_is_nan ? m == s->top : m > s->top;
}

/* Return the code of x by the definition of rounding to nearest even. x must not be NaN. */
static uint32_t code_of(const struct small *s, float x)
{
    uint32_t sign = signbit(x) ? 1u << (s->n_bit - 1) : 0, low = 0, high = s->top;
    double a = fabs((double)x);
    if (a >= value_of(s, s->top)) return sign | s->top;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (value_of(s, middle) <= a)
            low = middle;
        else
            high = middle;
    }
    double below = a - value_of(s, low), above = value_of(s, high) - a;
    if (below == above) return sign | (low & 1 ? high : low);
    return sign | (below < above ? low : high);
}

TEST(small_float_codes_have_the_value_of_their_fields)
{
    for (int k = 0; k < N_SMALL; k++) {
        const struct small *s = &small[k];
        uint32_t sign = 1u << (s->n_bit - 1);
        int n_wrong = 0;
        for (uint32_t c = 0; c < 2 * sign; c++) {
            uint32_t m = c & (sign - 1);
            float x = s->widen(c);
            bool good = !signbit(x) == !(c & sign);
            if (code_is_nan(s, m)) {
                good &= isnan(x) && code_is_nan(s, s->narrow(x) & (sign - 1));
            } else {
                double want = m == s->top ? INFINITY : value_of(s, m);
                good &= fabs((double)x) == want && s->narrow(x) == c;
            }
            n_wrong += !good;
        }
        if (n_wrong) test_fail(__FILE__, __LINE__, "%s: %d codes are wrong", s->name, n_wrong);
    }
}

static void check_round(const struct small *s, float x, int *n_wrong)
{
    uint32_t got = s->narrow(x);
    bool good =
        isnan(x) ? code_is_nan(s, got & ((1u << (s->n_bit - 1)) - 1)) : got == code_of(s, x);
    if (!good && (*n_wrong)++ == 0)
        test_fail(__FILE__, __LINE__, "%s of %a is %#x, not %#x", s->name, (double)x, got,
                  code_of(s, x));
}

TEST(small_floats_round_to_nearest_even)
{
    uint64_t random = 1;
    for (int k = 0; k < N_SMALL; k++) {
        const struct small *s = &small[k];
        int n_wrong = 0;
        /* test every tie and its two neighbours, with both signs */
        for (uint32_t m = 0; m < s->top; m++) {
            float tie = (float)((value_of(s, m) + value_of(s, m + 1)) / 2);
            for (int sign = -1; sign <= 1; sign += 2) {
                check_round(s, (float)sign * tie, &n_wrong);
                check_round(s, (float)sign * nextafterf(tie, 0.0f), &n_wrong);
                check_round(s, (float)sign * nextafterf(tie, INFINITY), &n_wrong);
            }
        }
        int n = test_long() ? 20000000 : 200000;
        for (int i = 0; i < n; i++)
            check_round(s, f32_of_bits((uint32_t)rng_next(&random)), &n_wrong);
        check_round(s, INFINITY, &n_wrong);
        check_round(s, -INFINITY, &n_wrong);
        EXPECT_INT(n_wrong, 0);
    }
}

#ifdef __FLT16_MAX__
TEST(f16_agrees_with_the_compiler)
{
    int n_wrong = 0;
    uint64_t random = 2;
    for (uint32_t c = 0; c < 65536; c++) {
        uint16_t code = (uint16_t)c;
        _Float16 h;
        memcpy(&h, &code, sizeof h);
        n_wrong += bits_of_f32((float)h) != bits_of_f32(f32_of_f16(code));
    }
    EXPECT_INT(n_wrong, 0);
    for (int i = 0; i < 1000000; i++) {
        float x = f32_of_bits((uint32_t)rng_next(&random));
        _Float16 h = (_Float16)x;
        uint16_t want;
        memcpy(&want, &h, sizeof want);
        n_wrong += want != f16_of_f32(x);
    }
    EXPECT_INT(n_wrong, 0);
}
#endif

TEST(fp8_tensors_saturate)
{
    const float x[] = {1e9f, -1e9f, INFINITY, -INFINITY, 465.0f, 448.0f, -0.0f, 57344.0f, 61440.0f};
    enum { N = sizeof x / sizeof *x };
    const float e4m3[N] = {448, -448, 448, -448, 448, 448, -0.0f, 448, 448};
    const float e5m2[N] = {57344, -57344, 57344, -57344, 448, 448, -0.0f, 57344, 57344};
    uint8_t code[N];
    float y[N], nan = NAN;
    qtype_info[QT_f8_e4m3].ops->encode(code, x, N, NULL);
    qtype_info[QT_f8_e4m3].ops->decode(y, code, N);
    EXPECT_BITS(y, e4m3, sizeof y);
    qtype_info[QT_f8_e5m2].ops->encode(code, x, N, NULL);
    qtype_info[QT_f8_e5m2].ops->decode(y, code, N);
    EXPECT_BITS(y, e5m2, sizeof y);
    for (int t = QT_f8_e4m3; t <= QT_f8_e5m2; t++) {
        qtype_info[t].ops->encode(code, &nan, 1, NULL);
        qtype_info[t].ops->decode(y, code, 1);
        EXPECT(isnan(y[0]));
    }
}

TEST(float_formats_store_their_scalars)
{
    const float x[3] = {1.0f, -2.5f, 65504.0f};
    static const int type[] = {QT_f32, QT_f16, QT_bf16};
    for (int k = 0; k < 3; k++) {
        uint8_t bytes[13] = {0};
        float y[3];
        /* unaligned, to test unaligned addresses */
        qtype_info[type[k]].ops->encode(bytes + 1, x, 3, NULL);
        qtype_info[type[k]].ops->decode(y, bytes + 1, 3);
        for (int i = 0; i < 2; i++) EXPECT(y[i] == x[i]);
        EXPECT(y[2] == (type[k] == QT_bf16 ? 65536.0f : 65504.0f));
    }
}

/* Goal: a block is its scale and its codes. Encoding gives every level its own code. */
TEST(floats_with_a_scale_per_block)
{
    static const struct {
        enum qtype type;
        const float *level;
    } nibbles[] = {{QT_nf4_64, level_nf4}, {QT_fp4_64, level_fp4}};
    uint8_t block[132];
    float x[128], y[128], scale;
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 64; i++) x[i] = nibbles[k].level[i / 2 % 16] * 3;
        qtype_info[nibbles[k].type].ops->encode(block, x, 64, NULL);
        qtype_info[nibbles[k].type].ops->decode(y, block, 64);
        memcpy(&scale, block, sizeof scale);
        EXPECT(scale == 3);
        EXPECT_BITS(x, y, 64 * sizeof *x);
        EXPECT_INT(block[4 + 3], 0x33);
    }
    for (int i = 0; i < 128; i++) x[i] = f32_of_e4m3((uint8_t)(i < 127 ? i : 0)) * 0.75f;
    qtype_info[QT_e4m3_128].ops->encode(block, x, 128, NULL);
    qtype_info[QT_e4m3_128].ops->decode(y, block, 128);
    EXPECT_BITS(x, y, sizeof x);
    EXPECT_INT(block[4 + 126], 126);
    memset(x, 0, sizeof x);
    for (int t = QT_e4m3_128; t <= QT_fp4_64; t++) {
        qtype_info[t].ops->encode(block, x, 128, NULL);
        qtype_info[t].ops->decode(y, block, 64);
        EXPECT_BITS(x, y, 64 * sizeof *x);
    }
}

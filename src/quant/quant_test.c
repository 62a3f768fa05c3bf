/* quant_test.c - goal: every block format has errors within bounds on ordinary and hostile rows,
 * respects importance, and does not allocate. Method: compare dot_group with decode in double, and
 * with formulas for single values. The formulas follow the published layouts and are independent of
 * the tested code. */
#include "quant_impl.h"

#include <stdlib.h>

#include "../../tests/unit.h"
#include "base/rng.h"

enum { N = 2048 };

static float gauss(uint64_t *random)
{
    float sum = 0.0f;
    for (int i = 0; i < 12; i++) sum += rng_float(random);
    return sum - 6.0f;
}

static void gauss_row(float *x, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++) x[i] = gauss(&seed);
}

static void random_bytes(uint8_t *y, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) y[i] = (uint8_t)rng_next(&seed);
}

static void random_activations(int8_t *a, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++) a[i] = (int8_t)((int)rng_below(&seed, 255) - 127);
}

/* Compute y = decode(encode(x)). */
static void through(int t, float *y, const float *x, int n, const float *importance)
{
    static uint8_t bytes[N * 4];
    qtype_info[t].ops->encode(bytes, x, n, importance);
    qtype_info[t].ops->decode(y, bytes, n);
}

static double error_of(const float *x, const float *y, const float *w, int n)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++)
        sum += (w ? w[i] : 1.0) * ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
    return sum;
}

#define FOR_EACH_BLOCK_TYPE(t)                                                                     \
    for (int t = 0; t < QT_COUNT; t++)                                                             \
        if (qtype_is_block((enum qtype)t))

TEST(qtypes_are_found_by_name_and_id)
{
    for (int t = 0; t < QT_COUNT; t++) {
        char lower[16];
        int i = 0;
        for (; qtype_info[t].name[i]; i++) lower[i] = (char)(qtype_info[t].name[i] | 32);
        lower[i] = 0;
        for (char *p = lower; *p; p++)
            if (*p == ('_' | 32)) *p = '_';
        EXPECT_INT(qtype_of_name(lower), t);
        EXPECT_INT(qtype_of_name(qtype_info[t].name), t);
        if (qtype_info[t].gguf_id >= 0)
            EXPECT_INT(qtype_of_gguf((uint32_t)qtype_info[t].gguf_id), t);
    }
    EXPECT_INT(qtype_of_name("Q4"), -1);
    EXPECT_INT(qtype_of_gguf(UINT32_MAX), -1);
    EXPECT_INT(qtype_of_gguf(4), -1); /* id of Q4_2, a withdrawn format */
    EXPECT_INT(qtype_bytes(QT_q4_k, 4096), 2304);
    EXPECT(qtype_is_block(QT_iq1_m) && !qtype_is_block(QT_f16) && !qtype_is_block(QT_i8));
    EXPECT(!qtype_info[QT_i64].ops && !qtype_info[QT_bool].ops && qtype_info[QT_q2_0].ops);
}

/* Goal: a row of any length gets a type, because the blocks of `smaller` types shrink. */
TEST(qtypes_have_types_with_smaller_blocks)
{
    for (int t = 0; t < QT_COUNT; t++) {
        const struct qtype_info *q = &qtype_info[t];
        if (q->block > 1 && qtype_info[q->smaller].block >= q->block)
            test_fail(__FILE__, __LINE__, "%s: %s has no smaller blocks", q->name,
                      qtype_info[q->smaller].name);
    }
}

TEST(encoding_normal_numbers_keeps_its_error)
{
    /* measured root-mean-square error divided by the standard deviation, plus a few percent */
    static const double bound[QT_COUNT] = {
        [QT_q4_0] = 0.0850,    [QT_q4_1] = 0.0720,   [QT_q5_0] = 0.0425,    [QT_q5_1] = 0.0352,
        [QT_q8_0] = 0.0053,    [QT_q2_k] = 0.2690,   [QT_q3_k] = 0.1500,    [QT_q4_k] = 0.0725,
        [QT_q5_k] = 0.0364,    [QT_q6_k] = 0.0182,   [QT_iq2_xxs] = 0.3380, [QT_iq2_xs] = 0.2950,
        [QT_iq3_xxs] = 0.1820, [QT_iq1_s] = 0.4650,  [QT_iq4_nl] = 0.0770,  [QT_iq3_s] = 0.1330,
        [QT_iq2_s] = 0.2470,   [QT_iq4_xs] = 0.0773, [QT_iq1_m] = 0.4350,   [QT_tq1_0] = 0.4560,
        [QT_tq2_0] = 0.4560,   [QT_mxfp4] = 0.1180,  [QT_nvfp4] = 0.0850,   [QT_q1_0] = 0.6170,
        [QT_q2_0] = 0.3620,    [QT_u4_128] = 0.0930, [QT_i2_128] = 0.3800,
    };
    static float x[N], y[N];
    gauss_row(x, N, 1);
    FOR_EACH_BLOCK_TYPE(t)
    {
        through(t, y, x, N, NULL);
        double e = sqrt(error_of(x, y, NULL, N) / N);
        if (!(e <= bound[t]))
            test_fail(__FILE__, __LINE__, "%s: %.4f, bound %.4f", qtype_info[t].name, e, bound[t]);
    }
}

TEST(encoding_scales_with_its_input)
{
    static float x[N], big[N], y[N], y_big[N];
    gauss_row(x, N, 2);
    static const int power[] = {3, -2};
    for (int k = 0; k < 2; k++) FOR_EACH_BLOCK_TYPE(t)
        {
            for (int i = 0; i < N; i++) big[i] = ldexpf(x[i], power[k]);
            through(t, y, x, N, NULL);
            through(t, y_big, big, N, NULL);
            for (int i = 0; i < N; i++) y[i] = ldexpf(y[i], power[k]);
            if (memcmp(y, y_big, sizeof y))
                test_fail(__FILE__, __LINE__, "%s at 2^%d", qtype_info[t].name, power[k]);
        }
}

TEST(encoding_zeros_and_constants)
{
    static float x[N], y[N];
    FOR_EACH_BLOCK_TYPE(t)
    {
        memset(x, 0, sizeof x);
        through(t, y, x, N, NULL);
        for (int i = 0; i < N; i++)
            if (y[i] != 0.0f) {
                test_fail(__FILE__, __LINE__, "%s: zero became %g", qtype_info[t].name,
                          (double)y[i]);
                break;
            }
        double within = t == QT_mxfp4 ? 0.15 : t == QT_nvfp4 ? 0.035 : 0.001;
        for (int sign = -1; sign <= 1; sign += 2) {
            for (int i = 0; i < N; i++) x[i] = (float)sign * 0.37f;
            through(t, y, x, N, NULL);
            double e = sqrt(error_of(x, y, NULL, N) / N) / 0.37;
            if (!(e <= within))
                test_fail(__FILE__, __LINE__, "%s: %+d constant: %g", qtype_info[t].name, sign, e);
        }
    }
}

/* Goal: the encoder finds rows that a format can represent exactly, up to the f16 rounding of the
 * scale. */
TEST(encoding_finds_representable_rows)
{
    static const struct {
        int t, lo, hi;
    } row[] = {{QT_tq1_0, -1, 1},  {QT_tq2_0, -1, 1},  {QT_q2_0, -1, 2},
               {QT_q4_0, -8, 7},   {QT_q5_0, -16, 15}, {QT_q4_1, 3, 18},
               {QT_q5_1, -40, -9}, {QT_q6_k, -32, 31}, {QT_u4_128, -4, 11}};
    static float x[N], y[N];
    uint64_t random = 3;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        for (int i = 0; i < N; i++) {
            int q = row[k].lo + (int)rng_below(&random, (uint64_t)(row[k].hi - row[k].lo + 1));
            if (i % 16 < 2) q = i % 16 ? row[k].hi : row[k].lo;
            x[i] = 0.0137f * (float)q;
        }
        through(row[k].t, y, x, N, NULL);
        double e = sqrt(error_of(x, y, NULL, N) / N) / 0.0137;
        if (!(e < 0.02))
            test_fail(__FILE__, __LINE__, "%s: off by %g steps", qtype_info[row[k].t].name, e);
    }
}

TEST(encoding_huge_and_tiny_numbers_stays_sane)
{
    static float x[N], y[N];
    static const float size[] = {1e-45f, 1e-38f, 1e-9f, 1e-6f, 1e4f, 1e8f, 1e30f, 5e37f};
    for (size_t k = 0; k < sizeof size / sizeof *size; k++) FOR_EACH_BLOCK_TYPE(t)
        {
            float max = 0.0f;
            bool sane = true;
            gauss_row(x, N, 4);
            for (int i = 0; i < N; i++) max = fmaxf(max, fabsf(x[i] *= size[k]));
            through(t, y, x, N, NULL);
            for (int i = 0; i < N; i++) sane &= fabsf(y[i]) <= 2.0f * max;
            double kept = error_of(x, y, NULL, N), all = error_of(x, (float[N]){0}, NULL, N);
            if (!sane || kept > all)
                test_fail(__FILE__, __LINE__, "%s at %g", qtype_info[t].name, (double)size[k]);
        }
}

TEST(encoding_takes_nan_and_infinity_as_zero)
{
    static float x[N], clean[N];
    static uint8_t a[N * 4], b[N * 4];
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    gauss_row(x, N, 5);
    memcpy(clean, x, sizeof x);
    for (int i = 0; i < N; i += 37) {
        x[i] = bad[i / 37 % 3];
        clean[i] = 0.0f;
    }
    FOR_EACH_BLOCK_TYPE(t)
    {
        size_t n_byte = qtype_bytes((enum qtype)t, N);
        qtype_info[t].ops->encode(a, x, N, NULL);
        qtype_info[t].ops->encode(b, clean, N, NULL);
        if (memcmp(a, b, n_byte)) test_fail(__FILE__, __LINE__, "%s", qtype_info[t].name);
    }
}

TEST(encoding_spends_its_bits_where_importance_is)
{
    static float x[N], w[N], plain[N], weighted[N];
    static uint8_t a[N * 4], b[N * 4];
    uint64_t random = 6;
    gauss_row(x, N, 7);
    FOR_EACH_BLOCK_TYPE(t)
    {
        for (int i = 0; i < N; i++) w[i] = rng_below(&random, 8) == 0 ? 50.0f : 0.5f;
        through(t, plain, x, N, NULL);
        through(t, weighted, x, N, w);
        double gain = error_of(x, weighted, w, N) / error_of(x, plain, w, N);
        if (!(gain < 1.0))
            test_fail(__FILE__, __LINE__, "%s: weighted error %.4f of the plain",
                      qtype_info[t].name, gain);
        memset(w, 0, sizeof w); /* zero weights are equal to no weights */
        qtype_info[t].ops->encode(a, x, N, w);
        qtype_info[t].ops->encode(b, x, N, NULL);
        if (memcmp(a, b, qtype_bytes((enum qtype)t, N)))
            test_fail(__FILE__, __LINE__, "%s: zero weights", qtype_info[t].name);
    }
}

/* Goal: qtype_value equals the value of the decoded row, in every type. */
TEST(one_value_is_that_of_the_row)
{
    static float x[512], y[512];
    static uint8_t bytes[4096];
    for (int i = 0; i < 512; i++) x[i] = sinf((float)i) * (float)(1 + i / 32);
    for (int t = 0; t < QT_COUNT; t++) {
        if (!qtype_info[t].ops || !qtype_info[t].ops->encode) continue;
        qtype_info[t].ops->encode(bytes, x, 512, NULL);
        qtype_info[t].ops->decode(y, bytes, 512);
        for (int i = 0; i < 512; i++) {
            const float v = qtype_value((enum qtype)t, bytes, i);
            if (memcmp(&v, &y[i], sizeof v) != 0)
                test_fail(__FILE__, __LINE__, "%s: value %d", qtype_info[t].name, i);
        }
    }
}

TEST(quant_does_not_allocate)
{
    static float x[256], y[256];
    static uint8_t bytes[1024];
    static int8_t a[256];
    uint64_t before = test_n_malloc();
    FOR_EACH_BLOCK_TYPE(t)
    {
        qtype_info[t].ops->encode(bytes, x, 256, NULL);
        qtype_info[t].ops->decode(y, bytes, 256);
        qtype_info[t].ops->dot_group(bytes, a, 256);
    }
    EXPECT_INT(test_n_malloc() - before, 0);
}

/* Goal: |dot_group - decode(w) . a| <= n_round * 2^-24 * (sum of the largest possible exact terms).
 * There is one rounding of isum and one rounding per fma. Formats with minimums have two terms per
 * block, each as large as the block's span times sum |a|. Decoding these formats also rounds. */
TEST(dot_group_is_the_dot_product_of_what_decode_gives)
{
    static float x[256], y[256];
    static uint8_t bytes[1024];
    static int8_t a[256];
    FOR_EACH_BLOCK_TYPE(t)
    for (int trial = 0; trial < (test_long() ? 50 : 16); trial++) {
        int block = qtype_info[t].block;
        int n = block * (1 + trial % (256 / block));
        gauss_row(x, 256, (uint64_t)(1000 + trial));
        random_activations(a, 256, (uint64_t)trial);
        qtype_info[t].ops->encode(bytes, x, 256, NULL);
        qtype_info[t].ops->decode(y, bytes, n);
        bool has_min = t == QT_q4_1 || t == QT_q5_1 || t == QT_q2_k || t == QT_q4_k || t == QT_q5_k;
        double want = 0.0, size = 0.0, max = 0.0, sum_a = 0.0;
        for (int i = 0; i < n; i++) {
            want += (double)y[i] * a[i];
            size += fabs((double)y[i] * a[i]);
            max = fmax(max, fabs((double)y[i]));
            sum_a += abs(a[i]);
        }
        if (has_min) size = 4.0 * max * sum_a;
        int n_round = 1 + n / (t == QT_nvfp4 ? 16 : block) * (has_min ? 2 : 1);
        double e = fabs((double)qtype_info[t].ops->dot_group(bytes, a, n) - want);
        if (!(e <= n_round * size * 0x1p-24))
            test_fail(__FILE__, __LINE__, "%s n=%d: off by %g", qtype_info[t].name, n, e);
    }
}

/* Goal: in formats without minimums, values and their dot product are exact multiples of w_scale. T
 * of one block is that dot product rounded once (if isum is below 2^24). NVFP4 rounds after every
 * 16 values. */
TEST(dot_group_of_one_block_rounds_once)
{
    static const int type[] = {QT_iq4_nl, QT_mxfp4, QT_iq2_xxs, QT_iq2_xs, QT_iq2_s, QT_iq3_xxs,
                               QT_iq3_s,  QT_iq1_s, QT_iq1_m,   QT_tq1_0,  QT_nvfp4};
    static float x[256], y[256];
    static uint8_t bytes[1024];
    static int8_t a[256];
    for (size_t k = 0; k < sizeof type / sizeof *type; k++)
        for (int trial = 0; trial < (test_long() ? 50 : 16); trial++) {
            const struct qtype_info *info = &qtype_info[type[k]];
            int n_round = type[k] == QT_nvfp4 ? 16 : info->block;
            float want = 0.0f;
            gauss_row(x, 256, (uint64_t)(2000 + trial));
            random_activations(a, 256, (uint64_t)trial);
            info->ops->encode(bytes, x, 256, NULL);
            info->ops->decode(y, bytes, info->block);
            for (int at = 0; at < info->block; at += n_round) {
                double sum = 0.0;
                for (int i = at; i < at + n_round; i++) sum += (double)y[i] * a[i];
                want = (float)(want + sum);
            }
            float got = info->ops->dot_group(bytes, a, info->block);
            if (got != want)
                test_fail(__FILE__, __LINE__, "%s: %a, not %a", info->name, (double)got,
                          (double)want);
        }
}

/* ---- formulas from the layouts, one value at a time ---- */

struct value { /* value i of a block is d * scale * q - dmin * min */
    int q, scale, min;
};

static int nibble(const uint8_t *x, int i, int half)
{
    return i % (2 * half) < half ? x[i / (2 * half) * half + i % half] & 15
                                 : x[i / (2 * half) * half + i % half] >> 4;
}
static int bit(const uint8_t *x, int i)
{
    return x[i / 8] >> (i % 8) & 1;
}
static int pair32(const uint8_t *x, int i)
{
    return x[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
}

static struct value value_q4_0(const uint8_t *x, int i)
{
    return (struct value){nibble(x + 2, i, 16) - 8, 1, 0};
}
static struct value value_q4_1(const uint8_t *x, int i)
{
    return (struct value){nibble(x + 4, i, 16), 1, -1};
}
static struct value value_q5_0(const uint8_t *x, int i)
{
    return (struct value){(nibble(x + 6, i, 16) | bit(x + 2, i) << 4) - 16, 1, 0};
}
static struct value value_q5_1(const uint8_t *x, int i)
{
    return (struct value){nibble(x + 8, i, 16) | bit(x + 4, i) << 4, 1, -1};
}
static struct value value_q8_0(const uint8_t *x, int i)
{
    return (struct value){(int8_t)x[2 + i], 1, 0};
}
static struct value value_q2_k(const uint8_t *x, int i)
{
    return (struct value){pair32(x + 16, i), x[i / 16] & 15, x[i / 16] >> 4};
}
static struct value value_q3_k(const uint8_t *x, int i)
{
    int j = i / 16, low = j < 8 ? x[96 + j] & 15 : x[96 + j - 8] >> 4,
        high = x[104 + j % 4] >> (2 * (j / 4)) & 3;
    int third = x[i % 32] >> (i / 32) & 1;
    return (struct value){pair32(x + 32, i) + 4 * third - 4, low + 16 * high - 32, 0};
}
static struct value value_k_scale(const uint8_t *s, int j, int q)
{
    if (j < 4) return (struct value){q, s[j] & 63, s[j + 4] & 63};
    return (struct value){q, (s[j + 4] & 15) + 16 * (s[j - 4] >> 6),
                          (s[j + 4] >> 4) + 16 * (s[j] >> 6)};
}
static struct value value_q4_k(const uint8_t *x, int i)
{
    return value_k_scale(x + 4, i / 32, nibble(x + 16, i, 32));
}
static struct value value_q5_k(const uint8_t *x, int i)
{
    int fifth = x[16 + i % 32] >> (i / 32) & 1;
    return value_k_scale(x + 4, i / 32, nibble(x + 48, i, 32) + 16 * fifth);
}
static struct value value_q6_k(const uint8_t *x, int i)
{
    int q = nibble(x, i, 64) + 16 * pair32(x + 128, i) - 32;
    return (struct value){q, (int8_t)x[192 + i / 16], 0};
}
static struct value value_iq4_xs(const uint8_t *x, int i)
{
    static const int level[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};
    int j = i / 32, low = x[4 + j / 2] >> (4 * (j % 2)) & 15,
        high = (x[2] | x[3] << 8) >> (2 * j) & 3;
    return (struct value){level[nibble(x + 8, i, 16)], low + 16 * high - 32, 0};
}
static struct value value_tq1_0(const uint8_t *x, int i)
{
    int at = i < 160 ? i % 32 : i < 240 ? 32 + (i - 160) % 16 : 48 + (i - 240) % 4;
    int digit = i < 160 ? i / 32 : i < 240 ? (i - 160) / 16 : (i - 240) / 4;
    unsigned fraction = x[at];
    for (int k = 0; k < digit; k++) fraction = fraction * 3 % 256;
    return (struct value){(int)(fraction * 3 / 256) - 1, 1, 0};
}
static struct value value_tq2_0(const uint8_t *x, int i)
{
    return (struct value){pair32(x, i) - 1, 1, 0};
}
static struct value value_q1_0(const uint8_t *x, int i)
{
    return (struct value){bit(x + 2, i) ? 1 : -1, 1, 0};
}
static struct value value_q2_0(const uint8_t *x, int i)
{
    return (struct value){(x[2 + i / 4] >> (2 * (i % 4)) & 3) - 1, 1, 0};
}

static const struct layout {
    int t, d_at, dmin_at; /* dmin_at -1: no minimums */
    struct value (*value)(const uint8_t *x, int i);
} layout[] = {
    {QT_q4_0, 0, -1, value_q4_0},     {QT_q4_1, 0, 2, value_q4_1},
    {QT_q5_0, 0, -1, value_q5_0},     {QT_q5_1, 0, 2, value_q5_1},
    {QT_q8_0, 0, -1, value_q8_0},     {QT_q2_k, 80, 82, value_q2_k},
    {QT_q3_k, 108, -1, value_q3_k},   {QT_q4_k, 0, 2, value_q4_k},
    {QT_q5_k, 0, 2, value_q5_k},      {QT_q6_k, 208, -1, value_q6_k},
    {QT_iq4_xs, 0, -1, value_iq4_xs}, {QT_tq1_0, 52, -1, value_tq1_0},
    {QT_tq2_0, 64, -1, value_tq2_0},  {QT_q1_0, 0, -1, value_q1_0},
    {QT_q2_0, 0, -1, value_q2_0},
};

/* Return a format's dot product by its definition, from the integers that the test decodes
 * itself. */
static float formula(const struct layout *l, const uint8_t *w, const int8_t *a, int n)
{
    float t = 0.0f;
    int block = qtype_info[l->t].block;
    for (int at = 0; at < n; at += block, w += qtype_info[l->t].n_byte) {
        long isum = 0, msum = 0;
        for (int i = 0; i < block; i++) {
            struct value p = l->value(w, i);
            isum += (long)p.scale * p.q * a[at + i];
            msum += (long)p.min * a[at + i];
        }
        t = fmaf((float)isum, f32_of_f16((uint16_t)(w[l->d_at] | w[l->d_at + 1] << 8)), t);
        if (l->dmin_at >= 0)
            t = fmaf((float)-msum, f32_of_f16((uint16_t)(w[l->dmin_at] | w[l->dmin_at + 1] << 8)),
                     t);
    }
    return t;
}

TEST(dot_group_is_bit_for_bit_the_layouts_formula)
{
    static uint8_t bytes[1024];
    static int8_t a[256];
    for (size_t k = 0; k < sizeof layout / sizeof *layout; k++) {
        const struct layout *l = &layout[k];
        for (int trial = 0; trial < 200; trial++) {
            int block = qtype_info[l->t].block, n = block * (1 + trial % (256 / block));
            random_bytes(bytes, sizeof bytes, (uint64_t)trial);
            random_activations(a, 256, (uint64_t)trial);
            float got = qtype_info[l->t].ops->dot_group(bytes, a, n),
                  want = formula(l, bytes, a, n);
            bool same = bits_of_f32(got) == bits_of_f32(want) || (isnan(got) && isnan(want));
            if (!same) {
                test_fail(__FILE__, __LINE__, "%s n=%d: %a, not %a", qtype_info[l->t].name, n,
                          (double)got, (double)want);
                break;
            }
        }
    }
}

/* Goal: any bytes are a valid block. Sanitizers check that no index is outside of its table.
 * Extreme activations do not overflow the integer sums. */
TEST(dot_group_and_decode_take_any_bytes)
{
    static uint8_t bytes[1024];
    static int8_t a[256];
    static float y[256];
    memset(a, 127, sizeof a);
    FOR_EACH_BLOCK_TYPE(t)
    for (int trial = 0; trial < 100; trial++) {
        if (trial < 2)
            memset(bytes, trial ? 0xFF : 0x00, sizeof bytes);
        else
            random_bytes(bytes, sizeof bytes, (uint64_t)trial);
        qtype_info[t].ops->decode(y, bytes, 256);
        float got = qtype_info[t].ops->dot_group(bytes, a, 256);
        double want = 0.0, size = 0.0;
        for (int i = 0; i < 256; i++) {
            want += 127.0 * y[i];
            size += 127.0 * fabs((double)y[i]);
        }
        if (isfinite(size) && isfinite(got) && !(fabs((double)got - want) <= 0x1p-10 * size))
            test_fail(__FILE__, __LINE__, "%s: %g, not %g", qtype_info[t].name, (double)got, want);
    }
}

/* Round x to y as other programs do with 8-bit integers, with one scale per row. */
static void other_int8(float *y, const float *x, int n)
{
    float max = 0;
    for (int i = 0; i < n; i++) max = fmaxf(max, fabsf(x[i]));
    for (int i = 0; i < n; i++) y[i] = rintf(x[i] / max * 127) * max / 127;
}

static void other_fp8(float *y, const float *x, int n)
{
    float max = 0;
    for (int i = 0; i < n; i++) max = fmaxf(max, fabsf(x[i]));
    for (int i = 0; i < n; i++) y[i] = f32_of_e4m3(e4m3_of_f32(x[i] / max * 448)) * max / 448;
}

static void other_nf4(float *y, const float *x, int n)
{
    static const float level[16] = {-1.0f,        -0.69619280f, -0.52507305f, -0.39491749f,
                                    -0.28444138f, -0.18477343f, -0.09105004f, 0.0f,
                                    0.07958030f,  0.16093020f,  0.24611230f,  0.33791524f,
                                    0.44070983f,  0.56261700f,  0.72295684f,  1.0f};
    for (int at = 0; at < n; at += 64) {
        float max = 0;
        for (int i = at; i < at + 64; i++) max = fmaxf(max, fabsf(x[i]));
        for (int i = at; i < at + 64; i++) {
            int best = 0;
            for (int k = 1; k < 16; k++)
                if (fabsf(x[i] / max - level[k]) < fabsf(x[i] / max - level[best])) best = k;
            y[i] = level[best] * max;
        }
    }
}

/* Goal: formats that replace methods of other programs (session/quantization.c) have the same
 * errors as these methods, or lower errors. */
TEST(formats_in_place_of_other_methods_have_no_larger_errors)
{
    static const struct {
        const char *name;
        void (*method)(float *y, const float *x, int n);
        enum qtype type;
    } cases[] = {{"INT8", other_int8, QT_q8_0},
                 {"FP8", other_fp8, QT_q8_0},
                 {"FP8", other_fp8, QT_e4m3_128},
                 {"NF4", other_nf4, QT_nf4_64},
                 {"NF4", other_nf4, QT_iq4_nl}};
    float x[N], y[N], z[N];
    gauss_row(x, N, 9);
    for (int i = 0; i < N; i++) x[i] *= 0.02f;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cases[i].method(y, x, N);
        through(cases[i].type, z, x, N, NULL);
        const double other = sqrt(error_of(x, y, NULL, N) / error_of(x, (float[N]){0}, NULL, N)),
                     own = sqrt(error_of(x, z, NULL, N) / error_of(x, (float[N]){0}, NULL, N));
        test_note("%s %.4f, %s %.4f of the values", cases[i].name, other,
                  qtype_info[cases[i].type].name, own);
        EXPECT(own <= other * (cases[i].type == QT_nf4_64 ? 1 + 1e-6 : 1));
    }
}

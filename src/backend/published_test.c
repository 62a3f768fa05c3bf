/* published_test.c - goal: the rows that packing makes of codes and scales have the values of the
 * description, for each layout of the codes. Method: random matrices; compare the rows of the
 * selected number format, decoded, with the rows of f32. */
#include "../../tests/unit.h"

#include "base/rng.h"
#include "published.h"

#include <stdlib.h>
#include <string.h>

enum { N_OUT = 24, K = 96, N_BYTE = 1 << 14 };

static uint8_t *random_bytes(uint64_t *rng)
{
    uint8_t *data = malloc(N_BYTE);
    for (int i = 0; i < N_BYTE; i++) data[i] = (uint8_t)rng_next(rng);
    return data;
}

/* Expect that the selected format is `type`, and that its rows have the values of f32 rows. */
static void expect_values(const char *name, const struct published *p, enum qtype type)
{
    static uint8_t rows[N_OUT * K * sizeof(float)];
    static float plain[N_OUT][K], made[K];
    const enum qtype got = published_type(p);
    if (got != type)
        test_fail(__FILE__, __LINE__, "%s: type %s, expected %s", name, qtype_info[got].name,
                  qtype_info[type].name);
    published_rows((uint8_t *)plain, p, QT_f32, 0, N_OUT, K);
    published_rows(rows, p, got, 0, N_OUT, K);
    for (int i = 0; i < N_OUT; i++) {
        qtype_info[got].ops->decode(made, rows + (size_t)i * qtype_bytes(got, K), K);
        for (int j = 0; j < K; j++)
            if (made[j] != plain[i][j]) {
                test_fail(__FILE__, __LINE__, "%s: value [%d, %d] is %g, expected %g", name, i, j,
                          (double)made[j], (double)plain[i][j]);
                return;
            }
    }
}

/* Return a matrix of integers with f16 scales, [N_OUT / block_out, K / block_k]. */
static struct published integers(const uint8_t *data, const uint16_t *scale, int bits,
                                 int64_t block_out, int64_t block_k)
{
    return (struct published){.form = FORM_CODES,
                              .n_out = N_OUT,
                              .k = K,
                              .code = {.data = data,
                                       .bits = bits,
                                       .word = 4,
                                       .step = 4,
                                       .other = 4 * ((K * bits + 31) / 32)},
                              .zero_point = 1 << (bits - 1),
                              .scale = {.data = (const uint8_t *)scale,
                                        .type = QT_f16,
                                        .row_step = K / block_k,
                                        .group_step = 1,
                                        .divisor = 1},
                              .by = 1,
                              .block_out = block_out,
                              .block_k = block_k};
}

TEST(rows_of_integers_have_the_values_of_their_codes)
{
    static const struct {
        int bits;
        int64_t block_out, block_k;
        enum qtype type;
    } cases[] = {{4, 1, 32, QT_q4_0}, {3, 1, 96, QT_q4_0},  {2, 8, 32, QT_q4_0},
                 {5, 1, 32, QT_q5_0}, {7, 24, 96, QT_q8_0}, {8, 1, 32, QT_q8_0},
                 {4, 1, 16, QT_f32},  {4, 1, 48, QT_f32}};
    uint64_t rng = 1;
    uint8_t *data = random_bytes(&rng);
    uint16_t scale[N_OUT * K];
    for (int i = 0; i < N_OUT * K; i++) scale[i] = (uint16_t)(0x2000 + rng_next(&rng) % 0x1000);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d bits, [%d, %d]", cases[i].bits, (int)cases[i].block_out,
                 (int)cases[i].block_k);
        const struct published p =
            integers(data, scale, cases[i].bits, cases[i].block_out, cases[i].block_k);
        expect_values(name, &p, cases[i].type);
    }
    free(data);
}

/* Goal: a scale of several outputs is read from its own row, at the end of the data. */
TEST(mxfp4_rows_may_share_their_scales)
{
    static const float level[16] = {0,  0.5f,  1,  1.5f,  2,  3,  4,  6,
                                    -0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    uint64_t rng = 2;
    uint8_t *data = random_bytes(&rng);
    for (int block_out = 1; block_out <= N_OUT; block_out *= 2) {
        const int n_row = (N_OUT + block_out - 1) / block_out;
        uint8_t *exponent = malloc((size_t)n_row * K / 32);
        for (int i = 0; i < n_row * K / 32; i++) exponent[i] = (uint8_t)(100 + rng_next(&rng) % 50);
        const struct published p = {
            .form = FORM_CODES,
            .n_out = N_OUT,
            .k = K,
            .code = {.data = data, .bits = 4, .word = 1, .step = 1, .other = K / 2},
            .level = level,
            .scale = {.data = exponent,
                      .type = QT_u8,
                      .row_step = K / 32,
                      .group_step = 1,
                      .divisor = 1},
            .by = 1,
            .block_out = block_out,
            .block_k = 32};
        expect_values("mxfp4", &p, QT_mxfp4);
        free(exponent);
    }
    free(data);
}

enum { WIDE = 256 };

/* Goal: integers of up to 4 bits in groups of a multiple of 128 keep their codes and zeros. */
TEST(groups_of_128_keep_their_codes_and_zeros)
{
    static const struct {
        int bits, block_k, zero_bits;
        enum qtype type;
    } cases[] = {{4, 128, 0, QT_u4_128}, {4, 256, 4, QT_u4_128}, {3, 128, 0, QT_u4_128},
                 {2, 256, 2, QT_u4_128}, {4, 64, 0, QT_q4_0},    {4, 64, 4, QT_q5_0},
                 {5, 128, 0, QT_q5_0},   {2, 128, 0, QT_i2_128}, {2, 64, 0, QT_q4_0}};
    static float want[WIDE], got[WIDE];
    static uint8_t rows[N_OUT * WIDE * 4], plain[N_OUT * WIDE * 4];
    uint64_t rng = 4;
    uint8_t *data = random_bytes(&rng), *zero = random_bytes(&rng);
    uint16_t scale[N_OUT * WIDE];
    for (int i = 0; i < N_OUT * WIDE; i++) scale[i] = (uint16_t)(0x2000 + rng_next(&rng) % 0x1000);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int k = WIDE, n_group = k / cases[i].block_k;
        struct published p = integers(data, scale, cases[i].bits, 1, cases[i].block_k);
        p.k = k;
        p.code.other = 4 * ((k * cases[i].bits + 31) / 32);
        p.scale.row_step = n_group;
        if (cases[i].bits == 2 && cases[i].zero_bits == 0) p.zero_point = 1, p.scale.divisor = 3;
        if (cases[i].block_k < 128) p.scale.divisor = 1;
        if (cases[i].zero_bits)
            p.zero = (struct codes){
                .data = zero, .bits = cases[i].zero_bits, .word = 4, .step = 4, .other = 4};
        const enum qtype type = published_type(&p);
        EXPECT_INT(type, cases[i].type);
        published_rows(plain, &p, QT_f32, 0, N_OUT, k);
        published_rows(rows, &p, type, 0, N_OUT, k);
        for (int r = 0; r < N_OUT; r++) {
            memcpy(want, plain + (size_t)(r * k) * sizeof(float), (size_t)k * sizeof(float));
            qtype_info[type].ops->decode(got, rows + (size_t)r * qtype_bytes(type, k), k);
            EXPECT_BITS(got, want, (size_t)k * sizeof(float));
        }
    }
    free(data), free(zero);
}

/* Goal: 8-bit floats with scales of any layout, and 4-bit levels with scales per block, keep their
 * codes. Other sizes become f32. */
TEST(levels_with_scales_keep_their_codes)
{
    static float e4m3[256], scale[N_OUT * WIDE], want[WIDE], got[WIDE];
    static uint8_t rows[N_OUT * WIDE * 4], plain[N_OUT * WIDE * 4];
    static const struct {
        int bits, k, block_out, block_k;
        bool flat;
        const float *level;
        enum qtype type;
    } cases[] = {
        {8, 256, 1, 256, false, e4m3, QT_e4m3_128},   {8, 256, 24, 256, false, e4m3, QT_e4m3_128},
        {8, 256, 8, 128, false, e4m3, QT_e4m3_128},   {8, 128, 128, 128, false, e4m3, QT_e4m3_128},
        {8, 192, 1, 192, false, e4m3, QT_f32},        {8, 256, 1, 64, false, e4m3, QT_f32},
        {4, 256, 1, 64, true, level_nf4, QT_nf4_64},  {4, 192, 1, 64, true, level_fp4, QT_fp4_64},
        {4, 256, 1, 128, true, level_nf4, QT_nf4_64}, {4, 256, 1, 4096, true, level_nf4, QT_nf4_64},
        {4, 96, 1, 64, true, level_nf4, QT_f32},      {4, 256, 1, 32, true, level_nf4, QT_f32},
        {4, 256, 1, 64, true, e4m3, QT_f32},
    };
    uint64_t rng = 3;
    uint8_t *data = random_bytes(&rng);
    for (int i = 0; i < 256; i++) e4m3[i] = f32_of_e4m3((uint8_t)i);
    for (int i = 0; i < N_BYTE; i++) data[i] &= 0xFE; /* no NaN */
    for (int i = 0; i < N_OUT * WIDE; i++) scale[i] = rng_float(&rng) + 0.1f;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int k = cases[i].k, n_group = (k + cases[i].block_k - 1) / cases[i].block_k;
        const struct published p = {
            .form = FORM_CODES,
            .n_out = N_OUT,
            .k = k,
            .code = {.data = data,
                     .bits = cases[i].bits,
                     .word = 1,
                     .step = 1,
                     .order = cases[i].bits == 4 ? ORDER_HIGH_FIRST : ORDER_PLAIN,
                     .other = k * cases[i].bits / 8},
            .level = cases[i].level,
            .scale = {.data = (const uint8_t *)scale,
                      .type = QT_f32,
                      .row_step = cases[i].flat ? 0 : n_group,
                      .group_step = 1,
                      .divisor = 1},
            .by = 1,
            .block_out = cases[i].block_out,
            .block_k = cases[i].block_k,
            .flat = cases[i].flat};
        const enum qtype type = published_type(&p);
        EXPECT_INT(type, cases[i].type);
        published_rows(plain, &p, QT_f32, 0, N_OUT, k);
        published_rows(rows, &p, type, 0, N_OUT, k);
        for (int r = 0; r < N_OUT; r++) {
            memcpy(want, plain + (size_t)(r * k) * sizeof(float), (size_t)k * sizeof(float));
            qtype_info[type].ops->decode(got, rows + (size_t)r * qtype_bytes(type, k), k);
            EXPECT_BITS(got, want, (size_t)k * sizeof(float));
        }
    }
    free(data);
}

/* Goal: rows in groups and transposed matrices give their values, also in parts of a matrix. */
TEST(rows_in_other_places_are_copied)
{
    enum { GROUP = 8 };
    static float whole[N_OUT][K], transposed[K][N_OUT];
    static uint8_t rows[N_OUT * K * sizeof(float)];
    for (int r = 0; r < N_OUT; r++)
        for (int c = 0; c < K; c++) whole[r][c] = transposed[c][r] = (float)(r * K + c);
    const int64_t row = K * sizeof(float), column = N_OUT * sizeof(float);
    const struct published grouped = {.form = FORM_PLACED,
                                      .part = {.first = 2, .n = 9, .run = 3, .step = GROUP},
                                      .rows = (const uint8_t *)whole,
                                      .placed = {.row_step = row}};
    const struct published columns = {.form = FORM_PLACED,
                                      .rows = (const uint8_t *)&transposed[0][5],
                                      .placed = {.row_step = sizeof(float), .step = column}};
    published_rows(rows, &grouped, QT_f32, 1, 7, K);
    for (int i = 0; i < 7; i++)
        EXPECT(memcmp(rows + i * row, whole[2 + (i + 1) / 3 * GROUP + (i + 1) % 3], (size_t)row) ==
               0);
    published_rows(rows, &columns, QT_f32, 4, 10, K);
    for (int i = 0; i < 10; i++) EXPECT(memcmp(rows + i * row, whole[5 + 4 + i], (size_t)row) == 0);
    EXPECT(published_hash(&grouped, 1) != published_hash(&columns, 1));
}

/* Compare the transpose of rows [FIRST, FIRST + PART) of a matrix with the rows' values. */
enum { FIRST = 8, PART = 16 };
static void expect_turned(const char *name, const struct published *p, enum qtype type, int k)
{
    static float want[N_OUT * WIDE];
    static uint8_t rows[N_OUT * WIDE * sizeof(float)];
    struct published part = *p;
    if (p->form == FORM_ROWS)
        for (int r = 0; r < N_OUT; r++)
            qtype_info[type].ops->decode(want + r * k, p->rows + r * (int)qtype_bytes(type, k), k);
    else
        published_rows((uint8_t *)want, p, QT_f32, 0, N_OUT, k);
    published_part(&part, type, &(struct row_part){.first = FIRST, .n = PART}, k);
    if (!published_transpose(&part, &type, PART, k)) {
        test_fail(__FILE__, __LINE__, "%s: cannot be transposed", name);
        return;
    }
    for (int r = 0, n; r < k; r += n) { /* also pieces that divide blocks */
        n = k - r < 7 ? k - r : 7;
        published_rows(rows + (size_t)r * qtype_bytes(type, PART), &part, type, r, n, PART);
    }
    for (int r = 0; r < k; r++) {
        float got[PART];
        qtype_info[type].ops->decode(got, rows + (size_t)r * qtype_bytes(type, PART), PART);
        for (int c = 0; c < PART; c++)
            if (memcmp(&got[c], &want[(FIRST + c) * k + r], sizeof *got) != 0)
                test_fail(__FILE__, __LINE__, "%s: row %d, column %d: got %g, want %g", name, r, c,
                          (double)got[c], (double)want[(FIRST + c) * k + r]);
    }
}

/* Goal: a part of a matrix, and its transpose, have the values of the matrix, in every form. */
TEST(parts_and_transposes_keep_the_values)
{
    static uint16_t scale[N_OUT * WIDE];
    static uint8_t rows[N_OUT * WIDE * sizeof(float)];
    static const enum qtype types[] = {QT_f32, QT_bf16, QT_q8_0, QT_q4_k};
    uint64_t rng = 6;
    uint8_t *data = random_bytes(&rng), *zero = random_bytes(&rng);
    float x[WIDE];
    for (int i = 0; i < N_OUT * WIDE; i++) scale[i] = (uint16_t)(0x2000 + rng_next(&rng) % 0x1000);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        for (int r = 0; r < N_OUT; r++) {
            for (int c = 0; c < WIDE; c++) x[c] = rng_float(&rng) - 0.5f;
            qtype_info[types[i]].ops->encode(rows + (size_t)r * qtype_bytes(types[i], WIDE), x,
                                             WIDE, NULL);
        }
        const struct published p = {.form = FORM_ROWS, .rows = rows, .block_out = 1};
        expect_turned(qtype_info[types[i]].name, &p, types[i], WIDE);
    }
    static const struct {
        int bits, block_out, block_k;
    } cases[] = {{4, 1, 32}, {3, 1, 96}, {8, 8, 32}, {8, 24, 96}, {4, 4, 96}, {4, 3, 32}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct published p =
            integers(data, scale, cases[i].bits, cases[i].block_out, cases[i].block_k);
        expect_turned("codes", &p, published_type(&p), K);
        if (cases[i].block_out > 1) continue;
        p.zero =
            (struct codes){.data = zero, .bits = cases[i].bits, .word = 4, .step = 4, .other = 4};
        expect_turned("codes with zeros", &p, published_type(&p), K);
    }
    struct published flat = integers(data, scale, 4, 1, 64);
    flat.flat = true;
    expect_turned("codes with flat groups", &flat, published_type(&flat), K);
    free(data), free(zero);
}

/* Compare rows of a part, in groups that divide blocks of scales and words of codes, with the rows
 * of the whole matrix. */
static void expect_part(const char *name, const struct published *p)
{
    static uint8_t whole[N_OUT * K * sizeof(float)], rows[N_OUT * K * sizeof(float)];
    static const struct row_part parts[] = {{.first = 5, .n = 7},
                                            {.first = 1, .n = 9, .run = 3, .step = 8},
                                            {.first = 23, .n = 1},
                                            {.first = 0, .n = 12, .run = 1, .step = 2}};
    const enum qtype type = p->form == FORM_CODES ? published_type(p) : QT_f32;
    const size_t n_byte = qtype_bytes(type, K);
    if (p->form == FORM_ROWS)
        memcpy(whole, p->rows, sizeof whole);
    else
        published_rows(whole, p, type, 0, N_OUT, K);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const struct row_part *part = &parts[i];
        struct published own = *p;
        published_part(&own, type, part, K);
        const bool plain = own.form == FORM_ROWS;
        if (!plain) published_rows(rows, &own, type, 0, (int)part->n, K);
        EXPECT(plain || published_hash(&own, 1) != published_hash(p, 1));
        EXPECT(published_data(&own) != published_data(p));
        for (int64_t r = 0; r < part->n; r++) {
            const int64_t from =
                part->first + (part->run ? r / part->run * part->step + r % part->run : r);
            if (memcmp((plain ? own.rows : rows) + r * (int64_t)n_byte,
                       whole + (size_t)from * n_byte, n_byte) != 0)
                test_fail(__FILE__, __LINE__, "%s, part %zu: row %d is another than %d", name, i,
                          (int)r, (int)from);
        }
    }
}

/* Goal: any rows of a matrix have its values, in every form and layout of codes: with words,
 * scales, zeros or masks that several parts share. */
TEST(any_rows_are_parts_of_a_matrix)
{
    static uint16_t scale[N_OUT * K];
    static float over[N_OUT * K], level[256];
    static uint8_t mask[N_OUT * K / 8];
    uint64_t rng = 7;
    uint8_t *data = random_bytes(&rng), *zero = random_bytes(&rng);
    for (int i = 0; i < N_OUT * K; i++) scale[i] = (uint16_t)(0x2000 + rng_next(&rng) % 0x1000);
    for (int i = 0; i < N_OUT * K; i++) over[i] = rng_float(&rng) + 0.1f;
    for (int i = 0; i < 256; i++) level[i] = rng_float(&rng);
    for (int i = 0; i < N_OUT * K / 8; i++) mask[i] = 0x5A;
    static const struct {
        const char *name;
        int bits, word, block_out, block_k;
        enum code_order order;
        bool along_out, flat, zeros, nested;
    } cases[] = {{"words along the inputs", 4, 4, 1, 32, ORDER_PLAIN, false, false, true, false},
                 {"words along the outputs", 4, 4, 1, 32, ORDER_PLAIN, true, false, true, false},
                 {"3 bits along the outputs", 3, 4, 1, 32, ORDER_PLAIN, true, false, true, false},
                 {"AWQ", 4, 4, 1, 32, ORDER_AWQ, true, false, true, false},
                 {"blocks of 5 outputs", 8, 1, 5, 32, ORDER_PLAIN, false, false, false, false},
                 {"one scale", 8, 1, N_OUT, K, ORDER_PLAIN, false, false, false, false},
                 {"planes of outputs", 2, 1, N_OUT, K, ORDER_PLANES, true, false, false, false},
                 {"flat groups", 4, 1, 1, 40, ORDER_HIGH_FIRST, false, true, false, false},
                 {"flat groups with scales of scales", 4, 1, 1, 40, ORDER_HIGH_FIRST, false, true,
                  false, true},
                 {"flat planes", 4, 1, 1, 64, ORDER_FLAT, false, true, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int bits = cases[i].bits, word = cases[i].word;
        struct published p = integers(data, scale, bits, cases[i].block_out, cases[i].block_k);
        const int64_t n_word =
            ((cases[i].along_out ? N_OUT : K) * bits + 8 * word - 1) / (8 * word);
        p.scale.row_step = cases[i].flat ? 0 : (K + cases[i].block_k - 1) / cases[i].block_k;
        p.flat = cases[i].flat;
        p.code.word = word, p.code.order = cases[i].order, p.code.along_out = cases[i].along_out;
        p.code.step = cases[i].along_out ? (int64_t)K * word : word;
        p.code.other = cases[i].along_out ? word : n_word * word;
        p.code.n_plane = cases[i].order == ORDER_FLAT ? N_OUT * K / 2 : N_OUT / 4;
        if (cases[i].order == ORDER_FLAT) p.code.other = K, p.code.step = 1;
        if (cases[i].zeros) p.zero = p.code, p.zero.data = zero, p.zero.order = ORDER_PLAIN;
        if (cases[i].nested) {
            p.scale.type = QT_u8, p.scale.level = level;
            p.scale.over = (const uint8_t *)over, p.scale.n_over = 7;
        }
        expect_part(cases[i].name, &p);
    }
    struct published bytes = integers(data, scale, 8, 1, K);
    bytes.code.word = bytes.code.step = 1, bytes.code.other = K / 2;
    bytes.code.sparse = (struct sparse){.mask = mask, .row_step = K / 8};
    expect_part("codes with 2:4 sparsity", &bytes);
    const struct published sparse = {
        .form = FORM_PLACED,
        .rows = (const uint8_t *)over,
        .placed = {.row_step = K / 2 * (int64_t)sizeof(float), .sparse = bytes.code.sparse}};
    expect_part("floats with 2:4 sparsity", &sparse);
    const struct published rows = {.form = FORM_ROWS, .rows = (const uint8_t *)over};
    expect_part("rows", &rows);
    free(data), free(zero);
}

/* Goal: rows of other formats than the source's, from any places, are the encoded values. */
TEST(rows_are_encoded_in_another_format)
{
    static float rows[N_OUT][K], transposed[K][N_OUT];
    static const enum qtype types[] = {QT_f16, QT_bf16, QT_q8_0, QT_iq4_nl};
    uint64_t rng = 3;
    for (int r = 0; r < N_OUT; r++)
        for (int c = 0; c < K; c++)
            rows[r][c] = transposed[c][r] = (float)(int64_t)(rng_next(&rng) % 2001 - 1000) * 1e-3f;
    const struct published straight = {.form = FORM_ENCODED,
                                       .source = QT_f32,
                                       .rows = (const uint8_t *)rows,
                                       .placed = {.row_step = (int64_t)K * (int64_t)sizeof(float)}};
    struct published columns = straight;
    columns.rows = (const uint8_t *)transposed;
    columns.placed =
        (struct placed){.row_step = sizeof(float), .step = (int64_t)N_OUT * (int64_t)sizeof(float)};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const size_t n = qtype_bytes(types[i], K);
        uint8_t *want = malloc(N_OUT * n), *got = malloc(2 * N_OUT * n);
        for (int r = 0; r < N_OUT; r++)
            qtype_info[types[i]].ops->encode(want + (size_t)r * n, rows[r], K, NULL);
        published_rows(got, &straight, types[i], 0, N_OUT, K);
        EXPECT(memcmp(got, want, N_OUT * n) == 0);
        published_rows(got, &columns, types[i], 3, N_OUT - 3, K);
        EXPECT(memcmp(got, want + 3 * n, (N_OUT - 3) * n) == 0);
        free(want);
        free(got);
    }
    EXPECT(published_hash(&straight, 1) != published_hash(&columns, 1));
}

/* Goal: inputs of groups in any order are sorted by group, and keep their values. Groups of unequal
 * size are not sorted. */
TEST(inputs_are_sorted_by_their_groups)
{
    static float plain[N_OUT][K], sorted[N_OUT][K];
    int32_t group[K], order[K];
    uint64_t rng = 5;
    uint8_t *data = random_bytes(&rng);
    uint16_t scale[N_OUT * K];
    for (int i = 0; i < N_OUT * K; i++) scale[i] = (uint16_t)(0x2000 + rng_next(&rng) % 0x1000);
    for (int block = 32; block <= 40; block += 8) { /* the last group of 40 has 16 inputs */
        struct published p = integers(data, scale, 4, 1, block);
        p.scale.row_step = (K + block - 1) / block;
        for (int i = 0; i < K; i++) group[i] = i / block;
        for (int i = K - 1; i > 0; i--) {
            const int j = (int)rng_below(&rng, (uint64_t)i + 1), g = group[i];
            group[i] = group[j], group[j] = g;
        }
        p.group = group;
        published_rows((uint8_t *)plain, &p, QT_f32, 0, N_OUT, K);
        EXPECT(published_sort(&p, order, K) && p.order == order && !p.group);
        published_rows((uint8_t *)sorted, &p, QT_f32, 0, N_OUT, K);
        EXPECT_INT(published_type(&p), block == 32 ? QT_q4_0 : QT_f32);
        for (int r = 0; r < N_OUT; r++)
            for (int i = 0; i < K; i++) EXPECT(sorted[r][i] == plain[r][order[i]]);
        group[0] = group[0] ? 0 : 1;
        p.group = group, p.order = NULL;
        EXPECT(!published_sort(&p, order, K) && p.group && !p.order);
    }
    free(data);
}

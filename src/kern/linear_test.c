/* linear_test.c - goal: packing is lossless. The reference of linear layers computes the formulas
 * of quant.h and kern.h. The reference's error is within the bound. Every level gives the bits of
 * the reference and writes no other output. Method: compare random rows of every weight type, at
 * odd sizes, bit by bit and with double precision. The speed is compared with the bandwidth of a
 * plain read. */
#include "../../tests/unit.h"

#include "base/cpu.h"
#include "base/rng.h"
#include "kern_impl.h"
#include "panel_impl.h"

#include <stdlib.h>
#include <time.h>

enum { K_MAX = 1280, OUTPUTS_MAX = 83, ROWS_MAX = 140, GUARD = 32 };

/* Weights, as published rows and as panels. */
struct weights {
    uint8_t *rows;
    int64_t row_bytes;
    struct panels p;
};

static void random_floats(float *x, int n, float size, uint64_t *rng)
{
    for (int i = 0; i < n; i++) x[i] = (rng_float(rng) + rng_float(rng) - 1) * size;
}

static void weights_pack(struct weights *w, enum qtype t, int n_out, int k)
{
    w->row_bytes = (int64_t)qtype_bytes(t, k);
    w->p = (struct panels){.type = t, .n_out = n_out, .k = k, .stride = panel_bytes(t, k)};
    uint8_t *data = aligned_alloc(64, (size_t)(panel_count(n_out) * w->p.stride));
    w->p.data = data;
    panel_pack(data, &w->p, w->rows, w->row_bytes, 0, panel_count(n_out));
}

/* Fill a block with bytes that decode to finite numbers of ordinary size. Half of the blocks have
 * values at an end of their range. */
static void random_block(uint8_t *block, enum qtype t, uint64_t *rng)
{
    float y[BLOCK_MAX], size;
    do {
        size = 0;
        for (int i = 0; i < qtype_info[t].n_byte; i++) {
            uint64_t r = rng_next(rng);
            block[i] = r & 256 ? (uint8_t)r : r & 512 ? 255 : 0;
        }
        for (int i = 4; i < qtype_info[t].n_byte && t == QT_e4m3_128; i++)
            if ((block[i] & 127) == 127) block[i] ^= 1; /* the code of NaN */
        qtype_info[t].ops->decode(y, block, qtype_info[t].block);
        for (int i = 0; i < qtype_info[t].block; i++) size += fabsf(y[i]);
    } while (!(size < 1e4f));
}

/* Make weights by encoding random values. Make random blocks if `any` is true or encoding is slow
 * (the search of IQ formats). */
static struct weights random_weights(enum qtype t, int n_out, int k, bool any, uint64_t *rng)
{
    struct weights w;
    int64_t n = (int64_t)k * n_out;
    float *x = malloc((size_t)n * sizeof *x);
    w.rows = malloc(qtype_bytes(t, n));
    random_floats(x, (int)n, 1, rng);
    any |= strncmp(qtype_info[t].name, "IQ", 2) == 0 || !qtype_info[t].ops->encode;
    if (!any) qtype_info[t].ops->encode(w.rows, x, n, NULL);
    for (int64_t i = 0; i < n && any; i += qtype_info[t].block)
        random_block(w.rows + qtype_bytes(t, i), t, rng);
    free(x);
    weights_pack(&w, t, n_out, k);
    return w;
}

static void weights_free(struct weights *w)
{
    free(w->rows);
    free((void *)w->p.data);
}

/* Random activations, and the result of act[] for them. Every other row has values at the ends of
 * the range. */
struct acts {
    float *x; /* [n_row, k] activations */
    struct act a;
};

/* Make random activations. Some rows have only the values 3 and -3, because extreme codes reveal an
 * overflow of 16-bit sums. */
static struct acts random_acts(const struct kern *kern, enum act_type t, int n_row, int k,
                               uint64_t *rng)
{
    struct acts s;
    s.x = malloc((size_t)n_row * (size_t)k * sizeof(float));
    random_floats(s.x, n_row * k, 3, rng);
    for (int i = k; i < n_row * k; i++)
        if (i / k % 2) s.x[i] = rng_below(rng, 8) ? 3 : -3;
    s.a = (struct act){.type = t, .n_row = n_row, .k = k};
    s.a.x = aligned_alloc(64, act_x_bytes(t, n_row, k) + 64);
    s.a.scale = aligned_alloc(64, act_scale_bytes(n_row, k));
    s.a.sum = aligned_alloc(64, act_sum_bytes(n_row, k));
    for (int i = 0; i < n_row; i++) kern->act[t](&s.a, i, s.x + (int64_t)i * k);
    return s;
}

static void acts_free(struct acts *s)
{
    free(s->x), free(s->a.x), free(s->a.scale), free(s->a.sum);
}

/* ---- packing ---- */

static int k_step(enum qtype t)
{
    return qtype_info[t].block < 32 ? 37 : qtype_info[t].block;
}

TEST(panels_hold_every_weight_exactly)
{
    uint64_t rng = 2;
    static float want[K_MAX], got[K_MAX];
    for (int i = 0; i < QT_COUNT; i++) {
        enum qtype t = (enum qtype)i;
        if (!qtype_info[t].ops) continue;
        for (int k = k_step(t); k <= K_MAX; k += 3 * k_step(t)) {
            struct weights w = random_weights(t, 21, k, true, &rng);
            for (int r = 0; r < 21; r++) {
                qtype_info[t].ops->decode(want, w.rows + r * w.row_bytes, k);
                panel_row(got, &w.p, r);
                if (memcmp(want, got, (size_t)k * sizeof *got) != 0)
                    test_fail(__FILE__, __LINE__,
                              "%s, k %d: row %d differs after packing and unpacking",
                              qtype_info[t].name, k, r);
            }
            weights_free(&w);
        }
    }
}

/* Goal: the two bytes of a level are the nearest integer to 8191 times the level. */
TEST(levels_of_floats_are_the_nearest_integers)
{
    static const enum qtype types[] = {QT_nf4_64, QT_fp4_64};
    static const float *const levels[] = {level_nf4, level_fp4};
    for (int i = 0; i < 2; i++) {
        const struct panel_format *f = panel_format_of(types[i]);
        for (int c = 0; c < 16; c++) {
            const int upper = panel_level[panel_upper(f)][c], low = panel_level[f->levels][c];
            EXPECT(upper <= 127 && low <= 127);
            EXPECT_INT(128 * (upper - 64) + low, lrintf(levels[i][c] * 8191));
        }
    }
}

/* ---- the reference is dot_group ---- */

TEST(reference_of_panels_is_the_dot_product_of_the_format)
{
    struct kern ref;
    struct err e;
    NEED_OK(kern_open(&ref, "ref", &e), &e);
    uint64_t rng = 4;
    for (int i = 0; i < QT_COUNT; i++) {
        enum qtype t = (enum qtype)i;
        if (!qtype_is_block(t)) continue;
        int k = qtype_info[t].block == 256 ? 768 : 640, n_row = 3, n_out = 17;
        struct weights w = random_weights(t, n_out, k, true, &rng);
        struct acts s = random_acts(&ref, ACT_Q8, n_row, k, &rng);
        float y[3 * 17];
        ref.linear[ACT_Q8][t](&(struct linear_out){.y = y, .stride = n_out}, &w.p, 0, 2, &s.a, 0,
                              n_row);
        for (int o = 0; o < n_out; o++)
            for (int r = 0; r < n_row; r++) {
                float c = 0;
                for (int g = 0; g < k; g += ACT_GROUP) {
                    int8_t q[ACT_GROUP];
                    int n = k - g < ACT_GROUP ? k - g : ACT_GROUP;
                    for (int j = 0; j < n; j++)
                        q[j] = ((int8_t *)s.a.x)[((g + j) / 64 * n_row + r) * 64 + (g + j) % 64];
                    float sum = qtype_info[t].ops->dot_group(
                        w.rows + o * w.row_bytes + qtype_bytes(t, g), q, n);
                    c = fmaf(sum, s.a.scale[g / ACT_GROUP * n_row + r], c);
                }
                if (c != y[r * n_out + o])
                    test_fail(__FILE__, __LINE__, "%s: %g, not %g", qtype_info[t].name,
                              (double)y[r * n_out + o], (double)c);
            }
        acts_free(&s);
        weights_free(&w);
    }
}

/* ---- every level ---- */

static void fill(float *y, int n)
{
    for (int i = 0; i < n; i++) y[i] = 12345.5f;
}

struct shape {
    int n_out, k, n_row; /* sizes of the whole layer */
    int panel, n_panel, row, n_row_part;
};

/* Compare a level with the reference for a part of the panels and rows. The bytes after the outputs
 * must not change. */
static void compare(const struct kern *ref, const struct kern *isa, int act, enum qtype t,
                    const struct shape *s, uint64_t *rng)
{
    static float want[ROWS_MAX * OUTPUTS_MAX + GUARD], got[ROWS_MAX * OUTPUTS_MAX + GUARD];
    static float bias[OUTPUTS_MAX];
    bool any = rng_below(rng, 8) > 0; /* random codes, because encoding random numbers takes long */
    struct weights w = random_weights(t, s->n_out, s->k, any, rng);
    struct acts a = random_acts(ref, (enum act_type)act, s->n_row, s->k, rng);
    random_floats(bias, s->n_out, 1, rng);
    int n = s->n_row * s->n_out + GUARD;
    int n_row = s->n_row_part < isa->linear_rows[act] ? s->n_row_part : isa->linear_rows[act];
    for (int form = 0; form < 2; form++) { /* 0: plain. 1: with bias, and added to y. */
        struct linear_out o = {.stride = s->n_out};
        if (form == 1) o.bias = bias, o.add = true;
        fill(want, n), fill(got, n);
        o.y = want;
        ref->linear[act][t](&o, &w.p, s->panel, s->n_panel, &a.a, s->row, n_row);
        o.y = got;
        isa->linear[act][t](&o, &w.p, s->panel, s->n_panel, &a.a, s->row, n_row);
        if (memcmp(want, got, (size_t)n * sizeof *got) != 0)
            test_fail(__FILE__, __LINE__,
                      "%s: linear %s, act %d, form %d, %d x %d, %d rows from %d differs from ref",
                      isa->name, qtype_info[t].name, act, form, s->n_out, s->k, n_row, s->row);
    }
    acts_free(&a);
    weights_free(&w);
}

/* Return a random shape and a part of it. Small numbers of rows are frequent, because they have
 * separate kernels. */
static struct shape random_shape(enum qtype t, uint64_t *rng)
{
    struct shape s;
    int step = k_step(t);
    s.k = step * (1 + (int)rng_below(rng, (uint64_t)(K_MAX / step)));
    s.n_out = 1 + (int)rng_below(rng, OUTPUTS_MAX);
    s.n_row = 1 + (int)rng_below(rng, rng_below(rng, 2) ? 9 : ROWS_MAX);
    s.panel = (int)rng_below(rng, (uint64_t)panel_count(s.n_out));
    s.n_panel = 1 + (int)rng_below(rng, (uint64_t)(panel_count(s.n_out) - s.panel));
    s.row = (int)rng_below(rng, (uint64_t)s.n_row);
    s.n_row_part = 1 + (int)rng_below(rng, (uint64_t)(s.n_row - s.row));
    if (s.n_row_part > LINEAR_ROWS_MAX) s.n_row_part = LINEAR_ROWS_MAX;
    return s;
}

/* Kinds of extreme numbers. TINY: products near the smallest normal number, subnormal operands.
 * VAST: numbers whose sums overflow. SPECIAL: some numbers are infinite or NaN. */
enum { TINY, VAST, SPECIAL, KIND_COUNT };

static void make_extreme(float *x, int n, int kind, uint64_t *rng)
{
    static const float special[] = {NAN, INFINITY, -INFINITY, -0.0f};
    for (int i = 0; i < n; i++) {
        if (kind == TINY) x[i] = ldexpf(x[i], -50 - (int)rng_below(rng, 20) * 4);
        if (kind == VAST) x[i] = ldexpf(x[i], 20 + (int)rng_below(rng, 12) * 4);
        if (kind == SPECIAL && rng_below(rng, 300) == 0) x[i] = special[rng_below(rng, 4)];
    }
}

static bool same_or_nan(const float *a, const float *b, int n)
{
    for (int i = 0; i < n; i++)
        if (bits_of_f32(a[i]) != bits_of_f32(b[i]) && !(isnan(a[i]) && isnan(b[i]))) return false;
    return true;
}

/* Compare n_row rows of extreme numbers times extreme weights. */
static void compare_extreme(const struct kern *ref, const struct kern *isa, int act, enum qtype t,
                            int n_row, uint64_t *rng)
{
    static float want[ROWS_MAX * OUTPUTS_MAX], got[ROWS_MAX * OUTPUTS_MAX];
    int kind = (int)rng_below(rng, KIND_COUNT),
        k = k_step(t) * (1 + (int)rng_below(rng, qtype_is_block(t) ? 4 : 20));
    int n_out = 1 + (int)rng_below(rng, OUTPUTS_MAX);
    bool any = qtype_is_block(t) && rng_below(rng, 8) > 0;
    struct weights w = random_weights(t, n_out, k, any, rng);
    struct acts a = random_acts(ref, (enum act_type)act, n_row, k, rng);
    float *x = malloc((size_t)k * sizeof *x);
    for (int i = 0; i < n_row; i++) {
        make_extreme(a.x + i * k, k, kind, rng);
        ref->act[act](&a.a, i, a.x + i * k);
    }
    for (int i = 0; i < n_out && !qtype_is_block(t); i++) {
        random_floats(x, k, 1, rng);
        make_extreme(x, k, kind, rng);
        qtype_info[t].ops->encode(w.rows + i * w.row_bytes, x, k, NULL);
    }
    panel_pack((uint8_t *)w.p.data, &w.p, w.rows, w.row_bytes, 0, panel_count(n_out));
    struct linear_out o = {.y = want, .stride = n_out};
    ref->linear[act][t](&o, &w.p, 0, panel_count(n_out), &a.a, 0, n_row);
    o.y = got;
    isa->linear[act][t](&o, &w.p, 0, panel_count(n_out), &a.a, 0, n_row);
    if (!same_or_nan(want, got, n_row * n_out))
        test_fail(__FILE__, __LINE__, "%s: linear %s, act %d, kind %d, %d x %d, %d rows differs",
                  isa->name, qtype_info[t].name, act, kind, n_out, k, n_row);
    free(x);
    acts_free(&a);
    weights_free(&w);
}

TEST(linear_of_extreme_numbers_at_every_number_of_rows)
{
    struct kern ref, isa;
    struct err e;
    NEED_OK(kern_open(&ref, "ref", &e), &e);
    uint64_t rng = 5;
    for (const char *const *level = kern_levels(); *level; level++) {
        NEED_OK(kern_open(&isa, *level, &e), &e);
        for (int act = 0; act <= ACT_BF16; act++)
            for (int t = 0; t < QT_COUNT; t++) {
                if (!ref.linear[act][t] || isa.linear[act][t] == ref.linear[act][t]) continue;
                const uint64_t stride = qtype_is_block((enum qtype)t) ? 29 : 8;
                for (int n_row = 1; n_row <= LINEAR_ROWS; n_row += (int)test_stride(&rng, stride))
                    compare_extreme(&ref, &isa, act, (enum qtype)t, n_row, &rng);
            }
    }
}

/* Goal: flushing applies to the rounded value. 2^-126 - 2^-152 rounds up to the smallest normal
 * number. */
TEST(linear_bf16_keeps_what_rounding_makes_normal)
{
    enum { N_OUT = 16, N_ROW = 7, K = 32 };
    static float x[K], y[N_ROW * N_OUT];
    struct kern isa;
    struct err e;
    uint64_t rng = 6;
    struct weights w = random_weights(QT_bf16, N_OUT, K, false, &rng);
    x[0] = 0x1p-63f, x[2] = 0x1p-76f;
    for (int r = 0; r < N_OUT; r++)
        qtype_info[QT_bf16].ops->encode(w.rows + r * w.row_bytes, x, K, NULL);
    panel_pack((uint8_t *)w.p.data, &w.p, w.rows, w.row_bytes, 0, 1);
    x[2] = -0x1p-76f;
    for (const char *const *level = kern_levels(); *level; level++) {
        NEED_OK(kern_open(&isa, *level, &e), &e);
        struct acts a = random_acts(&isa, ACT_BF16, N_ROW, K, &rng);
        for (int i = 0; i < N_ROW; i++) isa.act[ACT_BF16](&a.a, i, x);
        isa.linear[ACT_BF16][QT_bf16](&(struct linear_out){.y = y, .stride = N_OUT}, &w.p, 0, 1,
                                      &a.a, 0, N_ROW);
        for (int i = 0; i < N_ROW * N_OUT; i++) EXPECT(y[i] == 0x1p-126f);
        acts_free(&a);
    }
    weights_free(&w);
}

TEST(linear_every_level_equals_reference)
{
    struct kern ref, isa;
    struct err e;
    NEED_OK(kern_open(&ref, "ref", &e), &e);
    uint64_t rng = 3;
    int n = 0, n_each = test_long() ? 60 : 3;
    for (const char *const *level = kern_levels(); *level; level++) {
        NEED_OK(kern_open(&isa, *level, &e), &e);
        for (int act = 0; act < ACT_COUNT; act++)
            for (int t = 0; t < QT_COUNT; t++)
                for (int i = 0; i < n_each && ref.linear[act][t]; i++, n++) {
                    struct shape s = random_shape((enum qtype)t, &rng);
                    if (isa.linear[act][t] != ref.linear[act][t])
                        compare(&ref, &isa, act, (enum qtype)t, &s, &rng);
                }
    }
    EXPECT(n > 100);
}

/* Return the scale of value j of a row with an f32 scale per block. */
static double scale_of(const uint8_t *row, enum qtype t, int j)
{
    float scale;
    memcpy(&scale, row + qtype_bytes(t, j / qtype_info[t].block * qtype_info[t].block),
           sizeof scale);
    return fabs((double)scale);
}

/* Check |y - exact| <= rounding of the activations + rounding of the sums. The rounding of the
 * activations is half a step of each group's scale times sum |w|. The rounding of the sums is (k /
 * 32 + 40) ulps of sum |a w|. */
static void check_bound(const struct kern *ref, int act, enum qtype t, int k, uint64_t *rng)
{
    enum { N_OUT = 19, N_ROW = 9 };
    static float row[K_MAX];
    float y[N_ROW * N_OUT];
    struct weights w = random_weights(t, N_OUT, k, false, rng);
    struct acts a = random_acts(ref, (enum act_type)act, N_ROW, k, rng);
    ref->linear[act][t](&(struct linear_out){.y = y, .stride = N_OUT}, &w.p, 0, 2, &a.a, 0, N_ROW);
    for (int o = 0; o < N_OUT; o++) {
        qtype_info[t].ops->decode(row, w.rows + o * w.row_bytes, k);
        for (int i = 0; i < N_ROW; i++) {
            double exact = 0, size = 0, bound = 0;
            for (int j = 0; j < k; j++) {
                double x = a.x[i * k + j], p = x * row[j];
                exact += p;
                size += fabs(p);
                if (act == ACT_Q8)
                    bound += 0.5001 * a.a.scale[j / ACT_GROUP * N_ROW + i] * fabs((double)row[j]);
                if (act == ACT_BF16) bound += fabs(p) * 0x1p-8;
                if (act == ACT_Q8 && qtype_is_scaled(t)) /* levels of 14 bits */
                    bound += fabs(x) * scale_of(w.rows + o * w.row_bytes, t, j) * 0x1p-14;
            }
            bound += size * (k / 32 + 40) * 0x1p-23;
            if (!(fabs(y[i * N_OUT + o] - exact) <= bound))
                test_fail(__FILE__, __LINE__, "linear %s, act %d, k %d: %g, not %g +- %g",
                          qtype_info[t].name, act, k, (double)y[i * N_OUT + o], exact, bound);
        }
    }
    acts_free(&a);
    weights_free(&w);
}

TEST(linear_reference_is_within_its_bound_of_double)
{
    struct kern ref;
    struct err e;
    NEED_OK(kern_open(&ref, "ref", &e), &e);
    uint64_t rng = 11;
    for (int act = 0; act < ACT_COUNT; act++)
        for (int t = 0; t < QT_COUNT; t++)
            if (ref.linear[act][t])
                check_bound(&ref, act, (enum qtype)t, qtype_info[t].block >= 32 ? 768 : 771, &rng);
}

/* ---- activations ---- */

TEST(activations_quantize_as_stated)
{
    struct kern ref;
    struct err e;
    NEED_OK(kern_open(&ref, "ref", &e), &e);
    uint64_t rng = 1;
    struct acts s = random_acts(&ref, ACT_Q8, 1, 320, &rng);
    const int8_t *q = s.a.x;
    float x[320];
    for (int i = 0; i < 320; i++) x[i] = (float)(i - 160);
    ref.act[ACT_Q8](&s.a, 0, x);
    EXPECT(s.a.scale[0] == 160.0f / 127.0f && s.a.scale[1] == 159.0f / 127.0f);
    EXPECT_INT(q[0], -127);
    EXPECT_INT(q[160], 0);
    EXPECT_INT(q[319], 127);
    for (int i = 0; i < 256; i++)
        EXPECT(fabsf((float)q[i] * s.a.scale[0] - x[i]) <= 0.501f * s.a.scale[0]);
    for (int u = 0; u < 20; u++) {
        int sum = 0;
        for (int i = 0; i < 16; i++) sum += q[u * 16 + i];
        EXPECT_INT(s.a.sum[u], sum);
    }
    memset(x, 0, sizeof x);
    ref.act[ACT_Q8](&s.a, 0, x);
    EXPECT(s.a.scale[0] == 0 && q[17] == 0);
    x[3] = 1e-40f; /* 127 / amax would overflow */
    ref.act[ACT_Q8](&s.a, 0, x);
    EXPECT(s.a.scale[0] == 0 && q[3] == 0);
    x[5] = NAN;
    ref.act[ACT_Q8](&s.a, 0, x);
    EXPECT(isnan(s.a.scale[0]) && q[5] == 0);
    x[5] = -INFINITY;
    ref.act[ACT_Q8](&s.a, 0, x);
    EXPECT(isnan(s.a.scale[0]));
    acts_free(&s);
}

/* ---- speed ---- */

/* Return the CPU time of this thread in microseconds, because other threads may share the core. */
static int64_t thread_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Measure a layer too large for the L2 cache: GB/s of packed bytes, and G multiply-adds per
 * second. */
static void time_linear(const struct kern *k, int act, enum qtype t, int n_row)
{
    uint64_t rng = 9;
    const int n_k = 2048, n_out = 2048;
    struct weights one = random_weights(t, 16, n_k, false, &rng);
    struct panels p = one.p;
    uint8_t *data = aligned_alloc(64, (size_t)(panel_count(n_out) * p.stride));
    for (int i = 0; i < panel_count(n_out); i++)
        memcpy(data + i * p.stride, one.p.data, (size_t)p.stride);
    p.data = data, p.n_out = n_out;
    struct acts a = random_acts(k, (enum act_type)act, n_row, n_k, &rng);
    float *y = malloc((size_t)n_row * (size_t)n_out * sizeof *y);
    struct linear_out o = {.y = y, .stride = n_out};
    /* fastest of several runs, because other threads share the caches and memory */
    double best = INFINITY;
    for (int run = 0; run < 8; run++) {
        int n = 0;
        int64_t from = thread_us(), us;
        do {
            for (int r = 0; r < n_row; r += LINEAR_ROWS)
                k->linear[act][t](&o, &p, 0, panel_count(n_out), &a.a, r,
                                  n_row - r < LINEAR_ROWS ? n_row - r : LINEAR_ROWS);
            n++;
        } while ((us = thread_us() - from) < 10000);
        best = fmin(best, (double)us * 1e-6 / n);
    }
    test_note("%-7s %-8s act %d, %3d rows: %6.1f GB/s %7.1f GMAC/s", k->name, qtype_info[t].name,
              act, n_row, (double)(panel_count(n_out) * p.stride) / best * 1e-9,
              (double)n_row * n_out * n_k / best * 1e-9);
    acts_free(&a);
    free(y), free(data);
    weights_free(&one);
}

TEST(linear_speed)
{
    struct kern k;
    struct err e;
    const char *level = getenv("QUOTH_CPU"), *type = getenv("QUOTH_TYPE");
    const char *only = getenv("QUOTH_ACT"); /* "f32", "bf16" or "q8" */
    static const char *const act_name[ACT_COUNT] = {"f32", "bf16", "q8"};
    if (!test_long() && !level && !type) SKIP("set QUOTH_TYPE or QUOTH_CPU to time linear layers");
    NEED_OK(kern_open(&k, level, &e), &e);
    static const int n_row[] = {1, 2, 4, 8, 16, 32, 64};
    for (int t = 0; t < QT_COUNT; t++) {
        if (!qtype_info[t].ops || (type && qtype_of_name(type) != t)) continue;
        for (int act = 0; act < ACT_COUNT; act++) {
            if (!k.linear[act][t] || (only && strcmp(only, act_name[act]) != 0)) continue;
            for (size_t i = 0; i < sizeof n_row / sizeof *n_row; i++)
                time_linear(&k, act, (enum qtype)t, n_row[i]);
        }
    }
}

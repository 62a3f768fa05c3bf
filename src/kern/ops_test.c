/* ops_test.c - goal: the elementwise ops, norms and rope of every level give the bits of the
 * reference, and write only their rows. Method: test every length up to 70 and some longer lengths,
 * in rows that end at an inaccessible page. Some values are infinities, NaNs and subnormals. The
 * reference is compared with double precision. */
#include "edge_test.h"

#include "base/cpu.h"
#include "base/rng.h"
#include "kern_impl.h"

#include <time.h>

enum { N_MAX = 4099, N_ROW = 5 };

static const int lengths[] = {255, 256, 257, 2048, N_MAX};

static int next_length(int n) /* Return 1 to 70, then the elements of `lengths`, then 0. */
{
    if (n < 70) return n + 1;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        if (lengths[i] > n) return lengths[i];
    return 0;
}

static void random_floats(float *x, int n, float size, uint64_t *rng)
{
    for (int i = 0; i < n; i++) x[i] = (rng_float(rng) + rng_float(rng) - 1) * size;
}

/* Fill x with every kind of f32. */
static void wild_floats(float *x, int n, uint64_t *rng)
{
    const float odd[] = {0.0f,    -0.0f,    INFINITY,  -INFINITY, NAN,      -NAN,  1e-40f,
                         -1e-45f, 0x1p127f, -0x1p127f, 65504.0f,  65520.0f, 6e-8f, 6.1e-5f};
    for (int i = 0; i < n; i++) {
        uint64_t kind = rng_below(rng, 6);
        random_floats(x + i, 1, kind < 3 ? 8.0f : 100.0f, rng);
        if (kind == 4) x[i] = f32_of_bits((uint32_t)rng_next(rng));
        if (kind == 5) x[i] = odd[rng_below(rng, sizeof odd / sizeof *odd)];
    }
}

/* Return true if the bits are equal or a and b are NaN. */
static bool same_floats(const float *a, const float *b, int n)
{
    for (int i = 0; i < n; i++)
        if (bits_of_f32(a[i]) != bits_of_f32(b[i]) && !(isnan(a[i]) && isnan(b[i]))) return false;
    return true;
}

/* Three inputs at the edge, and the two results of one comparison. */
struct bench {
    const struct kern *ref, *isa;
    struct edge x, a, b, y;
    float want[N_ROW * N_MAX];
    uint64_t rng;
};

static float *input(struct bench *t, struct edge *e, int n, bool wild)
{
    float *x = edge_take(e, (size_t)n * sizeof *x);
    if (wild)
        wild_floats(x, n, &t->rng);
    else
        random_floats(x, n, 3, &t->rng);
    return x;
}

static void expect_same(struct bench *t, const char *op, const float *got, int n)
{
    if (!same_floats(t->want, got, n))
        test_fail(__FILE__, __LINE__, "%s: %s of %d values differs from ref", t->isa->name, op, n);
    if (!edge_intact(&t->y, (size_t)n * sizeof *got))
        test_fail(__FILE__, __LINE__, "%s: %s of %d values wrote before its row", t->isa->name, op,
                  n);
}

/* Compare the curves and elementwise ops of a level with the reference, on floats of any bits. */
static void compare_elementwise(struct bench *t, int n)
{
    const float *x = input(t, &t->x, n, true), *up = input(t, &t->a, n, true);
    float *y = edge_take(&t->y, (size_t)n * sizeof *y);
#define CURVE(f)                                                                                   \
    t->ref->curve[CURVE_##f](t->want, x, n), t->isa->curve[CURVE_##f](y, x, n);                    \
    expect_same(t, #f, y, n);                                                                      \
    t->ref->curve_mul[CURVE_##f](t->want, x, up, n), t->isa->curve_mul[CURVE_##f](y, x, up, n);    \
    expect_same(t, #f " mul", y, n);
#include "curves.def"
#undef CURVE
    memcpy(t->want, x, (size_t)n * sizeof *x), memcpy(y, x, (size_t)n * sizeof *x);
    t->ref->add(t->want, up, n), t->isa->add(y, up, n);
    expect_same(t, "add", y, n);
    t->ref->curve[CURVE_silu](t->want, y, n), t->isa->curve[CURVE_silu](y, y, n);
    expect_same(t, "silu in place", y, n);
}

/* Compare the norms, also in place. */
static void compare_norms(struct bench *t, int n)
{
    int n_row = n > 300 ? 2 : N_ROW;
    const float *x = input(t, &t->x, n * n_row, false), *g = input(t, &t->a, n, false);
    float *y = edge_take(&t->y, (size_t)(n * n_row) * sizeof *y);
    t->ref->rms_norm(t->want, x, g, n_row, n, 1e-5f), t->isa->rms_norm(y, x, g, n_row, n, 1e-5f);
    expect_same(t, "rms_norm", y, n * n_row);
    memcpy(y, x, (size_t)(n * n_row) * sizeof *y);
    t->isa->rms_norm(y, y, g, n_row, n, 1e-5f);
    expect_same(t, "rms_norm in place", y, n * n_row);
    const float *bias = input(t, &t->b, n, false);
    for (int biased = 0; biased < 2; biased++) {
        const float *own = biased ? bias : NULL;
        t->ref->layer_norm(t->want, x, g, own, n_row, n, 1e-5f);
        t->isa->layer_norm(y, x, g, own, n_row, n, 1e-5f);
        expect_same(t, "layer_norm", y, n * n_row);
        memcpy(y, x, (size_t)(n * n_row) * sizeof *y);
        t->isa->layer_norm(y, y, g, own, n_row, n, 1e-5f);
        expect_same(t, "layer_norm in place", y, n * n_row);
    }
    y = edge_take(&t->y, (size_t)n * sizeof *y);
    t->ref->softmax(t->want, x, n), t->isa->softmax(y, x, n);
    expect_same(t, "softmax", y, n);
}

/* Compare rope for n_head heads of n rotated values and some values that are not rotated. */
static void compare_rope(struct bench *t, int n)
{
    int d_rot = n / 2 * 2, n_head = n > 300 ? 2 : N_ROW, n_all = n * n_head;
    const float *x = input(t, &t->x, n_all, true), *cos = input(t, &t->a, d_rot / 2, false),
                *sin = input(t, &t->b, d_rot / 2, false);
    float *y = edge_take(&t->y, (size_t)n_all * sizeof *y);
    for (int neox = 0; neox < 2; neox++) {
        memcpy(t->want, x, (size_t)n_all * sizeof *x), memcpy(y, x, (size_t)n_all * sizeof *x);
        t->ref->rope(t->want, n_head, n, cos, sin, d_rot, neox);
        t->isa->rope(y, n_head, n, cos, sin, d_rot, neox);
        expect_same(t, neox ? "rope, halves" : "rope, neighbours", y, n_all);
    }
}

/* Compare the conversions to 16 bits and back. */
static void compare_narrow(struct bench *t, int n)
{
    const float *x = input(t, &t->x, n, true);
    uint16_t want[N_MAX], *got = edge_take(&t->a, (size_t)n * sizeof *got);
    float *y = edge_take(&t->y, (size_t)n * sizeof *y);
    t->ref->to_f16(want, x, n), t->isa->to_f16(got, x, n);
    EXPECT_BITS(want, got, (size_t)n * sizeof *got);
    t->ref->of_f16(t->want, got, n), t->isa->of_f16(y, got, n);
    EXPECT_BITS(t->want, y, (size_t)n * sizeof *y);
    t->ref->to_bf16(want, x, n), t->isa->to_bf16(got, x, n);
    EXPECT_BITS(want, got, (size_t)n * sizeof *got);
    t->ref->of_bf16(t->want, got, n), t->isa->of_bf16(y, got, n);
    EXPECT_BITS(t->want, y, (size_t)n * sizeof *y);
    for (int i = 0; i < n; i++) got[i] = (uint16_t)rng_next(&t->rng);
    t->ref->of_f16(t->want, got, n), t->isa->of_f16(y, got, n);
    EXPECT_BITS(t->want, y, (size_t)n * sizeof *y);
    EXPECT(edge_intact(&t->a, (size_t)n * sizeof *got) &&
           edge_intact(&t->y, (size_t)n * sizeof *y));
}

static void compare_level(struct bench *t)
{
    for (int n = 1; n > 0; n = next_length(n)) {
        for (int again = 0; again < (n > 70 ? 1 : test_long() ? 100 : 5); again++) {
            compare_elementwise(t, n);
            compare_norms(t, n);
            compare_rope(t, n);
            compare_narrow(t, n);
        }
    }
}

TEST(ops_every_level_equals_reference)
{
    static struct bench t;
    struct kern ref, isa;
    struct err e;
    NEED_OK(kern_open(&ref, "ref", &e), &e);
    t.ref = &ref, t.isa = &isa, t.rng = 1;
    struct edge *const edges[] = {&t.x, &t.a, &t.b, &t.y};
    for (int i = 0; i < 4; i++) edge_open(edges[i], sizeof t.want);
    for (const char *const *level = kern_levels(); *level; level++) {
        NEED_OK(kern_open(&isa, *level, &e), &e);
        compare_level(&t);
    }
    for (int i = 0; i < 4; i++) edge_close(edges[i]);
}

TEST(ops_reference_is_within_its_bound_of_double)
{
    struct kern ref;
    struct err e;
    float x[300], g[300], y[300];
    uint64_t rng = 2;
    NEED_OK(kern_open(&ref, "ref", &e), &e);
    random_floats(x, 300, 3, &rng), random_floats(g, 300, 2, &rng);
    ref.rms_norm(y, x, g, 1, 300, 1e-5f);
    double sum = 0;
    for (int i = 0; i < 300; i++) sum += (double)x[i] * x[i];
    double r = 1 / sqrt(sum / 300 + 1e-5);
    for (int i = 0; i < 300; i++)
        EXPECT(fabs(y[i] - x[i] * r * g[i]) <= 4e-7 * fabs(x[i] * r * g[i]));
    float bias[300];
    double mean = 0;
    random_floats(bias, 300, 2, &rng);
    ref.layer_norm(y, x, g, bias, 1, 300, 1e-5f);
    for (int i = 0; i < 300; i++) mean += x[i] / 300.0;
    sum = 0;
    for (int i = 0; i < 300; i++) sum += (x[i] - mean) * (x[i] - mean);
    r = 1 / sqrt(sum / 300 + 1e-5);
    for (int i = 0; i < 300; i++) EXPECT(fabs(y[i] - ((x[i] - mean) * r * g[i] + bias[i])) <= 2e-6);
    ref.softmax(y, x, 300);
    sum = 0;
    for (int i = 0; i < 300; i++) sum += exp((double)x[i]);
    for (int i = 0; i < 300; i++) EXPECT(fabs(y[i] - exp((double)x[i]) / sum) <= 1e-6 * y[i]);
    memcpy(y, x, sizeof y);
    ref.rope(y, 3, 100, g, g + 50, 50, false);
    for (int h = 0; h < 3; h++)
        for (int i = 0; i < 25; i++) {
            const float *a = x + h * 100 + 2 * i;
            double want = (double)a[0] * g[i] - (double)a[1] * g[50 + i];
            EXPECT(fabs(y[h * 100 + 2 * i] - want) <= 1e-6);
            EXPECT_BITS(y + h * 100 + 50, x + h * 100 + 50, 50 * sizeof *x);
        }
}

/* ---- speed ---- */

static double cpu_us(void) /* CPU time of this thread, independent of other load */
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

#define NS_PER_VALUE(n, call)                                                                      \
    ({                                                                                             \
        double best = INFINITY;                                                                    \
        for (int again_ = 0; again_ < 8; again_++) {                                               \
            double start = cpu_us();                                                               \
            for (int i_ = 0; i_ < 20; i_++) call;                                                  \
            best = fmin(best, 1e3 * (cpu_us() - start) / 20 / (n));                                \
        }                                                                                          \
        best;                                                                                      \
    })

/* Measure rows of a token: 4,096 values in the L1 cache, or 32 heads of 128. */
TEST(ops_speed)
{
    enum { N = 4096 };
    static float x[N], g[N], up[N], y[N];
    static uint16_t h[N];
    struct kern k;
    struct err e;
    uint64_t rng = 3;
    random_floats(x, N, 3, &rng), random_floats(g, N, 3, &rng), random_floats(up, N, 3, &rng);
    for (const char *const *level = kern_levels(); *level; level++) {
        NEED_OK(kern_open(&k, *level, &e), &e);
        test_note("%-7s ns per 1000: norm %.0f, norm of heads %.0f, add %.0f, silu_mul %.0f, "
                  "gelu_erf %.0f, tanh %.0f, log %.0f, rope %.0f %.0f, softmax %.0f, to f16 %.0f, "
                  "of f16 %.0f",
                  *level, 1e3 * NS_PER_VALUE(N, k.rms_norm(y, x, g, 1, N, 1e-5f)),
                  1e3 * NS_PER_VALUE(N, k.rms_norm(y, x, g, 32, 128, 1e-5f)),
                  1e3 * NS_PER_VALUE(N, k.add(y, x, N)),
                  1e3 * NS_PER_VALUE(N, k.curve_mul[CURVE_silu](y, x, up, N)),
                  1e3 * NS_PER_VALUE(N, k.curve[CURVE_gelu_erf](y, x, N)),
                  1e3 * NS_PER_VALUE(N, k.curve[CURVE_tanh](y, x, N)),
                  1e3 * NS_PER_VALUE(N, k.curve[CURVE_log](y, x, N)),
                  1e3 * NS_PER_VALUE(N, k.rope(up, 32, 128, x, g, 128, true)),
                  1e3 * NS_PER_VALUE(N, k.rope(up, 32, 128, x, g, 128, false)),
                  1e3 * NS_PER_VALUE(N, k.softmax(y, x, N)),
                  1e3 * NS_PER_VALUE(N, k.to_f16(h, x, N)),
                  1e3 * NS_PER_VALUE(N, k.of_f16(y, h, N)));
    }
}

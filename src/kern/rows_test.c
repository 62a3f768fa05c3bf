/* rows_test.c - goal: the passes over logits give the bits of the reference on every level. The
 * passes write only their rows and follow kern.h. Method: test every length up to 200 and some
 * longer lengths, with ties, infinities and NaNs. Rows end at an inaccessible page. The reference
 * is compared with double precision. A lower floor never gives a lower sum. */
#include "edge_test.h"

#include "base/rng.h"
#include "kern_impl.h"

#include <fenv.h>
#include <float.h>
#include <time.h>

enum { N_MAX = 5000, N_BLOCK = N_MAX / ROW_BLOCK + 1 };

/* Fill x with approximately normally distributed values. Some rows are rounded coarsely. Some have
 * weights that are subnormal. Some contain NaNs and infinities, or have only a few logits that are
 * not forbidden. */
static void random_logits(float *x, int n, uint64_t *rng)
{
    bool coarse = rng_below(rng, 3) == 0, holes = rng_below(rng, 3) == 0;
    bool masked = rng_below(rng, 4) == 0;
    float spread = rng_below(rng, 4) ? 10 : 50;
    for (int i = 0; i < n; i++) {
        x[i] = spread * (rng_float(rng) + rng_float(rng) + rng_float(rng) - 1.5f);
        if (masked && rng_below(rng, 80)) x[i] = -INFINITY;
        if (coarse) x[i] = (float)(int)x[i];
        uint64_t hole = holes ? rng_below(rng, 12) : 4;
        if (hole < 4)
            x[i] = hole == 0 ? NAN : hole == 1 ? INFINITY : hole == 2 ? -INFINITY : -FLT_MAX;
    }
}

struct outputs {
    float block[N_BLOCK], value[N_MAX + 16], weight[N_MAX];
    int32_t index[N_MAX + 16];
};

struct rows {
    const struct kern *ref, *isa;
    struct edge x, y, block;
    struct outputs want, got;
    uint64_t rng;
};

static void expect(const struct rows *t, const char *what, int n, bool same)
{
    if (!same)
        test_fail(__FILE__, __LINE__, "%s: %s of %d differs from ref", t->isa->name, what, n);
}

static bool same_floats(const float *a, const float *b, int n) /* +0 and -0 are equal */
{
    for (int i = 0; i < n; i++)
        if (!(a[i] == b[i]) && !(isnan(a[i]) && isnan(b[i]))) return false;
    return true;
}

static void compare_max(struct rows *t, const float *x, int n)
{
    int n_block = (n + ROW_BLOCK - 1) / ROW_BLOCK;
    float *block = edge_take(&t->block, (size_t)n_block * sizeof *block);
    float a = t->ref->row_max(t->want.block, x, n), b = t->isa->row_max(block, x, n);
    expect(t, "row_max", n, a == b && same_floats(t->want.block, block, n_block));
    EXPECT(edge_intact(&t->block, (size_t)n_block * sizeof *block));
}

static void compare_mask(struct rows *t, const float *x, int n)
{
    uint32_t mask[N_MAX / 32 + 1];
    for (int i = 0; i <= n / 32; i++) mask[i] = (uint32_t)rng_next(&t->rng);
    float *y = edge_take(&t->y, (size_t)n * sizeof *y);
    t->ref->row_mask(t->want.weight, x, mask, n), t->isa->row_mask(y, x, mask, n);
    expect(t, "row_mask", n, memcmp(t->want.weight, y, (size_t)n * sizeof *y) == 0);
    EXPECT(edge_intact(&t->y, (size_t)n * sizeof *y));
}

/* Compare row_exp. As in the sampler, max is the row's maximum. */
static void compare_exp(struct rows *t, const float *x, int n, float max)
{
    int n_block = (n + ROW_BLOCK - 1) / ROW_BLOCK;
    float scale = rng_below(&t->rng, 5) ? 0.3f + rng_float(&t->rng) : FLT_MAX;
    float *w = edge_take(&t->y, (size_t)n * sizeof *w);
    double a = t->ref->row_exp(t->want.weight, t->want.block, x, n, max, scale),
           b = t->isa->row_exp(w, t->got.block, x, n, max, scale);
    expect(t, "row_exp", n,
           memcmp(t->want.weight, w, (size_t)n * sizeof *w) == 0 &&
               memcmp(t->want.block, t->got.block, (size_t)n_block * sizeof *w) == 0 && a == b);
    EXPECT(edge_intact(&t->y, (size_t)n * sizeof *w));
    EXPECT(t->isa->row_exp(NULL, t->got.block, x, n, max, scale) == b);
    for (int i = 0; i < n; i++) EXPECT(x[i] >= max ? w[i] == 1 : w[i] >= 0 && w[i] <= 1);
    for (int i = 0; i < n; i++) EXPECT(w[i] == 0 || x[i] >= -FLT_MAX);
}

static void compare_mass(struct rows *t, const float *x, int n, float floor)
{
    int n_a, n_b, n_lower;
    const float *w = t->want.weight;
    double a = t->ref->row_mass(w, x, n, floor, &n_a), b = t->isa->row_mass(w, x, n, floor, &n_b);
    expect(t, "row_mass", n, a == b && n_a == n_b);
    EXPECT(t->isa->row_mass(NULL, x, n, floor, &n_b) == n_a && n_a == n_b);
    EXPECT(t->isa->row_mass(w, x, n, floor - 0.37f, &n_lower) >= a && n_lower >= n_a);
}

static void compare_product(struct rows *t, int n)
{
    float *a = edge_take(&t->x, (size_t)n * sizeof *a),
          *b = edge_take(&t->y, (size_t)n * sizeof *b);
    for (int i = 0; i < n; i++) a[i] = rng_float(&t->rng) - 3, b[i] = rng_float(&t->rng);
    double want = t->ref->row_product(a, -2.5f, b, 0.1f, n), exact = 0;
    for (int i = 0; i < n; i++) exact += (a[i] + 2.5) * (b[i] - (double)0.1f);
    expect(t, "row_product", n, t->isa->row_product(a, -2.5f, b, 0.1f, n) == want);
    EXPECT(fabs(want - exact) < 1e-6 * n);
    want = t->ref->row_product(a, -2.5f, NULL, 0, n);
    expect(t, "row_product of one", n, t->isa->row_product(a, -2.5f, NULL, 0, n) == want);
}

/* Compare row_find, also in place: the results then overwrite the input. */
static void compare_find(struct rows *t, const float *x, int n, float lo, float hi)
{
    struct outputs *want = &t->want, *got = &t->got;
    memset(got->index, 0xA5, sizeof got->index);
    int a = t->ref->row_find(want->index, want->value, x, want->block, n, lo, hi),
        b = t->isa->row_find(got->index, got->value, x, want->block, n, lo, hi);
    expect(t, "row_find", n,
           a == b && memcmp(want->index, got->index, (size_t)a * sizeof *want->index) == 0 &&
               memcmp(want->value, got->value, (size_t)a * sizeof *want->value) == 0);
    for (int i = n + 16; i < N_MAX + 16; i++) EXPECT(got->index[i] == (int32_t)0xA5A5A5A5);
    memcpy(got->value, x, (size_t)n * sizeof *x);
    b = t->isa->row_find(got->index, got->value, got->value, want->block, n, lo, hi);
    expect(t, "row_find in place", n,
           a == b && memcmp(want->index, got->index, (size_t)a * sizeof *want->index) == 0 &&
               memcmp(want->value, got->value, (size_t)a * sizeof *want->value) == 0);
}

/* Compare all passes over a row of n logits, with floors at the maximum, near it, far below it, and
 * at a random logit. */
static void compare_rows(struct rows *t, int n)
{
    compare_product(t, n);
    float *x = edge_take(&t->x, (size_t)n * sizeof *x);
    random_logits(x, n, &t->rng);
    compare_max(t, x, n);
    compare_mask(t, x, n);
    float max = t->ref->row_max(t->want.block, x, n);
    if (max == -INFINITY) return;
    compare_exp(t, x, n, max);
    t->ref->row_max(t->want.block, x, n);
    const float floors[] = {-FLT_MAX, max, max - 3, x[rng_below(&t->rng, (uint64_t)n)]};
    for (int i = 0; i < 4; i++) {
        if (!(floors[i] >= -FLT_MAX)) continue;
        compare_mass(t, x, n, floors[i]);
        compare_find(t, x, n, floors[i], INFINITY);
        compare_find(t, x, n, floors[i], floors[i] + 2);
    }
}

TEST(rows_every_level_equals_reference)
{
    static struct rows t;
    struct kern ref, isa;
    struct err e;
    NEED_OK(kern_open(&ref, "ref", &e), &e);
    t.ref = &ref, t.isa = &isa, t.rng = 1;
    edge_open(&t.x, sizeof t.want.weight), edge_open(&t.y, sizeof t.want.weight);
    edge_open(&t.block, sizeof t.want.block);
    for (const char *const *level = kern_levels(); *level; level++) {
        NEED_OK(kern_open(&isa, *level, &e), &e);
        for (int n = 1; n <= N_MAX; n += n < 200 ? 1 : 1 + (int)rng_below(&t.rng, 300))
            for (int again = 0; again < (test_long() ? 100 : 3); again++) compare_rows(&t, n);
    }
    edge_close(&t.x), edge_close(&t.y), edge_close(&t.block);
}

/* An underflow takes most processors over 100 cycles. */
TEST(rows_forbidden_logits_do_not_underflow)
{
    static float x[N_MAX], w[N_MAX], block[N_BLOCK];
    struct kern k;
    struct err e;
    uint64_t rng = 4;
    for (int i = 0; i < N_MAX; i++)
        x[i] = i == 100 || (i > 1000 && rng_below(&rng, 2)) ? 80 * rng_float(&rng) - 80 : -INFINITY;
    for (const char *const *level = kern_levels(); *level; level++) {
        if (strcmp(*level, "ref") == 0) continue;
        NEED_OK(kern_open(&k, *level, &e), &e);
        feclearexcept(FE_UNDERFLOW);
        k.row_exp(w, block, x, N_MAX, 0, 1);
        if (fetestexcept(FE_UNDERFLOW))
            test_fail(__FILE__, __LINE__, "%s: row_exp underflows", *level);
    }
}

TEST(rows_exp_is_near_double)
{
    static float x[N_MAX], w[N_MAX], block[N_BLOCK];
    struct kern ref;
    struct err e;
    uint64_t rng = 2;
    NEED_OK(kern_open(&ref, "ref", &e), &e);
    double exact = 0, worst = 0;
    for (int i = 0; i < N_MAX; i++) x[i] = 20 * rng_float(&rng) - 20;
    for (int i = 0; i < N_MAX; i++) exact += exp((double)x[i] * 0.7f);
    double total = ref.row_exp(w, block, x, N_MAX, 0, 0.7f);
    for (int i = 0; i < N_MAX; i++) worst = fmax(worst, fabs(w[i] / exp((double)x[i] * 0.7f) - 1));
    test_note("relative error of a weight %.1e, of the total %.1e", worst, fabs(total / exact - 1));
    EXPECT(worst < 1e-6 && fabs(total / exact - 1) < 1e-7);
}

/* ---- speed ----------------------------------------------------------------------------------- */

static double cpu_us(void) /* CPU time of this thread, independent of other load */
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

#define US(call)                                                                                   \
    ({                                                                                             \
        double best = INFINITY;                                                                    \
        for (int again_ = 0; again_ < 6; again_++) {                                               \
            double start = cpu_us();                                                               \
            for (int i_ = 0; i_ < 3; i_++) call;                                                   \
            best = fmin(best, (cpu_us() - start) / 3);                                             \
        }                                                                                          \
        best;                                                                                      \
    })

TEST(rows_speed_at_152k)
{
    enum { N = 151936 };
    static float x[N], y[N + 16], w[N], block[N / ROW_BLOCK + 1], sum[N / ROW_BLOCK + 1];
    static int32_t index[N + 16];
    static uint32_t mask[N / 32 + 1];
    struct kern k;
    struct err e;
    uint64_t rng = 3;
    for (int i = 0; i < N; i++)
        x[i] = 5 * (rng_float(&rng) + rng_float(&rng) + rng_float(&rng) - 1.5f);
    for (int i = 0; i < 300; i++) x[rng_below(&rng, N)] = 8 + 8 * rng_float(&rng);
    for (int i = 0; i <= N / 32; i++) mask[i] = (uint32_t)rng_next(&rng);
    for (const char *const *level = kern_levels(); *level; level++) {
        int n;
        NEED_OK(kern_open(&k, *level, &e), &e);
        test_note("%-7s us: max %.1f, mask %.1f, exp and sum %.1f, with weights %.1f, above 12: "
                  "%.1f, all "
                  "%.1f, count %.1f, mass %.1f",
                  *level, US(k.row_max(block, x, N)), US(k.row_mask(y, x, mask, N)),
                  US(k.row_exp(NULL, sum, x, N, 16, 1)), US(k.row_exp(w, sum, x, N, 16, 1)),
                  US(k.row_find(index, y, x, block, N, 12, INFINITY)),
                  US(k.row_find(index, y, x, block, N, -FLT_MAX, INFINITY)),
                  US(k.row_mass(NULL, x, N, 1, &n)), US(k.row_mass(w, x, N, 1, &n)));
    }
}

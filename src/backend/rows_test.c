/* rows_test.c - goal: ops on rows and residual streams equal their formulas in double. Method:
 * random rows of a length that is not a multiple of a vector. */
#include "../../tests/unit.h"

#include "backend_impl.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_STREAM = 3, N_ROW = 4, N = 37, N_ALL = N_STREAM * N_ROW * N };

/* Arguments and results of one test, random. */
struct rows {
    struct backend *b;
    float x[N_ALL], y[N_ALL], before[N_ALL], c[N_ROW * N_STREAM * N_STREAM];
};

static bool rows_open(struct rows *r)
{
    struct err e;
    uint64_t rng = 3;
    for (int i = 0; i < N_ALL; i++)
        r->x[i] = rng_float(&rng) * 4 - 2, r->y[i] = r->before[i] = rng_float(&rng) * 4 - 2;
    for (size_t i = 0; i < sizeof r->c / sizeof r->c[0]; i++) r->c[i] = rng_float(&rng) * 2 - 1;
    return backend_open(&r->b, "cpu", &(struct backend_options){.n_thread = 2}, &e) == 0;
}

static void expect_near(float got, double want)
{
    if (!(fabs((double)got - want) <= 1e-6 * (1 + fabs(want))))
        test_fail(__FILE__, __LINE__, "%.9g, expected %.9g", (double)got, want);
}

static double mean_of(const float *x, int power, double about)
{
    double sum = 0;
    for (int i = 0; i < N; i++) sum += pow((double)x[i] - about, power);
    return sum / N;
}

TEST(streams_are_mixed_and_increased_per_row)
{
    struct rows r;
    NEED(rows_open(&r));
    r.b->op->mix_streams(r.b, r.y, r.x, r.c, N_STREAM, N_ROW, N);
    for (int to = 0; to < N_STREAM; to++)
        for (int i = 0; i < N_ROW * N; i++) {
            const float *c = r.c + (i / N * N_STREAM + to) * N_STREAM;
            double want = 0;
            for (int from = 0; from < N_STREAM; from++)
                want += (double)c[from] * (double)r.x[from * N_ROW * N + i];
            expect_near(r.y[to * N_ROW * N + i], want);
        }
    memcpy(r.y, r.before, sizeof r.y);
    r.b->op->add_streams(r.b, r.y, r.x, r.c, N_STREAM, N_ROW, N);
    for (int to = 0; to < N_STREAM; to++)
        for (int i = 0; i < N_ROW * N; i++) {
            const int at = to * N_ROW * N + i;
            expect_near(r.y[at],
                        (double)r.before[at] + (double)r.c[i / N * N_STREAM + to] * (double)r.x[i]);
        }
    backend_close(r.b);
}

TEST(rows_are_matched_in_their_root_mean_square)
{
    struct rows r;
    NEED(rows_open(&r));
    memset(r.y + 2 * N, 0, N * sizeof *r.y); /* a row below the minimum */
    r.y[2 * N] = 1e-3f;
    memcpy(r.before, r.y, sizeof r.y);
    r.b->op->match(r.b, r.y, r.x, N_ROW, N, 1e-5f);
    for (int i = 0; i < N_ROW * N; i++) {
        const float *old = r.before + i / N * N, *x = r.x + i / N * N;
        const double own = fmax(mean_of(old, 2, 0), 1e-5);
        expect_near(r.y[i], (double)r.before[i] * sqrt(mean_of(x, 2, 0) / own));
    }
    EXPECT(mean_of(r.y, 2, 0) > 0.999 * mean_of(r.x, 2, 0));
    backend_close(r.b);
}

TEST(rows_are_cut_at_their_standard_deviation)
{
    struct rows r;
    NEED(rows_open(&r));
    r.y[N + 5] = NAN;
    memcpy(r.before, r.y, sizeof r.y);
    r.b->op->cut(r.b, r.y, N_ROW, N, 0.5f);
    for (int i = 0; i < N_ROW * N; i++) {
        const float *old = r.before + i / N * N;
        const double mean = mean_of(old, 1, 0), cut = mean + 0.5 * sqrt(mean_of(old, 2, mean));
        if (i / N == 1)
            EXPECT(isnan(r.y[i]));
        else
            expect_near(r.y[i], fmax((double)r.before[i] - cut, 0));
    }
    r.b->op->scale_columns(r.b, r.y, r.x, r.c, 2, N < 36 ? N : 36);
    for (int i = 0; i < 72; i++) EXPECT(r.y[i] == r.x[i] * r.c[i % 36]);
    backend_close(r.b);
}

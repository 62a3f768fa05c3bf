/* rows.c - ops on rows for models with several residual streams (AltUp) and sparse activations, on
 * the CPU.
 *
 * A piece is one row, so a row's bits do not depend on other rows. Sums have 8 lanes in double
 * (index mod 8), which a fixed tree reduces.
 *
 * The loops are scalar, because they are 7 % of a step of gemma3n (`mix_row` alone 3.5 %). The
 * measurement used the widths of E2B, Q4_K, 1 to 32 sequences and a prompt of 256 tokens on two
 * threads of a Zen 5. The time to read the four streams from the L2 cache is the bound. */
#include "cpu_impl.h"

#include <math.h>

enum { LANES = 8 };

static double reduced(const double lane[LANES])
{
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* Return the mean of x f32 [n]. */
static double mean(const float *x, int64_t n)
{
    double lane[LANES] = {0};
    for (int64_t i = 0; i < n; i++) lane[i % LANES] += (double)x[i];
    return reduced(lane) / (double)n;
}

/* Return the mean of (x - about)^2, x f32 [n]. */
static double mean_square(const float *x, int64_t n, double about)
{
    double lane[LANES] = {0};
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)x[i] - about;
        lane[i % LANES] += d * d;
    }
    return reduced(lane) / (double)n;
}

/* Arguments of the ops of this file. All pointers are borrowed for the op. */
struct rows_job {
    float *y;
    const float *x, *c; /* c: coefficients or factors */
    int n_stream, n_row;
    int64_t n;
    float by;
};

static void match_row(void *ctx, int i, int worker)
{
    (void)worker;
    const struct rows_job *j = ctx;
    float *y = j->y + i * j->n;
    const double own = mean_square(y, j->n, 0), want = mean_square(j->x + i * j->n, j->n, 0);
    const float target = (float)sqrt(want),
                old = (float)sqrt(own > (double)j->by ? own : (double)j->by);
    for (int64_t k = 0; k < j->n; k++) y[k] = y[k] * target / old;
}

void cpu_match(struct backend *b, float *y, const float *x, int n_row, int64_t n, float least)
{
    struct rows_job j = {.y = y, .x = x, .n = n, .by = least};
    pool_run(cpu_of(b)->pool, match_row, &j, n_row);
}

static void mix_row(void *ctx, int i, int worker)
{
    (void)worker;
    const struct rows_job *j = ctx;
    const int64_t step = j->n_row * j->n, at = i * j->n;
    const int s = j->n_stream;
    for (int to = 0; to < s; to++) {
        const float *c = j->c + ((int64_t)i * s + to) * s;
        float *y = j->y + to * step + at;
        for (int64_t k = 0; k < j->n; k++) y[k] = c[0] * j->x[at + k];
        for (int from = 1; from < s; from++) {
            const float *x = j->x + from * step + at;
            for (int64_t k = 0; k < j->n; k++) y[k] += c[from] * x[k];
        }
    }
}

void cpu_mix_streams(struct backend *b, float *y, const float *x, const float *c, int n_stream,
                     int n_row, int64_t n)
{
    struct rows_job j = {y, x, c, n_stream, n_row, n, 0};
    pool_run(cpu_of(b)->pool, mix_row, &j, n_row);
}

static void spread_row(void *ctx, int i, int worker)
{
    (void)worker;
    const struct rows_job *j = ctx;
    const float *c = j->c + (int64_t)i * j->n_stream, *x = j->x + i * j->n;
    for (int to = 0; to < j->n_stream; to++) {
        float *y = j->y + (to * (int64_t)j->n_row + i) * j->n;
        for (int64_t k = 0; k < j->n; k++) y[k] += c[to] * x[k];
    }
}

void cpu_add_streams(struct backend *b, float *y, const float *x, const float *c, int n_stream,
                     int n_row, int64_t n)
{
    struct rows_job j = {y, x, c, n_stream, n_row, n, 0};
    pool_run(cpu_of(b)->pool, spread_row, &j, n_row);
}

static void scale_row(void *ctx, int i, int worker)
{
    (void)worker;
    const struct rows_job *j = ctx;
    for (int64_t k = 0; k < j->n; k++) j->y[i * j->n + k] = j->x[i * j->n + k] * j->c[k];
}

void cpu_scale_columns(struct backend *b, float *y, const float *x, const float *g, int n_row,
                       int64_t n)
{
    struct rows_job j = {.y = y, .x = x, .c = g, .n = n};
    pool_run(cpu_of(b)->pool, scale_row, &j, n_row);
}

/* Subtract the cut of a row and clamp at 0. A NaN stays. */
static void cut_row(void *ctx, int i, int worker)
{
    (void)worker;
    const struct rows_job *j = ctx;
    float *y = j->y + i * j->n;
    const double m = mean(y, j->n);
    const float cut = (float)(m + sqrt(mean_square(y, j->n, m)) * (double)j->by);
    for (int64_t k = 0; k < j->n; k++) {
        const float v = y[k] - cut;
        y[k] = v <= 0 ? 0 : v;
    }
}

void cpu_cut(struct backend *b, float *y, int n_row, int64_t n, float by)
{
    struct rows_job j = {.y = y, .n = n, .by = by};
    pool_run(cpu_of(b)->pool, cut_row, &j, n_row);
}

/* resident_test.c - goal: weights in limited memory are present when an op uses them, the memory
 * stays within the limit, plain matrices are read ahead of their use, and the experts that are used
 * often stay. Method: units of a simulated file record reads and drops.
 * tests/e2e/weights_memory.py tests a model with a packed file. */
#include "../../../tests/unit.h"

#include "base/os.h"
#include "base/rng.h"
#include "resident.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { UNIT_BYTES = 1000, N_MAX = 4096 };

/* A simulated file. A unit that is present has 1 at its number. */
struct file {
    pthread_mutex_t lock;
    uint8_t data[N_MAX * 8]; /* addresses of the units, 8 bytes apart */
    bool present[N_MAX];
    size_t size[N_MAX];
    int64_t n_byte, most; /* bytes in memory now, and at most */
    int n_bad;            /* reads of present units, and drops of absent ones */
    int n_dropped;        /* number of drops */
};

static void change(struct file *f, const uint8_t *at, size_t n_byte, bool present)
{
    const size_t i = (size_t)(at - f->data) / 8;
    pthread_mutex_lock(&f->lock);
    f->n_bad += f->present[i] == present || f->size[i] != n_byte;
    f->present[i] = present;
    f->n_dropped += !present;
    f->n_byte += present ? (int64_t)n_byte : -(int64_t)n_byte;
    if (f->n_byte > f->most) f->most = f->n_byte;
    pthread_mutex_unlock(&f->lock);
}

static void sim_read(void *ctx, const uint8_t *at, size_t n_byte)
{
    change(ctx, at, n_byte, true);
}

static void sim_drop(void *ctx, const uint8_t *at, size_t n_byte)
{
    struct file *f = ctx;
    const size_t i = (size_t)(at - f->data) / 8;
    if (f->present[i]) change(f, at, n_byte, false); /* absent units are dropped at the opening */
}

static bool is_present(struct file *f, int i)
{
    pthread_mutex_lock(&f->lock);
    const bool present = f->present[i];
    pthread_mutex_unlock(&f->lock);
    return present;
}

static struct file *file_open(void)
{
    struct file *f = calloc(1, sizeof *f);
    pthread_mutex_init(&f->lock, NULL);
    return f;
}

/* Set n units of the file, of which the last n_routed are routed. The size of unit i is UNIT_BYTES
 * plus i % 7 times `step`. */
static void fill_units(struct file *f, struct resident_unit *unit, int n, int n_routed, int step)
{
    for (int i = 0; i < n; i++) {
        f->size[i] = (size_t)(UNIT_BYTES + i % 7 * step);
        unit[i] = (struct resident_unit){f->data + 8 * i, f->size[i], i >= n - n_routed};
    }
}

static void file_end(struct file *f)
{
    EXPECT_INT(f->n_bad, 0);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

/* Goal: a cycle of plain matrices is present at each use and within the limit. Each pass reads only
 * the matrices that are not pinned. */
TEST(plain_weights_are_read_ahead_within_the_limit)
{
    enum { N = 100, PASSES = 20 };
    struct resident_unit unit[N];
    struct resident *r;
    struct err e;
    for (int share = 30; share <= 90; share += 20) {
        struct file *f = file_open();
        const struct resident_io io = {f, sim_read, sim_drop};
        int64_t all = 0, n_absent = 0;
        fill_units(f, unit, N, 0, 100);
        for (int i = 0; i < N; i++) all += (int64_t)f->size[i];
        const int64_t limit = all * share / 100;
        NEED_OK(resident_open(&r, unit, N, limit, &io, &e), &e);
        for (int pass = 0; pass < PASSES; pass++)
            for (int i = 0; i < N; i++) {
                resident_begin(r);
                resident_use(r, unit[i].at);
                n_absent += !is_present(f, i);
            }
        const struct weights_use s = resident_figures(r);
        resident_close(r);
        EXPECT_INT(n_absent, 0);
        EXPECT(f->most <= limit);
        /* a pass reads all but the pinned matrices, which are all but the window and one matrix */
        const double read = (double)s.n_byte_read / (double)all / PASSES;
        const double best = 1 - (double)share / 100;
        if (read > best + (double)share / 100 / 4 + 0.1)
            test_fail(__FILE__, __LINE__, "%d %%: a pass reads %.2f of all bytes, best %.2f", share,
                      read, best);
        file_end(f);
    }
}

/* Goal: matrices that a cycle no longer uses leave the memory, although they were read ahead. The
 * first pass uses all matrices, such as those of a source; further passes leave out some. */
TEST(weights_that_were_read_ahead_and_not_used_leave_the_memory)
{
    enum { N = 100, PASSES = 20, LEFT_OUT = 3, LIMIT = 40 * UNIT_BYTES };
    struct resident_unit unit[N];
    struct resident *r;
    struct err e;
    struct file *f = file_open();
    const struct resident_io io = {f, sim_read, sim_drop};
    fill_units(f, unit, N, 0, 0);
    NEED_OK(resident_open(&r, unit, N, LIMIT, &io, &e), &e);
    for (int pass = 0; pass < PASSES; pass++)
        for (int i = 0; i < N; i++) {
            if (pass > 0 && i % LEFT_OUT == 0) continue;
            resident_begin(r);
            resident_use(r, unit[i].at);
            EXPECT(is_present(f, i));
        }
    resident_close(r);
    test_note("at most %lld bytes of %d", (long long)f->most, (int)LIMIT);
    EXPECT(f->most <= LIMIT);
    file_end(f);
}

/* Return the number of the expert for a uniform number, by a Zipf distribution of exponent 1. */
static int zipf(const double *sum, int n, uint64_t *rng)
{
    const double x = (double)rng_float(rng) * sum[n - 1];
    int i = 0;
    while (i < n - 1 && sum[i] < x) i++;
    return i;
}

/* Goal: the share of experts that are in memory is within 5 points of the best fixed choice, for a
 * router with a Zipf distribution whose favourites differ between layers. */
TEST(experts_that_are_used_often_stay_in_memory)
{
    enum { N_LAYER = 8, N_EXPERT = 128, N_USED = 8, N_STEP = 3000, N = N_LAYER * N_EXPERT };
    struct file *f = file_open();
    const struct resident_io io = {f, sim_read, sim_drop};
    static struct resident_unit unit[N + 1];
    static double sum[N_EXPERT];
    int order[N_LAYER][N_EXPERT];
    struct resident *r;
    struct err e;
    uint64_t rng = 3;
    fill_units(f, unit, N, N, 0);
    for (int i = 0; i < N_EXPERT; i++) sum[i] = (i ? sum[i - 1] : 0) + 1.0 / (i + 1);
    for (int l = 0; l < N_LAYER; l++)
        for (int i = 0, j; i < N_EXPERT; i++) {
            j = (int)rng_below(&rng, (uint64_t)i + 1);
            order[l][i] = order[l][j], order[l][j] = i;
        }
    NEED_OK(resident_open(&r, unit, N, N / 2 * UNIT_BYTES, &io, &e), &e);
    struct weights_use before = {0};
    double use[N_EXPERT] = {0};
    int64_t n_use = 0;
    for (int step = 0; step < N_STEP; step++) {
        if (step == N_STEP / 2) before = resident_figures(r);
        for (int l = 0; l < N_LAYER; l++) {
            bool taken[N_EXPERT] = {false};
            resident_begin(r);
            for (int k = 0; k < N_USED; k++) {
                int x = zipf(sum, N_EXPERT, &rng);
                while (taken[x]) x = zipf(sum, N_EXPERT, &rng);
                taken[x] = true;
                use[x]++, n_use++;
                resident_use(r, unit[l * N_EXPERT + order[l][x]].at);
                EXPECT(is_present(f, l * N_EXPERT + order[l][x]));
            }
        }
    }
    const struct weights_use s = resident_figures(r);
    double best = 0; /* half of the experts of each layer: those that are used most */
    for (int i = 0; i < N_EXPERT / 2; i++) best += use[i] / (double)n_use;
    const double hit = (double)(s.n_routed_hit - before.n_routed_hit) /
                       (double)(s.n_routed_use - before.n_routed_use);
    test_note("hits %.3f, best fixed choice %.3f", hit, best);
    EXPECT(hit > best - 0.05);
    EXPECT(f->most <= N / 2 * UNIT_BYTES);
    resident_close(r);
    file_end(f);
}

/* Experts, as the documented order of their eviction sees them. */
struct expert {
    uint64_t n, used;
    bool present;
};

/* Return the expert in memory with the fewest uses, and of these the earliest use, by a scan. */
static int fewest_uses(const struct expert *x, int n, int except)
{
    int best = -1;
    for (int i = 0; i < n; i++)
        if (x[i].present && i != except &&
            (best < 0 || x[i].n < x[best].n || (x[i].n == x[best].n && x[i].used < x[best].used)))
            best = i;
    return best;
}

/* Use n_use of n experts, half of which fit into memory. Compare each drop with the scan, while all
 * counts halve after 64 n uses. Print the time of a use. */
static void expect_scanned_drops(int n, int n_use)
{
    struct file *f = file_open();
    const struct resident_io io = {f, sim_read, sim_drop};
    struct resident_unit *unit = calloc((size_t)n, sizeof *unit);
    struct expert *x = calloc((size_t)n, sizeof *x);
    struct resident *r;
    struct err e;
    uint64_t rng = 5;
    int64_t n_byte = 0, limit = (int64_t)n / 2 * UNIT_BYTES, us = 0;
    int n_drop = 0;
    fill_units(f, unit, n, n, -50);
    NEED_OK(resident_open(&r, unit, n, limit, &io, &e), &e);
    for (int k = 1; k <= n_use; k++) {
        /* squares of uniform numbers favour low experts; the first half fills the memory */
        const int64_t at = (int64_t)rng_below(&rng, (uint64_t)n);
        const int i = k <= n ? k - 1 : (int)(at * at / n);
        x[i].n++, x[i].used = (uint64_t)k;
        for (int j = 0; j < n && k % (64 * n) == 0; j++) x[j].n /= 2;
        while (!x[i].present && n_byte + (int64_t)f->size[i] > limit) {
            const int out = fewest_uses(x, n, i);
            x[out].present = false, n_byte -= (int64_t)f->size[out], n_drop++;
        }
        n_byte += x[i].present ? 0 : (int64_t)f->size[i];
        x[i].present = true;
        const int64_t start = time_us();
        resident_begin(r);
        resident_use(r, unit[i].at);
        us += time_us() - start;
        EXPECT_INT(f->n_byte, n_byte);
        EXPECT_INT(f->n_dropped, n_drop);
        if (k % 97 == 0 && n < 1000)
            for (int j = 0; j < n; j++) EXPECT_INT(is_present(f, j), x[j].present);
    }
    resident_close(r);
    EXPECT(n_drop > n / 4);
    for (int i = 0; i < n; i++) EXPECT_INT(f->present[i], x[i].present);
    test_note("%d experts: %.1f us per use, %d drops", n, (double)us / n_use, n_drop);
    free(unit);
    free(x);
    file_end(f);
}

/* Goal: the dropped expert is the one that a scan of all experts selects. */
TEST(dropped_experts_are_those_of_a_scan)
{
    expect_scanned_drops(40, 6000);
    expect_scanned_drops(N_MAX, N_MAX + 1000);
}

/* Goal: the figures are those of the simulated file: reads less drops are in memory, and a use that
 * was no hit waited. */
TEST(figures_of_limited_weights_agree_with_the_file)
{
    enum { N = 60, PASSES = 10, N_EXPERT = 30, LIMIT = 24 * UNIT_BYTES };
    struct resident_unit unit[N];
    struct resident *r;
    struct err e;
    struct file *f = file_open();
    const struct resident_io io = {f, sim_read, sim_drop};
    fill_units(f, unit, N, N_EXPERT, 0);
    NEED_OK(resident_open(&r, unit, N, LIMIT, &io, &e), &e);
    for (int pass = 0; pass < PASSES; pass++)
        for (int i = 0; i < N; i++) {
            resident_begin(r);
            resident_use(r, unit[i].at);
        }
    struct weights_use s = resident_figures(r);
    EXPECT_INT(s.limit, LIMIT);
    EXPECT_INT(s.n_use, N * PASSES);
    EXPECT_INT(s.n_routed_use, N_EXPERT * PASSES);
    EXPECT(s.n_hit > 0 && s.n_hit < s.n_use && s.n_routed_hit <= s.n_hit);
    EXPECT_INT(s.n_wait, s.n_use - s.n_hit);
    EXPECT(s.n_drop > 0 && s.n_read > s.n_drop);
    EXPECT_INT(s.n_byte_read, s.n_read * UNIT_BYTES);
    EXPECT(s.n_byte > 0 && s.n_byte <= LIMIT);
    resident_close(r);
    EXPECT(f->n_byte > 0 && f->n_byte <= LIMIT);
    file_end(f);
}

/* Goal: a limit below the least possible one is refused with the least one. */
TEST(a_limit_below_the_largest_weights_is_refused)
{
    struct file *f = file_open();
    const struct resident_io io = {f, sim_read, sim_drop};
    const struct resident_unit unit[] = {{f->data, 64 << 20, false}, {f->data + 8, 1 << 20, false}};
    struct resident *r;
    struct err e;
    EXPECT_INT(resident_open(&r, unit, 2, 128 << 20, &io, &e), ERR_LIMIT);
    EXPECT(strstr(e.text, "must be at least 132096K") != NULL);
    file_end(f);
}

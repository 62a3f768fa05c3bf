/* pool_test.c - every chunk once, in every phase, with any number of threads. */
#include "pool.h"
#include "../../tests/unit.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

struct counts {
    _Atomic int *run; /* [n_chunk] */
    int n_thread;
    _Atomic int n_bad_worker;
};

static void count(void *ctx, int chunk, int worker)
{
    struct counts *c = ctx;
    atomic_fetch_add(&c->run[chunk], 1);
    if (worker < 0 || worker >= c->n_thread) atomic_fetch_add(&c->n_bad_worker, 1);
}

static void run_phases(int n_thread, int n_phase)
{
    enum { N = 300 };
    struct err e;
    struct pool *p;
    struct counts c = {.run = calloc(N, sizeof(_Atomic int)), .n_thread = n_thread};
    int want[N] = {0};
    NEED(c.run);
    NEED_OK(pool_open(&p, n_thread, &e), &e);
    EXPECT_INT(pool_n_thread(p), n_thread);
    for (int i = 0; i < n_phase; i++) {
        int n = i * 37 % (N + 1);
        pool_run(p, count, &c, n);
        for (int k = 0; k < n; k++) want[k]++;
        if (n) NEED(atomic_load(&c.run[n - 1]) == want[n - 1]); /* done when pool_run returns */
    }
    for (int k = 0; k < N; k++) NEED(atomic_load(&c.run[k]) == want[k]);
    EXPECT_INT(atomic_load(&c.n_bad_worker), 0);
    pool_close(p);
    free(c.run);
}

TEST(pool_runs_every_chunk_once)
{
    for (int n_thread = 1; n_thread <= 5; n_thread++) run_phases(n_thread, 2000);
}

TEST(pool_parks_between_phases)
{
    /* Goal: workers that went to sleep wake up again. Method: phases 1 ms apart. */
    struct err e;
    struct pool *p;
    _Atomic int run[4] = {0};
    struct counts c = {.run = run, .n_thread = 3};
    NEED_OK(pool_open(&p, 3, &e), &e);
    for (int i = 0; i < 20; i++) {
        struct timespec ms = {.tv_nsec = 1000000};
        nanosleep(&ms, NULL);
        pool_run(p, count, &c, 4);
    }
    for (int i = 0; i < 4; i++) EXPECT_INT(atomic_load(&run[i]), 20);
    pool_close(p);
    pool_close(NULL);
}

TEST(pool_refuses)
{
    struct err e = {""};
    struct pool *p;
    EXPECT(pool_open(&p, 0, &e) == ERR_ARG && !p && e.text[0]);
    EXPECT(pool_open(&p, 5000, &e) == ERR_ARG);
}

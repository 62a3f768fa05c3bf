/* pool_test.c - goal: every chunk runs once in every phase, for any number of threads and cores. */
#include "pool.h"
#include "cores.h"
#include "cpu.h"
#include "os.h"
#include "../../tests/unit.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct counts {
    _Atomic int *run; /* [n_chunk] number of runs of each chunk */
    int n_thread;
    _Atomic int n_bad_worker;
};

static void count(void *ctx, int chunk, int worker)
{
    struct counts *c = ctx;
    atomic_fetch_add(&c->run[chunk], 1);
    if (worker < 0 || worker >= c->n_thread) atomic_fetch_add(&c->n_bad_worker, 1);
}

/* Open a pool of n threads on any machine, by describing n CPUs. */
static int open_wide(struct pool **p, int n, struct err *e)
{
    struct cores c;
    cores_make(&c, n, n);
    return pool_open_on(p, n, &c, e);
}

/* Run phases of changing lengths. Each chunk must run exactly once, on a worker of the pool. */
static void run_phases(int n_thread, int n_phase)
{
    enum { N = 300 };
    struct err e;
    struct pool *p;
    struct counts c = {.run = calloc(N, sizeof(_Atomic int)), .n_thread = n_thread};
    int want[N] = {0};
    NEED(c.run);
    NEED_OK(open_wide(&p, n_thread, &e), &e);
    EXPECT_INT(pool_n_thread(p), n_thread);
    for (int i = 0; i < n_phase; i++) {
        int n = i * 37 % (N + 1);
        pool_run(p, count, &c, n);
        for (int k = 0; k < n; k++) want[k]++;
        /* the chunk is done before pool_run returns */
        if (n) NEED(atomic_load(&c.run[n - 1]) == want[n - 1]);
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
    /* Goal: parked workers wake up. Method: phases 1 ms apart. */
    struct err e;
    struct pool *p;
    _Atomic int run[4] = {0};
    struct counts c = {.run = run, .n_thread = 3};
    NEED_OK(open_wide(&p, 3, &e), &e);
    for (int i = 0; i < 20; i++) {
        struct timespec ms = {.tv_nsec = 1000000};
        nanosleep(&ms, NULL);
        pool_run(p, count, &c, 4);
    }
    for (int i = 0; i < 4; i++) EXPECT_INT(atomic_load(&run[i]), 20);
    pool_close(p);
    pool_close(NULL);
}

static void spin_us(int us)
{
    for (int64_t until = time_us() + us; time_us() < until;) cpu_pause();
}

static void uneven(void *ctx, int chunk, int worker)
{
    spin_us(chunk * 7919 % 31);
    count(ctx, chunk, worker);
}

TEST(pool_takes_the_chunks_of_late_workers)
{
    /* Goal: other workers run the chunks of a range if its owner is late, slow or parked. Method:
     * use more threads than cores, uneven chunks, phases of few and of many chunks, and gaps of any
     * length. */
    struct err e;
    struct pool *p;
    _Atomic int run[40] = {0};
    struct counts c = {.run = run, .n_thread = 16};
    NEED_OK(open_wide(&p, 16, &e), &e);
    int n_phase = test_long() ? 20000 : 300, want = 0;
    for (int i = 0; i < n_phase; i++) {
        int n = 1 + i * 13 % 40;
        pool_run(p, uneven, &c, n);
        if (n == 40) want++;
        if (i % 50 == 0) spin_us(i % 300);
    }
    EXPECT_INT(atomic_load(&run[39]), want);
    EXPECT_INT(atomic_load(&run[0]), n_phase);
    pool_close(p);
}

TEST_ALONE(pool_beside_a_busy_program)
{
    /* Goal: lending a core to the holder of a chunk loses no chunk. The caller may run on any core.
     * Method: use as many threads as CPUs, and a process that is busy on one CPU after the
     * other. */
    struct err e;
    struct pool *p;
    struct cores cores;
    cores_read(&cores);
    cpu_set_t before, after;
    sched_getaffinity(0, sizeof before, &before);
    _Atomic int run[64] = {0};
    struct counts c = {.run = run, .n_thread = cores.n_cpu};
    NEED_OK(pool_open(&p, cores.n_cpu, &e), &e);
    int n_phase = 0;
    for (int i = 0; i < cores.n_cpu && i < 4; i++) {
        pid_t busy = fork();
        if (busy == 0) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(cores.cpu[i].cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            for (;;) cpu_pause();
        }
        NEED(busy > 0);
        for (int64_t until = time_us() + 60000; time_us() < until; n_phase++)
            pool_run(p, uneven, &c, 64);
        kill(busy, SIGKILL);
        waitpid(busy, NULL, 0);
    }
    for (int i = 0; i < 64; i++) EXPECT_INT(atomic_load(&run[i]), n_phase);
    struct pool_stats s = pool_stats(p);
    test_note("%d phases, core lent %d times", n_phase, (int)s.n_lend);
    pool_close(p);
    sched_getaffinity(0, sizeof after, &after);
    EXPECT(CPU_EQUAL(&before, &after));
}

TEST_ALONE(pool_counts)
{
    struct err e;
    struct pool *p;
    _Atomic int run[8] = {0};
    struct counts c = {.run = run, .n_thread = 2};
    NEED_OK(open_wide(&p, 2, &e), &e);
    int64_t start = time_us();
    for (int i = 0; i < 100; i++) pool_run(p, uneven, &c, 8);
    double us = (double)(time_us() - start);
    struct pool_stats s = pool_stats(p);
    struct pool_worker_stats a = pool_worker_stats(p, 0), b = pool_worker_stats(p, 1);
    EXPECT_INT(s.n_phase, 100);
    EXPECT_INT(s.n_chunk, 800);
    EXPECT_INT(a.n_chunk + b.n_chunk, 800);
    EXPECT(s.run_us > 0 && s.run_us < us * 1.1 && s.wait_us <= s.run_us);
    EXPECT(s.work_us > 0 && s.work_us < 2.2 * us);
    pool_close(p);
}

TEST(pool_does_not_allocate)
{
    struct err e;
    struct pool *p;
    _Atomic int run[8] = {0};
    struct counts c = {.run = run, .n_thread = 3};
    NEED_OK(open_wide(&p, 3, &e), &e);
    uint64_t before = test_n_malloc();
    for (int i = 0; i < 100; i++) pool_run(p, count, &c, 8);
    EXPECT_INT(test_n_malloc(), before);
    pool_close(p);
}

TEST(pool_has_no_more_threads_than_cpus)
{
    /* Goal: a pool has at most as many threads as the affinity has CPUs, and no thread leaves the
     * affinity. Method: bind this thread, and thereby the pool, to one CPU. Then open pools on a
     * fictitious machine with hyperthreads. */
    struct err e;
    struct pool *p;
    cpu_set_t all, one, now;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    NEED(sched_setaffinity(0, sizeof one, &one) == 0);
    NEED_OK(pool_open(&p, 16, &e), &e);
    EXPECT_INT(pool_n_thread(p), 1);
    _Atomic int run[8] = {0};
    struct counts c = {.run = run, .n_thread = 1};
    for (int i = 0; i < 100; i++) pool_run(p, count, &c, 8);
    EXPECT_INT(atomic_load(&run[7]), 100);
    pool_close(p);
    sched_getaffinity(0, sizeof now, &now);
    EXPECT(CPU_EQUAL(&now, &one));
    sched_setaffinity(0, sizeof all, &all);

    struct cores two;
    cores_make(&two, 4, 2);
    for (int n = 1; n <= 5; n++) {
        NEED_OK(pool_open_on(&p, n, &two, &e), &e);
        EXPECT_INT(pool_n_thread(p), n < 4 ? n : 4);
        c.n_thread = n;
        for (int i = 0; i < 100; i++) pool_run(p, count, &c, 8);
        pool_close(p);
    }
    EXPECT_INT(atomic_load(&run[7]), 600);
    EXPECT_INT(atomic_load(&c.n_bad_worker), 0);
}

TEST(pool_refuses)
{
    struct err e = {0};
    struct pool *p;
    EXPECT(pool_open(&p, 0, &e) == ERR_ARG && !p && e.text[0]);
    EXPECT(pool_open(&p, 5000, &e) == ERR_ARG);
}

/* ---- several threads ---- */

enum { N_SHARER = 4, N_SHARED_PHASE = 300 };

struct sharer {
    struct pool *pool; /* borrowed */
    _Atomic int *n_in; /* borrowed: number of threads with a turn */
    bool turns;
    _Atomic int n_chunk;
    int n_wrong;
};

static void shared_chunk(void *ctx, int chunk, int worker)
{
    struct sharer *s = ctx;
    (void)chunk, (void)worker;
    atomic_fetch_add(&s->n_chunk, 1);
}

static void *share(void *sharer)
{
    struct sharer *s = sharer;
    for (int i = 0; i < N_SHARED_PHASE; i++) {
        if (s->turns) {
            pool_begin(s->pool);
            s->n_wrong += atomic_fetch_add(s->n_in, 1) != 0;
            pool_run(s->pool, shared_chunk, s, 3);
            pool_run(s->pool, shared_chunk, s, 4);
            atomic_fetch_sub(s->n_in, 1);
            pool_end(s->pool);
        } else {
            pool_run(s->pool, shared_chunk, s, 7);
        }
    }
    return NULL;
}

TEST(pool_is_shared_in_turns)
{
    /* Goal: threads that share a pool run each chunk once, and no two of them have a turn. */
    struct err e = {0};
    struct pool *p;
    struct sharer s[N_SHARER];
    pthread_t thread[N_SHARER];
    _Atomic int n_in = 0;
    NEED_OK(pool_open(&p, 2, &e), &e);
    pool_share(p);
    for (int i = 0; i < N_SHARER; i++) {
        s[i] = (struct sharer){.pool = p, .n_in = &n_in, .turns = i % 2 == 0};
        NEED(pthread_create(&thread[i], NULL, share, &s[i]) == 0);
    }
    for (int i = 0; i < N_SHARER; i++) {
        pthread_join(thread[i], NULL);
        EXPECT_INT(s[i].n_chunk, N_SHARED_PHASE * 7);
        EXPECT_INT(s[i].n_wrong, 0);
    }
    pool_close(p);
}

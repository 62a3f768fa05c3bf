/* pool.h - the worker threads. One pool per process; the engine thread is worker 0.
 *
 * Work is claimed in chunks, and a phase ends when all chunks are done, not when all threads
 * arrived: a thread that was preempted while it holds no chunk stalls nobody, and one that holds a
 * chunk is helped to a core. Which worker runs which chunk must never matter to the result
 * (docs/design.md 5). Workers never allocate, lock or log. */
#ifndef QUOTH_BASE_POOL_H
#define QUOTH_BASE_POOL_H

#include "err.h"

#include <stdint.h>

struct pool;

/* Work on chunk number `chunk` of the phase; `worker` in [0, pool_n_thread) names scratch, never
 * a result. */
typedef void pool_fn(void *ctx, int chunk, int worker);

/* n_thread >= 1 counts the caller; more than there are CPUs are as many as there are CPUs. */
int pool_open(struct pool **p, int n_thread, struct err *e);
/* The same as if these were the processors: for tests. */
struct cores;
int pool_open_on(struct pool **p, int n_thread, const struct cores *c, struct err *e);
void pool_close(struct pool *p); /* NULL is fine */

int pool_n_thread(const struct pool *p);

/* Run fn(ctx, 0 .. n_chunk-1); returns when all are done. n_chunk <= 16,000,000. One caller at a
 * time. */
void pool_run(struct pool *p, pool_fn *fn, void *ctx, int n_chunk);

/* What the pool did since it was opened. The caller of pool_run, between phases. */
struct pool_stats {
    uint64_t n_phase; /* calls of pool_run                                           */
    uint64_t n_chunk; /* of all workers                                              */
    uint64_t n_wake;  /* phases that found workers parked                            */
    uint64_t n_lend;  /* times that a waiting thread gave its core to a holder     */
    double run_us;    /* the caller's time in pool_run                               */
    double wait_us;   /* of that, waiting for the others' last chunks                */
    double work_us;   /* all workers' time in chunks; n_thread * run_us at best       */
};
struct pool_stats pool_stats(const struct pool *p);
struct pool_stats pool_stats_since(const struct pool *p, const struct pool_stats *before);

struct pool_worker_stats {
    uint64_t n_chunk;
    double work_us;
};
struct pool_worker_stats pool_worker_stats(const struct pool *p, int worker);

#endif

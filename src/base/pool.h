/* pool.h - the worker threads. One pool per process; the engine thread is worker 0.
 *
 * Work is claimed in chunks. A phase ends when all chunks are done, not when all threads have
 * arrived: a preempted thread that holds no chunk delays nothing, and one that holds a chunk is
 * given a core. Results must not depend on which worker runs which chunk (docs/design.md 5).
 * Workers never allocate, lock or log. */
#ifndef QUOTH_BASE_POOL_H
#define QUOTH_BASE_POOL_H

#include "err.h"

#include <stdint.h>

struct pool;

/* Compute chunk number `chunk` of the phase. `worker` in [0, pool_n_thread) may select scratch
 * memory, never a result. */
typedef void pool_fn(void *ctx, int chunk, int worker);

/* Open a pool of n_thread >= 1 threads, the caller included; clamped to the number of CPUs. */
int pool_open(struct pool **p, int n_thread, struct err *e);
/* Open a pool as if c described the processors: for tests. */
struct cores;
int pool_open_on(struct pool **p, int n_thread, const struct cores *c, struct err *e);
void pool_close(struct pool *p); /* NULL is allowed */

int pool_n_thread(const struct pool *p);

/* Run fn(ctx, 0 .. n_chunk-1) and return when all are done. n_chunk <= 16,000,000. One caller at a
 * time. */
void pool_run(struct pool *p, pool_fn *fn, void *ctx, int n_chunk);

/* Counters since pool_open. Thread: the caller of pool_run, between phases. */
struct pool_stats {
    uint64_t n_phase; /* calls of pool_run                                           */
    uint64_t n_chunk; /* chunks run, all workers */
    uint64_t n_wake;  /* phases that had to wake parked workers */
    uint64_t n_lend;  /* times that a waiting thread lent its core to a chunk's holder */
    double run_us;    /* the caller's time in pool_run */
    double wait_us;   /* part of run_us: waiting for the last chunks of other threads */
    double work_us;   /* time in chunks, all workers; at most n_thread * run_us */
};
struct pool_stats pool_stats(const struct pool *p);
struct pool_stats pool_stats_since(const struct pool *p, const struct pool_stats *before);

struct pool_worker_stats {
    uint64_t n_chunk;
    double work_us;
};
struct pool_worker_stats pool_worker_stats(const struct pool *p, int worker);

#endif

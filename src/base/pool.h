/* pool.h - the worker threads. Worker 0 is the thread that calls pool_run, such as the engine
 * thread. Only one thread at a time may use a pool, or several threads in turns (pool_share).
 *
 * Work is claimed in chunks. A phase ends as soon as all chunks are done, even if some threads have
 * not arrived. A preempted thread without a chunk causes no delay. A preempted thread with a chunk
 * is moved to a free core. Results must not depend on the assignment of chunks to workers
 * (docs/design.md 5). Workers never lock or log. Workers allocate only in the caches of a grammar
 * (docs/style.md 5). */
#ifndef QUOTH_BASE_POOL_H
#define QUOTH_BASE_POOL_H

#include "err.h"

#include <stdbool.h>
#include <stdint.h>

struct pool;

/* Compute the chunk with the number `chunk` of the phase. `worker` in [0, pool_n_thread) may select
 * scratch memory, but must not change results. */
typedef void pool_fn(void *ctx, int chunk, int worker);

/* Open a pool of n_thread >= 1 threads, including the caller. n_thread is clamped to the number of
 * CPUs. The caller owns *p, which is NULL after an error. ERR_ARG if n_thread is not in [1, 1024].
 * ERR_MEMORY also if a thread cannot start. */
int pool_open(struct pool **p, int n_thread, struct err *e);
struct cores;
/* Open a pool as if c, borrowed for the call, described the processors. For tests. Errors are those
 * of pool_open. */
int pool_open_on(struct pool **p, int n_thread, const struct cores *c, struct err *e);
void pool_close(struct pool *p); /* end the threads and free p; NULL is allowed */

/* Allow several threads to use the pool in turns. Call it before the second thread uses the
 * pool. */
void pool_share(struct pool *p);
/* Return true after pool_share. */
bool pool_is_shared(const struct pool *p);
/* Begin a turn of the calling thread: wait until all turns that were requested earlier have ended.
 * Outside of a turn, pool_run takes a turn for its phase. The call has no effect if the pool is not
 * shared. A thread has one turn at a time. */
void pool_begin(struct pool *p);
void pool_end(struct pool *p); /* end the turn of pool_begin */

/* Return the number of threads of the pool. */
int pool_n_thread(const struct pool *p);

/* Run fn for the chunks [0, n_chunk). Return after all chunks are done. n_chunk <= 16,000,000. */
void pool_run(struct pool *p, pool_fn *fn, void *ctx, int n_chunk);

/* Counters since pool_open. */
struct pool_stats {
    uint64_t n_phase; /* calls of pool_run                                           */
    uint64_t n_chunk; /* chunks run by all workers */
    uint64_t n_wake;  /* number of phases that woke parked workers */
    uint64_t n_lend;  /* number of loans of a core from a waiting thread to a chunk's thread */
    double run_us;    /* time of the caller in pool_run */
    double wait_us;   /* part of run_us: waiting for the last chunks of other threads */
    double work_us;   /* time of all workers in chunks; at most n_thread * run_us */
};
/* Return the statistics since the pool was opened. */
struct pool_stats pool_stats(const struct pool *p);
/* Return the statistics since `before`, an earlier result of pool_stats for this pool. */
struct pool_stats pool_stats_since(const struct pool *p, const struct pool_stats *before);

struct pool_worker_stats {
    uint64_t n_chunk;
    double work_us;
};
/* Return the number of chunks and the working time, microseconds, of one worker in [0, n_thread)
 * since the pool was opened. */
struct pool_worker_stats pool_worker_stats(const struct pool *p, int worker);

#endif

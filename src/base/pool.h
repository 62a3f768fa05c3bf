/* pool.h - the worker threads. One pool per process; the engine thread is worker 0.
 *
 * Work is claimed in chunks, and a phase ends when all chunks are done, not when all threads
 * arrived: a thread that was preempted while it holds no chunk stalls nobody. Which worker runs
 * which chunk must never matter to the result (docs/design.md 5). Workers never allocate, lock or
 * log. */
#ifndef QUOTH_BASE_POOL_H
#define QUOTH_BASE_POOL_H

#include "err.h"

struct pool;

/* Work on chunk number `chunk` of the phase; `worker` in [0, pool_n_thread) names scratch, never
 * a result. */
typedef void pool_fn(void *ctx, int chunk, int worker);

/* n_thread >= 1 counts the caller; 1 starts no thread. */
int pool_open(struct pool **p, int n_thread, struct err *e);
void pool_close(struct pool *p); /* NULL is fine */

int pool_n_thread(const struct pool *p);

/* Run fn(ctx, 0 .. n_chunk-1); returns when all are done. n_chunk <= 16,000,000. One caller at a
 * time. */
void pool_run(struct pool *p, pool_fn *fn, void *ctx, int n_chunk);

#endif

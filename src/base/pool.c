/* pool.c - see pool.h.
 *
 * One atomic word says everything a worker needs to claim a chunk: phase number, chunk count, next
 * chunk. A claim is a fetch_add whose returned value decides alone, so a late worker can only claim
 * a chunk of the current phase: fn and ctx are written before the word is published and stay until
 * every claimed chunk is done.
 *
 *   caller: job = ...; word = (phase, n_chunk, 0); wake the parked; claim and run;
 *           wait for n_done == n_chunk
 *   worker: spin until word has unclaimed chunks -> claim and run;
 *           after SPIN_US without work, park on `phase`
 *
 * A wake costs 35 us, a spin hand-over well under 1 us: workers spin through the gaps inside a
 * step and park between steps. */
#include "pool.h"
#include "cpu.h"
#include "os.h"

#include <assert.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPIN_US = 80, CHUNK_BITS = 24, CHUNK_MASK = (1 << CHUNK_BITS) - 1 };

struct pool {
    _Alignas(64) _Atomic uint64_t word; /* phase << 48 | n_chunk << 24 | next chunk */
    _Alignas(64) _Atomic int n_done;
    _Alignas(64) _Atomic uint32_t phase; /* what parked workers wait on */
    _Atomic int n_parked;
    _Atomic bool quit;
    pool_fn *fn;
    void *ctx;
    int n_thread;
    int n_started;
    pthread_t thread[]; /* [n_thread - 1] */
};

struct worker_arg {
    struct pool *pool;
    int worker;
};

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool has_work(uint64_t word)
{
    return (word & CHUNK_MASK) < (word >> CHUNK_BITS & CHUNK_MASK);
}

/* Claim and run chunks until none is left. */
static void run_chunks(struct pool *p, int worker)
{
    while (has_work(atomic_load_explicit(&p->word, memory_order_acquire))) {
        uint64_t w = atomic_fetch_add_explicit(&p->word, 1, memory_order_acq_rel);
        if (!has_work(w)) return;
        p->fn(p->ctx, (int)(w & CHUNK_MASK), worker);
        atomic_fetch_add_explicit(&p->n_done, 1, memory_order_acq_rel);
    }
}

static void park(struct pool *p, uint32_t phase)
{
    atomic_fetch_add(&p->n_parked, 1);
    if (atomic_load(&p->phase) == phase && !atomic_load(&p->quit))
        syscall(SYS_futex, &p->phase, FUTEX_WAIT_PRIVATE, phase, NULL, NULL, 0);
    atomic_fetch_sub(&p->n_parked, 1);
}

static void *worker_main(void *arg)
{
    struct worker_arg a = *(struct worker_arg *)arg;
    free(arg);
    struct pool *p = a.pool;
    cpu_float_canonical();
    while (!atomic_load(&p->quit)) {
        uint32_t phase = atomic_load(&p->phase);
        int64_t until = time_us() + SPIN_US;
        do {
            run_chunks(p, a.worker);
            for (int i = 0; i < 64 && !has_work(atomic_load(&p->word)); i++) pause_cpu();
        } while (has_work(atomic_load(&p->word)) || time_us() < until);
        if (atomic_load(&p->phase) == phase) park(p, phase);
    }
    return NULL;
}

int pool_open(struct pool **out, int n_thread, struct err *e)
{
    *out = NULL;
    if (n_thread < 1 || n_thread > 1024)
        return err_set(e, ERR_ARG, "threads: %d is not between 1 and 1024", n_thread);
    size_t n_byte = sizeof(struct pool) + sizeof(pthread_t) * (size_t)n_thread;
    struct pool *p = aligned_alloc(64, (n_byte + 63) / 64 * 64);
    if (!p) return err_memory(e, "the thread pool", n_byte);
    *p = (struct pool){.n_thread = n_thread};
    for (int i = 1; i < n_thread; i++) {
        struct worker_arg *arg = malloc(sizeof *arg);
        if (arg) *arg = (struct worker_arg){.pool = p, .worker = i};
        if (!arg || pthread_create(&p->thread[i - 1], NULL, worker_main, arg) != 0) {
            free(arg);
            pool_close(p);
            return err_set(e, ERR_MEMORY, "cannot start worker thread %d of %d", i, n_thread - 1);
        }
        p->n_started++;
    }
    *out = p;
    return 0;
}

void pool_close(struct pool *p)
{
    if (!p) return;
    atomic_store(&p->quit, true);
    atomic_fetch_add(&p->phase, 1);
    syscall(SYS_futex, &p->phase, FUTEX_WAKE_PRIVATE, 1 << 20, NULL, NULL, 0);
    for (int i = 0; i < p->n_started; i++) pthread_join(p->thread[i], NULL);
    free(p);
}

int pool_n_thread(const struct pool *p)
{
    return p->n_thread;
}

void pool_run(struct pool *p, pool_fn *fn, void *ctx, int n_chunk)
{
    assert(n_chunk <= CHUNK_MASK - 2048); /* room for late claims of every thread */
    if (n_chunk <= 0) return;
    p->fn = fn;
    p->ctx = ctx;
    atomic_store(&p->n_done, 0);
    uint32_t phase = atomic_load(&p->phase) + 1;
    atomic_store(&p->word, (uint64_t)(phase & 0xFFFF) << 48 | (uint64_t)n_chunk << CHUNK_BITS);
    atomic_store(&p->phase, phase);
    if (p->n_thread > 1 && n_chunk > 1 && atomic_load(&p->n_parked) > 0)
        syscall(SYS_futex, &p->phase, FUTEX_WAKE_PRIVATE, n_chunk - 1, NULL, NULL, 0);
    run_chunks(p, 0);
    for (int spin = 0; atomic_load_explicit(&p->n_done, memory_order_acquire) < n_chunk; spin++) {
        if (spin < 4096)
            pause_cpu();
        else
            sched_yield(); /* more threads than cores: let the holder of the last chunk run */
    }
}

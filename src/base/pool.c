/* pool.c - see pool.h.
 *
 * The chunks of a phase are cut into a range for each thread. A worker claims from its own range
 * first, so that from phase to phase and from token to token a core works on the same weights and
 * finds them in its cache; then it takes what is left of the others'. (Reading 0.5 to 4 MB again
 * and again on two cores with 2 MB of L2 each: 1.3 to 2 times as fast as with one common queue.)
 *
 *   caller: fn, ctx; job = (phase, n_chunk); wake the parked; claim and run; wait for all chunks
 *   worker: spin until job changes -> claim and run; after SPIN_US without a job, park on `phase`
 *
 * A claim is a compare-and-swap on a range's word, (phase, next chunk). A worker that comes late
 * with an old job finds the ranges of its phase used up or already of a newer one, because a phase
 * ends only when every chunk of it was claimed and done; so fn and ctx stay until then.
 *
 * Waiting. A spinning worker takes a job over in 0.3 us; waking a parked one takes 21 to 50 us (90
 * at the ninth decile; 2-core virtual machine, Linux 6.18). So workers spin through the gaps inside
 * a step, and for about as long as a wake takes, then park.
 *
 * Other programs. A system gives a core to each of its threads for milliseconds at a time, hundreds
 * of phases; and the worker that has to make room for one mostly holds a chunk. Who waits longer
 * than SPIN_US looks for a holder that does not run, moves it to its own core, and sleeps. With a
 * foreign busy loop on one of two cores 69 to 84 % of the idle machine's throughput are left (75 %
 * is the share of two cores that it leaves); without that it was 50 %.
 *
 * Cores. There are never more threads than CPUs: they could only get in each other's way. With as
 * many threads as CPUs or as cores each worker is pinned to its own; the caller is not, it keeps
 * the core on which the system runs it, and the worker whose home that was gets the caller's former
 * one. Fewer threads are left to the system, so that two programs do not meet on the same cores
 * while others are idle. */
#include "pool.h"
#include "cores.h"
#include "cpu.h"
#include "os.h"

#include <assert.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SPIN_US = 80,
    STALL_US = 10,     /* a thread whose clock stands still for that long does not run */
    RECHECK_US = 1000, /* how long a sleep for the end of a phase lasts at most */
    CHUNK_BITS = 24,   /* of a job and of a range; the phase above them lasts for years */
};

/* Two lines of cache: what others write, and what the worker itself writes. */
struct worker {
    _Alignas(64) _Atomic uint64_t range; /* phase << CHUNK_BITS | chunks claimed of its range */
    _Atomic int home;                    /* number of its CPUs in pool.home */
    _Atomic bool moved;                  /* by a waiter; it goes home by itself */
    _Alignas(64) _Atomic bool claims;    /* it may hold a chunk */
    _Atomic pid_t tid;                   /* 0: has not begun */
    struct pool *pool;
    int index;
    _Atomic uint64_t n_chunk, work_ticks;
    pthread_t thread;
};

struct pool {
    _Alignas(64) _Atomic uint64_t job; /* phase << CHUNK_BITS | n_chunk */
    pool_fn *fn;
    void *ctx;
    _Alignas(64) _Atomic uint32_t n_done; /* chunks; the caller may sleep on it */
    _Atomic bool sleeps;
    _Alignas(64) _Atomic uint32_t phase; /* low bits; what parked workers sleep on */
    _Atomic int n_parked;
    _Atomic bool quit;
    _Atomic uint64_t n_lend;

    int n_thread, n_started;
    bool pinned;
    cpu_set_t all;   /* where the process may run */
    cpu_set_t *home; /* owned [n_thread], if pinned */

    uint64_t n_phase, n_wake, run_ticks, wait_ticks;
    uint64_t open_ticks;
    int64_t open_us;
    struct worker worker[]; /* [n_thread]; 0 is the caller */
};

/* ---- the system ---- */

static void futex_wait(_Atomic uint32_t *at, uint32_t value, int us) /* us < 0: for ever */
{
    struct timespec t = {.tv_nsec = us * 1000L};
    syscall(SYS_futex, at, FUTEX_WAIT_PRIVATE, value, us < 0 ? NULL : &t, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *at, int n)
{
    syscall(SYS_futex, at, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

/* Processor time that another thread of this process has had, to the nanosecond; -1 if it is gone. */
static int64_t thread_ns(pid_t tid)
{
    struct timespec t;
    clockid_t its = (clockid_t)(~(unsigned)tid << 3 | 6); /* CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED */
    return clock_gettime(its, &t) == 0 ? (int64_t)t.tv_sec * 1000000000 + t.tv_nsec : -1;
}

static pid_t own_tid(void)
{
    static _Thread_local pid_t tid;
    if (!tid) tid = (pid_t)syscall(SYS_gettid);
    return tid;
}

/* Where a thread of the pool may run: a wish, like all affinity here. 0 is the calling thread. */
static void allow(pid_t tid, const cpu_set_t *set)
{
    sched_setaffinity(tid, sizeof *set, set);
}

static void go_home(struct worker *w)
{
    struct pool *p = w->pool;
    atomic_store(&w->moved, false);
    allow(0, p->pinned && w->index > 0 ? &p->home[atomic_load(&w->home)] : &p->all);
}

/* ---- claiming ---- */

static uint64_t phase_of(uint64_t word)
{
    return word >> CHUNK_BITS;
}

static uint32_t chunks_of(uint64_t word)
{
    return word & ((1u << CHUNK_BITS) - 1);
}

/* First chunk of range i when a phase has n. */
static uint32_t range_begin(const struct pool *p, int i, uint32_t n)
{
    return (uint32_t)((uint64_t)n * (unsigned)i / (unsigned)p->n_thread);
}

/* The next chunk of range i; -1: none left, or the job is over. */
static int claim(struct pool *p, int i, uint64_t job)
{
    uint32_t begin = range_begin(p, i, chunks_of(job));
    uint32_t n = range_begin(p, i + 1, chunks_of(job)) - begin, next;
    _Atomic uint64_t *range = &p->worker[i].range;
    uint64_t word = atomic_load_explicit(range, memory_order_acquire);
    do {
        bool begun = phase_of(word) == phase_of(job);
        if (!begun && atomic_load_explicit(&p->job, memory_order_relaxed) != job) return -1;
        next = begun ? chunks_of(word) : 0;
        if (next >= n) return -1;
    } while (!atomic_compare_exchange_weak_explicit(range, &word,
                                                    phase_of(job) << CHUNK_BITS | (next + 1),
                                                    memory_order_acq_rel, memory_order_acquire));
    return (int)(begin + next);
}

/* Of a counter that one thread alone changes. */
static void count(_Atomic uint64_t *at, uint64_t n)
{
    atomic_store_explicit(at, atomic_load_explicit(at, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* n more chunks are done. Returns whether that were the last. */
static bool report(struct pool *p, uint32_t n, uint64_t job)
{
    if (n == 0 || atomic_fetch_add(&p->n_done, n) + n < chunks_of(job)) return false;
    if (atomic_load(&p->sleeps)) futex_wake(&p->n_done, 1);
    return true;
}

/* Claim and run chunks of the job until none is left. */
static void run_chunks(struct worker *w, uint64_t job)
{
    struct pool *p = w->pool;
    uint64_t start = cpu_ticks();
    atomic_store_explicit(&w->claims, true, memory_order_relaxed);
    bool over = false;
    for (int k = 0; k < p->n_thread && !over; k++) {
        int i = (w->index + k) % p->n_thread;
        uint32_t n = 0;
        for (int chunk; (chunk = claim(p, i, job)) >= 0; n++) p->fn(p->ctx, chunk, w->index);
        count(&w->n_chunk, n);
        over = report(p, n, job); /* before a look at other ranges, whose lines are far away */
    }
    count(&w->work_ticks, cpu_ticks() - start);
    atomic_store_explicit(&w->claims, false, memory_order_relaxed);
    if (atomic_load_explicit(&w->moved, memory_order_relaxed)) go_home(w);
}

/* ---- waiting ---- */

static bool runs(struct worker *w, pid_t tid)
{
    int64_t before = thread_ns(tid);
    for (int64_t until = time_us() + STALL_US; time_us() < until;) cpu_pause();
    return before < 0 || !atomic_load(&w->claims) || thread_ns(tid) != before;
}

/* Whether a thread that may hold a chunk does not run. The calling thread must then sleep, and has
 * left it its core. */
static bool lend_core(struct worker *me)
{
    struct pool *p = me->pool;
    for (int i = 0; i < p->n_thread; i++) {
        struct worker *w = &p->worker[i];
        pid_t tid = atomic_load(&w->tid);
        if (w == me || !tid || !atomic_load(&w->claims) || runs(w, tid)) continue;
        atomic_fetch_add(&p->n_lend, 1);
        if (!p->pinned) return true; /* the system finds out that a core is idle */
        cpu_set_t here;
        CPU_ZERO(&here);
        CPU_SET(sched_getcpu(), &here);
        allow(tid, &here);
        atomic_store(&w->moved, true); /* after it: a move that comes too late is undone too */
        return true;
    }
    return false;
}

static bool all_done(struct pool *p)
{
    return atomic_load(&p->n_done) >= chunks_of(atomic_load(&p->job));
}

/* The caller's: until the other workers' chunks are done. */
static void wait_done(struct pool *p, uint32_t n_chunk)
{
    int64_t until = 0;
    for (unsigned spin = 1; atomic_load(&p->n_done) < n_chunk; spin++) {
        cpu_pause();
        if (spin % 16) continue;
        int64_t now = time_us();
        if (!until) until = now + SPIN_US;
        if (now < until) continue;
        until = 0;
        if (!lend_core(&p->worker[0])) continue;
        atomic_store(&p->sleeps, true);
        uint32_t n = atomic_load(&p->n_done);
        if (n < n_chunk) futex_wait(&p->n_done, n, RECHECK_US);
        atomic_store(&p->sleeps, false);
    }
}

/* A worker's: until the job is not `job`. */
static void wait_job(struct worker *w, uint64_t job)
{
    struct pool *p = w->pool;
    int64_t until = time_us() + SPIN_US;
    do
        for (int i = 0; i < 16; i++) {
            if (atomic_load(&p->job) != job) return;
            cpu_pause();
        }
    while (!atomic_load(&p->quit) && time_us() < until);
    bool done = all_done(p);
    if (!done) lend_core(w);
    atomic_fetch_add(&p->n_parked, 1);
    if (!atomic_load(&p->quit))
        futex_wait(&p->phase, (uint32_t)phase_of(job), done ? -1 : RECHECK_US);
    atomic_fetch_sub(&p->n_parked, 1);
}

/* ---- threads ---- */

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    cpu_float_canonical();
    atomic_store(&w->tid, own_tid());
    if (p->pinned) go_home(w);
    for (uint64_t job = 0; !atomic_load(&p->quit); wait_job(w, job)) {
        uint64_t now = atomic_load(&p->job);
        if (now == job) continue;
        job = now;
        run_chunks(w, job);
    }
    return NULL;
}

/* Homes: a CPU each, or both hyperthreads of a core each. */
static int choose_homes(struct pool *p, const struct cores *c, struct err *e)
{
    p->pinned = p->n_thread > 1 && (p->n_thread == c->n_cpu || p->n_thread == c->n_core);
    if (!p->pinned) return 0;
    p->home = calloc((size_t)p->n_thread, sizeof *p->home);
    if (!p->home) return err_memory(e, "the thread pool", (size_t)p->n_thread * sizeof *p->home);
    for (int i = 0; i < c->n_cpu; i++)
        CPU_SET(c->cpu[i].cpu, &p->home[p->n_thread == c->n_cpu ? i : c->cpu[i].core]);
    return 0;
}

static int start_workers(struct pool *p, struct err *e)
{
    for (int i = 0; i < p->n_thread; i++)
        p->worker[i] = (struct worker){.pool = p, .index = i, .home = i};
    while (p->n_started < p->n_thread - 1) {
        struct worker *w = &p->worker[p->n_started + 1];
        if (pthread_create(&w->thread, NULL, worker_main, w) != 0)
            return err_set(e, ERR_MEMORY, "cannot start worker thread %d of %d", w->index,
                           p->n_thread - 1);
        p->n_started++;
    }
    return 0;
}

int pool_open_on(struct pool **out, int n_thread, const struct cores *c, struct err *e)
{
    *out = NULL;
    if (n_thread < 1 || n_thread > CORES_CPU_MAX)
        return err_set(e, ERR_ARG, "threads: %d is not between 1 and %d", n_thread, CORES_CPU_MAX);
    if (n_thread > c->n_cpu) n_thread = c->n_cpu;
    size_t n_byte = sizeof(struct pool) + sizeof(struct worker) * (size_t)n_thread;
    struct pool *p = aligned_alloc(64, (n_byte + 63) / 64 * 64);
    if (!p) return err_memory(e, "the thread pool", n_byte);
    *p = (struct pool){.n_thread = n_thread, .open_ticks = cpu_ticks(), .open_us = time_us()};
    sched_getaffinity(0, sizeof p->all, &p->all);
    int rc = choose_homes(p, c, e);
    if (rc == 0) rc = start_workers(p, e);
    if (rc != 0) {
        pool_close(p);
        return rc;
    }
    *out = p;
    return 0;
}

int pool_open(struct pool **out, int n_thread, struct err *e)
{
    struct cores c;
    cores_read(&c);
    return pool_open_on(out, n_thread, &c, e);
}

void pool_close(struct pool *p)
{
    if (!p) return;
    atomic_store(&p->quit, true);
    atomic_fetch_add(&p->phase, 1);
    futex_wake(&p->phase, p->n_started);
    for (int i = 1; i <= p->n_started; i++) pthread_join(p->worker[i].thread, NULL);
    free(p->home);
    free(p);
}

int pool_n_thread(const struct pool *p)
{
    return p->n_thread;
}

/* ---- a phase ---- */

/* The worker that lives where the caller runs now moves to the caller's former home. */
static void keep_clear(struct pool *p)
{
    int cpu = sched_getcpu(), home = atomic_load(&p->worker[0].home);
    if (cpu < 0 || CPU_ISSET(cpu, &p->home[home])) return;
    for (int i = 1; i < p->n_thread; i++) {
        struct worker *w = &p->worker[i];
        int its = atomic_load(&w->home);
        if (!CPU_ISSET(cpu, &p->home[its])) continue;
        atomic_store(&p->worker[0].home, its);
        atomic_store(&w->home, home);
        if (atomic_load(&w->tid)) allow(atomic_load(&w->tid), &p->home[home]);
        return;
    }
}

/* Tell the workers of a phase. Returns its job. */
static uint64_t publish(struct pool *p, pool_fn *fn, void *ctx, int n_chunk)
{
    assert(n_chunk < 1 << CHUNK_BITS);
    if (p->pinned) keep_clear(p);
    atomic_store_explicit(&p->worker[0].tid, own_tid(), memory_order_relaxed);
    atomic_store_explicit(&p->n_done, 0, memory_order_relaxed);
    p->fn = fn;
    p->ctx = ctx;
    uint64_t phase = phase_of(atomic_load_explicit(&p->job, memory_order_relaxed)) + 1;
    uint64_t job = phase << CHUNK_BITS | (uint32_t)n_chunk;
    atomic_store(&p->job, job);
    atomic_store(&p->phase, (uint32_t)phase);
    if (atomic_load(&p->n_parked) > 0) {
        futex_wake(&p->phase, n_chunk - 1);
        p->n_wake++;
    }
    return job;
}

static void run_alone(struct pool *p, pool_fn *fn, void *ctx, int n_chunk)
{
    uint64_t start = cpu_ticks();
    for (int i = 0; i < n_chunk; i++) fn(ctx, i, 0);
    count(&p->worker[0].n_chunk, (uint64_t)n_chunk);
    count(&p->worker[0].work_ticks, cpu_ticks() - start);
}

void pool_run(struct pool *p, pool_fn *fn, void *ctx, int n_chunk)
{
    if (n_chunk <= 0) return;
    uint64_t start = cpu_ticks();
    if (n_chunk == 1 || p->n_thread == 1) {
        run_alone(p, fn, ctx, n_chunk);
    } else {
        run_chunks(&p->worker[0], publish(p, fn, ctx, n_chunk));
        uint64_t wait = cpu_ticks();
        wait_done(p, (uint32_t)n_chunk);
        p->wait_ticks += cpu_ticks() - wait;
    }
    p->n_phase++;
    p->run_ticks += cpu_ticks() - start;
}

/* ---- what was measured ---- */

static double ticks_per_us(const struct pool *p)
{
    int64_t us = time_us() - p->open_us;
    uint64_t ticks = cpu_ticks() - p->open_ticks;
    return us > 0 && ticks > 0 ? (double)ticks / (double)us : 1;
}

struct pool_worker_stats pool_worker_stats(const struct pool *p, int worker)
{
    const struct worker *w = &p->worker[worker];
    return (struct pool_worker_stats){w->n_chunk, (double)w->work_ticks / ticks_per_us(p)};
}

struct pool_stats pool_stats(const struct pool *p)
{
    double rate = ticks_per_us(p);
    struct pool_stats s = {
        .n_phase = p->n_phase,
        .n_wake = p->n_wake,
        .n_lend = atomic_load(&p->n_lend),
        .run_us = (double)p->run_ticks / rate,
        .wait_us = (double)p->wait_ticks / rate,
    };
    for (int i = 0; i < p->n_thread; i++) {
        s.n_chunk += p->worker[i].n_chunk;
        s.work_us += (double)p->worker[i].work_ticks / rate;
    }
    return s;
}

struct pool_stats pool_stats_since(const struct pool *p, const struct pool_stats *before)
{
    struct pool_stats s = pool_stats(p);
    s.n_phase -= before->n_phase;
    s.n_chunk -= before->n_chunk;
    s.n_wake -= before->n_wake;
    s.n_lend -= before->n_lend;
    s.run_us -= before->run_us;
    s.wait_us -= before->wait_us;
    s.work_us -= before->work_us;
    return s;
}

/* pool.c - see pool.h.
 *
 * The chunks of a phase are split into one range per thread. A worker claims from its own range
 * first, then from the other ranges. A core therefore uses the same weights in each phase and
 * token, and its cache already contains them. Repeated reading of 0.5 to 4 MB was 1.3 to 2 times as
 * fast as with one queue. The two cores had 2 MB of L2 each.
 *
 *   caller: fn, ctx; job = (phase, n_chunk); wake the parked; claim and run; wait for all chunks
 *   worker: spin until job changes -> claim and run; after SPIN_US without a job, park on `phase`
 *
 * A claim is a compare-and-swap on a range's word, (phase, next chunk). A phase ends only after all
 * its chunks are claimed and done. Therefore a late worker with an old job finds only empty ranges
 * or ranges of a newer phase. fn and ctx stay valid until the end of the phase.
 *
 * Waiting. A spinning worker begins a job within 0.3 us. Waking a parked worker takes 21 to 50 us,
 * and 90 us at the ninth decile (2-core virtual machine, Linux 6.18). Workers spin during the gaps
 * inside a step, for about the duration of a wake, then park.
 *
 * Other programs. The system assigns a core to a thread for milliseconds; hundreds of phases take
 * as long. A preempted worker usually holds a chunk. A thread that waits longer than SPIN_US
 * searches for a chunk's holder that is not running. The waiting thread moves that worker to its
 * own core and sleeps. With another program's busy loop on one of two cores, the move keeps 69 to
 * 84 % of the throughput of an idle machine. The fair share is 75 %. Without the move, the
 * throughput falls to 50 %.
 *
 * Cores. There are never more threads than CPUs, because additional threads would only compete.
 * Each worker is pinned to its own CPU or core if there are as many threads as CPUs or cores. The
 * caller is not pinned. The caller stays on the core on which the system runs it. The worker that
 * was pinned to that core is moved to the caller's former core. The system places the threads if
 * there are fewer threads than cores. Two programs then do not share cores while other cores are
 * idle. */
#include "pool.h"
#include "check.h"
#include "cores.h"
#include "cpu.h"
#include "os.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    /* A parked thread takes 34 to 59 us to join the other threads (ninth decile: 68 to 120 us;
     * docs/measurements.md). Spinning for the same time at most doubles a wait. */
    SPIN_US = 80,
    STALL_US = 10,     /* a thread is not running if its CPU clock stops for this time */
    RECHECK_US = 1000, /* maximum length of a sleep for the end of a phase */
    /* bits of the chunk number in a job and in a range; the phase counter has the other bits and
     * does not overflow for years */
    CHUNK_BITS = 24,
};

/* A worker occupies two cache lines. Other threads write the first line, the worker writes the
 * second line. */
struct worker {
    /* phase << CHUNK_BITS | number of claimed chunks of its range */
    _Alignas(64) _Atomic uint64_t range;
    _Atomic int home; /* index of the worker's CPU set in pool.home */
    /* true after a waiting thread moved the worker; the worker itself moves back */
    _Atomic bool moved;
    _Alignas(64) _Atomic bool claims; /* true if the worker may hold a chunk */
    _Atomic pid_t tid;                /* thread id; 0 before the thread has begun */
    struct pool *pool;                /* pool of the worker, borrowed */
    int index;
    _Atomic uint64_t n_chunk, work_ticks; /* totals for pool_stats; written by the worker only */
    pthread_t thread;
};

struct pool {
    _Alignas(64) _Atomic uint64_t job; /* phase << CHUNK_BITS | n_chunk */
    pool_fn *fn;
    void *ctx; /* argument of fn, borrowed for the phase */
    /* number of finished chunks; the caller may wait for it with a futex */
    _Alignas(64) _Atomic uint32_t n_done;
    _Atomic bool sleeps;                 /* true while the caller waits in the futex */
    _Alignas(64) _Atomic uint32_t phase; /* low bits of the phase; the futex of parked workers */
    _Atomic int n_parked;                /* number of workers in the futex or about to enter it */
    _Atomic bool quit;
    _Atomic uint64_t n_lend; /* number of cores lent by waiting threads */

    /* turns of the threads that share the pool: numbers of requested and of ended turns */
    bool shared;
    pthread_mutex_t lock; /* lock and turned are initialized if `shared` is true */
    pthread_cond_t turned;
    uint64_t n_turn, n_turned;

    int n_thread, n_started;
    bool pinned;
    cpu_set_t all;   /* CPUs that the process may use */
    cpu_set_t *home; /* CPU sets of the workers, owned [n_thread]; NULL if not pinned */

    uint64_t n_phase, n_wake, run_ticks, wait_ticks;
    uint64_t open_ticks;
    int64_t open_us;
    struct worker worker[]; /* [n_thread]; worker 0 is the caller */
};

/* ---- the system ---- */

/* Sleep while *at is `value`, for at most us microseconds. An early return is possible. */
static void futex_wait(_Atomic uint32_t *at, uint32_t value, int us) /* us < 0: no limit */
{
    struct timespec t = {.tv_nsec = us * 1000L};
    syscall(SYS_futex, at, FUTEX_WAIT_PRIVATE, value, us < 0 ? NULL : &t, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *at, int n)
{
    syscall(SYS_futex, at, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

/* Return the CPU time of another thread of this process in nanoseconds; -1 if it has ended. */
static int64_t thread_ns(pid_t tid)
{
    struct timespec t;
    clockid_t its = (clockid_t)(~(unsigned)tid << 3 | 6); /* CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED */
    return clock_gettime(its, &t) == 0 ? (int64_t)t.tv_sec * 1000000000 + t.tv_nsec : -1;
}

/* Return the calling thread's id. The id is read once per thread, because gettid is a system
 * call. */
static pid_t own_tid(void)
{
    static _Thread_local pid_t tid;
    if (!tid) tid = (pid_t)syscall(SYS_gettid);
    return tid;
}

/* Set the CPUs of a pool thread; tid 0 is the calling thread. A failure to set the affinity is
 * always ignored. */
static void allow(pid_t tid, const cpu_set_t *set)
{
    sched_setaffinity(tid, sizeof *set, set);
}

/* Restore the affinity of the calling worker. `moved` is reset first, so that a later move is also
 * undone. */
static void go_home(struct worker *w)
{
    struct pool *p = w->pool;
    atomic_store(&w->moved, false);
    allow(0, p->pinned && w->index > 0 ? &p->home[atomic_load(&w->home)] : &p->all);
}

/* ---- claiming ---- */

/* Return the phase of a word. The upper bits of a job or of a range are its phase, the lower bits a
 * number of chunks. */
static uint64_t phase_of(uint64_t word)
{
    return word >> CHUNK_BITS;
}

static uint32_t chunks_of(uint64_t word)
{
    return word & ((1u << CHUNK_BITS) - 1);
}

/* Return the number of the first chunk of range i in a phase of n chunks. */
static uint32_t range_begin(const struct pool *p, int i, uint32_t n)
{
    return (uint32_t)((uint64_t)n * (unsigned)i / (unsigned)p->n_thread);
}

/* Claim the next chunk of range i. Return -1 if no chunk is left or the phase is over. All chunks
 * of a range of an older phase are unclaimed if `job` is the current job. */
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

/* Add n to a counter that only one thread changes. */
static void count(_Atomic uint64_t *at, uint64_t n)
{
    atomic_store_explicit(at, atomic_load_explicit(at, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* Count n finished chunks. Return true after the last chunk of the job. */
static bool count_done(struct pool *p, uint32_t n, uint64_t job)
{
    if (n == 0 || atomic_fetch_add(&p->n_done, n) + n < chunks_of(job)) return false;
    if (atomic_load(&p->sleeps)) futex_wake(&p->n_done, 1);
    return true;
}

/* Claim and run chunks of the job until no chunk is left. */
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
        /* count before claiming from other ranges, because their cache lines belong to other
         * cores */
        over = count_done(p, n, job);
    }
    count(&w->work_ticks, cpu_ticks() - start);
    atomic_store_explicit(&w->claims, false, memory_order_relaxed);
    if (atomic_load_explicit(&w->moved, memory_order_relaxed)) go_home(w);
}

/* ---- waiting ---- */

/* Return true if the thread uses a CPU now, or holds no chunk. The thread's CPU clock is read
 * twice, STALL_US apart. */
static bool runs(struct worker *w, pid_t tid)
{
    int64_t before = thread_ns(tid);
    for (int64_t until = time_us() + STALL_US; time_us() < until;) cpu_pause();
    return before < 0 || !atomic_load(&w->claims) || thread_ns(tid) != before;
}

/* Give the core of the calling thread to a thread that may hold a chunk and is not running. Return
 * true if a thread got the core; the calling thread must then sleep. */
static bool lend_core(struct worker *me)
{
    struct pool *p = me->pool;
    for (int i = 0; i < p->n_thread; i++) {
        struct worker *w = &p->worker[i];
        pid_t tid = atomic_load(&w->tid);
        if (w == me || !tid || !atomic_load(&w->claims) || runs(w, tid)) continue;
        atomic_fetch_add(&p->n_lend, 1);
        if (!p->pinned) return true; /* the system itself uses the idle core */
        cpu_set_t here;
        CPU_ZERO(&here);
        CPU_SET(sched_getcpu(), &here);
        allow(tid, &here);
        /* set after allow(), so that the worker also undoes a late move */
        atomic_store(&w->moved, true);
        return true;
    }
    return false;
}

/* Return true if all chunks of the job are done. The result is only a hint for workers, because a
 * new phase may begin at any time. */
static bool all_done(struct pool *p)
{
    return atomic_load(&p->n_done) >= chunks_of(atomic_load(&p->job));
}

/* Wait until all chunks are done. Only pool_run's thread calls it. A sleep lasts at most
 * RECHECK_US, then the search for the holder is repeated. */
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

/* Wait until the job is not `job`. Only workers call it. n_parked is raised before the futex checks
 * `phase`, so that pool_run cannot miss a worker that is about to sleep. */
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

/* Run a worker until the pool closes. The first job of a worker may be an old job, which has no
 * chunks left. */
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

/* Assign each worker a CPU, or both hyperthreads of a core. */
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

/* Start the threads. Worker 0 is the caller, so n_thread - 1 threads are started. pool_close
 * accepts the pool after a failure. */
static int start_workers(struct pool *p, struct err *e)
{
    for (int i = 0; i < p->n_thread; i++)
        p->worker[i] = (struct worker){.pool = p, .index = i, .home = i};
    while (p->n_started < p->n_thread - 1) {
        struct worker *w = &p->worker[p->n_started + 1];
        if (!os_thread_start(&w->thread, worker_main, w))
            return err_set(e, ERR_MEMORY, "cannot start worker thread %d of %d: %s", w->index,
                           p->n_thread - 1, strerror(errno));
        p->n_started++;
    }
    return 0;
}

/* Align the memory to 64 bytes, because workers occupy whole cache lines. */
int pool_open_on(struct pool **out, int n_thread, const struct cores *c, struct err *e)
{
    *out = NULL;
    if (n_thread < 1 || n_thread > CORES_CPU_MAX)
        return err_field(e, ERR_ARG, "threads", ": must be in [1, %d], got %d", CORES_CPU_MAX,
                         n_thread);
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

/* Change the phase too, so that parked workers leave the futex. */
void pool_close(struct pool *p)
{
    if (!p) return;
    atomic_store(&p->quit, true);
    atomic_fetch_add(&p->phase, 1);
    futex_wake(&p->phase, p->n_started);
    for (int i = 1; i <= p->n_started; i++) pthread_join(p->worker[i].thread, NULL);
    /* a worker may have moved the caller after the caller's last chunk */
    struct worker *caller = &p->worker[0];
    if (atomic_load(&caller->moved) && atomic_load(&caller->tid) == own_tid()) go_home(caller);
    if (p->shared) {
        pthread_mutex_destroy(&p->lock);
        pthread_cond_destroy(&p->turned);
    }
    free(p->home);
    free(p);
}

int pool_n_thread(const struct pool *p)
{
    return p->n_thread;
}

/* ---- a phase ---- */

/* Move the worker that is pinned to the caller's current CPU to the caller's former CPU. */
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

/* Publish a phase to the workers. Return its job. */
static uint64_t publish(struct pool *p, pool_fn *fn, void *ctx, int n_chunk)
{
    CHECK(n_chunk < 1 << CHUNK_BITS, "%d chunks", n_chunk);
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

/* pool in which this thread has a turn; NULL if none */
static _Thread_local const struct pool *turn_in;

void pool_share(struct pool *p)
{
    CHECK(!p->shared, "a pool of %d threads", p->n_thread);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->turned, NULL);
    p->shared = true;
}

bool pool_is_shared(const struct pool *p)
{
    return p->shared;
}

/* Turns are in the order of their requests, so no thread waits for more than a turn of each other
 * thread. */
void pool_begin(struct pool *p)
{
    if (!p->shared) return;
    CHECK(!turn_in, "a second turn of a thread, after %llu", (unsigned long long)p->n_turn);
    pthread_mutex_lock(&p->lock);
    const uint64_t mine = p->n_turn++;
    while (p->n_turned != mine) pthread_cond_wait(&p->turned, &p->lock);
    pthread_mutex_unlock(&p->lock);
    turn_in = p;
}

void pool_end(struct pool *p)
{
    if (!p->shared) return;
    CHECK(turn_in == p, "the end of a turn without its begin");
    turn_in = NULL;
    pthread_mutex_lock(&p->lock);
    p->n_turned++;
    pthread_cond_broadcast(&p->turned);
    pthread_mutex_unlock(&p->lock);
}

void pool_run(struct pool *p, pool_fn *fn, void *ctx, int n_chunk)
{
    if (n_chunk <= 0) return;
    const bool alone = p->shared && turn_in != p;
    if (alone) pool_begin(p);
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
    if (alone) pool_end(p);
}

/* ---- statistics ---- */

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

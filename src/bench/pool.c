/* pool.c - quoth bench pool: measure the overhead of the threads. The command measures the time
 * until a worker has a job, and the cost of a phase in addition to its work. It also measures the
 * remaining throughput while another program uses one of the CPUs. The head of base/pool.c has the
 * results. */
#include "measure.h"

#include "base/cores.h"
#include "base/cpu.h"
#include "base/os.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static bool as_json;
static int64_t n_repeat = 200;

static const struct option options[] = {
    INT_OPTION("repeat", "N", &n_repeat, 2, 100000, "phases of each kind (default 200)",
               .letter = 'r'),
    FLAG_OPTION("json", &as_json, "one JSON object per row"),
    OPTIONS_OF(model_options),
    OPTIONS_END,
};

/* Print one result as text or JSON. */
static void row(const char *name, double value, const char *unit, const char *note)
{
    if (as_json)
        printf("{\"test\":\"%s\",\"value\":%.4f,\"unit\":\"%s\"}\n", name, value, unit);
    else
        printf("%-44s %9.2f %-8s %s\n", name, value, unit, note);
    fflush(stdout);
}

/* ---- work of a known length ---- */

/* Compute n operations. The loop counts operations, because elapsed time includes the time of other
 * programs. */
static void burn(int n)
{
    uint64_t x = 1;
    for (int i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1;
        __asm__ volatile("" : "+r"(x));
    }
}

/* Return the speed of burn. Use the best of 20 measurements, because other programs can only reduce
 * the speed. */
static double burns_per_us(void)
{
    double best = 0;
    for (int i = 0; i < 20; i++) {
        int64_t start = time_us();
        burn(1 << 20);
        double rate = (1 << 20) / (double)(time_us() - start + 1);
        if (rate > best) best = rate;
    }
    return best;
}

/* Do the work of one chunk (pool_run). */
static void burn_chunk(void *ctx, int chunk, int worker)
{
    (void)chunk, (void)worker;
    burn(*(int *)ctx);
}

/* ---- phases ---- */

/* A phase with one chunk per thread. Each chunk waits until all threads have begun. */
struct rendezvous_job {
    int n;
    _Atomic int n_begun;
};

/* Wait until all threads have begun (pool_run). */
static void rendezvous(void *ctx, int chunk, int worker)
{
    (void)chunk, (void)worker;
    struct rendezvous_job *j = ctx;
    atomic_fetch_add(&j->n_begun, 1);
    /* the wait is bounded, because this thread may take the chunk of a thread that another program
     * delays */
    for (int i = 0; i < 1000000 && atomic_load(&j->n_begun) < j->n; i++) cpu_pause();
}

/* Measure a phase in which every thread takes part and does nothing, after a pause. Print median
 * and ninth decile in microseconds. */
static int measure_rendezvous(struct pool *p, const char *name, int pause_us, struct err *e)
{
    struct samples us = {0};
    bool ok = true;
    for (int i = 0; i < n_repeat && ok; i++) {
        struct rendezvous_job j = {.n = pool_n_thread(p)};
        if (pause_us) usleep((unsigned)pause_us);
        double before = pool_stats(p).run_us;
        pool_run(p, rendezvous, &j, j.n);
        ok = vec_push(&us, pool_stats(p).run_us - before);
    }
    char note[64];
    double median = samples_median(&us);
    if (ok) {
        snprintf(note, sizeof note, "ninth decile %.2f", us.v[us.n * 9 / 10]);
        row(name, median, "us", note);
    }
    vec_deinit(&us);
    return ok ? 0 : err_memory(e, "samples", (unsigned long long)n_repeat * sizeof(double));
}

/* Measure the cost of phases of n chunks per thread in addition to their work. Print the best of
 * several measurements. */
static void measure_cost(struct pool *p, double rate, int n, double us)
{
    int n_burn = (int)(us * rate), n_chunk = n * pool_n_thread(p);
    double best = 1e9;
    for (int i = 0; i < 20; i++) {
        int64_t start = time_us();
        for (int k = 0; k < n_repeat; k++) pool_run(p, burn_chunk, &n_burn, n_chunk);
        double each = (double)(time_us() - start) / (double)n_repeat - n_burn * n / rate;
        if (each < best) best = each;
    }
    char name[80];
    snprintf(name, sizeof name, "a phase of %d chunks a thread, beyond its work", n);
    row(name, best, "us", "");
}

/* ---- next to another program ---- */

enum { CONTENDED_US = 1000000, CONTENDED_CHUNK_US = 50, CONTENDED_CHUNKS = 8 };

/* Return the throughput of phases during CONTENDED_US. */
static double phases_per_s(struct pool *p, double rate)
{
    int n_burn = (int)(CONTENDED_CHUNK_US * rate), n = 0;
    int64_t start = time_us(), now;
    do {
        pool_run(p, burn_chunk, &n_burn, CONTENDED_CHUNKS * pool_n_thread(p));
        n++;
        now = time_us();
    } while (now - start < CONTENDED_US);
    return n * 1e6 / (double)(now - start);
}

/* Start a process that uses all of a CPU. The process always ends with this program. */
static pid_t start_busy(int cpu)
{
    pid_t own = getpid(), pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != own) _exit(0); /* check: the child process */
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    for (;;) cpu_pause();
}

/* Measure the throughput while another program works on one CPU, as a share of the undisturbed
 * throughput. */
static int measure_contended(struct pool *p, double rate, int cpu, struct err *e)
{
    double idle = phases_per_s(p, rate);
    pid_t busy = start_busy(cpu);
    if (busy < 0) return err_set(e, ERR_IO, "cannot start a process: %s", strerror(errno));
    usleep(20000);
    uint64_t n_lend = pool_stats(p).n_lend;
    double share = phases_per_s(p, rate) / idle;
    n_lend = pool_stats(p).n_lend - n_lend;
    kill(busy, SIGKILL);
    waitpid(busy, NULL, 0);
    char name[80], note[80];
    snprintf(name, sizeof name, "next to a program that is busy on CPU %d", cpu);
    snprintf(note, sizeof note, "of idle; a core lent %d times", (int)n_lend);
    row(name, share, "", note);
    return 0;
}

/* ---- the command ---- */

/* Measure each case. Measure the case of another program on at most four CPUs, because each CPU
 * takes two seconds. */
static int measure(struct pool *p, struct err *e)
{
    struct cores c;
    cores_read(&c);
    double rate = burns_per_us();
    int rc = measure_rendezvous(p, "all threads meet, spinning", 0, e);
    if (rc == 0) rc = measure_rendezvous(p, "all threads meet, parked", 2000, e);
    measure_cost(p, rate, 1, 5);
    measure_cost(p, rate, 8, 5);
    for (int i = 0; i < c.n_cpu && i < 4 && rc == 0; i++)
        rc = measure_contended(p, rate, c.cpu[i].cpu, e);
    return rc;
}

static int run(int n_arg, char **arg)
{
    (void)n_arg, (void)arg;
    struct err e = {0};
    struct session s = {0};
    int rc = session_backend(&s, &e);
    if (rc == 0 && !as_json) printf("%s, %s\n\n", cpu_name(), s.backend->description);
    if (rc == 0) rc = measure(s.backend->pool, &e);
    session_close(&s);
    return rc ? fail("bench pool", &e) : 0;
}

const struct command command_bench_pool = {
    .name = "bench pool",
    .summary = "cost of distributing work to threads, alone and next to other programs",
    .usage = "[OPTIONS]",
    .options = options,
    .run = run,
};

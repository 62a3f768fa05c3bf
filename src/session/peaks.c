/* peaks.c - the machine's peak compute and read rates, for utilization in /metrics.
 *
 *   the cache folder has a file ------------------------------------------> measured
 *   none: the engine is idle --rounds of slices--> all rounds complete ---> measured, file written
 *                 ^__________ a step began meanwhile _|
 *
 * A slice takes some milliseconds and uses all cores. A request that arrives during a slice waits
 * for that slice only. The result is the rate of the fastest round, because other programs can only
 * decrease rates. The file's name contains the processor, the level of the kernels and the number
 * of threads, because the rates depend on them. The file contains a hash of its text. Therefore the
 * peaks are measured again if a power failure truncated the file. */
#include "session.h"

#include "base/cpu.h"
#include "base/filecache.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/os.h"
#include "base/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VERSION = 1,
    N_ROUND = 5,
    OPS_US = 4000,
    READ_US = 10000,
    /* interval of checks of the engine, and minimum idle time, in microseconds */
    LOOK_US = 250 * 1000,
    PIECE_BYTES = 1 << 20,
    PIECES_SLICE = 16,
};
static const size_t READ_BYTES_MIN = 256 << 20, READ_BYTES_MAX = 1 << 30;

struct peaks {
    struct engine *engine; /* borrowed */
    char level[32], path[4200];
    int n_thread;
    pthread_t thread;
    bool started;
    struct queue *stop; /* owned; a pushed byte stops the thread */
    struct machine_peaks measured;
    atomic_bool known; /* true: `measured` is final */
};

/* ---- choice of the arithmetic ---- */

enum arith session_arith(const struct session_options *o, enum qtype t)
{
    if (strcmp(o->activation_dtype, "f32") == 0) return ARITH_F32;
    if (strcmp(o->activation_dtype, "bf16") == 0)
        return qtype_takes_bf16(t) ? ARITH_BF16 : ARITH_F32;
    return qtype_takes_int8(t) ? ARITH_INT8 : qtype_takes_bf16(t) ? ARITH_BF16 : ARITH_F32;
}

enum arith session_arith_main(const struct session_options *o, const struct model_info *m)
{
    int64_t n_value[QT_COUNT] = {0};
    enum qtype most = 0;
    for (int i = 0; i < m->n_matrix; i++) {
        const struct tensor *t = m->matrix[i];
        n_value[t->type] += t->n_out * t->k * (t->n_expert > 0 ? t->n_expert : 1);
        if (n_value[t->type] > n_value[most]) most = t->type;
    }
    return session_arith(o, most);
}

/* ---- the file ---- */

/* Set the path of the file with the peaks. Return false if there is no folder for the file. */
static bool name_file(struct peaks *p)
{
    char dir[4096], text[256], name[32];
    struct err e;
    int n =
        snprintf(text, sizeof text, "%d %s, %s, %d", VERSION, cpu_name(), p->level, p->n_thread);
    snprintf(name, sizeof name, "%016llx", (unsigned long long)hash_bytes(text, (size_t)n, 0));
    return filecache_dir(dir, sizeof dir, "peaks", &e) == 0 &&
           path_join(p->path, sizeof p->path, dir, name);
}

/* Write the rates with all digits, so that a reader gets equal bits. */
static int put_figures(char *out, size_t n_out, const struct machine_peaks *m)
{
    return snprintf(out, n_out, "%.17g %.17g %.17g %.17g", m->read_bytes, m->ops[ARITH_INT8],
                    m->ops[ARITH_BF16], m->ops[ARITH_F32]);
}

static bool is_sane(double x)
{
    return x >= 0 && x < 1e18;
}

/* Read the rates. Return false if there is no file or its hash or values are wrong. */
static bool load_file(const struct peaks *p, struct machine_peaks *m)
{
    struct buf text = {0};
    struct err e;
    char figures[160];
    unsigned long long check = 0;
    double *ops = m->ops;
    bool ok =
        p->path[0] && file_read(&text, p->path, 4096, &e) == 0 && text.data &&
        sscanf(text.data, "%lf %lf %lf %lf %16llx", /* check: widths; a double saturates */
               &m->read_bytes, &ops[ARITH_INT8], &ops[ARITH_BF16], &ops[ARITH_F32], &check) == 5;
    buf_deinit(&text);
    if (!ok) return false;
    int n = put_figures(figures, sizeof figures, m);
    return hash_bytes(figures, (size_t)n, VERSION) == check && is_sane(m->read_bytes) &&
           is_sane(ops[ARITH_INT8]) && is_sane(ops[ARITH_BF16]) && is_sane(ops[ARITH_F32]);
}

/* Write the rates to their file. A failure is only logged, and the next start measures the rates
 * again. */
static void save_file(const struct peaks *p)
{
    char dir[4096], text[200];
    struct err e;
    int n = put_figures(text, sizeof text, &p->measured);
    unsigned long long check = hash_bytes(text, (size_t)n, VERSION);
    n += snprintf(text + n, sizeof text - (size_t)n, " %016llx\n", check);
    int rc = p->path[0] ? filecache_dir(dir, sizeof dir, "peaks", &e) : ERR_MISSING;
    if (rc == 0) rc = dir_make(dir, DIR_PRIVATE, &e);
    if (rc == 0) rc = file_write(p->path, text, (size_t)n, &e);
    if (rc != 0 && p->path[0]) log_info("the machine's peaks are not kept: %s", e.text);
}

/* ---- measuring ---- */

struct peaks_job {
    struct peaks *p;   /* borrowed */
    struct pool *pool; /* owned */
    uint8_t *data;     /* owned [n_byte]; NULL if there is too little memory */
    size_t n_byte;
    int64_t n_step; /* the engine's step count at the beginning of its idle time */
};

/* Wait for the stop byte for at most wait_us. Return true if the byte arrived. */
static bool stopped(struct peaks *p, int64_t wait_us)
{
    char byte;
    return queue_pop(p->stop, &byte, wait_us);
}

/* Return true if the engine is idle and has made no step since j->n_step, and the thread need not
 * stop. */
static bool is_idle(const struct peaks_job *j)
{
    struct stats_view v;
    stats_read(engine_stats(j->p->engine), &v);
    return queue_len(j->p->stop) == 0 && v.value[STAT_steps] == j->n_step &&
           v.value[STAT_running] + v.value[STAT_waiting] == 0;
}

/* Wait until the engine has been idle for LOOK_US. Return false if the thread must stop. */
static bool wait_idle(struct peaks_job *j)
{
    for (;;) {
        struct stats_view v;
        stats_read(engine_stats(j->p->engine), &v);
        j->n_step = v.value[STAT_steps];
        if (stopped(j->p, LOOK_US)) return false;
        if (is_idle(j)) return true;
    }
}

/* Allocate the memory that a round reads: the minimum of eight times the size of the caches and an
 * eighth of the free memory. Set j->data to NULL if this size is less than twice the size of the
 * caches. */
static bool open_data(struct peaks_job *j)
{
    size_t cache = os_cache_bytes(), max = os_memory_free() / 8, want = 8 * cache;
    if (want < READ_BYTES_MIN) want = READ_BYTES_MIN;
    if (want > READ_BYTES_MAX) want = READ_BYTES_MAX;
    if (want > max) want = max;
    want -= want % ((size_t)PIECES_SLICE * PIECE_BYTES);
    if (want < 2 * cache || want < READ_BYTES_MIN / 4) return true;
    j->data = os_alloc(want);
    j->n_byte = want;
    for (size_t at = 0; j->data && at < want; at += (size_t)PIECES_SLICE * PIECE_BYTES) {
        if (!is_idle(j)) return false;
        peak_touch(j->pool, j->data + at, (size_t)PIECES_SLICE * PIECE_BYTES);
    }
    return true;
}

static void close_data(struct peaks_job *j)
{
    os_free(j->data, j->n_byte);
    j->data = NULL;
}

static void keep_best(double *best, double x)
{
    if (x > *best) *best = x;
}

/* Measure one round. Return false if the engine began a step. */
static bool measure_round(struct peaks_job *j, struct machine_peaks *m)
{
    for (enum arith k = 0; k < N_ARITH; k++) {
        peak_fn *fn = peak_fastest(j->p->level, k);
        if (!is_idle(j)) return false;
        if (fn) keep_best(&m->ops[k], peak_rate(j->pool, fn, OPS_US));
    }
    if (!is_idle(j)) return false;
    if (j->data) keep_best(&m->read_bytes, peak_bandwidth(j->pool, j->data, j->n_byte, READ_US));
    return is_idle(j);
}

/* Run all rounds on separate threads. Return false if the engine began a step or memory is
 * exhausted. */
static bool measure(struct peaks_job *j, struct machine_peaks *m)
{
    struct err e;
    if (pool_open(&j->pool, j->p->n_thread, &e) != 0) return false;
    bool ok = open_data(j);
    for (int i = 0; ok && i < N_ROUND; i++) ok = measure_round(j, m);
    close_data(j);
    pool_close(j->pool);
    return ok;
}

/* Measure the peaks on a separate thread. `known` is stored after `measured`, so peaks_get never
 * reads a partial result. */
static void *run(void *peaks)
{
    struct peaks *p = peaks;
    struct peaks_job j = {.p = p};
    while (wait_idle(&j)) {
        struct machine_peaks m = {.arith = p->measured.arith};
        if (!measure(&j, &m)) continue;
        p->measured = m;
        atomic_store(&p->known, true);
        log_debug("this machine reads %.1f GB/s and computes %.3f TOP/s of %s", m.read_bytes * 1e-9,
                  m.ops[m.arith] * 1e-12, arith_name[m.arith]);
        save_file(p);
        return NULL;
    }
    return NULL;
}

/* ---- start and close ---- */

static int start(struct peaks *p, struct err *e)
{
    p->stop = queue_open(1, 1);
    if (!p->stop) return err_memory(e, "a queue", 1);
    p->started = os_thread_start(&p->thread, run, p);
    if (p->started) return 0;
    return err_set(e, ERR_MEMORY, "cannot start the peaks thread: %s", strerror(errno));
}

int peaks_open(struct peaks **out, const struct session *s, const struct session_options *o,
               struct err *e)
{
    struct peaks *p = *out = calloc(1, sizeof *p);
    if (!p) return err_memory(e, "the machine's peaks", sizeof *p);
    p->engine = s->engine;
    p->n_thread = session_n_thread(s);
    snprintf(p->level, sizeof p->level, "%s", s->backend->level);
    if (!name_file(p)) p->path[0] = 0;
    struct machine_peaks m = {.arith = session_arith_main(o, s->info)};
    bool kept = load_file(p, &m);
    p->measured = m;
    atomic_store(&p->known, kept);
    int rc = kept ? 0 : start(p, e);
    if (rc != 0) peaks_close(p), *out = NULL;
    return rc;
}

void peaks_close(struct peaks *p)
{
    char byte = 0;
    if (!p) return;
    if (p->started) {
        queue_push(p->stop, &byte);
        pthread_join(p->thread, NULL);
    }
    queue_close(p->stop);
    free(p);
}

bool peaks_get(const struct peaks *p, struct machine_peaks *out)
{
    if (!p || !atomic_load(&p->known)) return false;
    *out = p->measured;
    out->arith_name = arith_name[out->arith];
    return true;
}

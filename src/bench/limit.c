/* limit.c - the limits for comparison with a row of quoth bench kernels: read bandwidth, and the
 * peak of the instructions that its kernels use.
 *
 * Both limits change from one second to the next if other programs run. Therefore the limits are
 * measured immediately before and after a row, with the row's threads. */
#include "measure.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* READ_MIB: memory to read, more than any cache. READ_US and PEAK_US: duration of one
 * measurement. */
enum { READ_MIB = 1024, READ_US = 40000, PEAK_US = 10000 };

enum arith arith_of(enum qtype t)
{
    return session_arith(&session_flags, t);
}

enum arith arith_of_model(const struct model_info *m)
{
    return session_arith_main(&session_flags, m);
}

/* ---- memory ---- */

/* Write one MiB, so that its pages exist (pool_run). */
static void touch(void *ctx, int chunk, int worker)
{
    (void)worker;
    struct reading *r = ctx;
    memset(r->data + ((size_t)chunk << 20), 1, 1 << 20);
}

/* Allocate `mib` MiB, or a quarter of the free memory if that is less. Each thread touches first
 * the memory that it reads. */
int reading_open(struct reading *r, struct pool *p, uint64_t mib, struct err *e)
{
    uint64_t max = os_memory_free() >> 22;
    r->n_byte = (size_t)(max && max < mib ? max : mib) << 20;
    r->data = os_alloc(r->n_byte);
    if (!r->data) return err_memory(e, "memory to read from", r->n_byte);
    pool_run(p, touch, r, (int)(r->n_byte >> 20));
    return 0;
}

void reading_close(struct reading *r)
{
    os_free(r->data, r->n_byte);
    *r = (struct reading){0};
}

double reading_rate(const struct reading *r, struct pool *p, int us)
{
    return peak_bandwidth(p, r->data, r->n_byte, us);
}

/* ---- limits of memory and arithmetic ---- */

struct limits {
    struct pool *pool; /* threads, borrowed */
    struct reading reading;
    peak_fn *fn[N_ARITH]; /* fastest peak up to the current level; NULL if none */
};

int limits_open(struct limits **out, struct backend *b, struct err *e)
{
    struct limits *l = *out = calloc(1, sizeof *l);
    if (!l) return err_memory(e, "the limits", sizeof *l);
    l->pool = b->pool;
    for (enum arith k = 0; k < N_ARITH; k++) l->fn[k] = peak_fastest(b->level, k);
    return reading_open(&l->reading, l->pool, READ_MIB, e);
}

void limits_close(struct limits *l)
{
    if (!l) return;
    reading_close(&l->reading);
    free(l);
}

struct limit limits_now(struct limits *l, enum arith k)
{
    if (!l) return (struct limit){0};
    return (struct limit){
        .read = reading_rate(&l->reading, l->pool, READ_US),
        .ops = l->fn[k] ? peak_rate(l->pool, l->fn[k], PEAK_US) : 0,
    };
}

/* Read one byte of each cache line of a MiB. */
static void read_chunk(void *ctx, int chunk, int worker)
{
    (void)worker;
    const struct reading *r = ctx;
    const volatile uint8_t *at = r->data + ((size_t)chunk << 20);
    for (int i = 0; i < 1 << 20; i += 64) (void)at[i];
}

/* Read twice the size of the caches, which replaces their contents, or 256 MiB if the size is
 * unknown. */
void limits_evict_cache(struct limits *l)
{
    uint64_t mib = l->reading.n_byte >> 20, cache = os_cache_bytes() >> 20;
    uint64_t wanted = cache ? 2 * cache : 256;
    pool_run(l->pool, read_chunk, &l->reading, (int)(mib < wanted ? mib : wanted));
}

/* Print `above` instead of a share above 1, because the limit does not apply. */
const char *share_text(char out[16], double x, double before, double after, const char *above)
{
    double limit = (before + after) / 2;
    if (limit > 0 && x > limit)
        snprintf(out, 16, "%s", above);
    else
        snprintf(out, 16, limit > 0 && x > 0 ? "%.1f%%" : "-", limit > 0 ? 100 * x / limit : 0);
    return out;
}

const char *share_json(char out[16], double x, double before, double after)
{
    double limit = (before + after) / 2;
    snprintf(out, 16, limit > 0 && x > 0 ? "%.4f" : "null", limit > 0 ? x / limit : 0);
    return out;
}

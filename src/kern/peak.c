/* peak.c - measurement of this machine's rates of arithmetic and reading. `quoth bench roofline`
 * and the selection of the number of threads use the rates. The loops of a level are in its
 * peak.c.
 *
 * A rate is measured on all threads together, because the threads share the clock and the memory.
 * Arithmetic loops have no memory accesses, and reading loops have no arithmetic. Therefore each
 * loop gives one bound of the roofline model. */
#include "kern_impl.h"

#include "base/check.h"
#include "base/cpu.h"
#include "base/os.h"

#include <string.h>

#define LEVEL(name, flag) extern const struct peak peak_##name;
#define PEAK_LEVEL        LEVEL
#include "levels.def"
#undef LEVEL

/* List the loops in the order of levels.def, so the last entry is usually the fastest. */
int peak_list(const struct peak **out, int n_max)
{
    static const struct {
        unsigned flag;
        const struct peak *peak; /* static */
    } all[] = {
#define LEVEL(name, flag) {flag, &peak_##name},
#define PEAK_LEVEL        LEVEL
#include "levels.def"
#undef LEVEL
    };
    int n = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0] && n < n_max; i++)
        if ((all[i].flag & ~cpu_flags()) == 0) out[n++] = all[i].peak;
    return n;
}

const char *const arith_name[N_ARITH] = {"int8", "bf16", "f32"};

peak_fn *arith_peak(const struct peak *p, enum arith k)
{
    return k == ARITH_INT8 ? p->int8 : k == ARITH_BF16 ? p->bf16 : p->f32;
}

peak_fn *peak_fastest(const char *level, enum arith k)
{
    const struct peak *list[16];
    int n = peak_list(list, 16);
    peak_fn *fn = NULL;
    for (int i = 0; i < n; i++) {
        if (arith_peak(list[i], k)) fn = arith_peak(list[i], k);
        if (strcmp(list[i]->name, level) == 0) break;
    }
    return fn;
}

/* Run phases of n_chunk until `us` microseconds have passed. Return the number of phases per
 * second. */
static double phases_per_s(struct pool *p, pool_fn *fn, void *ctx, int n_chunk, int us)
{
    int64_t start = time_us(), now;
    int n = 0;
    do {
        pool_run(p, fn, ctx, n_chunk);
        n++;
        now = time_us();
    } while (now - start < us);
    return n / ((double)(now - start) * 1e-6);
}

/* ---- arithmetic ---- */

enum { ROUNDS = 4000 }; /* 10 to 200 us */

static void compute_chunk(void *ctx, int chunk, int worker)
{
    (void)chunk, (void)worker;
    (*(peak_fn **)ctx)(ROUNDS);
}

double peak_rate(struct pool *p, peak_fn *fn, int us)
{
    int n_chunk = 4 * pool_n_thread(p);
    double per_phase = fn(ROUNDS) * n_chunk;
    return per_phase * phases_per_s(p, compute_chunk, &fn, n_chunk, us);
}

/* ---- reading ---- */

/* READ_CHUNK: bytes that a thread reads per chunk. Small chunks let all threads end together.
 * TOUCH_CHUNK: bytes per chunk of the first write of the memory. */
enum { READ_CHUNK = 64 << 10, TOUCH_CHUNK = 1 << 20 };

/* Arguments of a measurement, borrowed for the call. */
struct read_job {
    const struct peak *peak;
    const uint8_t *data; /* [n_byte], at a multiple of 64 bytes */
    size_t n_byte;
};

static void read_chunk(void *ctx, int chunk, int worker)
{
    (void)worker;
    const struct read_job *j = ctx;
    size_t at = (size_t)chunk * READ_CHUNK, left = j->n_byte - at;
    j->peak->read(j->data + at, left < READ_CHUNK ? left : READ_CHUNK);
}

static void touch_chunk(void *ctx, int chunk, int worker)
{
    (void)worker;
    memset((uint8_t *)ctx + (size_t)chunk * TOUCH_CHUNK, 1, TOUCH_CHUNK);
}

void peak_touch(struct pool *p, uint8_t *data, size_t n_byte)
{
    CHECK(n_byte % TOUCH_CHUNK == 0, "%zu bytes", n_byte);
    pool_run(p, touch_chunk, data, (int)(n_byte / TOUCH_CHUNK));
}

double peak_bandwidth(struct pool *p, const void *data, size_t n_byte, int us)
{
    const struct peak *list[16];
    int n = peak_list(list, 16);
    struct read_job j = {.data = data, .n_byte = n_byte};
    for (int i = 0; i < n; i++)
        if (list[i]->read) j.peak = list[i];
    int n_chunk = (int)((n_byte + READ_CHUNK - 1) / READ_CHUNK);
    return (double)n_byte * phases_per_s(p, read_chunk, &j, n_chunk, us);
}

/* limit.c - the limits that a row of quoth bench kernels is compared with: read bandwidth, and
 * the peak of the instructions that its kernels use.
 *
 * Both change from one second to the next where other programs run, so they are measured right
 * before and right after a row, with the same threads. */
#include "measure.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_LEVEL = 16, READ_MIB = 1024, READ_US = 40000, PEAK_US = 10000 };

const char *const arith_name[N_ARITH] = {"int8", "bf16", "f32"};

enum arith arith_of(enum qtype t)
{
    if (strcmp(session_act_name(), "f32") == 0) return ARITH_F32;
    return qtype_is_block(t) ? ARITH_INT8 : t == QT_bf16 ? ARITH_BF16 : ARITH_F32;
}

enum arith arith_of_model(const struct checkpoint *c)
{
    int64_t bytes[QT_COUNT] = {0};
    enum qtype most = 0;
    for (int i = 0; i < checkpoint_n_tensor(c); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(c, i);
        bytes[t->type] += (int64_t)t->n_byte;
        if (bytes[t->type] > bytes[most]) most = t->type;
    }
    return arith_of(most);
}

peak_fn *arith_peak(const struct peak *p, enum arith k)
{
    return k == ARITH_INT8 ? p->int8 : k == ARITH_BF16 ? p->bf16 : p->f32;
}

/* ---- memory ---- */

static void touch(void *ctx, int chunk, int worker)
{
    (void)worker;
    struct reading *r = ctx;
    memset(r->data + ((size_t)chunk << 20), 1, 1 << 20);
}

int reading_open(struct reading *r, struct pool *p, uint64_t mib, struct err *e)
{
    uint64_t most = os_memory_free() >> 22;
    r->n_byte = (size_t)(most && most < mib ? most : mib) << 20;
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

/* ---- both ---- */

struct limits {
    struct pool *pool; /* borrowed */
    struct reading reading;
    peak_fn *fn[N_ARITH]; /* the fastest up to the level in use; NULL: none */
};

/* The level's name is the second word of the description: "cpu avx2, 2 threads". */
static void choose_loops(struct limits *l, const char *description)
{
    const struct peak *level[N_LEVEL];
    const char *name = strchr(description, ' ');
    int n = peak_list(level, N_LEVEL);
    for (int i = 0; i < n && name; i++) {
        for (int k = 0; k < N_ARITH; k++) {
            peak_fn *fn = arith_peak(level[i], (enum arith)k);
            if (fn) l->fn[k] = fn;
        }
        size_t len = strlen(level[i]->name);
        if (strncmp(name + 1, level[i]->name, len) == 0 && name[1 + len] == ',') break;
    }
}

int limits_open(struct limits **out, struct backend *b, struct err *e)
{
    struct limits *l = *out = calloc(1, sizeof *l);
    if (!l) return err_memory(e, "the limits", sizeof *l);
    l->pool = backend_pool(b);
    choose_loops(l, backend_describe(b));
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

static void read_chunk(void *ctx, int chunk, int worker)
{
    (void)worker;
    const struct reading *r = ctx;
    const volatile uint8_t *at = r->data + ((size_t)chunk << 20);
    for (int i = 0; i < 1 << 20; i += 64) (void)at[i];
}

void limits_spoil(struct limits *l)
{
    uint64_t mib = l->reading.n_byte >> 20, cache = os_cache_bytes() >> 20;
    uint64_t wanted = cache ? 2 * cache : 256;
    pool_run(l->pool, read_chunk, &l->reading, (int)(mib < wanted ? mib : wanted));
}

const char *share_text(char out[16], double x, double before, double after)
{
    double limit = (before + after) / 2;
    snprintf(out, 16, limit > 0 && x > 0 ? "%.1f%%" : "-", limit > 0 ? 100 * x / limit : 0);
    return out;
}

const char *share_json(char out[16], double x, double before, double after)
{
    double limit = (before + after) / 2;
    snprintf(out, 16, limit > 0 && x > 0 ? "%.4f" : "null", limit > 0 ? x / limit : 0);
    return out;
}

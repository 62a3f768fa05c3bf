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

enum { N_LEVEL = 16, READ_US = 40000, PEAK_US = 10000 };

const char *const bench_kind_name[N_BENCH_KIND] = {"int8", "bf16", "f32"};

enum bench_kind bench_kind(enum qtype t)
{
    if (strcmp(session_act_name(), "f32") == 0) return BENCH_F32;
    return qtype_is_block(t) ? BENCH_INT8 : t == QT_bf16 ? BENCH_BF16 : BENCH_F32;
}

enum bench_kind bench_kind_of_model(const struct checkpoint *c)
{
    int64_t bytes[QT_COUNT] = {0};
    enum qtype most = 0;
    for (int i = 0; i < checkpoint_n_tensor(c); i++) {
        const struct tensor_info *t = checkpoint_tensor_at(c, i);
        bytes[t->type] += (int64_t)t->n_byte;
        if (bytes[t->type] > bytes[most]) most = t->type;
    }
    return bench_kind(most);
}

peak_fn *bench_peak_fn(const struct peak *p, enum bench_kind k)
{
    return k == BENCH_INT8 ? p->int8 : k == BENCH_BF16 ? p->bf16 : p->f32;
}

struct bench_limits {
    struct pool *pool; /* borrowed */
    uint8_t *data;     /* owned: what is read */
    size_t n_byte;
    peak_fn *fn[N_BENCH_KIND]; /* the fastest up to the level in use; NULL: none */
};

/* The level's name is the second word of the description: "cpu avx2, 2 threads". */
static void choose_loops(struct bench_limits *l, const char *description)
{
    const struct peak *level[N_LEVEL];
    const char *name = strchr(description, ' ');
    int n = peak_list(level, N_LEVEL);
    for (int i = 0; i < n && name; i++) {
        for (int k = 0; k < N_BENCH_KIND; k++) {
            peak_fn *fn = bench_peak_fn(level[i], (enum bench_kind)k);
            if (fn) l->fn[k] = fn;
        }
        size_t len = strlen(level[i]->name);
        if (strncmp(name + 1, level[i]->name, len) == 0 && name[1 + len] == ',') break;
    }
}

static void touch(void *ctx, int chunk, int worker)
{
    (void)worker;
    struct bench_limits *l = ctx;
    memset(l->data + ((size_t)chunk << 20), 1, 1 << 20);
}

int bench_limits_open(struct bench_limits **out, struct backend *b, struct err *e)
{
    struct bench_limits *l = *out = calloc(1, sizeof *l);
    if (!l) return err_memory(e, "the limits", sizeof *l);
    uint64_t mib = os_memory_free() >> 22; /* a quarter */
    l->pool = backend_pool(b);
    l->n_byte = (size_t)(mib > 1024 ? 1024 : mib ? mib : 1) << 20;
    l->data = os_alloc(l->n_byte);
    if (!l->data) return err_memory(e, "memory to read from", l->n_byte);
    pool_run(l->pool, touch, l, (int)(l->n_byte >> 20));
    choose_loops(l, backend_describe(b));
    return 0;
}

void bench_limits_close(struct bench_limits *l)
{
    if (!l) return;
    os_free(l->data, l->n_byte);
    free(l);
}

struct bench_limit bench_limits_now(struct bench_limits *l, enum bench_kind k)
{
    if (!l) return (struct bench_limit){0};
    return (struct bench_limit){
        .read = peak_bandwidth(l->pool, l->data, l->n_byte, READ_US),
        .ops = l->fn[k] ? peak_rate(l->pool, l->fn[k], PEAK_US) : 0,
    };
}

static void read_chunk(void *ctx, int chunk, int worker)
{
    (void)worker;
    const struct bench_limits *l = ctx;
    const volatile uint8_t *at = l->data + ((size_t)chunk << 20);
    for (int i = 0; i < 1 << 20; i += 64) (void)at[i];
}

void bench_limits_spoil(struct bench_limits *l)
{
    uint64_t mib = l->n_byte >> 20, cache = os_cache_bytes() >> 20;
    uint64_t wanted = cache ? 2 * cache : 256;
    pool_run(l->pool, read_chunk, l, (int)(mib < wanted ? mib : wanted));
}

const char *bench_share(char out[16], double x, double before, double after)
{
    double limit = (before + after) / 2;
    snprintf(out, 16, limit > 0 && x > 0 ? "%.1f%%" : "-", limit > 0 ? 100 * x / limit : 0);
    return out;
}

const char *bench_share_json(char out[16], double x, double before, double after)
{
    double limit = (before + after) / 2;
    snprintf(out, 16, limit > 0 && x > 0 ? "%.4f" : "null", limit > 0 ? x / limit : 0);
    return out;
}

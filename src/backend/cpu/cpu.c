/* cpu.c - the CPU backend: open, memory, and the ops that are plain loops over rows.
 *
 * An op is split into chunks for the pool so that no chunk's result depends on another or on the
 * split. */
#include "cpu_impl.h"

#include "base/cpu.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Large zeroed memory, reserved now and touched as used. */
static void *cpu_alloc(struct backend *b, size_t n_byte)
{
    (void)b;
    void *p = mmap(NULL, n_byte ? n_byte : 1, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void cpu_release(struct backend *b, void *p, size_t n_byte)
{
    (void)b;
    if (p) munmap(p, n_byte ? n_byte : 1);
}

static int cpu_reserve(struct backend *b, int n_row, int64_t k, int d_head, int n_group,
                       struct err *e)
{
    struct cpu_backend *c = cpu_of(b);
    c->n_row_max = n_row;
    c->k_max = k;
    c->attn_work_floats = (cpu_attn_work_floats(d_head, n_group) + 15) / 16 * 16;
    size_t n_act = (size_t)n_row * (size_t)k * sizeof(uint16_t);
    size_t n_scale = (size_t)n_row * (size_t)((k + ACT_GROUP - 1) / ACT_GROUP) * sizeof(float);
    size_t n_attn = (size_t)pool_n_thread(c->pool) * (size_t)c->attn_work_floats * sizeof(float);
    c->act_data = malloc(n_act);
    c->act_scale = malloc(n_scale);
    c->attn_work = aligned_alloc(64, n_attn);
    if (!c->act_data || !c->act_scale || !c->attn_work)
        return err_memory(e, "the CPU's scratch", n_act + n_scale + n_attn);
    return 0;
}

static void cpu_close(struct backend *b)
{
    struct cpu_backend *c = cpu_of(b);
    pool_close(c->pool);
    free(c->act_data);
    free(c->act_scale);
    free(c->attn_work);
    free(c);
}

static void cpu_embed(struct backend *b, float *y, const struct tensor *w, const int32_t *token,
                      int n_row)
{
    (void)b;
    for (int i = 0; i < n_row; i++) {
        float *row = y + (int64_t)i * w->k;
        if (token[i] >= 0 && token[i] < w->n_out)
            qtype_info[w->type].ops->decode(row, w->data + token[i] * w->row_bytes, w->k);
        else
            memset(row, 0, (size_t)w->k * sizeof *row);
    }
}

struct norm_job {
    struct kern *kern;
    float *y;
    const float *x, *g;
    int n;
    float eps;
};

static void norm_row(void *ctx, int i, int worker)
{
    (void)worker;
    struct norm_job *j = ctx;
    j->kern->rms_norm(j->y + (int64_t)i * j->n, j->x + (int64_t)i * j->n, j->g, j->n, j->eps);
}

static void cpu_rms_norm(struct backend *b, float *y, const float *x, const float *g, int n_row,
                         int n, float eps)
{
    struct cpu_backend *c = cpu_of(b);
    struct norm_job j = {&c->kern, y, x, g, n, eps};
    if ((int64_t)n_row * n >= 1 << 16)
        pool_run(c->pool, norm_row, &j, n_row);
    else
        for (int i = 0; i < n_row; i++) norm_row(&j, i, 0);
}

static void cpu_rope(struct backend *b, float *x, int n_head, int d_head, const int32_t *pos,
                     int n_row, const struct rope_spec *spec)
{
    struct kern *k = &cpu_of(b)->kern;
    int half = spec->d_rot / 2;
    for (int i = 0; i < n_row; i++)
        for (int h = 0; h < n_head; h++)
            k->rope(x + ((int64_t)i * n_head + h) * d_head, spec->cos + (int64_t)pos[i] * half,
                    spec->sin + (int64_t)pos[i] * half, spec->d_rot, spec->neox);
}

/* Elementwise ops over n values in pieces: an element's value does not depend on where the pieces
 * begin. */
enum { PIECE = 8192 };

struct piece_job {
    struct kern *kern;
    float *y;
    const float *a, *b;
    int64_t n;
};

static int piece_len(const struct piece_job *j, int i)
{
    int64_t rest = j->n - (int64_t)i * PIECE;
    return rest < PIECE ? (int)rest : PIECE;
}

static void silu_mul_piece(void *ctx, int i, int worker)
{
    (void)worker;
    struct piece_job *j = ctx;
    int64_t at = (int64_t)i * PIECE;
    j->kern->silu_mul(j->y + at, j->a + at, j->b + at, piece_len(j, i));
}

static void add_piece(void *ctx, int i, int worker)
{
    (void)worker;
    struct piece_job *j = ctx;
    int64_t at = (int64_t)i * PIECE;
    j->kern->add(j->y + at, j->a + at, piece_len(j, i));
}

static void cpu_silu_mul(struct backend *b, float *y, const float *gate, const float *up, int64_t n)
{
    struct piece_job j = {&cpu_of(b)->kern, y, gate, up, n};
    pool_run(cpu_of(b)->pool, silu_mul_piece, &j, (int)((n + PIECE - 1) / PIECE));
}

static void cpu_add(struct backend *b, float *y, const float *x, int64_t n)
{
    struct piece_job j = {&cpu_of(b)->kern, y, x, NULL, n};
    pool_run(cpu_of(b)->pool, add_piece, &j, (int)((n + PIECE - 1) / PIECE));
}

static void cpu_gather(struct backend *b, float *y, const float *x, const int32_t *row, int n_out,
                       int d)
{
    (void)b;
    for (int i = 0; i < n_out; i++)
        memcpy(y + (int64_t)i * d, x + (int64_t)row[i] * d, (size_t)d * sizeof *y);
}

static const struct backend_ops cpu_ops = {
    .name = "cpu",
    .close = cpu_close,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .reserve = cpu_reserve,
    .embed = cpu_embed,
    .rms_norm = cpu_rms_norm,
    .linear = cpu_linear,
    .rope = cpu_rope,
    .kv_put = cpu_kv_put,
    .kv_copy = cpu_kv_copy,
    .attn = cpu_attn,
    .silu_mul = cpu_silu_mul,
    .add = cpu_add,
    .gather = cpu_gather,
};

int backend_open_cpu(struct backend **out, const struct backend_options *o, struct err *e)
{
    struct cpu_backend *c = calloc(1, sizeof *c);
    if (!c) return err_memory(e, "the CPU backend", sizeof *c);
    c->base.op = &cpu_ops;
    c->act = o->act;
    int rc = kern_open(&c->kern, o->cpu_level, e);
    if (rc == 0) rc = pool_open(&c->pool, o->n_thread ? o->n_thread : os_n_cpu(), e);
    if (rc != 0) {
        cpu_close(&c->base);
        return rc;
    }
    snprintf(c->description, sizeof c->description, "cpu %s, %d thread%s", c->kern.name,
             pool_n_thread(c->pool), pool_n_thread(c->pool) == 1 ? "" : "s");
    *out = &c->base;
    return 0;
}

const char *backend_describe(const struct backend *b)
{
    return ((const struct cpu_backend *)b)->description;
}

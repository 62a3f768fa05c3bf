/* cpu.c - the CPU backend: open, memory, and ops that are plain loops over rows.
 *
 * Ops are divided into chunks for the pool. The result of a chunk does not depend on other chunks
 * or on the division.
 *
 *   op of rows      a piece is whole rows, about PIECE values (norm, rope)
 *   op of values    a piece is PIECE values of the whole array (curve, add, scale, softcap)
 *
 * A job struct on the caller's stack has the arguments. pool_run calls its function once per piece,
 * on any thread, and returns after the last piece. Each piece writes only its own values, so the
 * order and the number of threads do not change a bit. Linear layers, attention, KV and routing
 * have their own files. */
#include "cpu_impl.h"

#include "base/check.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *cpu_alloc(struct backend *b, size_t n_byte)
{
    (void)b;
    return os_alloc(n_byte);
}

static void cpu_release(struct backend *b, void *p, size_t n_byte)
{
    (void)b;
    os_free(p, n_byte);
}

static void cpu_populate(struct backend *b, void *p, size_t n_byte)
{
    (void)b;
    os_populate(p, n_byte);
}

/* Allocate the scratch of linear layers and attention. The caller calls this function once per
 * backend. */
static int cpu_reserve(struct backend *b, const struct op_sizes *s, struct err *e)
{
    struct cpu_backend *c = cpu_of(b);
    CHECK(!c->attn && s->n_row >= 1 && s->k >= 1, "%d rows of %lld columns", s->n_row,
          (long long)s->k);
    c->row_max = s->n_row;
    c->k_max = s->k;
    int rc = cpu_linear_open(c, e);
    if (rc != 0) return rc;
    return cpu_attn_open(c, s->n_row, s->d_head, s->n_group, e);
}

/* Read, write or copy bytes. Device memory of the CPU backend is host memory. */
static void cpu_copy(struct backend *b, void *to, const void *from, size_t n_byte)
{
    (void)b;
    memcpy(to, from, n_byte);
}

static const struct batch *cpu_begin(struct backend *b, const struct batch *batch)
{
    (void)b;
    return batch;
}

static void cpu_close(struct backend *b)
{
    struct cpu_backend *c = cpu_of(b);
    cpu_attn_close(c);
    if (c->owns_pool) pool_close(c->pool);
    cpu_linear_close(c);
    free(c);
}

/* Decode rows of the packed weights w. An id outside the vocabulary gives a row of zeros, so that
 * no memory outside w is read. */
static void cpu_embed(struct backend *b, float *y, const struct tensor *w, const int32_t *token,
                      int n_row)
{
    struct panels p = cpu_panels(w);
    (void)b;
    for (int i = 0; i < n_row; i++) {
        float *row = y + (int64_t)i * w->k;
        if (token[i] >= 0 && token[i] < w->n_out)
            panel_row(row, &p, token[i]);
        else
            memset(row, 0, (size_t)w->k * sizeof *row);
    }
}

/* Size of a piece of elementwise ops. The size does not change an element's value. Sizes of a
 * quarter or four times this size take 1.00 to 1.02 times as long (measurements.md,
 * "Constants"). */
enum { PIECE = 8192 };

/* Return the number of rows of n values in a piece, for ops on whole rows. */
static int piece_rows(int n)
{
    return n < PIECE ? PIECE / n : 1;
}

/* round up, because the last piece may have fewer rows */
static int piece_count(int n_row, int n_row_piece)
{
    return (n_row + n_row_piece - 1) / n_row_piece;
}

/* Arguments of rms_norm. All pointers are borrowed for the op. */
struct norm_job {
    struct kern *kern;
    float *y;           /* f32 [n_row, n] */
    const float *x, *g; /* f32 [n_row, n], [n] */
    int n_row, n, n_row_piece;
    float eps;
};

static void norm_piece(void *ctx, int i, int worker)
{
    (void)worker;
    struct norm_job *j = ctx;
    int row = i * j->n_row_piece, rest = j->n_row - row;
    int64_t at = (int64_t)row * j->n;
    j->kern->rms_norm(j->y + at, j->x + at, j->g, rest < j->n_row_piece ? rest : j->n_row_piece,
                      j->n, j->eps);
}

static void cpu_rms_norm(struct backend *b, float *y, const float *x, const float *g, int n_row,
                         int n, float eps)
{
    struct cpu_backend *c = cpu_of(b);
    struct norm_job j = {&c->kern, y, x, g, n_row, n, piece_rows(n), eps};
    pool_run(c->pool, norm_piece, &j, piece_count(n_row, j.n_row_piece));
}

/* Arguments of layer_norm. All pointers are borrowed for the op. */
struct layer_norm_job {
    struct kern *kern;
    float *y;       /* f32 [n_row, n_part, n] */
    const float *x; /* f32 [n_row, n_part, n] */
    const struct layer_norm *norm;
    int n_row, n_row_piece;
};

static void layer_norm_piece(void *ctx, int chunk, int worker)
{
    (void)worker;
    struct layer_norm_job *j = ctx;
    const struct layer_norm *s = j->norm;
    const int row = chunk * j->n_row_piece;
    for (int i = row; i < j->n_row && i < row + j->n_row_piece; i++)
        for (int p = 0; p < s->n_part; p++) {
            const int64_t part = (int64_t)p * s->n, at = (int64_t)i * s->n_part * s->n + part;
            j->kern->layer_norm(j->y + at, j->x + at, s->g + part, s->bias ? s->bias + part : NULL,
                                1, s->n, s->eps);
        }
}

static void cpu_layer_norm(struct backend *b, float *y, const float *x,
                           const struct layer_norm *norm, int n_row)
{
    struct cpu_backend *c = cpu_of(b);
    struct layer_norm_job j = {&c->kern, y, x, norm, n_row, piece_rows(norm->n_part * norm->n)};
    pool_run(c->pool, layer_norm_piece, &j, piece_count(n_row, j.n_row_piece));
}

/* Arguments of rope. All pointers are borrowed for the op. */
struct rope_job {
    struct kern *kern;
    float *x;           /* f32 [n_row, n_head, d_head], overwritten */
    const int32_t *pos; /* i32 [n_row] */
    const struct rope_spec *spec;
    int n_row, n_head, d_head, n_row_piece;
};

/* Rotate the rows of a piece. Row p of the tables has the d_rot / 2 angles of position p. */
static void rope_piece(void *ctx, int chunk, int worker)
{
    (void)worker;
    struct rope_job *j = ctx;
    int row = chunk * j->n_row_piece, half = j->spec->d_rot / 2;
    for (int i = row; i < j->n_row && i < row + j->n_row_piece; i++) {
        int64_t angles = (int64_t)j->pos[i] * half;
        j->kern->rope(j->x + (int64_t)i * j->n_head * j->d_head, j->n_head, j->d_head,
                      j->spec->cos + angles, j->spec->sin + angles, j->spec->d_rot, j->spec->neox);
    }
}

static void cpu_rope(struct backend *b, float *x, int n_head, int d_head, const int32_t *pos,
                     int n_row, const struct rope_spec *spec)
{
    struct cpu_backend *c = cpu_of(b);
    struct rope_job j = {&c->kern, x,      pos,    spec,
                         n_row,    n_head, d_head, piece_rows(n_head * d_head)};
    pool_run(c->pool, rope_piece, &j, piece_count(n_row, j.n_row_piece));
}

/* Arguments of an elementwise op. `a` is the second operand, or the gate of a gated block. `b` is
 * the operand up of a gated block. `by` is a factor or a cap. All pointers are borrowed for the
 * op. */
struct piece_job {
    struct kern *kern;
    float *y;           /* f32 [n] */
    const float *a, *b; /* f32 [n]; NULL if the op lacks the operand */
    int64_t n;
    enum curve curve;
    float by;
    float least; /* clamp: least value; the largest is `by` */
};

/* Return the number of values of piece i. Only the last piece is shorter. */
static int piece_len(const struct piece_job *j, int i)
{
    int64_t rest = j->n - (int64_t)i * PIECE;
    return rest < PIECE ? (int)rest : PIECE;
}

static void curve_mul_piece(void *ctx, int i, int worker)
{
    (void)worker;
    struct piece_job *j = ctx;
    int64_t at = (int64_t)i * PIECE;
    j->kern->curve_mul[j->curve](j->y + at, j->a + at, j->b + at, piece_len(j, i));
}

static void curve_piece(void *ctx, int i, int worker)
{
    (void)worker;
    struct piece_job *j = ctx;
    float *y = j->y + (int64_t)i * PIECE;
    j->kern->curve[j->curve](y, y, piece_len(j, i));
}

static void cpu_curve(struct backend *b, float *y, int64_t n, enum curve curve)
{
    struct piece_job j = {.kern = &cpu_of(b)->kern, .y = y, .n = n, .curve = curve};
    pool_run(cpu_of(b)->pool, curve_piece, &j, (int)((n + PIECE - 1) / PIECE));
}

/* Arguments of xielu. All pointers are borrowed for the op. */
struct xielu_job {
    struct kern *kern;
    float *y; /* f32 [n] */
    int64_t n;
    const struct xielu *p;
};

static void xielu_piece(void *ctx, int i, int worker)
{
    (void)worker;
    struct xielu_job *j = ctx;
    const struct xielu *p = j->p;
    /* `e` has 1 kB, a 32nd of the L1 cache. 256 values take about 250 ns, and a call takes 2 ns. */
    enum { CHUNK = 256 };
    const int64_t end = (int64_t)(i + 1) * PIECE < j->n ? (int64_t)(i + 1) * PIECE : j->n;
    for (int64_t at = (int64_t)i * PIECE; at < end; at += CHUNK) {
        float e[CHUNK], *y = j->y + at;
        const int n = end - at < CHUNK ? (int)(end - at) : CHUNK;
        for (int k = 0; k < n; k++) e[k] = y[k] > p->eps ? p->eps : y[k]; /* a NaN stays */
        j->kern->curve[CURVE_expm1](e, e, n);
        for (int k = 0; k < n; k++)
            y[k] =
                (y[k] > 0 ? p->alpha_p * y[k] * y[k] : (e[k] - y[k]) * p->alpha_n) + p->beta * y[k];
    }
}

static void cpu_xielu(struct backend *b, float *y, int64_t n, const struct xielu *p)
{
    struct xielu_job j = {&cpu_of(b)->kern, y, n, p};
    pool_run(cpu_of(b)->pool, xielu_piece, &j, (int)((n + PIECE - 1) / PIECE));
}

/* Arguments of clamped_glu. All pointers are borrowed for the op. */
struct clamped_job {
    struct kern *kern;
    float *gate;     /* f32 [n] */
    const float *up; /* f32 [n] */
    int64_t n;
    const struct clamped_glu *p;
};

/* Compute (up + 1) * (g * sigmoid(alpha g)) with clamped g and up. A NaN stays, because comparisons
 * with a NaN are false. */
static void clamped_piece(void *ctx, int i, int worker)
{
    (void)worker;
    struct clamped_job *j = ctx;
    const float alpha = j->p->alpha, limit = j->p->limit;
    enum { CHUNK = 256 }; /* see xielu_piece */
    const int64_t end = (int64_t)(i + 1) * PIECE < j->n ? (int64_t)(i + 1) * PIECE : j->n;
    for (int64_t at = (int64_t)i * PIECE; at < end; at += CHUNK) {
        float s[CHUNK], *g = j->gate + at;
        const float *up = j->up + at;
        const int n = end - at < CHUNK ? (int)(end - at) : CHUNK;
        for (int k = 0; k < n; k++) {
            g[k] = g[k] > limit ? limit : g[k];
            s[k] = g[k] * alpha;
        }
        j->kern->curve[CURVE_sigmoid](s, s, n);
        for (int k = 0; k < n; k++) {
            const float u = up[k] < -limit ? -limit : up[k] > limit ? limit : up[k];
            g[k] = (u + 1) * (g[k] * s[k]);
        }
    }
}

static void cpu_clamped_glu(struct backend *b, float *gate, const float *up, int64_t n,
                            const struct clamped_glu *p)
{
    struct clamped_job j = {&cpu_of(b)->kern, gate, up, n, p};
    pool_run(cpu_of(b)->pool, clamped_piece, &j, (int)((n + PIECE - 1) / PIECE));
}

/* Arguments of scale_rows. All pointers are borrowed for the op. */
struct scale_rows_job {
    float *y;        /* f32 [n_row, n] */
    const float *by; /* f32 [n_row]    */
    int64_t n;
};

static void scale_row(void *ctx, int i, int worker)
{
    (void)worker;
    const struct scale_rows_job *j = ctx;
    float *y = j->y + i * j->n;
    for (int64_t d = 0; d < j->n; d++) y[d] *= j->by[i];
}

static void cpu_scale_rows(struct backend *b, float *y, const float *by, int n_row, int64_t n)
{
    struct scale_rows_job j = {y, by, n};
    pool_run(cpu_of(b)->pool, scale_row, &j, n_row);
}

static void add_piece(void *ctx, int i, int worker)
{
    (void)worker;
    struct piece_job *j = ctx;
    int64_t at = (int64_t)i * PIECE;
    j->kern->add(j->y + at, j->a + at, piece_len(j, i));
}

static void cpu_curve_mul(struct backend *b, float *y, const float *gate, const float *up,
                          int64_t n, enum curve curve)
{
    struct piece_job j = {&cpu_of(b)->kern, y, gate, up, n, curve, 0, 0};
    pool_run(cpu_of(b)->pool, curve_mul_piece, &j, (int)((n + PIECE - 1) / PIECE));
}

static void cpu_add(struct backend *b, float *y, const float *x, int64_t n)
{
    struct piece_job j = {.kern = &cpu_of(b)->kern, .y = y, .a = x, .n = n};
    pool_run(cpu_of(b)->pool, add_piece, &j, (int)((n + PIECE - 1) / PIECE));
}

static void mul_piece(void *ctx, int i, int worker)
{
    (void)worker;
    struct piece_job *j = ctx;
    float *y = j->y + (int64_t)i * PIECE;
    const float *x = j->a + (int64_t)i * PIECE;
    for (int k = 0, n = piece_len(j, i); k < n; k++) y[k] *= x[k];
}

static void cpu_mul(struct backend *b, float *y, const float *x, int64_t n)
{
    struct piece_job j = {.kern = &cpu_of(b)->kern, .y = y, .a = x, .n = n};
    pool_run(cpu_of(b)->pool, mul_piece, &j, (int)((n + PIECE - 1) / PIECE));
}

static void scale_piece(void *ctx, int i, int worker)
{
    (void)worker;
    struct piece_job *j = ctx;
    float *x = j->y + (int64_t)i * PIECE;
    for (int k = 0, n = piece_len(j, i); k < n; k++) x[k] *= j->by;
}

static void clamp_piece(void *ctx, int i, int worker)
{
    (void)worker;
    struct piece_job *j = ctx;
    float *x = j->y + (int64_t)i * PIECE;
    for (int k = 0, n = piece_len(j, i); k < n; k++)
        x[k] = x[k] < j->least ? j->least : x[k] > j->by ? j->by : x[k];
}

/* Compute cap * tanh(x / cap), as in Gemma 2, in three passes over 32 KiB, which stay in the
 * cache. */
static void softcap_piece(void *ctx, int i, int worker)
{
    (void)worker;
    struct piece_job *j = ctx;
    float *x = j->y + (int64_t)i * PIECE;
    const int n = piece_len(j, i);
    for (int k = 0; k < n; k++) x[k] /= j->by;
    j->kern->curve[CURVE_tanh](x, x, n);
    for (int k = 0; k < n; k++) x[k] *= j->by;
}

static void cpu_scale(struct backend *b, float *x, int64_t n, float by)
{
    struct piece_job j = {.kern = &cpu_of(b)->kern, .y = x, .n = n, .by = by};
    pool_run(cpu_of(b)->pool, scale_piece, &j, (int)((n + PIECE - 1) / PIECE));
}

static void cpu_clamp(struct backend *b, float *x, int64_t n, float least, float most)
{
    struct piece_job j = {.kern = &cpu_of(b)->kern, .y = x, .n = n, .least = least, .by = most};
    pool_run(cpu_of(b)->pool, clamp_piece, &j, (int)((n + PIECE - 1) / PIECE));
}

static void cpu_softcap(struct backend *b, float *x, int64_t n, float cap)
{
    struct piece_job j = {.kern = &cpu_of(b)->kern, .y = x, .n = n, .by = cap};
    pool_run(cpu_of(b)->pool, softcap_piece, &j, (int)((n + PIECE - 1) / PIECE));
}

static void cpu_gather(struct backend *b, float *y, const float *x, const int32_t *row, int n_out,
                       int d)
{
    (void)b;
    for (int i = 0; i < n_out; i++)
        memcpy(y + (int64_t)i * d, x + (int64_t)row[i] * d, (size_t)d * sizeof *y);
}

/* Arguments of columns. All pointers are borrowed for the op. */
struct columns_job {
    float *y;
    const float *x;
    const struct columns *c;
    int n_row, n_row_piece;
};

static void columns_piece(void *ctx, int chunk, int worker)
{
    (void)worker;
    const struct columns_job *j = ctx;
    const struct columns *c = j->c;
    const int row = chunk * j->n_row_piece;
    for (int r = row; r < j->n_row && r < row + j->n_row_piece; r++)
        for (int p = 0; p < c->n_part; p++)
            memcpy(j->y + r * c->y_row + p * c->y_part, j->x + r * c->x_row + p * c->x_part,
                   (size_t)c->n * sizeof *j->y);
}

static void cpu_columns(struct backend *b, float *y, const float *x, const struct columns *c,
                        int n_row)
{
    struct columns_job j = {y, x, c, n_row, piece_rows(c->n_part * c->n)};
    pool_run(cpu_of(b)->pool, columns_piece, &j, piece_count(n_row, j.n_row_piece));
}

static const struct backend_ops cpu_ops = {
    .name = "cpu",
    .close = cpu_close,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .populate = cpu_populate,
    .weights = cpu_weights,
    .weights_verify = cpu_weights_verify,
    .weights_close = cpu_weights_close,
    .weights_use = cpu_weights_use,
    .reserve = cpu_reserve,
    .read = cpu_copy,
    .write = cpu_copy,
    .copy = cpu_copy,
    .begin = cpu_begin,
    .embed = cpu_embed,
    .rms_norm = cpu_rms_norm,
    .layer_norm = cpu_layer_norm,
    .linear = cpu_linear,
    .rope = cpu_rope,
    .kv_put = cpu_kv_put,
    .attn = cpu_attn,
    .curve_mul = cpu_curve_mul,
    .curve = cpu_curve,
    .xielu = cpu_xielu,
    .clamped_glu = cpu_clamped_glu,
    .scale_rows = cpu_scale_rows,
    .add = cpu_add,
    .mul = cpu_mul,
    .scale = cpu_scale,
    .clamp = cpu_clamp,
    .softcap = cpu_softcap,
    .route = cpu_route,
    .experts = cpu_experts,
    .parts = cpu_parts,
    .combine = cpu_combine,
    .weigh = cpu_weigh,
    .gather = cpu_gather,
    .columns = cpu_columns,
    .match = cpu_match,
    .mix_streams = cpu_mix_streams,
    .add_streams = cpu_add_streams,
    .scale_columns = cpu_scale_columns,
    .cut = cpu_cut,
    .conv = cpu_conv,
    .scan = cpu_scan,
    .linears = cpu_linears,
    .linear_add = cpu_linear_add,
    .glu = cpu_glu,
    .rope_put = cpu_rope_put,
};

/* Open the pool and the kernels. The size of the weights determines the number of threads if the
 * caller gives none (threads.c). With `cores`, threads run on these cores only. */
int backend_open_cpu(struct backend **out, const struct backend_options *o, struct err *e)
{
    struct cpu_backend *c = calloc(1, sizeof *c);
    if (!c) return err_memory(e, "the CPU backend", sizeof *c);
    c->base.op = &cpu_ops;
    c->base.is_host = true;
    c->act = o->act;
    int rc = kern_open(&c->kern, o->cpu_level, e);
    int n_thread = o->pool || o->n_thread ? o->n_thread : cpu_threads(o->weight_bytes);
    c->owns_pool = !o->pool;
    c->pool = o->pool;
    if (rc == 0 && !o->pool)
        rc = o->cores ? pool_open_on(&c->pool, n_thread, o->cores, e)
                      : pool_open(&c->pool, n_thread, e);
    if (rc != 0) {
        cpu_close(&c->base);
        return rc;
    }
    snprintf(c->description, sizeof c->description, "cpu %s, %d thread%s", c->kern.name,
             pool_n_thread(c->pool), pool_n_thread(c->pool) == 1 ? "" : "s");
    c->base.pool = c->pool;
    c->base.level = c->kern.name;
    c->base.description = c->description;
    *out = &c->base;
    return 0;
}

/* attn_test.c - goal: attention over pages equals the softmax over the pages' values, for every
 * mechanism and KV type. The result's bits depend only on the sequence, the mechanism and the KV
 * type. Method: compute steps of prompts, chunks, drafts and decodes over scattered pages. Some
 * pages are shared, and all stale memory is NaN. The test reads the pages by the layout in
 * backend.h and computes attention in double precision. The rows are then recomputed: on every
 * level, by 1 to 3 threads, over pages of another size, and alone. The bits must be equal. */
#include "../../tests/unit.h"

#include "backend_impl.h"
#include "kern/kern.h"
#include "base/rng.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

enum { N_SEQ = 6, POS_MAX = 1216, D_MAX = 256, HEAD_MAX = 16, ROW_MAX = 128, LEVEL_MAX = 32 };
enum { REACH_MAX = 50 };

/* A sequence of a step. The fields are numbers of positions, of rows in this step, of positions on
 * pages of the previous sequence, and of positions of its source. */
static const struct {
    int len, n_row, shared, source;
} plan[N_SEQ] = {
    {1100, 1, 0, 900}, {1210, 1, 1088, 900}, {1157, 3, 640, 520},
    {70, 70, 0, 0},    {560, 20, 64, 530},   {33, 1, 0, 32},
};

static const int widths[][2] = {{64, 64}, {128, 128}, {40, 40},   {96, 96}, {80, 80},
                                {48, 96}, {256, 256}, {192, 128}, {76, 60}};
enum { N_WIDTH = sizeof widths / sizeof widths[0] };
static const int groups[][2] = {{1, 1}, {2, 1}, {6, 2}, {4, 1}, {8, 4}, {5, 1}, {7, 1}, {16, 2}};

struct scene {
    struct attn_spec spec;
    struct kv_layer kv;
    struct batch batch;
    bool latent; /* true: the values are the first values of the keys */
    int n_page;
    float slope[HEAD_MAX], sink[HEAD_MAX];
    float table[HEAD_MAX * (2 * REACH_MAX + 1 + 2 * BIAS_EDGE)];
    float *q;        /* [ROW_MAX, n_head, d_k] */
    float *k, *v;    /* [N_SEQ, POS_MAX, n_head_kv, d] as stored */
    double *hk, *hv; /* K and V as read from the pages */
    float *want;     /* [ROW_MAX, n_head, d_v] */
};

/* ---- offsets ---- */

static int64_t at_k(const struct scene *s, int seq, int pos, int head)
{
    return (((int64_t)seq * POS_MAX + pos) * s->spec.n_head_kv + head) * s->spec.d_k;
}

static int64_t at_v(const struct scene *s, int seq, int pos, int head)
{
    return (((int64_t)seq * POS_MAX + pos) * s->spec.n_head_kv + head) * s->spec.d_v;
}

static double decode(enum kv_type t, const uint8_t *x, int64_t i)
{
    float f;
    uint16_t h;
    if (t == KV_F32) return memcpy(&f, x + i * 4, 4), f;
    memcpy(&h, x + i * 2 * (t == KV_F16 || t == KV_BF16), 2);
    return t == KV_F16        ? f32_of_f16(h)
           : t == KV_BF16     ? f32_of_bf16(h)
           : t == KV_Q8       ? (int8_t)x[i]
           : t == KV_FP8_E4M3 ? f32_of_e4m3(x[i])
                              : f32_of_e5m2(x[i]);
}

static double scale_at(const struct scene *s, const uint8_t *page, int d, int head, int row)
{
    float f;
    int64_t n = (int64_t)s->kv.n_head_kv * s->kv.page_rows * d;
    if (s->kv.type != KV_Q8) return 1;
    memcpy(&f, page + (n + 3) / 4 * 4 + ((int64_t)head * s->kv.page_rows + row) * 4, 4);
    return f;
}

/* Read one head of one position from its page. */
static void read_back(struct scene *s, int seq, int pos, int head)
{
    const struct kv_layer *kv = &s->kv;
    int pr = kv->page_rows, w = pr < 16 ? pr : 16, row = pos % pr;
    int64_t page = s->batch.page[seq * s->batch.page_stride + pos / pr];
    const uint8_t *k = kv->k + page * kv->k_page_bytes, *v = kv->v + page * kv->v_page_bytes;
    for (int d = 0; d < kv->d_k; d++) {
        int64_t i = (((int64_t)head * (pr / w) + row / w) * kv->d_k + d) * w + row % w;
        s->hk[at_k(s, seq, pos, head) + d] =
            decode(kv->type, k, i) * scale_at(s, k, kv->d_k, head, row);
    }
    for (int d = 0; d < kv->d_v; d++) {
        if (s->latent) s->hv[at_v(s, seq, pos, head) + d] = s->hk[at_k(s, seq, pos, head) + d];
        if (s->latent) continue;
        int64_t i = ((int64_t)head * pr + row) * kv->d_v + d;
        s->hv[at_v(s, seq, pos, head) + d] =
            decode(kv->type, v, i) * scale_at(s, v, kv->d_v, head, row);
    }
}

/* Return the largest relative error of a type. The error of q8 is relative to the row's largest
 * value. */
static double type_error(enum kv_type t)
{
    static const double e[KV_TYPE_COUNT] = {[KV_F16] = 0x1p-11,
                                            [KV_BF16] = 0x1p-8,
                                            [KV_Q8] = 1 / 253.0,
                                            [KV_FP8_E4M3] = 0x1p-4,
                                            [KV_FP8_E5M2] = 0x1p-3};
    return e[t];
}

static bool is_close(enum kv_type t, const float *put, const double *held, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++) most = fabs((double)put[i]) > most ? fabs((double)put[i]) : most;
    for (int i = 0; i < n; i++)
        if (!(fabs(held[i] - (double)put[i]) <=
              type_error(t) * (t == KV_Q8 ? most : fabs((double)put[i])) +
                  (t == KV_FP8_E4M3) * 1e-3 + (t == KV_FP8_E5M2 || t == KV_F16) * 1e-5))
            return false;
    return true;
}

/* ---- a scene ---- */

static void random_floats(float *x, int64_t n, float size, uint64_t *rng)
{
    for (int64_t i = 0; i < n; i++) x[i] = (2 * rng_float(rng) - 1) * size;
}

/* Copy K and V of shared positions from the previous sequence. */
static void share_values(struct scene *s)
{
    for (int q = 1; q < N_SEQ; q++) {
        size_t n = (size_t)plan[q].shared * (size_t)s->spec.n_head_kv * sizeof(float);
        memcpy(s->k + at_k(s, q, 0, 0), s->k + at_k(s, q - 1, 0, 0), n * (size_t)s->spec.d_k);
        memcpy(s->v + at_v(s, q, 0, 0), s->v + at_v(s, q - 1, 0, 0), n * (size_t)s->spec.d_v);
    }
}

/* Open scene `number`. The shape and the optional parts of attention (window, chunk, cap, slope,
 * sink) derive from the number, so that the scenes cover their combinations. */
static bool scene_open(struct scene *s, int number, uint64_t *rng)
{
    const int *w = widths[number % N_WIDTH], *g = groups[(number / 8 + number) % 8];
    unsigned flags = (unsigned)(number * 7 + number / 16) % 16;
    *s = (struct scene){.spec = {.n_head = g[0], .n_head_kv = g[1], .d_k = w[0], .d_v = w[1]}};
    s->latent = w[0] > w[1] ? number % 2 : w[0] == w[1] && number % 11 == 5;
    s->spec.scale = 2 / sqrtf((float)w[0]);
    s->spec.window = flags & 1 ? (number % 3 ? 530 : 37) : 0;
    s->spec.chunk = !(flags & 1) && number % 3 == 1 ? (number % 2 ? 29 : 300) : 0;
    s->spec.n_later = number % 3 == 2 ? INT_MAX : number % 5 == 4 ? 19 : 0;
    s->spec.softcap = flags & 2 ? 3 : 0;
    s->spec.slope = flags & 4 ? s->slope : NULL;
    s->spec.sink = flags & 8 ? s->sink : NULL;
    s->spec.part = number % 7 == 5 ? ATTN_SOURCE : number % 7 == 3 ? ATTN_TARGET : ATTN_ALL;
    s->spec.bias = number % 4 == 1 ? s->table : NULL;
    s->spec.bias_reach = 1 + number % REACH_MAX;
    int64_t n = (int64_t)N_SEQ * POS_MAX * g[1];
    s->q = malloc((size_t)(ROW_MAX * g[0] * w[0]) * sizeof *s->q);
    s->want = malloc((size_t)(ROW_MAX * g[0] * w[1]) * sizeof *s->want);
    s->k = malloc((size_t)(n * w[0]) * sizeof *s->k),
    s->hk = malloc((size_t)(n * w[0]) * sizeof *s->hk);
    s->v = malloc((size_t)(n * w[1]) * sizeof *s->v),
    s->hv = malloc((size_t)(n * w[1]) * sizeof *s->hv);
    if (!s->q || !s->want || !s->k || !s->v || !s->hk || !s->hv) return false;
    random_floats(s->q, (int64_t)ROW_MAX * g[0] * w[0], 2, rng);
    random_floats(s->k, n * w[0], 2, rng);
    random_floats(s->v, n * w[1], 2, rng);
    random_floats(s->slope, HEAD_MAX, 0.05f, rng);
    random_floats(s->sink, HEAD_MAX, 4, rng);
    random_floats(s->table, HEAD_MAX * bias_floats(s->spec.bias_reach), 2, rng);
    for (int h = 0; h < HEAD_MAX; h++)
        for (int i = 0, len = bias_floats(s->spec.bias_reach); i < BIAS_EDGE; i++) {
            float *t = s->table + h * len;
            t[i] = t[BIAS_EDGE], t[len - 1 - i] = t[len - 1 - BIAS_EDGE];
        }
    share_values(s);
    return true;
}

static void pages_close(struct scene *s)
{
    batch_close(&s->batch);
    free(s->kv.k), free(s->kv.v);
    s->kv.k = s->kv.v = NULL;
}

static void scene_close(struct scene *s)
{
    pages_close(s);
    free(s->q), free(s->k), free(s->v), free(s->hk), free(s->hv), free(s->want);
}

/* Assign pages in random order. Fill stale pages and stale parts of other pages with NaN. */
static bool pages_open(struct scene *s, enum kv_type t, int page_rows)
{
    struct err e;
    const struct attn_spec *a = &s->spec;
    int stride = POS_MAX / page_rows;
    s->n_page = N_SEQ * stride;
    s->kv = (struct kv_layer){t,
                              page_rows,
                              a->n_head_kv,
                              a->d_k,
                              a->d_v,
                              s->latent,
                              kv_page_bytes(t, page_rows, a->n_head_kv, a->d_k),
                              s->latent ? 0 : kv_page_bytes(t, page_rows, a->n_head_kv, a->d_v),
                              NULL,
                              NULL};
    size_t k_byte = (size_t)(s->n_page * s->kv.k_page_bytes);
    size_t v_byte = (size_t)(s->n_page * s->kv.v_page_bytes);
    s->kv.k = malloc(k_byte), s->kv.v = malloc(v_byte + 1);
    struct batch_limits l = {
        .n_row = ROW_MAX, .n_seq = N_SEQ, .page_stride = stride, .n_out = 1, .n_source = POS_MAX};
    if (!s->kv.k || !s->kv.v || batch_open(&s->batch, &l, &e) != 0) return false;
    memset(s->kv.k, 0xFF, k_byte), memset(s->kv.v, 0xFF, v_byte);
    return true;
}

/* Give each sequence random pages, so that neighbours in a sequence are not neighbours in memory.
 * Sequences share the pages of their common prefix if `share` is true. */
static void fill_tables(struct scene *s, bool share, uint64_t *rng)
{
    struct batch *b = &s->batch;
    int32_t *free_page = malloc((size_t)s->n_page * sizeof *free_page);
    for (int i = 0; i < s->n_page; i++) {
        int j = (int)rng_below(rng, (uint64_t)i + 1);
        free_page[i] = free_page[j], free_page[j] = i;
    }
    for (int q = 0, n = 0; q < N_SEQ; q++)
        for (int i = 0; i < b->page_stride; i++) {
            bool same = share && (i + 1) * s->kv.page_rows <= plan[q].shared;
            int32_t *at = b->page + q * b->page_stride + i;
            *at = same ? at[-b->page_stride] : free_page[n++];
        }
    free(free_page);
}

static void add_rows(struct scene *s, int pos0, int n, int kv_len)
{
    struct batch *b = &s->batch;
    int pr = s->kv.page_rows, out = b->n_seq++;
    for (int pos = pos0; pos < pos0 + n; pos++) {
        b->token[b->n_row] = 0, b->pos[b->n_row] = pos;
        b->slot[b->n_row++] = b->page[out * b->page_stride + pos / pr] * pr + pos % pr;
    }
    b->kv_len[out] = kv_len;
    b->row0[b->n_seq] = b->n_row;
}

/* Fill the batch of the whole step. */
static void fill_batch(struct scene *s, struct backend *b, bool share, uint64_t *rng)
{
    int pr = s->kv.page_rows;
    batch_clear(&s->batch);
    fill_tables(s, share, rng);
    for (int q = 0; q < N_SEQ; q++) {
        int32_t slot[POS_MAX];
        for (int i = 0; i < plan[q].len; i++)
            slot[i] = s->batch.page[q * s->batch.page_stride + i / pr] * pr + i % pr;
        int from = share ? plan[q].shared / pr * pr : 0;
        for (int i = from, n; i < plan[q].len; i += n) {
            n = plan[q].len - i < ROW_MAX ? plan[q].len - i : ROW_MAX;
            b->op->kv_put(b, &s->kv, s->k + at_k(s, q, i, 0), s->v + at_v(s, q, i, 0), slot + i, n);
        }
        s->batch.source[q] = plan[q].source;
        add_rows(s, plan[q].len - plan[q].n_row, plan[q].n_row, plan[q].len);
    }
}

/* ---- double precision ---- */

/* Compute the values of a row's head by definition, in double. */
static void exact(const struct scene *s, int seq, int pos, int head, int to, const float *q,
                  double *y)
{
    static double p[POS_MAX];
    const struct attn_spec *a = &s->spec;
    const int source = plan[seq].source;
    int from = a->window && pos >= a->window ? pos - a->window + 1 : 0;
    if (a->chunk) from = pos / a->chunk * a->chunk;
    if (a->part == ATTN_TARGET && from < source) from = source;
    if (a->part == ATTN_SOURCE) from = 0, to = source;
    int group = head / (a->n_head / a->n_head_kv);
    const int n_bias = bias_floats(a->bias_reach);
    double top = a->sink ? (double)a->sink[head] : -INFINITY, sum = 0;
    for (int i = from; i < to; i++) {
        const double *k = s->hk + at_k(s, seq, i, group);
        double t = 0;
        for (int d = 0; d < a->d_k; d++) t += (double)q[d] * k[d];
        t *= (double)a->scale;
        if (a->softcap > 0) t = (double)a->softcap * tanh(t / (double)a->softcap);
        if (a->slope) t += (double)a->slope[head] * (i - pos);
        if (a->bias) t += (double)a->bias[head * n_bias + bias_at(a->bias_reach, i - pos)];
        p[i] = t, top = t > top ? t : top;
    }
    for (int i = from; i < to; i++) sum += p[i] = exp(p[i] - top);
    if (a->sink) sum += exp((double)a->sink[head] - top);
    for (int d = 0; d < a->d_v; d++) y[d] = 0;
    for (int i = from; i < to; i++) /* without a visible position the result is 0 */
        for (int d = 0; d < a->d_v; d++) y[d] += p[i] / sum * s->hv[at_v(s, seq, i, group) + d];
}

/* Return the end of the positions to which a row attends in a sequence of n positions. */
static int end_of(const struct attn_spec *a, int pos, int n)
{
    return a->n_later < n - pos - 1 ? pos + 1 + a->n_later : n;
}

/* Return the largest error of two heads of every row. */
static double worst_error(const struct scene *s, const float *y)
{
    const struct attn_spec *a = &s->spec;
    const struct batch *b = &s->batch;
    double want[D_MAX], worst = 0;
    for (int q = 0; q < N_SEQ; q++)
        for (int r = b->row0[q]; r < b->row0[q + 1]; r++)
            for (int i = 0; i < 2; i++) {
                int head = (r + i * (a->n_head / 2)) % a->n_head, pos = b->pos[r];
                int64_t at = (int64_t)r * a->n_head + head;
                exact(s, q, pos, head, end_of(a, pos, b->kv_len[q]), s->q + at * a->d_k, want);
                for (int d = 0; d < a->d_v; d++) {
                    double err = fabs(want[d] - (double)y[at * a->d_v + d]);
                    worst = err > worst || err != err ? err : worst;
                }
            }
    return worst;
}

/* ---- backends ---- */

struct fleet {
    struct backend *b[LEVEL_MAX];
    char name[LEVEL_MAX][32];
    int n;
};

/* Open a backend with a kernel level and a number of threads. All backends of the fleet must give
 * the same bits. */
static bool fleet_add(struct fleet *f, const char *level, int n_thread)
{
    struct err e;
    struct backend **b = &f->b[f->n];
    struct backend_options o = {.n_thread = n_thread, .cpu_level = level};
    snprintf(f->name[f->n++], sizeof f->name[0], "%s, %d threads", level, n_thread);
    return backend_open(b, "cpu", &o, &e) == 0 &&
           (*b)->op->reserve(
               *b,
               &(struct op_sizes){
                   .n_row = ROW_MAX, .k = D_MAX, .d_head = D_MAX, .n_group = HEAD_MAX},
               &e) == 0;
}

/* Open the reference, and every level with 1 to 3 threads. */
static bool fleet_open(struct fleet *f)
{
    bool ok = fleet_add(f, "ref", 1);
    for (const char *const *level = kern_levels() + 1; *level && ok; level++)
        for (int n = 1; n <= 3 && ok && f->n < LEVEL_MAX; n++) ok = fleet_add(f, *level, n);
    return ok;
}

static void fleet_close(struct fleet *f)
{
    for (int i = 0; i < f->n; i++) backend_close(f->b[i]);
}

static void run(const struct scene *s, struct backend *b, float *y, const float *q)
{
    b->op->attn(b, y, q, &s->kv, &s->batch, &s->spec);
}

/* Compute every row alone, with K and V up to the last position to which it attends. */
static bool alone_is_same(struct scene *s, struct backend *b, float *y)
{
    const struct attn_spec *a = &s->spec;
    int64_t n_q = (int64_t)a->n_head * a->d_k, n_y = (int64_t)a->n_head * a->d_v;
    int32_t *table = s->batch.page, row = 0;
    bool same = true;
    for (int q = 0; q < N_SEQ; q++, table += s->batch.page_stride)
        for (int i = 0; i < plan[q].n_row; i++, row++) {
            int pos = plan[q].len - plan[q].n_row + i, at[2] = {0, 1},
                len = end_of(a, pos, plan[q].len);
            struct batch one = s->batch;
            one.n_row = one.n_seq = 1;
            int32_t source = plan[q].source;
            one.pos = &pos, one.row0 = at, one.kv_len = &len, one.page = table;
            one.source = &source;
            b->op->attn(b, y, s->q + row * n_q, &s->kv, &one, a);
            same &= memcmp(y, s->want + row * n_y, (size_t)n_y * sizeof *y) == 0;
        }
    return same;
}

static void failed(const struct scene *s, const char *what, double error)
{
    const struct attn_spec *a = &s->spec;
    test_fail(__FILE__, __LINE__,
              "%s: %s, pages of %d, %d/%d heads of %d and %d, window %d, chunk %d, softcap %g, "
              "%s slope, %s sink: error %g",
              what, kv_type_name(s->kv.type), s->kv.page_rows, a->n_head, a->n_head_kv, a->d_k,
              a->d_v, a->window, a->chunk, (double)a->softcap, a->slope ? "with" : "no",
              a->sink ? "with" : "no", error);
}

/* Compare the K and V in the pages with the values that were put, within the precision of the KV
 * type. */
static void compare_stored(struct scene *s)
{
    bool ok = true;
    for (int q = 0; q < N_SEQ; q++)
        for (int pos = 0; pos < plan[q].len; pos++)
            for (int h = 0; h < s->spec.n_head_kv; h++) {
                int64_t k = at_k(s, q, pos, h), v = at_v(s, q, pos, h);
                read_back(s, q, pos, h);
                ok &= is_close(s->kv.type, s->k + k, s->hk + k, s->spec.d_k);
                ok &= s->latent || is_close(s->kv.type, s->v + v, s->hv + v, s->spec.d_v);
            }
    if (!ok) failed(s, "the content of the pages differs from the stored values", 0);
}

/* Check a scene. The bound is 1e-5, because scores are chains of up to 256 roundings and values are
 * at most 2. */
static double check_scene(struct scene *s, const struct fleet *f, int page_rows, uint64_t *rng)
{
    static float y[ROW_MAX * HEAD_MAX * D_MAX];
    size_t n_byte;
    fill_batch(s, f->b[0], true, rng);
    compare_stored(s);
    n_byte = (size_t)(s->batch.n_row * s->spec.n_head * s->spec.d_v) * sizeof *y;
    run(s, f->b[1], s->want, s->q);
    double error = worst_error(s, s->want);
    if (!(error <= 1e-5)) failed(s, "not the softmax", error);
    for (int i = 0; i < f->n; i++) {
        run(s, f->b[i], y, s->q);
        if (memcmp(y, s->want, n_byte) != 0) failed(s, f->name[i], 0);
    }
    if (!alone_is_same(s, f->b[f->n - 1], y)) failed(s, "a row alone", 0);
    enum kv_type t = s->kv.type;
    pages_close(s);
    if (!pages_open(s, t, page_rows)) return INFINITY;
    fill_batch(s, f->b[0], false, rng);
    run(s, f->b[f->n - 1], y, s->q);
    if (memcmp(y, s->want, n_byte) != 0) failed(s, "other pages, none shared", 0);
    return error;
}

TEST(attention_over_pages_is_exact_and_the_same_everywhere)
{
    /* The sample has 8 scenes, with each KV type, page size and width of heads. */
    int n_scene = test_long() ? 336 : 42, n_run = 0;
    struct fleet f = {0};
    uint64_t rng = 12;
    double worst = 0;
    bool ok = fleet_open(&f);
    EXPECT(ok && f.n > 1);
    for (int i = 0; i < n_scene && ok && f.n > 1; i++) {
        struct scene s;
        if (!test_long() && i % 7 != 0 && i != 18 && i != 41) continue;
        n_run++;
        ok = scene_open(&s, i, &rng) &&
             pages_open(&s, (enum kv_type)(i % KV_TYPE_COUNT), 1 << i / 6 % 7);
        EXPECT(ok);
        double error = ok ? check_scene(&s, &f, 1 << (i / 6 + 1 + i % 6) % 7, &rng) : 0;
        worst = error > worst ? error : worst;
        scene_close(&s);
    }
    test_note("worst error %.2g", worst);
    test_sampled(n_run, 336, "scenes");
    fleet_close(&f);
}

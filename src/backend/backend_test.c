/* backend_test.c - goal: attention over pages is correct for every page size and KV type, and a bad
 * batch is detected. Method: compare the op on random sequences with softmax in double precision
 * over the pages' values. */
#include "../../tests/unit.h"

#include "backend_impl.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>

enum { N_SEQ = 3, N_POS = 600, N_HEAD = 4, N_KV = 2, D = 24 };

struct world {
    struct backend *b;
    struct kv_layer kv;
    struct batch batch;
    float *k, *v; /* [N_SEQ, N_POS, N_KV, D] stored values */
    int n_page;
};

/* Open a backend and make the pages of one layer. */
static bool world_open(struct world *w, enum kv_type t, int page_rows, int n_row, uint64_t *rng)
{
    struct err e;
    *w = (struct world){.n_page = N_SEQ * (N_POS / page_rows + 1)};
    if (backend_open(&w->b, "cpu", &(struct backend_options){.n_thread = 2}, &e) != 0) return false;
    const struct op_sizes sizes = {.n_row = 64, .k = 256, .d_head = D, .n_group = N_HEAD / N_KV};
    if (w->b->op->reserve(w->b, &sizes, &e) != 0) return false;
    w->kv = (struct kv_layer){.type = t,
                              .page_rows = page_rows,
                              .n_head_kv = N_KV,
                              .d_k = D,
                              .d_v = D,
                              .k_page_bytes = kv_page_bytes(t, page_rows, N_KV, D),
                              .v_page_bytes = kv_page_bytes(t, page_rows, N_KV, D)};
    w->kv.k = calloc((size_t)w->n_page, (size_t)w->kv.k_page_bytes);
    w->kv.v = calloc((size_t)w->n_page, (size_t)w->kv.v_page_bytes);
    struct batch_limits l = {
        .n_row = N_SEQ * n_row, .n_seq = N_SEQ, .page_stride = N_POS / page_rows + 1, .n_out = 1};
    if (batch_open(&w->batch, &l, &e) != 0) return false;
    size_t n = (size_t)N_SEQ * N_POS * N_KV * D;
    w->k = malloc(n * sizeof(float));
    w->v = malloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++)
        w->k[i] = rng_float(rng) * 4 - 2, w->v[i] = rng_float(rng) * 4 - 2;
    /* stale pages contain NaN, so a read past a sequence's end is detected */
    if (t == KV_F32)
        for (int64_t i = 0; i < w->n_page * w->kv.v_page_bytes / 4; i++)
            ((float *)w->kv.v)[i] = NAN;
    return true;
}

static void world_close(struct world *w)
{
    backend_close(w->b);
    batch_close(&w->batch);
    free(w->kv.k), free(w->kv.v), free(w->k), free(w->v);
}

/* Add sequence s. The last n_row of its len positions are rows. All earlier positions are stored
 * together. Pages are scattered. */
static void fill(struct world *w, const int *len, int n_row)
{
    struct batch *b = &w->batch;
    int pr = w->kv.page_rows;
    batch_clear(b);
    for (int s = 0; s < N_SEQ; s++) {
        for (int p = 0; p < b->page_stride; p++)
            b->page[s * b->page_stride + p] = (p * N_SEQ + s) * 7 % w->n_page;
        int32_t slot[N_POS];
        for (int i = 0; i < len[s]; i++)
            slot[i] = b->page[s * b->page_stride + i / pr] * pr + i % pr;
        w->b->op->kv_put(w->b, &w->kv, w->k + (int64_t)s * N_POS * N_KV * D,
                         w->v + (int64_t)s * N_POS * N_KV * D, slot, len[s]);
        for (int i = len[s] - n_row; i < len[s]; i++) {
            b->token[b->n_row] = 0;
            b->slot[b->n_row] = slot[i];
            b->pos[b->n_row++] = i;
        }
        b->kv_len[s] = len[s];
        b->row0[++b->n_seq] = b->n_row;
    }
}

/* Return dimension d of the attention of one head in double, by the definition: the reference. */
static double head_out(const struct world *w, const float *q, int s, int head, int pos, int window,
                       int d)
{
    double top = -INFINITY, sum = 0, out = 0;
    static double p[N_POS];
    int from = window && pos >= window ? pos - window + 1 : 0;
    for (int i = from; i <= pos; i++) {
        const float *k = w->k + (((int64_t)s * N_POS + i) * N_KV + head / (N_HEAD / N_KV)) * D;
        p[i] = 0;
        for (int j = 0; j < D; j++) p[i] += (double)q[j] * k[j];
        p[i] *= 0.2;
        top = p[i] > top ? p[i] : top;
    }
    for (int i = from; i <= pos; i++) sum += p[i] = exp(p[i] - top);
    for (int i = from; i <= pos; i++)
        out +=
            p[i] / sum * w->v[(((int64_t)s * N_POS + i) * N_KV + head / (N_HEAD / N_KV)) * D + d];
    return out;
}

/* Return the largest difference between the op and the reference over all rows. */
static double worst_error(struct world *w, int window, const int *len, int n_row, uint64_t *rng)
{
    fill(w, len, n_row);
    int n = w->batch.n_row;
    float *q = malloc((size_t)n * N_HEAD * D * sizeof *q),
          *y = malloc((size_t)n * N_HEAD * D * sizeof *y);
    for (int i = 0; i < n * N_HEAD * D; i++) q[i] = rng_float(rng) * 4 - 2;
    struct attn_spec spec = {
        .n_head = N_HEAD, .n_head_kv = N_KV, .d_k = D, .d_v = D, .scale = 0.2f, .window = window};
    w->b->op->attn(w->b, y, q, &w->kv, &w->batch, &spec);
    double worst = 0;
    for (int r = 0; r < n; r++)
        for (int h = 0; h < N_HEAD; h++)
            for (int d = 0; d < D; d += 5) {
                int at = (r * N_HEAD + h) * D;
                double err =
                    fabs(y[at + d] - head_out(w, q + at, r / n_row, h, w->batch.pos[r], window, d));
                worst = err > worst || err != err ? err : worst;
            }
    free(q), free(y);
    return worst;
}

TEST(attention_equals_softmax_in_double)
{
    static const double bound[KV_TYPE_COUNT] = {
        [KV_F32] = 2e-6, [KV_F16] = 5e-3,      [KV_BF16] = 4e-2,
        [KV_Q8] = 5e-2,  [KV_FP8_E4M3] = 4e-1, [KV_FP8_E5M2] = 8e-1};
    uint64_t rng = 2;
    for (int t = 0; t < KV_TYPE_COUNT; t++)
        for (int page_rows = t == KV_F32 ? 1 : 4; page_rows <= 64; page_rows *= 4) {
            struct world w;
            NEED(world_open(&w, (enum kv_type)t, page_rows, 20, &rng));
            double all = worst_error(&w, 0, (int[]){20, 599, 513}, 20, &rng);
            double windowed = worst_error(&w, 37, (int[]){21, 530, 64}, 20, &rng);
            if (!(all <= bound[t] && windowed <= bound[t]))
                test_fail(__FILE__, __LINE__, "%s, pages of %d: errors %g and %g above %g",
                          kv_type_name((enum kv_type)t), page_rows, all, windowed, bound[t]);
            world_close(&w);
        }
}

TEST(a_batch_that_contradicts_itself_is_found)
{
    uint64_t rng = 4;
    struct world w;
    NEED(world_open(&w, KV_F32, 16, 4, &rng));
    struct batch *b = &w.batch;
    fill(&w, (int[]){16, 20, 40}, 4);
    EXPECT(batch_check(b, 10, w.n_page, 16) == NULL);
    EXPECT_INT(b->adapter[1], 0); /* batch_clear sets it */
    int32_t *const field[] = {&b->token[3], &b->pos[5],    &b->slot[2],
                              &b->row0[1],  &b->kv_len[1], &b->page[b->page_stride],
                              &b->row0[0],  &b->adapter[1]};
    for (size_t i = 0; i < sizeof field / sizeof field[0]; i++) {
        int32_t was = *field[i];
        for (int k = 0; k < 3; k++) {
            *field[i] = (int32_t[]){-7, 1 << 20, was + 1}[k];
            /* another token is also valid, and no row of this step is in that page */
            if ((field[i] == &b->token[3] || field[i] == &b->page[b->page_stride]) && k == 2)
                continue;
            if (!batch_check(b, 10, w.n_page, 16))
                test_fail(__FILE__, __LINE__, "field %zu = %d passed", i, *field[i]);
        }
        *field[i] = was;
    }
    EXPECT(batch_check(b, 10, w.n_page, 16) == NULL);
    world_close(&w);
}

/* Goal: a batch whose rows do not have the list of divisors of their text is detected. */
TEST(rows_of_a_text_have_one_list_of_divisors)
{
    enum { SHORT = 6, ROWS = 4 };
    const struct batch_limits l = {
        .n_row = 8, .n_seq = 2, .n_out = 1, .page_stride = 2, .n_short = SHORT};
    struct batch b;
    struct err e;
    NEED_OK(batch_open(&b, &l, &e), &e);
    batch_clear(&b);
    b.n_seq = 2, b.n_row = 6;
    b.row0[1] = 3, b.row0[2] = 6;
    b.kv_len[0] = 3, b.kv_len[1] = 8;
    for (int i = 0; i < 4; i++) b.page[i] = i;
    for (int r = 0; r < 6; r++) {
        b.pos[r] = r < 3 ? r : r + 2;
        b.slot[r] = r < 3 ? r : 2 * ROWS + b.pos[r];
    }
    batch_rope(&b, 0, false);
    batch_rope(&b, 1, true);
    EXPECT_INT(b.angle[2], 2);
    EXPECT_INT(b.angle[5], 7 + SHORT);
    EXPECT(batch_check(&b, 10, 4, ROWS) == NULL);
    batch_rope(&b, 0, true); /* the beginning of a long text */
    EXPECT(batch_check(&b, 10, 4, ROWS) == NULL);
    for (int r = 0; r < 6; r++) {
        const int32_t was = b.angle[r];
        b.angle[r] = b.pos[r];
        EXPECT(batch_check(&b, 10, 4, ROWS) != NULL);
        b.angle[r] = was + 1;
        EXPECT(batch_check(&b, 10, 4, ROWS) != NULL);
        b.angle[r] = was;
    }
    batch_rope(&b, 1, false); /* 8 tokens are too many */
    EXPECT(batch_check(&b, 10, 4, ROWS) != NULL);
    batch_close(&b);
}

/* ---- sources ---- */

/* Append rows [pos0, pos0 + n) of a sequence whose pages are 2 * n_seq and 2 * n_seq + 1. */
static void add_seq(struct batch *b, int pos0, int n, int source)
{
    const int s = b->n_seq++;
    b->page[s * b->page_stride] = 2 * s, b->page[s * b->page_stride + 1] = 2 * s + 1;
    for (int pos = pos0; pos < pos0 + n; pos++) {
        const int row = b->n_row++;
        b->token[row] = pos % 7, b->pos[row] = pos, b->slot[row] = s * 32 + pos;
        b->place[row] = pos < source ? pos : pos - source;
    }
    b->row0[b->n_seq] = b->n_row, b->kv_len[s] = pos0 + n, b->source[s] = source;
}

/* Goal: sources are after all other sequences, whole and without results. Views have the rows of
 * their part. */
TEST(a_batch_of_sources_and_targets_is_checked_and_divided)
{
    const struct batch_limits l = {
        .n_row = 64, .n_seq = 4, .page_stride = 2, .n_copy = 1, .n_out = 4, .n_source = 30};
    struct batch b;
    struct err e;
    NEED_OK(batch_open(&b, &l, &e), &e);
    add_seq(&b, 9, 2, 9);
    add_seq(&b, 20, 1, 12);
    add_seq(&b, 0, 5, 5);
    add_seq(&b, 0, 17, 17);
    b.out_row[0] = 1, b.out_row[1] = 2, b.out_kind[0] = b.out_kind[1] = OUT_LOGITS, b.n_out = 2;
    EXPECT(batch_check(&b, 10, 8, 16) == NULL);
    EXPECT_INT(batch_source0(&b), 2);
    const struct batch target = batch_seqs(&b, &b, 0, 2), source = batch_seqs(&b, &b, 2, 4);
    EXPECT_INT(target.n_row, 3);
    EXPECT_INT(target.n_out, 2);
    EXPECT_INT(source.n_row, 22);
    EXPECT_INT(source.n_out, 0);
    EXPECT_INT(source.row0[1] - source.row0[0], 5);
    EXPECT(source.place[5] == 0 && source.slot[5] == 96 && source.page[2] == 6);
    int32_t *const field[] = {&b.source[0], &b.source[1], &b.source[2], &b.source[3],
                              &b.place[0],  &b.place[10], &b.out_row[1]};
    const int32_t wrong[] = {0, 21, 4, 18, 9, 3, 3};
    for (size_t i = 0; i < sizeof field / sizeof field[0]; i++) {
        const int32_t was = *field[i];
        *field[i] = wrong[i];
        if (!batch_check(&b, 10, 8, 16))
            test_fail(__FILE__, __LINE__, "field %zu = %d passed", i, wrong[i]);
        *field[i] = was;
    }
    batch_close(&b);
}

/* Goal: xIELU equals its formula in double for values near 0 and eps, and for lengths that are
 * not a multiple of the vector. */
TEST(xielu_equals_its_formula_in_double)
{
    enum { N = 9001 };
    const struct xielu p = {.alpha_p = 0.7f, .alpha_n = 1.3f, .beta = 0.5f, .eps = -1e-2f};
    struct backend *b;
    struct err e;
    uint64_t rng = 5;
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 2}, &e), &e);
    float *y = b->op->alloc(b, N * sizeof *y), x[N];
    NEED(y);
    for (int i = 0; i < N; i++)
        y[i] = x[i] = i % 2 ? rng_float(&rng) * 0.1f - 0.05f : rng_float(&rng) * 12 - 8;
    b->op->xielu(b, y, N, &p);
    double worst = 0;
    for (int i = 0; i < N; i++) {
        const double v = (double)x[i], low = v < (double)p.eps ? v : (double)p.eps,
                     want = (double)p.beta * v + (v > 0 ? (double)p.alpha_p * v * v
                                                        : (expm1(low) - v) * (double)p.alpha_n),
                     off = fabs((double)y[i] - want) / (fabs(want) + fabs(v));
        if (!(off <= worst)) worst = off;
    }
    test_note("worst error %.2g of value and argument", worst);
    EXPECT(worst < 4e-7);
    b->op->release(b, y, N * sizeof *y);
    backend_close(b);
}

/* Goal: columns copies the requested values of each part of a row, also with one source for all
 * parts, and writes no other values. 700 rows are several pieces of work. */
TEST(columns_are_copied_between_arrays_of_other_shapes)
{
    enum { ROWS = 700, PARTS = 5, X = 7, Y = 9, N = 4, X_AT = 2, Y_AT = 3 };
    static float x[ROWS * PARTS * X], y[ROWS * PARTS * Y];
    struct backend *b;
    struct err e;
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 2}, &e), &e);
    for (int i = 0; i < ROWS * PARTS * X; i++) x[i] = (float)i;
    for (int shared = 0; shared < 2; shared++) {
        const struct columns c = {.n_part = PARTS,
                                  .n = N,
                                  .y_row = PARTS * Y,
                                  .y_part = Y,
                                  .x_row = shared ? X : PARTS * X,
                                  .x_part = shared ? 0 : X};
        int n_wrong = 0;
        for (int i = 0; i < ROWS * PARTS * Y; i++) y[i] = -1;
        b->op->columns(b, y + Y_AT, x + X_AT, &c, ROWS);
        for (int i = 0; i < ROWS * PARTS * Y; i++) {
            const int lane = i % Y - Y_AT, part = i / Y, from = shared ? part / PARTS : part;
            const bool copied = lane >= 0 && lane < N;
            n_wrong += y[i] != (copied ? x[from * X + X_AT + lane] : -1);
        }
        EXPECT_INT(n_wrong, 0);
    }
    backend_close(b);
}

TEST(a_device_that_is_not_built_in_is_refused_by_name)
{
    struct backend *b;
    struct err e;
    EXPECT_INT(backend_open(&b, "abacus", &(struct backend_options){0}, &e), ERR_UNSUPPORTED);
    EXPECT(strstr(e.text, "abacus") && strstr(e.text, "cpu"));
}

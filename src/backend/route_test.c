/* route_test.c - goal: a mixture's ops select, multiply and add as documented, for every published
 * form of experts and any rows and formats. Method: compare small random mixtures with the plain
 * linear op of each expert alone. */
#include "../../tests/unit.h"

#include "backend_impl.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_EXPERT = 7, N_USED = 3, ROWS_MAX = 41 };

struct mixture {
    struct backend *b;
    struct weights *weights;
    struct linear all, one[N_EXPERT]; /* layer of the mixture; each expert as a separate layer */
    struct published from[N_EXPERT];
    uint8_t *rows, *copy[N_EXPERT];
    struct route r;
    int n_out, k;
};

static float *random_rows(int64_t n, uint64_t *rng)
{
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = rng_float(rng) * 2 - 1;
    return x;
}

static void route_open(struct route *r)
{
    const size_t n = ROWS_MAX * N_USED;
    *r = (struct route){.n_expert = N_EXPERT, .n_used = N_USED};
    r->expert = malloc(n * sizeof *r->expert), r->weight = malloc(n * sizeof *r->weight);
    r->entry = malloc(n * sizeof *r->entry), r->row = malloc(n * sizeof *r->row);
    r->first = malloc((N_EXPERT + 1) * sizeof *r->first);
}

static void route_close(struct route *r)
{
    free(r->expert), free(r->weight), free(r->entry), free(r->row), free(r->first);
}

/* Open a mixture. listed: each expert's matrix is a separate tensor. */
static bool mixture_open(struct mixture *m, enum qtype t, int n_out, int k, bool listed,
                         uint64_t *rng)
{
    struct err e;
    *m = (struct mixture){.n_out = n_out, .k = k};
    const size_t row_bytes = qtype_bytes(t, k), n_byte = (size_t)n_out * row_bytes;
    struct tensor *tensor[N_EXPERT + 1] = {&m->all.w};
    float *x = random_rows((int64_t)N_EXPERT * n_out * k, rng);
    m->rows = malloc(N_EXPERT * n_byte);
    qtype_info[t].ops->encode(m->rows, x, (int64_t)N_EXPERT * n_out * k, NULL);
    free(x);
    for (int i = 0; i < N_EXPERT; i++) {
        /* a copy, because tensors that share data would share their place */
        m->copy[i] = malloc(n_byte);
        memcpy(m->copy[i], m->rows + (size_t)i * n_byte, n_byte);
        m->one[i].w = (struct tensor){.type = t, .n_out = n_out, .k = k, .data = m->copy[i]};
        m->from[i].rows = m->rows + (size_t)(N_EXPERT - 1 - i) * n_byte;
        tensor[i + 1] = &m->one[i].w;
    }
    m->all.w = (struct tensor){.type = t,
                               .n_out = n_out,
                               .k = k,
                               .n_expert = N_EXPERT,
                               .from = listed ? m->from : NULL,
                               .data = listed ? m->from[0].rows : m->rows};
    route_open(&m->r);
    struct backend_options o = {.n_thread = 2};
    if (backend_open(&m->b, "cpu", &o, &e) != 0) return false;
    if (m->b->op->weights(m->b, &m->weights, tensor, N_EXPERT + 1, NULL, NULL, &e) != 0)
        return false;
    /* no attention */
    const struct op_sizes sizes = {.n_row = ROWS_MAX * N_USED, .k = k > n_out ? k : n_out};
    return m->b->op->reserve(m->b, &sizes, &e) == 0;
}

static void mixture_close(struct mixture *m)
{
    m->b->op->weights_close(m->b, m->weights);
    backend_close(m->b);
    for (int i = 0; i < N_EXPERT; i++) free(m->copy[i]);
    free(m->rows);
    route_close(&m->r);
}

/* Goal: each entry's result equals its expert's separate layer, bit for bit. */
static void compare(struct mixture *m, bool listed, int n_row, uint64_t *rng)
{
    const struct route *r = &m->r;
    float *logits = random_rows(n_row * N_EXPERT, rng), *x = random_rows(n_row * m->k, rng);
    float *y = malloc((size_t)n_row * N_USED * (size_t)m->n_out * sizeof *y);
    float *want = malloc((size_t)m->n_out * sizeof *want);
    m->b->op->route(m->b, r, logits, n_row);
    m->b->op->experts(m->b, y, &m->all, x, r, false, n_row);
    for (int i = 0; i < n_row * N_USED; i++) {
        const int e = r->expert[i], own = listed ? N_EXPERT - 1 - e : e, at = r->entry[i];
        EXPECT(r->row[at] == i / N_USED && at >= r->first[e] && at < r->first[e + 1]);
        m->b->op->linear(m->b, want, &m->one[own], x + (int64_t)(i / N_USED) * m->k, 1);
        if (memcmp(want, y + (int64_t)at * m->n_out, (size_t)m->n_out * sizeof *want) != 0)
            test_fail(__FILE__, __LINE__, "%d rows, entry %d of expert %d: bits differ", n_row, i,
                      e);
    }
    free(logits), free(x), free(y), free(want);
}

/* Goal: each part's result equals its matrix's separate layer, bit for bit, at any place. */
static void compare_parts(struct mixture *m, bool listed, int n_row, uint64_t *rng)
{
    const int gap_x = 3, gap_y = 5;
    const struct columns s = {.n_part = N_EXPERT,
                              .y_row = N_EXPERT * (m->n_out + gap_y) + 1,
                              .y_part = m->n_out + gap_y,
                              .x_row = N_EXPERT * (m->k + gap_x) + 2,
                              .x_part = m->k + gap_x};
    float *x = random_rows((int)(n_row * s.x_row), rng),
          *y = calloc((size_t)(n_row * s.y_row), sizeof *y),
          *want = malloc((size_t)m->n_out * sizeof *want);
    m->b->op->parts(m->b, y, &m->all, x, &s, n_row);
    for (int i = 0; i < n_row; i++)
        for (int p = 0; p < N_EXPERT; p++) {
            const float *at = y + i * s.y_row + p * s.y_part;
            const int own = listed ? N_EXPERT - 1 - p : p;
            m->b->op->linear(m->b, want, &m->one[own], x + i * s.x_row + p * s.x_part, 1);
            if (memcmp(want, at, (size_t)m->n_out * sizeof *want) != 0)
                test_fail(__FILE__, __LINE__, "%d rows, row %d, part %d: bits differ", n_row, i, p);
            for (int g = 0; g < gap_y; g++) EXPECT(at[m->n_out + g] == 0);
        }
    free(x), free(y), free(want);
}

TEST(experts_give_the_bits_of_their_own_linear_layers)
{
    static const struct {
        enum qtype type;
        int n_out, k;
    } all[] = {{QT_f32, 24, 40}, {QT_bf16, 17, 64}, {QT_q8_0, 48, 96}, {QT_q4_k, 33, 256}};
    static const int n_row[] = {1, 2, ROWS_MAX};
    uint64_t rng = 11;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        for (int listed = 0; listed < 2; listed++) {
            struct mixture m;
            if (!mixture_open(&m, all[i].type, all[i].n_out, all[i].k, listed, &rng)) {
                test_fail(__FILE__, __LINE__, "cannot open");
                return;
            }
            for (size_t n = 0; n < sizeof n_row / sizeof n_row[0]; n++)
                compare(&m, listed, n_row[n], &rng), compare_parts(&m, listed, n_row[n], &rng);
            mixture_close(&m);
        }
}

/* Goal: the lower expert is selected from equal logits. Weights are the softmax, normalized to sum
 * 1 if requested. Sums are computed in ascending order. */
TEST(routes_and_sums_are_as_documented)
{
    struct err e;
    struct backend *b;
    struct route r;
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 2}, &e), &e);
    route_open(&r);
    for (int normalize = 0; normalize < 2; normalize++) {
        float logits[2][N_EXPERT] = {{0, 1, 0, 2, 1, 1, 0}, {5, 5, 5, 5, 5, 5, 5}};
        r.normalize = normalize;
        b->op->route(b, &r, logits[0], 2);
        EXPECT(r.expert[0] == 1 && r.expert[1] == 3 && r.expert[2] == 4);
        EXPECT(r.expert[3] == 0 && r.expert[4] == 1 && r.expert[5] == 2);
        float sum = r.weight[3] + r.weight[4] + r.weight[5];
        EXPECT(fabsf(sum - (normalize ? 1 : 3.0f / N_EXPERT)) < 1e-6f);
        EXPECT(r.first[N_EXPERT] == 6 && r.first[1] == 1 && r.row[0] == 1);
        EXPECT(r.first[2] == 3 && r.row[1] == 0 && r.row[2] == 1);
    }
    float scale[N_EXPERT] = {1, 2, 4, 0.5f, 3, 1, 1}, logits[N_EXPERT] = {0, 1, 0, 2, 1, 1, 0},
          plain[N_USED];
    memcpy(plain, r.weight, sizeof plain);
    r.scale = scale;
    b->op->route(b, &r, logits, 1);
    for (int k = 0; k < N_USED; k++) EXPECT(r.weight[k] == plain[k] * scale[r.expert[k]]);
    r.scale = NULL;
    float both[2][N_EXPERT] = {{0, 1, 0, 2, 1, 1, 0}, {5, 5, 5, 5, 5, 5, 5}};
    b->op->route(b, &r, both[0], 2);
    float x[6][2], y[2][2] = {{1, 2}, {3, 4}}, before[2][2];
    memcpy(before, y, sizeof y);
    for (int i = 0; i < 6; i++) x[i][0] = (float)i + 0.3f, x[i][1] = 1;
    b->op->combine(b, y[0], x[0], &r, 2, 2, true);
    for (int i = 0; i < 2; i++)
        for (int d = 0; d < 2; d++) {
            float want = 0;
            for (int k = 0; k < N_USED; k++)
                want = fmaf(r.weight[i * N_USED + k], x[r.entry[i * N_USED + k]][d], want);
            EXPECT(y[i][d] == before[i][d] + want);
        }
    route_close(&r);
    backend_close(b);
}

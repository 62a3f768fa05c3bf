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
    float *bias; /* f32 [N_EXPERT, n_out]; NULL: no biases */
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

/* Open a mixture. listed: each expert's matrix is a separate tensor. biased: the experts have
 * biases. */
static bool mixture_open(struct mixture *m, enum qtype t, int n_out, int k, bool listed,
                         bool biased, uint64_t *rng)
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
    m->all.bias = m->bias = biased ? random_rows((int64_t)N_EXPERT * n_out, rng) : NULL;
    for (int i = 0; i < N_EXPERT && biased; i++)
        m->one[listed ? N_EXPERT - 1 - i : i].bias = m->bias + (int64_t)i * n_out;
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
    free(m->rows), free(m->bias);
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
    m->b->op->experts(m->b, &(struct output){&m->all, y}, 1, x, r, false, n_row);
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
        for (int form = 0; form < 4; form++) {
            struct mixture m;
            const bool listed = form & 1;
            if (!mixture_open(&m, all[i].type, all[i].n_out, all[i].k, listed, form & 2, &rng)) {
                test_fail(__FILE__, __LINE__, "cannot open");
                return;
            }
            for (size_t n = 0; n < sizeof n_row / sizeof n_row[0]; n++) {
                compare(&m, listed, n_row[n], &rng);
                if (!m.bias) compare_parts(&m, listed, n_row[n], &rng);
            }
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
        r.spec.normalize = normalize;
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
    r.spec.scale = scale;
    b->op->route(b, &r, logits, 1);
    for (int k = 0; k < N_USED; k++) EXPECT(r.weight[k] == plain[k] * scale[r.expert[k]]);
    r.spec.scale = NULL;
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

/* ---- rules of selection ---- */

enum { TRIALS = 4000, MANY = 24 };

/* A trial: a rule, its row of logits, and the expected result in f64. */
struct rule {
    struct route_spec spec;
    int n_expert, n_used;
    float logit[MANY], bias[MANY], scale[MANY];
    bool used[MANY];
    double weight[MANY];
};

/* Draw a rule. The logits have many equal values if `ties` is true. */
static void draw_rule(struct rule *t, uint64_t *rng, bool ties)
{
    static const int per_group[] = {1, 2, 3, 4, 6};
    struct route_spec *s = &t->spec;
    const int n_group = 1 + (int)(rng_next(rng) % 4), own = per_group[rng_next(rng) % 5];
    *t = (struct rule){.n_expert = n_group * own};
    const bool grouped = rng_next(rng) % 2;
    s->score = (enum route_score)(rng_next(rng) % 4);
    s->n_group = grouped ? n_group : 0;
    s->n_group_used = grouped ? 1 + (int)(rng_next(rng) % (unsigned)n_group) : 0;
    s->group_pairs = rng_next(rng) % 2;
    s->normalize = rng_next(rng) % 2;
    s->sum_add = rng_next(rng) % 2 ? 0.25f : 0;
    s->sum_least = rng_next(rng) % 2 ? 0.5f : 0;
    s->factor = rng_next(rng) % 2 ? 2.5f : 0;
    const int most = grouped ? s->n_group_used * own : t->n_expert;
    t->n_used = 1 + (int)(rng_next(rng) % (unsigned)most);
    for (int i = 0; i < t->n_expert; i++) {
        t->logit[i] = ties ? (float)(rng_next(rng) % 3) : rng_float(rng) * 8 - 4;
        t->bias[i] = ties ? (float)(rng_next(rng) % 2) : rng_float(rng) - 0.5f;
        t->scale[i] = rng_float(rng) + 0.5f;
    }
    if (rng_next(rng) % 2) s->bias = t->bias;
    if (rng_next(rng) % 2) s->scale = t->scale;
}

/* Compute the scores in f64. */
static void expected_scores(const struct rule *t, double score[MANY])
{
    double sum = 0;
    for (int i = 0; i < t->n_expert; i++) sum += exp((double)t->logit[i]);
    for (int i = 0; i < t->n_expert; i++) {
        const double x = (double)t->logit[i];
        score[i] = t->spec.score == ROUTE_SOFTMAX   ? exp(x) / sum
                   : t->spec.score == ROUTE_SIGMOID ? 1 / (1 + exp(-x))
                                                    : x;
    }
}

/* Return the first of the n largest values that is not taken; -1 if none. */
static int best_of(const double *v, const bool *taken, int n)
{
    int best = -1;
    for (int i = 0; i < n; i++)
        if (!taken[i] && (best < 0 || v[i] > v[best] + 1e-9)) best = i;
    return best;
}

/* Mark the experts of groups that are not selected. */
static void expected_groups(const struct rule *t, const double *value, bool *taken)
{
    const struct route_spec *s = &t->spec;
    const int own = s->n_group ? t->n_expert / s->n_group : t->n_expert;
    double group[MANY];
    bool kept[MANY] = {false};
    for (int g = 0; g < s->n_group; g++) {
        bool seen[MANY] = {false};
        const int a = best_of(value + g * own, seen, own);
        seen[a] = true;
        const int b = best_of(value + g * own, seen, own);
        group[g] = value[g * own + a] + (s->group_pairs && b >= 0 ? value[g * own + b] : 0);
    }
    for (int k = 0; k < s->n_group_used; k++) kept[best_of(group, kept, s->n_group)] = true;
    for (int i = 0; i < t->n_expert && s->n_group; i++) taken[i] = !kept[i / own];
}

static void expect_rule(struct rule *t)
{
    const struct route_spec *s = &t->spec;
    double score[MANY], value[MANY], sum = 0, all = 0;
    bool taken[MANY] = {false};
    expected_scores(t, score);
    for (int i = 0; i < t->n_expert; i++) value[i] = score[i] + (s->bias ? (double)s->bias[i] : 0);
    expected_groups(t, value, taken);
    for (int k = 0; k < t->n_used; k++) {
        const int best = best_of(value, taken, t->n_expert);
        taken[best] = t->used[best] = true;
        all += exp(score[best]);
    }
    for (int i = 0; i < t->n_expert; i++)
        if (t->used[i])
            sum += t->weight[i] = s->score == ROUTE_CHOSEN           ? exp(score[i]) / all
                                  : s->score == ROUTE_CHOSEN_SIGMOID ? 1 / (1 + exp(-score[i]))
                                                                     : score[i];
    sum += (double)s->sum_add;
    if (sum < (double)s->sum_least) sum = (double)s->sum_least;
    for (int i = 0; i < t->n_expert; i++) {
        if (s->normalize) t->weight[i] /= sum;
        if (s->factor != 0) t->weight[i] *= (double)s->factor;
        if (s->scale) t->weight[i] *= (double)s->scale[i];
    }
}

/* Experts and weights of one row. */
struct picked {
    int32_t expert[MANY], entry[MANY], row[MANY], first[MANY + 1];
    float weight[MANY];
};

/* Select the experts of one row of logits, with this backend. */
static void route_row(struct picked *p, struct backend *b, const struct route_spec *spec,
                      float *logit, int n_expert, int n_used)
{
    const struct route r = {.n_expert = n_expert,
                            .n_used = n_used,
                            .spec = *spec,
                            .expert = p->expert,
                            .weight = p->weight,
                            .entry = p->entry,
                            .row = p->row,
                            .first = p->first};
    b->op->route(b, &r, logit, 1);
}

/* Goal: for random rules, the selected experts and their weights equal those of a plain
 * implementation in f64. The lower expert and the lower group are selected from equal values. */
TEST(rules_select_the_documented_experts_and_weights)
{
    struct err e;
    struct backend *b;
    uint64_t rng = 21;
    double worst = 0;
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    for (int i = 0; i < TRIALS; i++) {
        struct rule t;
        struct picked p;
        draw_rule(&t, &rng, i % 3 == 0);
        expect_rule(&t);
        route_row(&p, b, &t.spec, t.logit, t.n_expert, t.n_used);
        for (int k = 0; k < t.n_used; k++) {
            const double d = fabs((double)p.weight[k] - t.weight[p.expert[k]]);
            EXPECT(t.used[p.expert[k]] && (k == 0 || p.expert[k] > p.expert[k - 1]));
            if (!(d <= worst)) worst = d;
        }
    }
    test_note("largest difference of a weight: %.2g", worst);
    EXPECT(worst < 1e-5);
    backend_close(b);
}

/* Select the experts of one row of logits. */
static void pick(struct picked *p, const struct route_spec *spec, float *logit, int n_expert,
                 int n_used)
{
    struct err e;
    struct backend *b;
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 1}, &e), &e);
    route_row(p, b, spec, logit, n_expert, n_used);
    backend_close(b);
}

/* Goal: the weights of SPARSEMIXER are the documented shares, by hand. */
TEST(sparsemixer_weighs_by_the_logits_near_the_largest)
{
    float logit[] = {2, 1.98f, -1, 1.9f, 1.99f};
    struct picked p;
    pick(&p, &(struct route_spec){.score = ROUTE_SPARSEMIXER, .near = 0.02f}, logit, 5, 2);
    EXPECT(p.expert[0] == 0 && p.expert[1] == 4);
    EXPECT(fabs((double)p.weight[0] - 1 / (1 + exp(-0.02) + exp(-0.01))) < 1e-6);
    EXPECT(fabs((double)p.weight[1] - 1 / (1 + exp(-0.01))) < 1e-6);
}

/* Goal: CHOSEN_SIGMOID selects by the logits, although their sigmoids are equal in f32. */
TEST(chosen_sigmoid_selects_by_logits_of_equal_scores)
{
    float logit[] = {30, 31, 29};
    struct picked p;
    pick(&p, &(struct route_spec){.score = ROUTE_CHOSEN_SIGMOID}, logit, 3, 1);
    EXPECT(p.expert[0] == 1 && p.weight[0] == 1);
}

/* Goal: weigh multiplies each entry by its weight. With weighs_input, combine adds without
 * weights. */
TEST(weighed_inputs_are_added_without_weights)
{
    struct err e;
    struct backend *b;
    struct route r;
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 2}, &e), &e);
    route_open(&r);
    r.spec = (struct route_spec){.score = ROUTE_SIGMOID, .weighs_input = true};
    float logits[2][N_EXPERT] = {{0, 1, 0, 2, 1, 1, 0}, {5, 4, 3, 2, 5, 5, 5}};
    b->op->route(b, &r, logits[0], 2);
    float x[6][2], y[2][2];
    for (int i = 0; i < 6; i++) x[i][0] = (float)i + 0.3f, x[i][1] = 1;
    b->op->weigh(b, x[0], &r, 2, 2);
    b->op->combine(b, y[0], x[0], &r, 2, 2, false);
    for (int i = 0; i < 2; i++) {
        float want[2] = {0, 0};
        for (int k = 0; k < N_USED; k++) {
            const int pair = i * N_USED + k, at = r.entry[pair];
            EXPECT(x[at][0] == ((float)at + 0.3f) * r.weight[pair] && x[at][1] == r.weight[pair]);
            want[0] += x[at][0], want[1] += x[at][1];
        }
        EXPECT(y[i][0] == want[0] && y[i][1] == want[1]);
    }
    route_close(&r);
    backend_close(b);
}

/* Goal: clamped_glu and scale_rows compute their formulas, at sizes of several pieces. A NaN
 * stays. */
TEST(clamped_units_and_scaled_rows_are_as_documented)
{
    enum { N = 20001, ROWS = 3 };
    const struct clamped_glu p = {.alpha = 1.702f, .limit = 7};
    static float gate[N], up[N], was[N];
    struct err e;
    struct backend *b;
    uint64_t rng = 3;
    double worst = 0;
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 2}, &e), &e);
    for (int i = 0; i < N; i++)
        was[i] = gate[i] = rng_float(&rng) * 24 - 12, up[i] = rng_float(&rng) * 24 - 12;
    gate[N - 1] = NAN;
    b->op->clamped_glu(b, gate, up, N, &p);
    EXPECT(isnan(gate[N - 1]));
    for (int i = 0; i < N - 1; i++) {
        const double g = fmin((double)was[i], 7), u = fmax(fmin((double)up[i], 7), -7),
                     want = (u + 1) * g / (1 + exp(-(double)p.alpha * g)),
                     off = fabs((double)gate[i] - want) / (fabs(want) + 1e-3);
        if (!(off <= worst)) worst = off;
    }
    EXPECT(worst < 1e-5);
    float y[ROWS][5], by[ROWS] = {2, -0.5f, 3};
    for (int i = 0; i < ROWS * 5; i++) y[i / 5][i % 5] = (float)i;
    b->op->scale_rows(b, y[0], by, ROWS, 5);
    for (int i = 0; i < ROWS * 5; i++) EXPECT(y[i / 5][i % 5] == (float)i * by[i / 5]);
    backend_close(b);
}

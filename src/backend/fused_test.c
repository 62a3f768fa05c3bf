/* fused_test.c - goal: every fusion gives the bits of the plain ops, for all formats, sizes and
 * numbers of rows. Method: compute one layer of random weights with all fusions off, then with each
 * fusion on. */
#include "../../tests/unit.h"

#include "backend_impl.h"
#include "kern/kern.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 130, N_HEAD = 6, N_KV = 2, D_HEAD = 32, PAGE_ROWS = 4 };

/* Types of q, k, v, o, gate, up and down, and the sizes. `order` is the number of the order of each
 * matrix's inputs, 1 or 2; 0: no order. */
struct shape {
    enum qtype type[7];
    int d, d_ff;
    enum act_choice act;
    int order[7];
};

struct layer {
    struct backend *b;
    struct linear linear[7];
    struct weights *weights;
    float *norm, *head_norm, *cos, *sin;
    uint8_t *rows[7];
    float *bias[7];
    int32_t *order[7]; /* owned; NULL: no order, or the order of another matrix */
    struct kv_layer kv;
    int32_t pos[ROWS_MAX], slot[ROWS_MAX];
    const struct shape *shape;
    enum curve curve;
};

static float *random_f32(int64_t n, uint64_t *rng)
{
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = rng_float(rng) * 2 - 1;
    return x;
}

/* Return the order of matrix i's inputs: the order of an earlier matrix, or a random order. */
static const int32_t *order_of(struct layer *l, int i, int k, uint64_t *rng)
{
    const int number = l->shape->order[i];
    if (number == 0) return NULL;
    for (int j = 0; j < i; j++)
        if (l->shape->order[j] == number && l->linear[j].w.k == k) return l->linear[j].order;
    int32_t *order = l->order[i] = malloc((size_t)k * sizeof *order);
    for (int j = 0; j < k; j++) {
        const int at = (int)rng_below(rng, (uint64_t)j + 1);
        order[j] = order[at], order[at] = j;
    }
    return order;
}

/* Make matrix i of a layer from random values. Every second matrix has a bias, because fused and
 * plain ops add it in different functions. */
static void linear_make(struct layer *l, int i, int n_out, int k, uint64_t *rng)
{
    const enum qtype t = l->shape->type[i];
    float *row = random_f32(k, rng);
    l->rows[i] = malloc(qtype_bytes(t, k) * (size_t)n_out);
    for (int r = 0; r < n_out; r++) {
        for (int j = 0; j < k; j += 7) row[j] = rng_float(rng) * 2 - 1;
        qtype_info[t].ops->encode(l->rows[i] + qtype_bytes(t, k) * (size_t)r, row, k, NULL);
    }
    free(row);
    l->bias[i] = i % 2 ? random_f32(n_out, rng) : NULL;
    l->linear[i] =
        (struct linear){.w = {.type = t, .n_out = n_out, .k = k, .data = l->rows[i], .name = "w"},
                        .bias = l->bias[i],
                        .order = order_of(l, i, k, rng)};
}

/* Open a backend; level NULL: the best level. */
static bool layer_open(struct layer *l, const struct shape *s, const char *level, uint64_t *rng)
{
    const int d = s->d, d_q = N_HEAD * D_HEAD, d_kv = N_KV * D_HEAD;
    const int size[7][2] = {{d_q, d},     {d_kv, d},    {d_kv, d},   {d, d_q},
                            {s->d_ff, d}, {s->d_ff, d}, {d, s->d_ff}};
    struct err e;
    struct tensor *tensor[7];
    *l = (struct layer){.shape = s};
    struct backend_options o = {.n_thread = 2, .act = s->act, .cpu_level = level};
    if (backend_open(&l->b, "cpu", &o, &e) != 0) return false;
    for (int i = 0; i < 7; i++) {
        linear_make(l, i, size[i][0], size[i][1], rng);
        tensor[i] = &l->linear[i].w;
    }
    if (l->b->op->weights(l->b, &l->weights, tensor, 7, NULL, NULL, &e) != 0) return false;
    const int k_max = s->d_ff > d ? s->d_ff : d;
    const struct op_sizes sizes = {.n_row = ROWS_MAX,
                                   .k = k_max > d_q ? k_max : d_q,
                                   .d_head = D_HEAD,
                                   .n_group = N_HEAD / N_KV};
    if (l->b->op->reserve(l->b, &sizes, &e) != 0) return false;
    l->norm = random_f32(d, rng), l->head_norm = random_f32(D_HEAD, rng);
    l->cos = random_f32(ROWS_MAX * D_HEAD / 2, rng),
    l->sin = random_f32(ROWS_MAX * D_HEAD / 2, rng);
    const int64_t page = kv_page_bytes(KV_F16, PAGE_ROWS, N_KV, D_HEAD);
    l->kv = (struct kv_layer){.type = KV_F16,
                              .page_rows = PAGE_ROWS,
                              .n_head_kv = N_KV,
                              .d_k = D_HEAD,
                              .d_v = D_HEAD,
                              .k_page_bytes = page,
                              .v_page_bytes = page};
    l->kv.k = calloc(ROWS_MAX, (size_t)page), l->kv.v = calloc(ROWS_MAX, (size_t)page);
    for (int i = 0; i < ROWS_MAX; i++) l->pos[i] = i, l->slot[i] = ROWS_MAX - 1 - i;
    return true;
}

static void layer_close(struct layer *l)
{
    l->b->op->weights_close(l->b, l->weights);
    backend_close(l->b);
    for (int i = 0; i < 7; i++) free(l->rows[i]), free(l->bias[i]), free(l->order[i]);
    free(l->norm), free(l->head_norm), free(l->cos), free(l->sin), free(l->kv.k), free(l->kv.v);
}

/* Results of the layer for x f32 [n_row, d]: its output, then q, k, v, and the pages' K and V. */
struct result {
    float *x, *q, *k, *v;
    uint8_t *page;
    size_t n_x, n_q, n_kv, n_page;
};

/* Compute a layer with the fusions in `plain` switched off, and return all results: x, q, k, v and
 * the pages. */
static struct result layer_run(struct layer *l, unsigned plain, const float *x, int n_row)
{
    const int d = l->shape->d;
    const size_t rows = (size_t)n_row;
    struct result r = {.n_x = rows * (size_t)d,
                       .n_q = rows * N_HEAD * D_HEAD,
                       .n_kv = rows * N_KV * D_HEAD,
                       .n_page = ROWS_MAX * (size_t)l->kv.k_page_bytes};
    r.x = malloc(r.n_x * 4), r.q = malloc(r.n_q * 4), r.k = malloc(r.n_kv * 4);
    r.v = malloc(r.n_kv * 4), r.page = malloc(2 * r.n_page);
    float *h = malloc(r.n_x * 4), *y = malloc(r.n_x * 4);
    float *a = malloc(rows * (size_t)l->shape->d_ff * 4),
          *c = malloc(rows * (size_t)l->shape->d_ff * 4);
    memcpy(r.x, x, r.n_x * 4);
    memset(l->kv.k, 0, r.n_page), memset(l->kv.v, 0, r.n_page);

    l->b->plain = plain;
    const struct rope_spec rope = {D_HEAD, true, ROWS_MAX, l->cos, l->sin};
    const struct input in = {.x = r.x, .g = l->norm, .eps = 1e-5f, .h = h};
    const struct output out[] = {{&l->linear[0], r.q}, {&l->linear[1], r.k}, {&l->linear[2], r.v}};
    backend_linears(l->b, out, 3, &in, n_row);
    const struct rope_put put = {r.q,   r.k,   r.v,    N_HEAD, l->head_norm, l->head_norm,
                                 1e-6f, &rope, &l->kv, l->pos, l->slot};
    backend_rope_put(l->b, &put, n_row);
    backend_linear_add(l->b, r.x, &l->linear[3], r.q, n_row, y);
    struct glu glu = {&l->linear[4], &l->linear[5], &l->linear[6], l->curve, true, a, c, y};
    backend_glu(l->b, r.x, &glu, &in, n_row);
    glu.add = false, glu.y = NULL;
    backend_glu(l->b, y, &glu, &in, n_row);
    memcpy(r.x, y, r.n_x * 4);

    memcpy(r.page, l->kv.k, r.n_page), memcpy(r.page + r.n_page, l->kv.v, r.n_page);
    free(h), free(y), free(a), free(c);
    return r;
}

static void result_free(struct result *r)
{
    free(r->x), free(r->q), free(r->k), free(r->v), free(r->page);
}

static bool same(const struct result *a, const struct result *b)
{
    return memcmp(a->x, b->x, a->n_x * 4) == 0 && memcmp(a->q, b->q, a->n_q * 4) == 0 &&
           memcmp(a->k, b->k, a->n_kv * 4) == 0 && memcmp(a->v, b->v, a->n_kv * 4) == 0 &&
           memcmp(a->page, b->page, 2 * a->n_page) == 0;
}

/* Compare all fusions with the plain ops: each alone, all but each, and all together. */
static void compare(struct layer *l, const char *shape, int n_row, uint64_t *rng)
{
    float *x = random_f32((int64_t)n_row * l->shape->d, rng);
    const unsigned all = (1u << FUSION_COUNT) - 1;
    struct result want = layer_run(l, all, x, n_row);
    for (int f = 0; f <= FUSION_COUNT; f++) /* each fusion alone, then all */
        for (int without = 0; without < 2; without++) {
            unsigned one = f < FUSION_COUNT ? 1u << f : all;
            struct result got = layer_run(l, without ? one : all & ~one, x, n_row);
            if (!same(&want, &got))
                test_fail(__FILE__, __LINE__, "%s, %d rows, %s %s: bits differ", shape, n_row,
                          without ? "all but" : "only", f < FUSION_COUNT ? fusion_name[f] : "all");
            result_free(&got);
        }
    result_free(&want);
    free(x);
}

TEST(fused_ops_give_the_bits_of_plain_ones)
{
    static const struct {
        const char *name;
        struct shape shape;
    } all[] = {
        {"q4_0",
         {{QT_q4_0, QT_q4_0, QT_q4_0, QT_q4_0, QT_q4_0, QT_q4_0, QT_q4_0}, 256, 512, 0, {0}}},
        {"k mixture",
         {{QT_q4_k, QT_q4_k, QT_q6_k, QT_q4_0, QT_q4_k, QT_q4_k, QT_q6_k}, 512, 768, 0, {0}}},
        {"odd sizes",
         {{QT_q8_0, QT_q8_0, QT_q5_1, QT_q8_0, QT_q8_0, QT_q8_0, QT_q8_0}, 96, 352, 0, {0}}},
        {"bf16",
         {{QT_bf16, QT_bf16, QT_bf16, QT_bf16, QT_bf16, QT_bf16, QT_bf16}, 72, 136, 0, {0}}},
        {"f16", {{QT_f16, QT_f16, QT_f16, QT_f16, QT_f16, QT_f16, QT_f16}, 72, 300, 0, {0}}},
        {"all kinds",
         {{QT_f16, QT_q8_0, QT_bf16, QT_q4_0, QT_q4_0, QT_f16, QT_bf16}, 256, 544, 0, {0}}},
        {"f32 activations",
         {{QT_q4_0, QT_q4_0, QT_q4_0, QT_q4_0, QT_q4_0, QT_q4_0, QT_q4_0},
          256,
          544,
          ACT_CHOICE_F32,
          {0}}},
        {"bf16 activations",
         {{QT_q4_0, QT_f16, QT_bf16, QT_q8_0, QT_q4_0, QT_q8_0, QT_q6_k},
          256,
          768,
          ACT_CHOICE_BF16,
          {0}}},
        {"orders",
         {{QT_q4_0, QT_q4_0, QT_q4_0, QT_q8_0, QT_q4_0, QT_q4_0, QT_q4_0},
          256,
          512,
          0,
          {1, 1, 2, 1, 2, 2, 1}}},
        {"some orders",
         {{QT_q4_0, QT_q4_0, QT_q4_0, QT_f16, QT_q8_0, QT_q8_0, QT_f16},
          256,
          512,
          ACT_CHOICE_BF16,
          {0, 1, 1, 2, 1, 2, 2}}},
        {"down without order",
         {{QT_f16, QT_bf16, QT_q8_0, QT_q4_0, QT_q4_0, QT_q4_0, QT_q4_0},
          256,
          512,
          0,
          {1, 1, 0, 1, 1, 1, 0}}},
    };
    static const int n_row[] = {1, 3, 17, 64, 65, ROWS_MAX};
    uint64_t rng = 1;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct layer l;
        if (!layer_open(&l, &all[i].shape, NULL, &rng)) {
            test_fail(__FILE__, __LINE__, "%s: cannot open", all[i].name);
            return;
        }
        l.curve = i % 2 ? CURVE_gelu_tanh : CURVE_silu;
        /* the sample has every second number of rows, alternately */
        for (size_t n = test_long() ? 0 : i % 2; n < sizeof n_row / sizeof n_row[0];
             n += test_long() ? 1 : 2)
            compare(&l, all[i].name, n_row[n], &rng);
        layer_close(&l);
    }
}

/* Compute y f32 [n_row, d_ff], the layer's gate, with another choice of activations. */
static float *gate_of(const struct shape *shape, enum act_choice act, const char *level,
                      const float *x, int n_row)
{
    struct shape own = *shape;
    struct layer l;
    uint64_t rng = 5;
    own.act = act;
    float *y = calloc((size_t)n_row * (size_t)own.d_ff, sizeof *y);
    if (layer_open(&l, &own, level, &rng))
        l.b->op->linear(l.b, y, &l.linear[4], x, n_row);
    else
        test_fail(__FILE__, __LINE__, "cannot open");
    layer_close(&l);
    return y;
}

/* Goal: bf16 activations give the bits of rounded f32 activations, for weights of every type and at
 * every level. */
TEST(bf16_activations_are_rounded_f32_ones)
{
    static const enum qtype type[] = {QT_q8_0, QT_q4_0, QT_q4_k, QT_q6_k, QT_f16, QT_f32};
    enum { K = 512, N_ROW = 5 };
    uint64_t rng = 3;
    float *x = random_f32(N_ROW * K, &rng), *rounded = malloc(N_ROW * K * sizeof *rounded);
    for (int i = 0; i < N_ROW * K; i++) rounded[i] = f32_of_bf16(bf16_of_f32(x[i]));
    for (size_t t = 0; t < sizeof type / sizeof type[0]; t++) {
        const struct shape s = {/* only matrix 4, the gate, is used */
                                {QT_f16, QT_f16, QT_f16, QT_f16, type[t], QT_f16, QT_f16},
                                K,
                                256,
                                0,
                                {0}};
        float *want = gate_of(&s, ACT_CHOICE_F32, "ref", rounded, N_ROW),
              *other = gate_of(&s, ACT_CHOICE_F32, "ref", x, N_ROW);
        const size_t n = N_ROW * 256 * sizeof *want;
        EXPECT(memcmp(want, other, n) != 0);
        for (const char *const *level = kern_levels(); *level; level++) {
            float *got = gate_of(&s, ACT_CHOICE_BF16, *level, x, N_ROW);
            if (memcmp(got, want, n) != 0)
                test_fail(__FILE__, __LINE__, "%s at %s: bits differ", qtype_info[type[t]].name,
                          *level);
            free(got);
        }
        free(want), free(other);
    }
    free(x), free(rounded);
}

/* Goal: column i of an ordered matrix multiplies input order[i]. */
TEST(ordered_inputs_are_taken_in_their_order)
{
    enum { K = 256, N_ROW = 3, N_OUT = 512 };
    static const struct shape s = {{QT_q4_0, QT_q4_0, QT_q4_0, QT_q8_0, QT_q4_0, QT_q4_0, QT_q4_0},
                                   K,
                                   N_OUT,
                                   0,
                                   {1, 1, 1, 1, 2, 2, 1}};
    static float turned[N_ROW * K], want[N_ROW * N_OUT], got[N_ROW * N_OUT];
    uint64_t rng = 7;
    struct layer l;
    EXPECT(layer_open(&l, &s, NULL, &rng));
    struct linear plain = l.linear[4];
    float *x = random_f32(N_ROW * K, &rng);
    for (int i = 0; i < N_ROW * K; i++) turned[i] = x[i / K * K + plain.order[i % K]];
    plain.order = NULL;
    l.b->op->linear(l.b, want, &plain, turned, N_ROW);
    l.b->op->linear(l.b, got, &l.linear[4], x, N_ROW);
    EXPECT_BITS(got, want, sizeof got);
    free(x);
    layer_close(&l);
}

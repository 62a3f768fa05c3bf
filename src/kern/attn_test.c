/* attn_test.c - goal: attention is softmax, and every level gives the bits of the reference.
 * Method: compare random rows and spans of blocks with double precision and with other levels. K
 * and V have every type and odd lengths. Positions to which no row attends are NaN. */
#include "../../tests/unit.h"

#include "base/rng.h"
#include "kern_impl.h"

#include <math.h>
#include <stdlib.h>

enum { ROW_MAX = 70, D_MAX = 576, SPAN_BLOCKS = 3, SPANS = 2 };
enum { POS_MAX = SPANS * ATTN_SPAN, HEADS = 3, REACH_MAX = 40 };

static void random_floats(float *x, int n, float size, uint64_t *rng)
{
    for (int i = 0; i < n; i++) x[i] = (rng_float(rng) + rng_float(rng) - 1) * size;
}

/* Some rows with their inputs: SPAN_BLOCKS blocks of each span. */
struct scene {
    int n_row, d_k, d_v;
    int32_t from[ROW_MAX], to[ROW_MAX], pos[ROW_MAX];
    float slope[ROW_MAX], scale, softcap;
    bool biased;
    int reach; /* reach of the table; 0: no table */
    int32_t head[ROW_MAX];
    float table[HEADS * (2 * REACH_MAX + 1 + 2 * BIAS_EDGE)];
    float q[ROW_MAX * D_MAX];
    _Alignas(64) float k[SPANS * SPAN_BLOCKS][ATTN_BLOCK * D_MAX];
    _Alignas(64) float v[SPANS * SPAN_BLOCKS][ATTN_BLOCK * D_MAX];
};

/* Result of a level. */
struct result {
    _Alignas(64) float m[ROW_MAX + ATTN_TILE], l[ROW_MAX * ATTN_TILE], o[ROW_MAX * D_MAX];
    float q[(ROW_MAX + 8) * D_MAX], slope[ROW_MAX];
    float top[ROW_MAX], sum[ROW_MAX], out[ROW_MAX * D_MAX], y[ROW_MAX * D_MAX];
};

static int block_pos(int block)
{
    return block / SPAN_BLOCKS * ATTN_SPAN + block % SPAN_BLOCKS * ATTN_BLOCK;
}

static bool any_row_attends(const struct scene *s, int pos)
{
    for (int r = 0; r < s->n_row; r++)
        if (s->from[r] <= pos && pos < s->to[r]) return true;
    return false;
}

/* Fill the tables of the heads. Biases beyond the reach equal the biases at the reach. */
static void scene_table(struct scene *s, uint64_t *rng)
{
    const int n = bias_floats(s->reach);
    for (int i = 0; i < ROW_MAX; i++) s->head[i] = (int32_t)rng_below(rng, HEADS);
    random_floats(s->table, HEADS * n, 3, rng);
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < BIAS_EDGE; i++) {
            float *t = s->table + h * n;
            t[i] = t[BIAS_EDGE], t[n - 1 - i] = t[n - 1 - BIAS_EDGE];
        }
}

static void scene_rows(struct scene *s, int n_row, int d_k, int d_v, bool windows, uint64_t *rng)
{
    s->n_row = n_row, s->d_k = d_k, s->d_v = d_v;
    s->scale = 0.3f, s->softcap = rng_below(rng, 3) ? 0 : 5, s->biased = rng_below(rng, 3) == 0;
    random_floats(s->q, n_row * d_k, 2, rng);
    random_floats(s->slope, n_row, 0.1f, rng);
    s->reach = rng_below(rng, 2) ? 1 + (int)rng_below(rng, REACH_MAX) : 0;
    scene_table(s, rng);
    for (int r = 0; r < n_row; r++) {
        s->to[r] = windows ? 1 + (int)rng_below(rng, POS_MAX - 1) : POS_MAX;
        s->from[r] = windows && rng_below(rng, 2) ? (int)rng_below(rng, (uint64_t)s->to[r]) : 0;
        if (r && rng_below(rng, 2)) s->from[r] = s->from[r - 1], s->to[r] = s->to[r - 1];
        s->pos[r] = rng_below(rng, 2) ? s->to[r] - 1 : (int)rng_below(rng, POS_MAX);
    }
}

static void scene_kv(struct scene *s, uint64_t *rng)
{
    int d_k = s->d_k, d_v = s->d_v, stride = attn_stride(d_v);
    for (int b = 0; b < SPANS * SPAN_BLOCKS; b++) {
        random_floats(s->k[b], ATTN_BLOCK * d_k, 2, rng);
        random_floats(s->v[b], ATTN_BLOCK * stride, 2, rng);
        for (int i = 0; i < ATTN_BLOCK; i++) {
            bool attended = any_row_attends(s, block_pos(b) + i);
            float *k = s->k[b] + i / ATTN_TILE * ATTN_TILE * d_k + i % ATTN_TILE;
            for (int d = 0; d < d_k && !attended; d++) k[d * ATTN_TILE] = NAN;
            for (int d = 0; d < stride; d++)
                if (!attended || d >= d_v) s->v[b][i * stride + d] = d < d_v ? NAN : 0;
        }
    }
}

static struct attn_rows rows_of(const struct kern *kern, const struct scene *s, struct result *r)
{
    int tile = kern->attn_tile_rows;
    for (int i = 0; i < s->n_row; i++) r->slope[i] = s->slope[i] * ATTN_UNIT;
    for (int i = 0; i < s->n_row * s->d_k; i++) {
        int row = i / s->d_k, d = i % s->d_k;
        r->q[(row / tile * s->d_k + d) * tile + row % tile] = s->q[i] * (s->scale * ATTN_UNIT);
    }
    return (struct attn_rows){.n_row = s->n_row,
                              .d_k = s->d_k,
                              .d_v = s->d_v,
                              .softcap = s->softcap * ATTN_UNIT,
                              .q = r->q,
                              .from = s->from,
                              .to = s->to,
                              .pos = s->pos,
                              .slope = s->biased ? r->slope : NULL,
                              .m = r->m,
                              .l = r->l,
                              .o = r->o,
                              .bias = s->reach ? s->table : NULL,
                              .head = s->head,
                              .bias_reach = s->reach};
}

static struct attn_kv block_of(const struct scene *s, int i)
{
    struct attn_kv kv = {.type = KV_F32};
    for (int t = 0; t < ATTN_TILES; t++) {
        kv.k[t] = s->k[i] + t * ATTN_TILE * s->d_k;
        kv.v[t] = s->v[i] + t * ATTN_TILE * attn_stride(s->d_v);
    }
    return kv;
}

static void span_begin(const struct scene *s, struct result *r)
{
    for (int i = 0; i < s->n_row; i++) r->m[i] = -INFINITY;
    memset(r->l, 0, sizeof r->l);
    memset(r->o, 0, sizeof r->o);
}

static void span_end(const struct kern *kern, const struct scene *s, struct result *r, int span)
{
    for (int i = 0; i < s->n_row; i++)
        if (s->from[i] < (span + 1) * ATTN_SPAN && s->to[i] > span * ATTN_SPAN)
            kern->attn_merge(&r->top[i], &r->sum[i], r->out + i * s->d_v, &r->m[i],
                             r->l + i * ATTN_TILE, r->o + i * attn_stride(s->d_v), s->d_v);
}

static void total_begin(const struct scene *s, struct result *r)
{
    for (int i = 0; i < s->n_row; i++) r->top[i] = -INFINITY, r->sum[i] = 0;
    memset(r->out, 0, sizeof r->out);
}

static void total_end(const struct kern *kern, const struct scene *s, struct result *r)
{
    for (int i = 0; i < s->n_row; i++)
        kern->attn_finish(r->y + i * s->d_v, r->out + i * s->d_v, r->sum[i], s->d_v);
}

/* Return true if the values are equal. NaNs may differ in sign and payload. */
static bool same(const float *a, const float *b, int n)
{
    for (int i = 0; i < n; i++)
        if (bits_of_f32(a[i]) != bits_of_f32(b[i]) && !(a[i] != a[i] && b[i] != b[i])) return false;
    return true;
}

enum { LEVEL_MAX = 16 };

/* Compare the results of a block, of all rows. */
static bool same_block(const struct scene *s, const struct result *want, const struct result *got)
{
    bool equal = same(want->m, got->m, s->n_row) && same(want->l, got->l, s->n_row * ATTN_TILE);
    for (int r = 0; r < s->n_row; r++)
        equal &= same(want->o + r * attn_stride(s->d_v), got->o + r * attn_stride(s->d_v), s->d_v);
    return equal;
}

/* Compare levels [1, n) with level 0, the reference. The reference is computed once, because it
 * takes most of the time. */
static void compare(const struct kern *level, int n, const struct scene *s)
{
    static struct result result[LEVEL_MAX];
    struct attn_rows rows[LEVEL_MAX];
    bool equal[LEVEL_MAX];
    for (int k = 0; k < n; k++) {
        rows[k] = rows_of(&level[k], s, &result[k]), equal[k] = true;
        total_begin(s, &result[k]);
    }
    for (int span = 0; span < SPANS; span++) {
        for (int k = 0; k < n; k++) span_begin(s, &result[k]);
        for (int i = span * SPAN_BLOCKS; i < (span + 1) * SPAN_BLOCKS; i++) {
            struct attn_kv kv = block_of(s, i);
            for (int k = 0; k < n; k++) {
                level[k].attn_block(&rows[k], &kv, block_pos(i));
                equal[k] &= same_block(s, &result[0], &result[k]);
            }
        }
        for (int k = 0; k < n; k++) span_end(&level[k], s, &result[k], span);
    }
    for (int k = 0; k < n; k++) {
        total_end(&level[k], s, &result[k]);
        if (!equal[k] || !same(result[0].y, result[k].y, s->n_row * s->d_v))
            test_fail(__FILE__, __LINE__,
                      "%s: %d rows, d_k %d, d_v %d, softcap %g, %s slope, reach %d", level[k].name,
                      s->n_row, s->d_k, s->d_v, (double)s->softcap, s->biased ? "with" : "no",
                      s->reach);
    }
}

TEST(attention_every_level_equals_reference)
{
    static const int heads[][2] = {{64, 64}, {128, 128}, {80, 80},   {24, 24},
                                   {96, 96}, {192, 128}, {256, 256}, {576, 512},
                                   {1, 1},   {17, 33},   {3, 48},    {112, 112}};
    static struct scene s;
    struct kern level[LEVEL_MAX];
    struct err e;
    uint64_t rng = 5;
    int n_level = 0;
    NEED(strcmp(kern_levels()[0], "ref") == 0);
    for (; kern_levels()[n_level]; n_level++) {
        NEED(n_level < LEVEL_MAX);
        NEED_OK(kern_open(&level[n_level], kern_levels()[n_level], &e), &e);
    }
    for (size_t h = 0; h < sizeof heads / sizeof heads[0]; h++)
        for (int n = 1; n <= ROW_MAX; n += h < 2 && n < 19 ? 1 : h < 2 ? 17 : 29)
            for (int windows = 0; windows < 2; windows++) {
                scene_rows(&s, n, heads[h][0], heads[h][1], windows, &rng);
                if (n % 4 == 3) s.scale = 20; /* this scale makes most weights zero */
                scene_kv(&s, &rng);
                compare(level, n_level, &s);
            }
}

/* Return the bias of a distance by the definition of the table. */
static float bias_of(const struct scene *s, int head, int distance)
{
    const int far = distance < -s->reach ? -s->reach : distance > s->reach ? s->reach : distance;
    return s->table[head * bias_floats(s->reach) + far + s->reach + BIAS_EDGE];
}

/* Return the softmax in double precision over the positions to which a row attends; 0 if there are
 * none. */
static double exact_value(const struct scene *s, int r, int d)
{
    double top = -INFINITY, sum = 0, out = 0;
    static double score[POS_MAX];
    for (int pass = 0; pass < 2; pass++)
        for (int b = 0; b < SPANS * SPAN_BLOCKS; b++)
            for (int i = 0; i < ATTN_BLOCK; i++) {
                int pos = block_pos(b) + i;
                if (pos < s->from[r] || pos >= s->to[r]) continue;
                const float *k = s->k[b] + i / ATTN_TILE * ATTN_TILE * s->d_k + i % ATTN_TILE;
                double t = 0;
                for (int j = 0; j < s->d_k && !pass; j++)
                    t += (double)s->q[r * s->d_k + j] * k[j * ATTN_TILE];
                t *= s->scale;
                if (s->softcap != 0) t = s->softcap * tanh(t / s->softcap);
                if (s->biased) t += (double)s->slope[r] * (pos - s->pos[r]);
                if (s->reach) t += (double)bias_of(s, s->head[r], pos - s->pos[r]);
                if (!pass) {
                    score[pos] = t;
                    top = t > top ? t : top;
                } else {
                    double p = exp(score[pos] - top);
                    sum += p;
                    out += p * s->v[b][i * attn_stride(s->d_v) + d];
                }
            }
    return sum == 0 ? 0 : out / sum;
}

TEST(attention_is_softmax_in_double)
{
    static struct scene s;
    static struct result got;
    struct kern ref;
    struct err e;
    NEED_OK(kern_open(&ref, "ref", &e), &e);
    uint64_t rng = 6;
    double worst = 0;
    for (int n = 0; n < 12; n++) {
        scene_rows(&s, 5, 64, 40, n % 2, &rng);
        s.to[1] = 1, s.from[1] = 0; /* row 1 attends to one position */
        s.from[2] = s.to[2];        /* row 2 attends to no position */
        if (n % 2) s.from[3] = ATTN_SPAN + 5, s.to[3] = ATTN_SPAN + 6;
        scene_kv(&s, &rng);
        struct attn_rows a = rows_of(&ref, &s, &got);
        total_begin(&s, &got);
        for (int b = 0; b < SPANS * SPAN_BLOCKS; b++) {
            if (b % SPAN_BLOCKS == 0) span_begin(&s, &got);
            struct attn_kv kv = block_of(&s, b);
            ref.attn_block(&a, &kv, block_pos(b));
            if (b % SPAN_BLOCKS == SPAN_BLOCKS - 1) span_end(&ref, &s, &got, b / SPAN_BLOCKS);
        }
        total_end(&ref, &s, &got);
        for (int r = 0; r < s.n_row; r++)
            for (int d = 0; d < s.d_v; d += 3) {
                double err = fabs(got.y[r * s.d_v + d] - exact_value(&s, r, d));
                worst = err > worst || err != err ? err : worst;
            }
    }
    test_note("worst error %.2g", worst);
    EXPECT(worst <= 3e-6);
}

/* Goal: an attention sink has the effect of a key without a value in the softmax. */
TEST(an_attention_sink_joins_the_sum)
{
    struct kern isa;
    struct err e;
    for (const char *const *level = kern_levels(); *level; level++) {
        NEED_OK(kern_open(&isa, *level, &e), &e);
        float m = 0.5f, l = 3, out[5] = {1, 2, 3, 4, 5}, y[5];
        float sink = 1.25f, one[ATTN_TILE] = {1}, none[ATTN_TILE] = {0};
        isa.attn_merge(&m, &l, out, &sink, one, none, 5);
        isa.attn_finish(y, out, l, 5);
        for (int i = 0; i < 5; i++)
            EXPECT(fabs(y[i] - (i + 1) * exp2(0.5) / (3 * exp2(0.5) + exp2(1.25))) < 1e-6);
    }
}

/* ---- K and V in pages ---- */

/* Fill x with values of every kind: usual, tiny, huge, special. */
static void odd_floats(float *x, int n, uint64_t *rng)
{
    for (int i = 0; i < n; i++)
        x[i] =
            rng_below(rng, 4) ? (rng_float(rng) - 0.5f) * 20 : f32_of_bits((uint32_t)rng_next(rng));
}

static void compare_kv(const struct kern *ref, const struct kern *isa, int t, int d, uint64_t *rng)
{
    static uint8_t a[ATTN_TILE * D_MAX * 4], b[ATTN_TILE * D_MAX * 4];
    static float x[ATTN_TILE * D_MAX], want[ATTN_TILE * D_MAX], got[ATTN_TILE * D_MAX];
    size_t size = t == KV_F32 ? 4 : t == KV_F16 || t == KV_BF16 ? 2 : 1, n = (size_t)d * size;
    memset(a, 0xA5, sizeof a), memset(b, 0xA5, sizeof b);
    for (int i = 0; i < 8; i++) {
        odd_floats(x, d, rng);
        if (t == KV_Q8 && i < 6) random_floats(x, d, i < 5 ? 4 : 1e-37f, rng);
        float sa = ref->kv_put[t](a, x, d), sb = isa->kv_put[t](b, x, d);
        if (!same(&sa, &sb, 1) || memcmp(a, b, n + 64) != 0)
            test_fail(__FILE__, __LINE__, "%s: kv_put of type %d, %d values", isa->name, t, d);
    }
    for (size_t i = 0; i < n * ATTN_TILE; i++) a[i] = (uint8_t)rng_next(rng);
    ref->kv_get[t](want, a, d, ATTN_TILE, a), isa->kv_get[t](got, a, d, ATTN_TILE, NULL);
    if (!same(want, got, ATTN_TILE * d))
        test_fail(__FILE__, __LINE__, "%s: kv_get of type %d, %d rows of 16", isa->name, t, d);
    /* exact size, so that sanitizers detect a read past the end */
    uint8_t *end = malloc(n * 7);
    memcpy(end, a, n * 7);
    ref->kv_get[t](want, a, 7, d, a), isa->kv_get[t](got, end, 7, d, NULL);
    free(end);
    if (!same(want, got, 7 * attn_stride(d)))
        test_fail(__FILE__, __LINE__, "%s: kv_get of type %d, 7 rows of %d", isa->name, t, d);
}

TEST(kv_every_level_equals_reference)
{
    struct kern ref, isa;
    struct err e;
    NEED_OK(kern_open(&ref, "ref", &e), &e);
    uint64_t rng = 7;
    for (const char *const *level = kern_levels(); *level; level++) {
        NEED_OK(kern_open(&isa, *level, &e), &e);
        for (int t = 0; t < KV_TYPE_COUNT; t++)
            for (int d = 1; d <= 256; d += d < 40 ? 1 : 24) compare_kv(&ref, &isa, t, d, &rng);
    }
}

/* Goal: the transpose of a panel of K has its values, in every level. */
TEST(kv_panels_are_transposed)
{
    enum { PANEL_MAX = 100 };
    static float x[PANEL_MAX * ATTN_TILE], y[ATTN_TILE * (PANEL_MAX + ATTN_TILE)];
    struct kern isa;
    struct err e;
    for (int i = 0; i < PANEL_MAX * ATTN_TILE; i++) x[i] = (float)i;
    for (const char *const *level = kern_levels(); *level; level++) {
        NEED_OK(kern_open(&isa, *level, &e), &e);
        for (int d = 1; d <= PANEL_MAX; d += d < 40 ? 1 : 12) {
            const int stride = attn_stride(d);
            isa.kv_turn(y, x, d);
            for (int i = 0; i < ATTN_TILE; i++)
                for (int j = 0; j < stride; j++)
                    if (y[i * stride + j] != (j < d ? x[j * ATTN_TILE + i] : 0))
                        test_fail(__FILE__, __LINE__, "%s: %d dims, position %d, dim %d", *level, d,
                                  i, j);
        }
    }
}

/* Return true if the values are equal. Any two NaNs are equal. */
static bool same_value(float a, float b)
{
    return bits_of_f32(a) == bits_of_f32(b) || (isnan(a) && isnan(b));
}

TEST(kv_codes_are_those_of_quant)
{
    struct kern isa;
    struct err e;
    static uint8_t code[256];
    static float k[256];
    for (int i = 0; i < 256; i++) code[i] = (uint8_t)i;
    for (const char *const *level = kern_levels(); *level; level++) {
        NEED_OK(kern_open(&isa, *level, &e), &e);
        isa.kv_get[KV_FP8_E4M3](k, code, 16, 16, code);
        for (int i = 0; i < 256; i++) EXPECT(same_value(k[i], f32_of_e4m3(code[i])));
        isa.kv_get[KV_FP8_E5M2](k, code, 16, 16, code);
        for (int i = 0; i < 256; i++) EXPECT(same_value(k[i], f32_of_e5m2(code[i])));
    }
}

/* linear.c - linear layers of block formats with int8 activations by AMX: 16 rows x 16 outputs at once.
 *
 * A k-quad vector of a panel is a row of the tile that TDPBSSD multiplies with 16 rows of
 * activations, so that one instruction does 16 x 16 outputs x 32 k (sub-blocks of 16: x 16 k) in 16
 * cycles: 512 multiply-adds a cycle where AVX-512 VNNI does 128. What remains is to scale each result:
 *
 *     group of 256 k:  codes -> signed bytes in the L1 cache, once for all rows
 *       16 rows:       T in 16 registers
 *         span:        tile = A x B;  store it;  T = fma(tile row, scale, T) for 16 rows
 *                      (three spans ahead are in the tile unit meanwhile: its latency is 52 cycles)
 *
 * Bound: 16 cycles of the tile unit, 16 of tile stores, 16 of the vector unit (f32 scales; integer
 * scales 24) per 8192 multiply-adds, side by side. A tile takes its time whatever number of rows it
 * holds, so that a few rows run faster through AVX-512, with the same bits. */
#include "kern/avx512/dot.h"

#include "kern/tmpl/linear.h"
#include "kern/tmpl/unit.h"

enum { TILE = 16, SLOTS = 4, SPANS_MAX = 16 };

/* ---- the tile unit ---- */

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t n_byte[16];
    uint8_t n_row[16];
};

/* Tiles 0..3: sums, 4 and 5: 16 rows of `step` activations, 6 and 7: `step` k of 16 outputs. Constant,
 * because gcc 12 believes that the instruction reads 8 bytes only and drops stores to the others. */
#define CONFIG(step)                                                                               \
    {                                                                                              \
        .palette = 1, .n_byte = {64, 64, 64, 64, step, step, 64, 64},                              \
        .n_row = {TILE, TILE, TILE, TILE, TILE, TILE, step / 4, step / 4},                         \
    }
static const struct tile_config config16 = CONFIG(16), config32 = CONFIG(32), config64 = CONFIG(64);

static void tiles_open(int step)
{
    _tile_loadconfig(step == 16 ? &config16 : step == 32 ? &config32 : &config64);
}

/* k values that one instruction takes, and k values that share a scale. */
ALWAYS int step_of(const struct panel_format *f)
{
    return f->scales == PANEL_ONE ? 64 : f->sub;
}

ALWAYS int span_of(const struct panel_format *f)
{
    return f->scales == PANEL_ONE ? f->block : f->sub;
}

struct operands {
    const int8_t *a; /* 16 rows of a group's activations, 64 apart; the next 64 k a_step further */
    const int8_t *b; /* the group's bytes [k / 4][16][4] */
    int64_t a_step;
};

/* tile `slot` = span number s; A and B are two tile registers. */
#define SPAN(slot, A, B)                                                                           \
    do {                                                                                           \
        _tile_zero(slot);                                                                          \
        for (int k = s * span; k < (s + 1) * span; k += step) {                                    \
            _tile_loadd(A, o->a + k / 64 * o->a_step + k % 64, 64);                                \
            _tile_loadd(B, o->b + k * TILE, 64);                                                   \
            _tile_dpbssd(slot, A, B);                                                              \
        }                                                                                          \
    } while (0)

ALWAYS void span_begin(const struct panel_format *f, const struct operands *o, int s)
{
    const int step = step_of(f), span = span_of(f);
    switch (s % SLOTS) {
    case 0:
        SPAN(0, 4, 6);
        break;
    case 1:
        SPAN(1, 5, 7);
        break;
    case 2:
        SPAN(2, 4, 6);
        break;
    default:
        SPAN(3, 5, 7);
    }
}

ALWAYS void span_end(int *sums, int s)
{
    switch (s % SLOTS) {
    case 0:
        _tile_stored(0, sums, 64);
        break;
    case 1:
        _tile_stored(1, sums, 64);
        break;
    case 2:
        _tile_stored(2, sums, 64);
        break;
    default:
        _tile_stored(3, sums, 64);
    }
}

/* ---- a group of a panel, ready for all rows ---- */

struct group {
    _Alignas(64) int8_t b[ACT_GROUP * PANEL];
    vf d[SPANS_MAX], m[SPANS_MAX]; /* f32 scales and minimums of the spans          */
    vi i[SPANS_MAX];               /* integer scales of the spans                   */
    vi min[GROUP_UNITS];           /* pairs of integer minimums                     */
    vf d_all, dmin;                /* what integer scales and minimums are times of */
    int n_span, n_unit;
};

ALWAYS void put_quad(const struct panel_format *f, int8_t *b, vi bytes)
{
    vi_store(b, f->zero ? _mm512_sub_epi8(bytes, vi_set1_i8(f->zero)) : bytes);
}

ALWAYS void group_bytes(const struct panel_format *f, int8_t *b, const uint8_t *codes, int n_unit)
{
    for (int u = 0; u < n_unit; u++, codes += f->bits * 64, b += UNIT * PANEL) {
        struct unit w = unit_bytes(f, codes);
        put_quad(f, b, w.w0), put_quad(f, b + 64, w.w1);
        put_quad(f, b + 128, w.w2), put_quad(f, b + 192, w.w3);
        put_quad(f, b + 256, w.w4), put_quad(f, b + 320, w.w5);
        put_quad(f, b + 384, w.w6), put_quad(f, b + 448, w.w7);
    }
}

ALWAYS void group_open(struct group *g, const struct panel_format *f, const uint8_t *s, int n_unit)
{
    const bool has_min = f->scales == PANEL_I6_MIN || f->scales == PANEL_I4_MIN;
    g->n_unit = n_unit;
    g->n_span = n_unit * UNIT / span_of(f);
    group_bytes(f, g->b, s + panel_scale_bytes(f, n_unit), n_unit);
    for (int i = 0; i < g->n_span; i++) {
        if (f->scales == PANEL_ONE) g->d[i] = scale_f16(f, s, i, 0);
        if (is_f32_scaled(f))
            g->d[i] = f->sub == 16 ? scale_f32(f, s, i / 2, i % 2, 0) : scale_f32(f, s, i, 0, 0);
        if (f->scales == PANEL_F16_MIN) g->m[i] = vf_load_f16(s + (2 * i + 1) * PANEL * 2);
        if (!is_f32_scaled(f) && f->sub) g->i[i] = scale_int(f, s, i, 0);
    }
    if (!is_f32_scaled(f) && f->sub) g->d_all = scale_f16(f, s, 0, 0);
    if (has_min) g->dmin = scale_f16(f, s, 1, 0);
    for (int u = 0; u < n_unit && has_min; u++) g->min[u] = min_pair(f, s, u, 0);
}

/* ---- 16 rows ---- */

struct rows { /* of x in one group; pointers to the first row, steps to the next 64 k, unit */
    const int8_t *q;
    const int16_t *sum;
    const float *scale;
    int64_t q_step, sum_step;
};

/* clang-format off */
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
/* clang-format on */

/* The sum of 32 activations of a row as f32, in all lanes. */
ALWAYS vf unit_sum(const int16_t *pair)
{
    return vf_set1((float)(pair[0] + pair[1]));
}

ALWAYS vi row_mins(const struct group *g, const struct rows *r, int row)
{
    vi m = vi_zero();
    for (int u = 0; u < g->n_unit; u++)
        m = vi_dot16(m, vi_bcast4(r->sum + u * r->sum_step + 2 * row), g->min[u]);
    return m;
}

/* T (integer scales: I) of 16 rows. */
struct sixteen {
#define ROW(n) vf t##n;
    EACH_ROW(ROW)
#undef ROW
};

/* Add span s, whose sums are stored, to T. Meanwhile the tile unit works on the spans after it: of
 * these 16 rows, then of the next 16 (next; NULL: there are none). */
ALWAYS void span_add(const struct panel_format *f, const struct group *g, const struct operands *o,
                     const struct operands *next, int s, int n_span, const int16_t *pair,
                     int (*sums)[TILE * PANEL], struct sixteen *t)
{
    const bool f32 = is_f32_scaled(f) || f->scales == PANEL_ONE;
    const int *sum = sums[s % SLOTS];
    if (s + SLOTS - 1 < n_span)
        span_begin(f, o, s + SLOTS - 1);
    else if (next)
        span_begin(f, next, s + SLOTS - 1 - n_span);
    if (s + 1 < n_span || next) span_end(sums[(s + 1) % SLOTS], s + 1);
#define ROW(n)                                                                                     \
    if (f32)                                                                                       \
        t->t##n = vf_fma(vf_of_vi(vi_load(sum + n * PANEL)), g->d[s], t->t##n);                    \
    else                                                                                           \
        t->t##n = vf_cast(vi_add(vi_cast(t->t##n), vi_mul(vi_load(sum + n * PANEL), g->i[s])));    \
    if (f->scales == PANEL_F16_MIN) t->t##n = vf_fma(unit_sum(pair + 2 * n), g->m[s], t->t##n);
    EACH_ROW(ROW)
#undef ROW
}

/* The first spans of 16 rows go to the tile unit. */
ALWAYS void tile_begin(const struct panel_format *f, const struct group *g,
                       const struct operands *o, int (*sums)[TILE * PANEL])
{
    for (int s = 0; s < SLOTS - 1 && s < g->n_span; s++) span_begin(f, o, s);
    span_end(sums[0], 0);
}

/* c [16][16] = fma(T of the group, scale of the row's group, c) for rows row .. row + 15, which have
 * begun; the rows after them begin if there are any (more) and their spans fall on the same slots. */
ALWAYS void tile_rows(const struct panel_format *f, const struct group *g, const struct rows *r,
                      int row, bool more, int (*sums)[TILE * PANEL], float *c)
{
    const bool f32 = is_f32_scaled(f) || f->scales == PANEL_ONE;
    const bool has_min = f->scales == PANEL_I6_MIN || f->scales == PANEL_I4_MIN;
    const int n_span = g->n_span, all = ACT_GROUP / span_of(f);
    const struct operands o = {r->q + row * 64, g->b, r->q_step};
    const struct operands next = {r->q + (row + TILE) * 64, g->b, r->q_step};
    const int16_t *pair = r->sum + 2 * row;
    struct sixteen t;
#define ROW(n) t.t##n = vf_zero();
    EACH_ROW(ROW)
#undef ROW
    if (n_span == all && more) {
#pragma GCC unroll 16
        for (int s = 0; s < all; s++)
            span_add(f, g, &o, all % SLOTS == 0 ? &next : NULL, s, all, pair + s * r->sum_step,
                     sums, &t);
    } else
        for (int s = 0; s < n_span; s++)
            span_add(f, g, &o, NULL, s, n_span, pair + s * r->sum_step, sums, &t);
#define ROW(n)                                                                                     \
    do {                                                                                           \
        vf x = f32 ? t.t##n : vf_fma(vf_of_vi(vi_cast(t.t##n)), g->d_all, vf_zero());              \
        if (has_min) x = vf_fma(vf_of_vi(vi_sub(vi_zero(), row_mins(g, r, row + n))), g->dmin, x); \
        vf_store(c + n * PANEL, vf_fma(x, vf_set1(r->scale[row + n]), vf_load(c + n * PANEL)));    \
    } while (0);
    EACH_ROW(ROW)
#undef ROW
}

/* What several panels of one or two weights give for all rows: their k groups go side by side, so
 * that a group's activations are in the L1 cache for all of them. */
enum { PANELS_MAX = 4 };

struct panel_block {
    const uint8_t *panel[PANELS_MAX];
    int n_panel;
    float *c; /* [n_panel][LINEAR_ROWS][16]; rows past the last hold anything */
};

ALWAYS void group_rows(const struct panel_format *f, const uint8_t *at, int n_unit,
                       const struct rows *r, int n_row, float *c)
{
    const bool flows = ACT_GROUP / span_of(f) % SLOTS == 0 && n_unit == GROUP_UNITS;
    _Alignas(64) int sums[SLOTS][TILE * PANEL];
    struct group g;
    group_open(&g, f, at, n_unit);
    const int n_byte = panel_group_bytes(f, n_unit);
    for (int i = 0; i < n_byte; i += 64) __builtin_prefetch(at + n_byte + i); /* the next group */
    for (int i = 0; i < n_row; i += TILE, c += TILE * PANEL) {
        const struct operands o = {r->q + i * 64, g.b, r->q_step};
        if (i == 0 || !flows) tile_begin(f, &g, &o, sums);
        tile_rows(f, &g, r, i, i + TILE < n_row, sums, c);
    }
}

ALWAYS void block_rows(const struct panel_format *f, const struct panel_block *b,
                       const struct act *x, int row, int n_row)
{
    struct rows r = {
        .q = (const int8_t *)x->x + (int64_t)row * 64,
        .sum = x->sum + (int64_t)row * 2,
        .scale = x->scale + row,
        .q_step = (int64_t)x->n_row * 64,
        .sum_step = (int64_t)x->n_row * 2,
    };
    int64_t at = 0;
    for (int k = 0; k < x->k; k += ACT_GROUP) {
        const int n_unit = group_units(k, x->k);
        for (int p = 0; p < b->n_panel; p++) {
            float *c = b->c + p * LINEAR_ROWS * PANEL;
            if (k == 0) memset(c, 0, (size_t)(n_row + TILE - 1) / TILE * TILE * PANEL * sizeof *c);
            group_rows(f, b->panel[p] + at, n_unit, &r, n_row, c);
        }
        at += panel_group_bytes(f, n_unit);
        r.q += ACT_GROUP / 64 * r.q_step;
        r.sum += GROUP_UNITS * r.sum_step;
        r.scale += x->n_row;
    }
}

/* ---- layers ---- */

typedef void block_fn(const struct panel_block *b, const struct act *x, int row, int n_row);

#define PANEL(id, ...)                                                                             \
    static void block_##id(const struct panel_block *b, const struct act *x, int row, int n_row)   \
    {                                                                                              \
        block_rows(&panel_format_##id, b, x, row, n_row);                                          \
    }
#include "kern/panels.def"
#undef PANEL

static block_fn *const block_fns[QT_COUNT] = {
#define PANEL(id, ...) [QT_##id] = block_##id,
#include "kern/panels.def"
#undef PANEL
};

/* Rows below which AVX-512 is faster. */
enum { ROWS_MIN = 10 };

static void linear(const struct linear_out *out, const struct panels *w, int panel, int n_panel,
                   const struct act *x, int row, int n_row)
{
    _Alignas(64) float c[PANELS_MAX * LINEAR_ROWS * PANEL];
    if (n_row < ROWS_MIN) {
        linear_q8_avx512(out, w, panel, n_panel, x, row, n_row);
        return;
    }
    tiles_open(step_of(panel_format_of(w->type)));
    for (int p = panel, end = panel + n_panel; p < end; p += PANELS_MAX) {
        struct panel_block b = {.n_panel = end - p < PANELS_MAX ? end - p : PANELS_MAX, .c = c};
        for (int i = 0; i < b.n_panel; i++) b.panel[i] = w->data + (p + i) * w->stride;
        block_fns[w->type](&b, x, row, n_row);
        for (int i = 0; i < b.n_panel; i++)
            strip_put(out, w->n_out, p + i, c + i * LINEAR_ROWS * PANEL, row, n_row);
    }
    _tile_release();
}

static void linear_glu(const struct linear_out *out, const struct panels *gate,
                       const struct panels *up, int panel, int n_panel, const struct act *x,
                       int row, int n_row)
{
    enum { PAIRS_MAX = PANELS_MAX / 2, C_FLOATS = LINEAR_ROWS * PANEL };
    _Alignas(64) float c[PANELS_MAX * C_FLOATS];
    if (n_row < ROWS_MIN) {
        linear_glu_q8_avx512(out, gate, up, panel, n_panel, x, row, n_row);
        return;
    }
    tiles_open(step_of(panel_format_of(gate->type)));
    for (int p = panel, end = panel + n_panel; p < end; p += PAIRS_MAX) {
        int n = end - p < PAIRS_MAX ? end - p : PAIRS_MAX;
        struct panel_block b = {.n_panel = 2 * n, .c = c};
        for (int i = 0; i < n; i++) {
            b.panel[2 * i] = gate->data + (p + i) * gate->stride;
            b.panel[2 * i + 1] = up->data + (p + i) * up->stride;
        }
        block_fns[gate->type](&b, x, row, n_row);
        for (int i = 0; i < n; i++)
            strip_put_glu(out, gate->n_out, p + i, c + 2 * i * C_FLOATS, c + (2 * i + 1) * C_FLOATS,
                          row, n_row);
    }
    _tile_release();
}

void kern_init_amx(struct kern *k)
{
    for (int t = 0; t < QT_COUNT; t++)
        if (block_fns[t]) {
            k->linear[ACT_Q8][t] = linear;
            k->linear_glu[ACT_Q8][t] = linear_glu;
        }
}

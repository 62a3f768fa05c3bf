/* spans.c - AMX for formats with f32 scales. A span is the k values that share a scale. The sums of
 * a span are a tile, which vector instructions multiply by the scale.
 *
 *     group of 256 k:  codes -> signed bytes in the L1 cache, once for all rows
 *       16 rows:       T in 16 registers
 *         span:        tile = A x B;  store it;  T = fma(tile row, scale, T) for 16 rows
 *
 * Levels of 14 bits are two planes of bytes, so a span has two tiles: T = fma(128 upper + lower,
 * scale, T). The operand B of these tiles has 2 x 256 k.
 *
 * Meanwhile the tile unit computes three later spans, because its latency is 52 cycles. With two
 * planes, the tile unit computes one or two later spans. During the first 16 rows, the vector unit
 * also unpacks a unit of the next group.
 *
 * Bound: 16 cycles of the tile unit, 16 of tile stores and 16 of the vector unit per 8192
 * multiply-adds. The three parts overlap in the best case. On machine A, 16 rows x 16 outputs x 256
 * k of Q4_0 took 411 cycles in a call with 64 rows. The sum of the parts is 270 cycles, and AVX-512
 * took 749 (docs/measurements.md, "AMX"). */
#include "tile.h"

/* SLOTS: tiles in flight. A result is ready after 52 cycles, and an instruction starts every 16.
 * Therefore 52 / 16 + 1 = 4 instructions in flight use the tile unit fully. SPANS_MAX: 256 k in
 * spans of 16. */
enum { SLOTS = 4, SPANS_MAX = 16 };

/* Return the number of k values per instruction (step_of) or per scale (span_of). */
ALWAYS int step_of(const struct panel_format *f)
{
    return panel_is_one(f) ? 64 : f->sub;
}

ALWAYS int span_of(const struct panel_format *f)
{
    return panel_is_one(f) ? f->block : f->sub;
}

/* Return the number of planes of bytes: 2 for levels of 14 bits, otherwise 1. The first plane has
 * the upper bytes. */
ALWAYS int planes_of(const struct panel_format *f)
{
    return panel_upper(f) ? 2 : 1;
}

/* Sources of the tiles of a group. Pointers are borrowed. */
struct spans_operands {
    /* activations i8 [16, 64] of 16 rows; the next 64 k of the group are at a + a_step */
    const int8_t *a;
    const int8_t *b; /* i8 [n_plane, k / 4, 16, 4] bytes of the group */
    int64_t a_step;
};

/* Set tile `slot` = plane p of span s; A and B are two tile registers. */
#define SPAN(slot, A, B)                                                                           \
    do {                                                                                           \
        _tile_zero(slot);                                                                          \
        for (int k = s * span; k < (s + 1) * span; k += step) {                                    \
            _tile_loadd(A, o->a + k / 64 * o->a_step + k % 64, 64);                                \
            _tile_loadd(B, o->b + p * ACT_GROUP * PANEL + k * TILE, 64);                           \
            _tile_dpbssd(slot, A, B);                                                              \
        }                                                                                          \
    } while (0)

/* Begin the sums of a tile. Each plane of a span is a tile: tile t is plane t % n_plane of span t /
 * n_plane. */
ALWAYS void span_begin(const struct panel_format *f, const struct spans_operands *o, int t)
{
    const int step = step_of(f), span = span_of(f), s = t / planes_of(f), p = t % planes_of(f);
    switch (t % SLOTS) {
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

ALWAYS void span_end(int (*sums)[TILE * PANEL], int t)
{
    switch (t % SLOTS) {
    case 0:
        _tile_stored(0, sums[0], 64);
        break;
    case 1:
        _tile_stored(1, sums[1], 64);
        break;
    case 2:
        _tile_stored(2, sums[2], 64);
        break;
    default:
        _tile_stored(3, sums[3], 64);
    }
}

/* ---- a prepared group of a panel ---- */

struct k_group {
    _Alignas(64) int8_t b[2 * ACT_GROUP * PANEL]; /* [n_plane][k / 4][16][4] */
    vf d[SPANS_MAX], m[SPANS_MAX];                /* scales and minimums of the spans */
    int n_span;
};

ALWAYS void put_quad(const struct panel_format *f, int8_t *b, vi bytes, vi zero)
{
    vi_store(b, f->zero ? _mm512_sub_epi8(bytes, zero) : bytes);
}

/* Return the zeros of unit u, in all bytes of the outputs. */
ALWAYS vi zeros_of(const struct panel_format *f, const struct tile_opening *o, int u)
{
    if (f->zero != ZERO_OWN) return vi_set1_i8(f->zero);
    const uint8_t *zero = panel_zeros(f, o->from, o->n_unit, u * UNIT / f->block);
    return vi_mul(vi_load_u8(zero), vi_set1(0x01010101));
}

/* Convert the codes of unit u to a plane of bytes. */
ALWAYS void plane_open(const struct panel_format *f, const struct tile_opening *o, int u, int8_t *b)
{
    const struct unit w =
        unit_bytes(f, o->from + panel_scale_bytes(f, o->n_unit) + u * f->bits * 64);
    const vi zero = zeros_of(f, o, u);
    put_quad(f, b, w.w0, zero), put_quad(f, b + 64, w.w1, zero);
    put_quad(f, b + 128, w.w2, zero), put_quad(f, b + 192, w.w3, zero);
    put_quad(f, b + 256, w.w4, zero), put_quad(f, b + 320, w.w5, zero);
    put_quad(f, b + 384, w.w6, zero), put_quad(f, b + 448, w.w7, zero);
}

ALWAYS void unit_open(const struct panel_format *f, const struct tile_opening *o, int u)
{
    const struct panel_format upper = panel_upper_plane(f);
    int8_t *b = o->g->b + u * UNIT * PANEL;
    fetch_unit(o, u, o->from + panel_scale_bytes(f, o->n_unit) + u * f->bits * 64, f->bits * 64);
    if (panel_upper(f)) {
        plane_open(&upper, o, u, b);
        b += ACT_GROUP * PANEL;
    }
    plane_open(f, o, u, b);
}

ALWAYS void scales_open(const struct panel_format *f, const struct tile_opening *o)
{
    struct k_group *g = o->g;
    const uint8_t *s = o->from;
    g->n_span = o->n_unit * UNIT / span_of(f);
    for (int i = 0; i < g->n_span; i++) {
        if (panel_is_one(f))
            g->d[i] = scale_one(f, s, i, 0);
        else
            g->d[i] = f->sub == 16 ? scale_f32(f, s, i / 2, i % 2, 0) : scale_f32(f, s, i, 0, 0);
        if (f->scales == PANEL_F16_MIN) g->m[i] = vf_load_f16(s + (2 * i + 1) * PANEL * 2);
    }
}

ALWAYS void group_open(const struct panel_format *f, const struct tile_opening *o)
{
    for (int u = 0; u < o->n_unit; u++) unit_open(f, o, u);
    scales_open(f, o);
}

/* ---- 16 rows ---- */

/* clang-format off */
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
/* clang-format on */

/* Return the sum of 32 activations of a row as f32, in all lanes. */
ALWAYS vf unit_sum(const int16_t *pair)
{
    return vf_set1((float)(pair[0] + pair[1]));
}

/* Sums T of 16 rows. */
struct sixteen {
#define ROW(n) vf t##n;
    EACH_ROW(ROW)
#undef ROW
};

/* Return row n of the stored sums of span s. */
ALWAYS vi span_row(const struct panel_format *f, int (*sums)[TILE * PANEL], int s, int n)
{
    const int t = s * planes_of(f);
    const vi first = vi_load(sums[t % SLOTS] + n * PANEL);
    if (planes_of(f) == 1) return first;
    return vi_add(vi_sll(first, 7), vi_load(sums[(t + 1) % SLOTS] + n * PANEL));
}

/* Add the stored sums of span s to T. Meanwhile the tile unit computes later spans, and the next
 * part of the next group is prepared. */
ALWAYS void span_add(const struct panel_format *f, const struct k_group *g,
                     const struct spans_operands *o, int s, int n_span, const int16_t *pair,
                     int (*sums)[TILE * PANEL], struct sixteen *t, const struct tile_opening *next)
{
    const int n = planes_of(f), ahead = n == 1 ? SLOTS - 1 : SLOTS, end = n_span * n;
#pragma GCC unroll 2
    for (int i = 0; i < n; i++)
        if (s * n + i + ahead < end) span_begin(f, o, s * n + i + ahead);
#pragma GCC unroll 2
    for (int i = 0; i < n; i++)
        if ((s + 1) * n + i < end) span_end(sums, (s + 1) * n + i);
    for (int u = GROUP_UNITS * s / n_span; next && u < GROUP_UNITS * (s + 1) / n_span; u++)
        unit_open(f, next, u);
#define ROW(n)                                                                                     \
    t->t##n = vf_fma(vf_of_vi(span_row(f, sums, s, n)), g->d[s], t->t##n);                         \
    if (f->scales == PANEL_F16_MIN) t->t##n = vf_fma(unit_sum(pair + 2 * n), g->m[s], t->t##n);
    EACH_ROW(ROW)
#undef ROW
}

/* Start the first tiles of 16 rows in the tile unit. */
ALWAYS void tile_begin(const struct panel_format *f, const struct k_group *g,
                       const struct spans_operands *o, int (*sums)[TILE * PANEL])
{
    const int n = planes_of(f), ahead = n == 1 ? SLOTS - 1 : SLOTS;
    for (int t = 0; t < ahead && t < g->n_span * n; t++) span_begin(f, o, t);
    for (int t = 0; t < n; t++) span_end(sums, t);
}

/* Compute c [16][16] = fma(T, scale, c) for the rows [row, row + 16). T is the sum of the group.
 * scale is the scale of the row's group. Meanwhile prepare the whole group `next` (NULL if
 * none). */
ALWAYS void tile_rows(const struct panel_format *f, const struct k_group *g, const struct x_rows *r,
                      int row, int (*sums)[TILE * PANEL], float *c, const struct tile_opening *next)
{
    const int n_span = g->n_span, all = ACT_GROUP / span_of(f);
    const struct spans_operands o = {r->q + row * 64, g->b, r->q_step};
    const int16_t *pair = r->sum + 2 * row;
    struct sixteen t;
    tile_begin(f, g, &o, sums);
#define ROW(n) t.t##n = vf_zero();
    EACH_ROW(ROW)
#undef ROW
    if (next || n_span == all) {
#pragma GCC unroll 16
        for (int s = 0; s < all; s++)
            span_add(f, g, &o, s, all, pair + s * r->sum_step, sums, &t, next);
    } else
        for (int s = 0; s < n_span; s++)
            span_add(f, g, &o, s, n_span, pair + s * r->sum_step, sums, &t, NULL);
#define ROW(n)                                                                                     \
    vf_store(c + n * PANEL, vf_fma(t.t##n, vf_set1(r->scale[row + n]), vf_load(c + n * PANEL)));
    EACH_ROW(ROW)
#undef ROW
}

ALWAYS void group_rows(const struct panel_format *f, const struct k_group *g, int n_unit,
                       const struct x_rows *r, int n_row, float *c, const struct tile_opening *next)
{
    _Alignas(64) int sums[SLOTS][TILE * PANEL];
    const bool whole = next->n_unit == GROUP_UNITS && n_unit == GROUP_UNITS;
    if (whole) {
        tile_rows(f, g, r, 0, sums, c, next);
        scales_open(f, next);
    } else {
        tile_rows(f, g, r, 0, sums, c, NULL);
        if (next->from) group_open(f, next);
    }
    for (int i = TILE; i < n_row; i += TILE) tile_rows(f, g, r, i, sums, c + i * PANEL, NULL);
}

#define TAKES(scales) ((scales) <= PANEL_E4M3 || (scales) == PANEL_ONE || (scales) == PANEL_ONE32)
#include "blocks.h"

block_fn *amx_spans_of(enum qtype t)
{
    return block_of(t);
}

/* planes.c - AMX for formats with integer scales. Weights are multiplied by their scales, so all
 * 256 k of a group are one sum.
 *
 * value * scale has up to 15 bits. The product is written as 128 a + b, with b in [0, 127] and a
 * signed byte a. a and b give two planes of weights. The planes are made once for all rows. Then
 *
 *     I = 128 (A x activations) + (B x activations)
 *
 * is the integer that the reference computes per sub-block. The integer is exact and cannot
 * overflow: 127 * 127 * 256 < 2^23 for each plane, 2^30 for both. Only B is needed if every product
 * fits into seven bits (Q2_K).
 *
 * Cycles per 16 rows x 16 outputs x 256 k: 128 of the tile unit, 32 of tile stores, about 60 of the
 * vector unit. One plane takes 64 of the tile unit, minimums 100 more of the vector unit. The times
 * of the units overlap in part. Making the planes takes about 450 cycles for all rows together.
 *
 * At 128 rows, machine A took 436 cycles with Q4_K and 301 with Q6_K. The sums of the parts,
 * measured in separate loops, are 180 and 160 cycles. With integer scales per sub-block, Q4_K took
 * at least 600 cycles (docs/measurements.md, "AMX"). */
#include "tile.h"

enum { STEP = 64, GROUP_STEPS = ACT_GROUP / STEP, STEP_BYTES = STEP * PANEL };

ALWAYS bool has_min(const struct panel_format *f)
{
    return f->scales == PANEL_I6_MIN || f->scales == PANEL_I4_MIN;
}

/* Return true if each product fits into seven bits. The format must have no zero point. */
ALWAYS bool one_plane(const struct panel_format *f)
{
    return f->scales == PANEL_I4_MIN && panel_bytes_max(f) * 15 < 128;
}

/* ---- a prepared group of a panel ---- */

struct k_group {
    _Alignas(64) int8_t a[ACT_GROUP * PANEL], b[ACT_GROUP * PANEL]; /* [k / 4][16][4] */
    vi min[GROUP_UNITS];                                            /* pairs of integer minimums */
    vf d, dmin; /* factors of the integer scales and minimums */
};

/* Scales of a sub-block: bytes [s 0 s 0] of each output, and a mask of the negative scales. */
struct factor {
    vi even, odd;
    __mmask64 negative;
};

ALWAYS struct factor factor_of(const struct panel_format *f, vi scale)
{
    const vi even = _mm512_set1_epi32((int)0x80008000), odd = _mm512_set1_epi32((int)0x00800080);
    const vi first =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12));
    struct factor c = {.negative = 0};
    if (f->zero) {
        c.negative = _mm512_movepi8_mask(_mm512_shuffle_epi8(scale, first));
        scale = _mm512_abs_epi32(scale);
    }
    c.even = _mm512_shuffle_epi8(scale, _mm512_or_si512(first, even));
    c.odd = _mm512_shuffle_epi8(scale, _mm512_or_si512(first, odd));
    return c;
}

/* Store the planes of one k-quad. The planes are products of bytes and scales as 16-bit numbers,
 * with even and odd k separate. */
ALWAYS void put_quad(const struct panel_format *f, int8_t *a, int8_t *b, vi bytes,
                     const struct factor *c)
{
    const vi low = _mm512_set1_epi16(0x00FF), seven = vi_set1_i8(127);
    vi even, odd;
    if (f->zero) { /* |scale| * value, with the sign of the scale */
        vi value = _mm512_sub_epi8(bytes, vi_set1_i8(f->zero));
        value = _mm512_mask_sub_epi8(value, c->negative, vi_zero(), value);
        even = _mm512_maddubs_epi16(c->even, value), odd = _mm512_maddubs_epi16(c->odd, value);
    } else
        even = _mm512_maddubs_epi16(bytes, c->even), odd = _mm512_maddubs_epi16(bytes, c->odd);
    /* 0xCA selects a bit of the second operand if the first operand's bit is 1, otherwise a bit of
     * the third */
    vi both = _mm512_ternarylogic_epi32(low, even, _mm512_slli_epi16(odd, 8), 0xCA);
    vi_store(b, vi_and(both, seven));
    if (!one_plane(f))
        vi_store(a, _mm512_ternarylogic_epi32(low, _mm512_srli_epi16(even, 7),
                                              _mm512_slli_epi16(odd, 1), 0xCA));
}

ALWAYS void unit_planes(const struct panel_format *f, int8_t *a, int8_t *b, const uint8_t *codes,
                        const uint8_t *s, int u)
{
    const struct unit w = unit_bytes(f, codes);
    const int j = f->sub == 16 ? 2 * u : u;
    const struct factor c = factor_of(f, scale_int(f, s, j, 0));
    const struct factor d = f->sub == 16 ? factor_of(f, scale_int(f, s, j + 1, 0)) : c;
    put_quad(f, a, b, w.w0, &c), put_quad(f, a + 64, b + 64, w.w1, &c);
    put_quad(f, a + 128, b + 128, w.w2, &c), put_quad(f, a + 192, b + 192, w.w3, &c);
    put_quad(f, a + 256, b + 256, w.w4, &d), put_quad(f, a + 320, b + 320, w.w5, &d);
    put_quad(f, a + 384, b + 384, w.w6, &d), put_quad(f, a + 448, b + 448, w.w7, &d);
}

ALWAYS void group_open(const struct panel_format *f, const struct tile_opening *o)
{
    struct k_group *g = o->g;
    const uint8_t *s = o->from, *codes = s + panel_scale_bytes(f, o->n_unit);
    const int n_unit = o->n_unit;
    for (int u = 0; u < n_unit; u++, codes += f->bits * 64) {
        fetch_unit(o, u, codes, f->bits * 64);
        unit_planes(f, g->a + u * UNIT * PANEL, g->b + u * UNIT * PANEL, codes, s, u);
    }
    if (n_unit % 2) { /* compute whole tiles: activations past the last k are zeros */
        memset(g->a + n_unit * UNIT * PANEL, 0, UNIT * PANEL);
        memset(g->b + n_unit * UNIT * PANEL, 0, UNIT * PANEL);
    }
    g->d = scale_f16(f, s, 0, 0);
    if (has_min(f)) g->dmin = scale_f16(f, s, 1, 0);
    for (int u = 0; u < GROUP_UNITS && has_min(f); u++)
        g->min[u] = u < n_unit ? min_pair(f, s, u, 0) : vi_zero();
}

/* ---- 16 rows ---- */

/* Set tiles A and B = the planes x the activations at q. */
#define DOTS(A, B)                                                                                 \
    do {                                                                                           \
        _tile_zero(A);                                                                             \
        _tile_zero(B);                                                                             \
        for (int k = 0; k < n_step; k++) {                                                         \
            _tile_loadd(4, q + k * q_step, 64);                                                    \
            _tile_loadd(6, g->b + k * STEP_BYTES, 64);                                             \
            _tile_dpbssd(B, 4, 6);                                                                 \
            if (one_plane(f)) continue;                                                            \
            _tile_loadd(7, g->a + k * STEP_BYTES, 64);                                             \
            _tile_dpbssd(A, 4, 7);                                                                 \
        }                                                                                          \
    } while (0)

/* Start one pair of tiles. The tile unit computes this pair while the vector unit finishes the
 * other pair. */
ALWAYS void dots(const struct panel_format *f, const struct k_group *g, int n_step, const int8_t *q,
                 int64_t q_step, int pair)
{
    if (pair)
        DOTS(2, 3);
    else
        DOTS(0, 1);
}

struct planes_sums {
    _Alignas(64) int a[TILE * PANEL], b[TILE * PANEL];
};

ALWAYS void sums_store(const struct panel_format *f, struct planes_sums *s, int pair)
{
    if (pair) {
        if (!one_plane(f)) _tile_stored(2, s->a, 64);
        _tile_stored(3, s->b, 64);
    } else {
        if (!one_plane(f)) _tile_stored(0, s->a, 64);
        _tile_stored(1, s->b, 64);
    }
}

/* Return the sum over units of min * sum of the row's activations. `sum` is the first unit's
 * pair. */
ALWAYS vi row_mins(const vi *min, int n_unit, const int16_t *sum, int64_t sum_step)
{
    vi even = vi_zero(), odd = vi_zero();
#pragma GCC unroll 8
    for (int u = 0; u < n_unit; u += 2) {
        even = vi_dot16(even, min[u], vi_bcast4(sum + u * sum_step));
        if (u + 1 < n_unit) odd = vi_dot16(odd, min[u + 1], vi_bcast4(sum + (u + 1) * sum_step));
    }
    return vi_add(even, odd);
}

/* Compute c [n][16] = fma(T, scale, c) for n rows. T is the sum of the group. scale is the scale of
 * the row's group. */
ALWAYS void finish(const struct panel_format *f, const struct k_group *g, int n_unit,
                   const struct x_rows *r, int row, int n_row, const struct planes_sums *s,
                   float *c)
{
    const vf d = g->d, dmin = has_min(f) ? g->dmin : vf_zero();
    /* minimums in registers, because gcc assumes that stores to c may change g */
    vi min[GROUP_UNITS];
#pragma GCC unroll 8
    for (int u = 0; u < GROUP_UNITS; u++) min[u] = has_min(f) ? g->min[u] : vi_zero();
    const float *scale = r->scale + row;
    const int16_t *sum = r->sum + 2 * row;
    for (int n = 0; n < n_row; n++, c += PANEL) {
        vi dot = vi_load(s->b + n * PANEL);
        if (!one_plane(f)) dot = vi_add(dot, vi_sll(vi_load(s->a + n * PANEL), 7));
        vf t = vf_fma(vf_of_vi(dot), d, vf_zero());
        if (has_min(f)) {
            vi mins = row_mins(min, n_unit, sum + 2 * n, r->sum_step);
            t = vf_fma(vf_of_vi(vi_sub(vi_zero(), mins)), dmin, t);
        }
        vf_store(c, vf_fma(t, vf_set1(scale[n]), vf_load(c)));
    }
}

/* Compute all rows. The tile unit computes the next rows while the vector unit finishes the current
 * rows. The tile unit computes the first rows while the next group is prepared. */
ALWAYS void tiles_rows(const struct panel_format *f, const struct k_group *g, int n_unit,
                       const struct x_rows *r, int n_row, float *c, const struct tile_opening *next)
{
    const int n_step = (n_unit + 1) / 2;
    struct planes_sums s[2];
    dots(f, g, n_step, r->q, r->q_step, 0);
    for (int i = 0, pair = 0; i < n_row; i += TILE, pair ^= 1, c += TILE * PANEL) {
        if (i + TILE < n_row) dots(f, g, n_step, r->q + (i + TILE) * 64, r->q_step, !pair);
        if (i == 0 && next->from) group_open(f, next);
        sums_store(f, &s[pair], pair);
        finish(f, g, n_unit, r, i, n_row - i < TILE ? n_row - i : TILE, &s[pair], c);
    }
}

ALWAYS void group_rows(const struct panel_format *f, const struct k_group *g, int n_unit,
                       const struct x_rows *r, int n_row, float *c, const struct tile_opening *next)
{
    if (n_unit == GROUP_UNITS)
        tiles_rows(f, g, GROUP_UNITS, r, n_row, c, next);
    else
        tiles_rows(f, g, n_unit, r, n_row, c, next);
}

#define TAKES(scales) ((scales) == PANEL_I8 || (scales) == PANEL_I6_MIN || (scales) == PANEL_I4_MIN)
#include "blocks.h"

block_fn *amx_planes_of(enum qtype t)
{
    return block_of(t);
}

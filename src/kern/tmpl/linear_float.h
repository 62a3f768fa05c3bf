/* linear_float.h - linear layers with f32 activations, for any vector (vec.h, dot.h): ref/linear.c
 * bit for bit. Every weight type is decoded exactly.
 *
 * A strip is VL outputs of a panel. An output is a chain of 256 fma in fixed order. Several outputs
 * and rows are computed together to hide the latency of the fma:
 *
 *   few rows     float weights are loaded and converted in registers for the chains of 2 (direct)
 *   or 4 strips x n_row: bound by memory. Panels are prefetched a group of k ahead in software,
 *   because hardware prefetchers stop at each 4 kB page
 *   more rows    128 k of two strips are converted once to f32 [k][2 VL] in the L1 cache, then used
 *   (tiled)      by tiles of 2 strips x up to 12 rows (AVX2: 6): per k, two loads of weights and a
 *                broadcast per row for 2 x rows fma, so the fma units are the bound. Meanwhile the
 *                next 128 k are prefetched
 *
 * Block formats are always tiled: decoding costs more than the pass through the L1 cache. Measured
 * on machine A of docs/measurements.md (Sapphire Rapids), one thread. The table has shares of the
 * read bandwidth (1 row) and of the fma peak (16 and 64 rows), which the same run measured:
 *
 *                     memory, 1 row     16 rows     64 rows
 *     AVX-512  F16          0.98         0.70        0.76
 *              E4M3         0.95         0.60        0.70
 *     AVX2     F16          0.98         0.80        0.84
 *
 * Zen 5 has 0.85 (AVX-512) and 0.92 (AVX2) of the fma peak with 64 rows of F16, 0.86 and 0.89 of
 * E4M3. The replaced loop is that of ref/linear.c, which converts a weight per product: with 64
 * rows of F16 it takes 100 times as long.
 *
 * This file requires vec.h, the requirements of unit.h, and these names:
 *     TILES(X)              X(1) X(2) ... up to the rows of the largest tile
 *     DIRECTS(X)            X(1) X(2) ... up to the rows of the largest direct kernel */
#ifndef QUOTH_KERN_TMPL_LINEAR_FLOAT_H
#define QUOTH_KERN_TMPL_LINEAR_FLOAT_H

#include "linear.h"
#include "unit.h"

enum {
    TILE_STRIPS = 2,
    TILE_COLS = TILE_STRIPS * VL,
    /* k values in the L1 cache together: 16 kB with AVX-512, 8 kB with AVX2 */
    TILE_PART = 128,
    STRIPS_MAX = 4,              /* strips of a direct kernel */
    NEAR = 1024,                 /* bytes ahead that a direct kernel prefetches into the L1 cache */
    C_FLOATS = LINEAR_ROWS * VL, /* results of a strip, [row][VL] */
};

/* ---- float weights -> f32 ---- */

/* Return the number of bytes of one k of a panel, without scales. */
ALWAYS int k_bytes(enum qtype t)
{
    if (scaled_run(t)) return PANEL;
    return PANEL * (t == QT_f32 ? 4 : t == QT_f16 || t == QT_bf16 ? 2 : 1);
}

/* Return the number of bytes before output `lane` in the data of one k (BF16: of a pair of k). */
ALWAYS int lane_bytes(enum qtype t, int lane)
{
    if (scaled_run(t)) return lane;
    return t == QT_bf16 ? lane * 4 : lane * k_bytes(t) / PANEL;
}

/* Return a strip's values of an even k, at p. */
ALWAYS vf value(enum qtype t, const uint8_t *p)
{
    switch (t) {
    case QT_f16:
        return vf_load_f16(p);
    case QT_bf16:
        return vf_cast(vi_sll(vi_load(p), 16));
    case QT_f8_e4m3:
        return vf_load_e4m3(p);
    case QT_f8_e5m2:
        return vf_load_e5m2(p);
    default:
        return vf_load((const float *)p);
    }
}

/* Return a strip's values of an even k and of the next k, at p. For SCALED types, the values are
 * the values of the codes. */
ALWAYS void value2(enum qtype t, vf w[2], const uint8_t *p)
{
    if (t == QT_f8_e4m3 || t == QT_e4m3_128) {
        vf_load2_e4m3(w, p);
        return;
    }
    w[0] = value(t, p);
    w[1] = t == QT_bf16 ? vf_cast(vi_and(vi_load(p), vi_set1((int)0xFFFF0000)))
                        : value(t, p + k_bytes(t));
}

/* ---- units of block formats -> f32 ---- */

ALWAYS bool has_min(const struct panel_format *f)
{
    return f->scales == PANEL_F16_MIN || f->scales == PANEL_I6_MIN || f->scales == PANEL_I4_MIN ||
           f->zero == ZERO_OWN;
}

/* Linear function of half a unit: value = step * q - low. */
struct half_unit {
    vf step, low;
};

/* Return step and low of half a unit. The products of ZERO_OWN and their differences are exact. */
ALWAYS struct half_unit half_line(const struct panel_format *f, const uint8_t *s, int n_unit, int u,
                                  int half, int lane)
{
    struct half_unit l = {vf_zero(), vf_zero()};
    if (panel_upper(f))
        l.step = vf_load((const float *)(const void *)s + u * UNIT / f->block * PANEL + lane);
    else if (panel_is_one(f))
        l.step = scale_one(f, s, u * UNIT / f->block, lane);
    else if (is_f32_scaled(f))
        l.step = scale_f32(f, s, u, half, lane);
    if (f->zero == ZERO_OWN) {
        const uint8_t *zero = panel_zeros(f, s, n_unit, u * UNIT / f->block);
        l.low = vf_mul(l.step, vf_of_vi(vi_load_u8(zero + lane)));
    }
    if (f->scales == PANEL_F16_MIN)
        l.low = vf_sub(vf_zero(), vf_load_f16(s + ((2 * u + 1) * PANEL + lane) * 2));
    if (is_f32_scaled(f) || panel_is_one(f)) return l;
    const int j = f->sub == 16 ? 2 * u + half : u;
    l.step = vf_mul(scale_f16(f, s, 0, lane), vf_of_vi(scale_int(f, s, j, lane)));
    if (has_min(f)) l.low = vf_mul(scale_f16(f, s, 1, lane), vf_of_vi(min_int(f, s, j, lane)));
    return l;
}

/* Write the values of four bytes per lane, in the order of k. */
ALWAYS void quad_decode(const struct panel_format *f, float *w, vi bytes, const struct half_unit *l)
{
    const int zero = zero_of(f);
    vi q = zero ? vi_sub_i8(bytes, vi_set1_i8(zero)) : bytes;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        vf v = vf_mul(l->step, vf_of_vi(vi_sra(vi_sll(q, 24 - 8 * i), 24)));
        vf_store(w + i * TILE_COLS, has_min(f) ? vf_sub(v, l->low) : v);
    }
}

/* Decode a quad of codes of exact levels to w. */
ALWAYS void quad_levels(const struct panel_format *f, float *w, vi codes, const struct half_unit *l)
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const vi code = vi_and(vi_srl(codes, 8 * i), vi_set1(15));
        vf_store(w + i * TILE_COLS, vf_mul(vf_lut16(panel_exact_levels(f), code), l->step));
    }
}

/* ---- decoding a strip's k values [from, from + n) of the group that starts at k value g, to
 * w f32 [n][2 VL] (room for one more). For block formats, from and n are multiples of 32. ---- */

typedef void decode_fn(float *w, const uint8_t *panel, int lane, int g, int from, int n,
                       int n_unit);

/* Decode [k, k + n) of a panel's lanes, for a float format. */
ALWAYS void decode_float(enum qtype t, float *w, const uint8_t *panel, int lane, int k, int n)
{
    const uint8_t *p = panel + (int64_t)k * k_bytes(t) + lane_bytes(t, lane);
    int i = 0;
    for (; i + 2 <= n; i += 2, p += 2 * k_bytes(t), w += 2 * TILE_COLS) {
        vf v[2];
        value2(t, v, p);
        vf_store(w, v[0]);
        vf_store(w + TILE_COLS, v[1]);
    }
    if (i < n) vf_store(w, value(t, p));
}

/* Decode [k, k + n) of a panel's lanes, for a SCALED type. k and n are multiples of the type's
 * run. */
ALWAYS void decode_scaled(enum qtype t, float *w, const uint8_t *panel, int lane, int k, int n)
{
    const int run = scaled_run(t), two = 2 * k_bytes(t);
    panel += (int64_t)(k / run) * scaled_bytes(t);
    for (int i = 0; i < n; i += run, panel += scaled_bytes(t)) {
        const vf scale = vf_load((const float *)(const void *)panel + lane);
        const uint8_t *p = panel + 4 * PANEL + lane;
        for (int j = 0; j < run; j += 2, p += two, w += 2 * TILE_COLS) {
            vf v[2];
            value2(t, v, p);
            vf_store(w, vf_mul(v[0], scale));
            vf_store(w + TILE_COLS, vf_mul(v[1], scale));
        }
    }
}

/* Decode n k of a panel's lanes for a quantized format, inside group g. */
ALWAYS void decode_block(const struct panel_format *f, float *w, const uint8_t *panel, int lane,
                         int g, int from, int n, int n_unit)
{
    const uint8_t *s = panel + (int64_t)(g / ACT_GROUP) * panel_group_bytes(f, GROUP_UNITS);
    const uint8_t *codes = s + panel_scale_bytes(f, n_unit) + lane * 4;
    struct panel_format as_codes = *f;
    if (panel_upper(f)) as_codes.levels = LEVELS_NONE;
    for (int u = from / UNIT; u < (from + n) / UNIT; u++, w += UNIT * TILE_COLS) {
        const struct unit b = unit_bytes(&as_codes, codes + u * f->bits * 64);
        const struct half_unit lo = half_line(f, s, n_unit, u, 0, lane);
        const struct half_unit hi = f->sub == 16 ? half_line(f, s, n_unit, u, 1, lane) : lo;
        const int quad = 4 * TILE_COLS;
        if (panel_upper(f)) {
            quad_levels(f, w, b.w0, &lo), quad_levels(f, w + quad, b.w1, &lo);
            quad_levels(f, w + 2 * quad, b.w2, &lo), quad_levels(f, w + 3 * quad, b.w3, &lo);
            quad_levels(f, w + 4 * quad, b.w4, &lo), quad_levels(f, w + 5 * quad, b.w5, &lo);
            quad_levels(f, w + 6 * quad, b.w6, &lo), quad_levels(f, w + 7 * quad, b.w7, &lo);
            continue;
        }
        quad_decode(f, w, b.w0, &lo), quad_decode(f, w + quad, b.w1, &lo);
        quad_decode(f, w + 2 * quad, b.w2, &lo), quad_decode(f, w + 3 * quad, b.w3, &lo);
        quad_decode(f, w + 4 * quad, b.w4, &hi), quad_decode(f, w + 5 * quad, b.w5, &hi);
        quad_decode(f, w + 6 * quad, b.w6, &hi), quad_decode(f, w + 7 * quad, b.w7, &hi);
    }
}

/* ---- strips ---- */

/* Strips [first, first + n) of w, which is borrowed. */
struct strips {
    const struct panels *w;
    int first, n;
};

/* Position of a strip, and the panel to prefetch after the strip's panel. Pointers are borrowed
 * from the struct panels. */
struct strip {
    const uint8_t *panel, *next;
    int lane;
};

/* Locate strips j, j + 1, .... Repeat the last strip at the end. */
static inline void strips_at(struct strip *at, const struct strips *s, int j, int width)
{
    for (int i = 0; i < width; i++) {
        int here = j + i < s->n ? j + i : s->n - 1, then = here + width < s->n ? here + width : 0;
        at[i].panel = strip_panel(s->w, s->first + here);
        at[i].next = strip_panel(s->w, s->first + then);
        at[i].lane = strip_lane(s->first + here);
    }
}

/* Return row `row` of a group of f32 activations. The next row is ACT_GROUP later. */
static inline const float *act_rows(const struct act *x, int row, int g)
{
    return (const float *)x->x + ((int64_t)(g / ACT_GROUP) * x->n_row + row) * ACT_GROUP;
}

/* ---- more rows ---- */

/* Add n more k to t [n_row][2 VL]. T starts at 0 if `first` is true. w f32 [n][2 VL]. One line at
 * each pointer of `next` that is not NULL is prefetched every two k. */
typedef void tile_fn(float *t, const float *w, const float *x, int n, bool first,
                     const uint8_t *const next[TILE_STRIPS]);

/* Add w times x of one k to the sums of n_row rows. */
ALWAYS void tile_step(const int n_row, vf *s0, vf *s1, const float *w, const float *x)
{
    const vf w0 = vf_load(w), w1 = vf_load(w + VL);
#pragma GCC unroll 16
    for (int i = 0; i < n_row; i++) {
        const vf a = vf_set1(x[i * ACT_GROUP]);
        s0[i] = vf_fma(w0, a, s0[i]);
        s1[i] = vf_fma(w1, a, s1[i]);
    }
}

/* Compute n k of a tile with n_row rows in registers. first: the sums begin with zero. */
ALWAYS void tile(const int n_row, float *t, const float *w, const float *x, int n, bool first,
                 const uint8_t *const next[TILE_STRIPS])
{
    vf s0[16], s1[16];
    int k = 0;
#pragma GCC unroll 16
    for (int i = 0; i < n_row; i++) {
        s0[i] = first ? vf_zero() : vf_load(t + i * TILE_COLS);
        s1[i] = first ? vf_zero() : vf_load(t + i * TILE_COLS + VL);
    }
    for (; next && k + 2 <= n; k += 2, w += 2 * TILE_COLS, x += 2) {
        __builtin_prefetch(next[0] + k * 32);
        __builtin_prefetch(next[1] + k * 32);
        tile_step(n_row, s0, s1, w, x);
        tile_step(n_row, s0, s1, w + TILE_COLS, x + 1);
    }
    for (; k + 2 <= n; k += 2, w += 2 * TILE_COLS, x += 2) {
        tile_step(n_row, s0, s1, w, x);
        tile_step(n_row, s0, s1, w + TILE_COLS, x + 1);
    }
    if (k < n) tile_step(n_row, s0, s1, w, x);
#pragma GCC unroll 16
    for (int i = 0; i < n_row; i++) {
        vf_store(t + i * TILE_COLS, s0[i]);
        vf_store(t + i * TILE_COLS + VL, s1[i]);
    }
}

#define TILE(n_row)                                                                                \
    static void tile_##n_row(float *t, const float *w, const float *x, int n, bool first,          \
                             const uint8_t *const next[TILE_STRIPS])                               \
    {                                                                                              \
        tile(n_row, t, w, x, n, first, next);                                                      \
    }
TILES(TILE)
#undef TILE

static tile_fn *const tile_fns[] = {
#define TILE(n_row) tile_##n_row,
    TILES(TILE)
#undef TILE
};
enum { TILE_ROWS = sizeof tile_fns / sizeof tile_fns[0] };

/* Compute the rows of a batch in tiles of about equal height. The first tiles prefetch n_byte bytes
 * at each pointer of `next`. */
static inline void tiles(float *t, const float *w, const float *x, int n_row, int n, bool first,
                         const uint8_t *const next[TILE_STRIPS], int n_byte)
{
    const int n_tile = (n_row + TILE_ROWS - 1) / TILE_ROWS;
    for (int i = 0, at = 0; i < n_tile; i++, at += n / 2 * 64) {
        const int from = n_row * i / n_tile, to = n_row * (i + 1) / n_tile;
        const uint8_t *const here[TILE_STRIPS] = {next[0] + at, next[1] + at};
        tile_fns[to - from - 1](t + from * TILE_COLS, w, x + from * ACT_GROUP, n, first,
                                at < n_byte ? here : NULL);
    }
}

/* Compute c [2][LINEAR_ROWS][VL]: two strips for n_row rows. */
static void tiled(decode_fn *decode, const struct panels *weight, const struct strip *at,
                  const struct act *x, int row, int n_row, float *c)
{
    _Alignas(64) float w[(TILE_PART + 1) * TILE_COLS], t[LINEAR_ROWS * TILE_COLS];
    const uint8_t *next[TILE_STRIPS];
    for (int g = 0; g < x->k; g += ACT_GROUP) {
        const int n = x->k - g < ACT_GROUP ? x->k - g : ACT_GROUP;
        for (int from = 0; from < n; from += TILE_PART) {
            const int part = n - from < TILE_PART ? n - from : TILE_PART, then = g + from + part;
            for (int j = 0; j < TILE_STRIPS; j++) {
                decode(w + j * VL, at[j].panel, at[j].lane, g, from, part, n / UNIT);
                next[j] = then < x->k ? at[j].panel + weight->stride * then / x->k : at[j].next;
            }
            tiles(t, w, act_rows(x, row, g) + from, n_row, part, from == 0, next,
                  (int)(weight->stride * part / x->k));
        }
        for (int i = 0; i < n_row; i++)
            for (int j = 0; j < TILE_STRIPS; j++) {
                float *to = c + j * C_FLOATS + i * VL;
                vf sum = vf_load(t + i * TILE_COLS + j * VL);
                vf_store(to, g ? vf_add(vf_load(to), sum) : sum);
            }
    }
}

/* ---- few rows ---- */

/* Compute c [n_strip][LINEAR_ROWS][VL]. */
typedef void direct_fn(const struct strip *at, const struct act *x, int row, float *c);

#define ONE(n_row) +1
enum { DIRECT_ROWS = DIRECTS(ONE) };
#undef ONE

/* Return the number of strips of one pass without a decoded copy. */
ALWAYS int direct_strips(int n_row)
{
    return N_VREG == 32 ? 2 : n_row <= 2 ? 4 : 2;
}

/* Prefetch weights. Memory bandwidth limits one or two rows. For one or two rows, far data are
 * prefetched to the L2 cache and near data to the L1 cache. This method is 8 % (F32) or 3 % (F16)
 * faster than prefetches of far data to the L1 cache. For more rows the method is 3 % slower. */
ALWAYS void fetch_ahead(const uint8_t *far, const uint8_t *here, const int n_row)
{
    if (n_row > 2) {
        __builtin_prefetch(far);
        return;
    }
    __builtin_prefetch(far, 0, 2);
    __builtin_prefetch(here + NEAR);
}

/* Compute a strip's outputs for n_row rows directly from the stored weights. */
ALWAYS void direct(enum qtype t, const int n_row, const struct strip *at, const struct act *x,
                   int row, float *c)
{
    const int n_strip = direct_strips(n_row), step = k_bytes(t);
    vf s[32];
    for (int g = 0; g < x->k; g += ACT_GROUP) {
        const int n = x->k - g < ACT_GROUP ? x->k - g : ACT_GROUP;
        const bool last = g + ACT_GROUP >= x->k;
        const float *a = act_rows(x, row, g);
        const uint8_t *p[STRIPS_MAX], *ahead[STRIPS_MAX];
#pragma GCC unroll 4
        for (int j = 0; j < n_strip; j++) {
            p[j] = at[j].panel + (int64_t)g * step + lane_bytes(t, at[j].lane);
            ahead[j] = last ? at[j].next : p[j] + ACT_GROUP * step;
        }
#pragma GCC unroll 32
        for (int i = 0; i < n_strip * n_row; i++) s[i] = vf_zero();
        int k = 0;
        for (; k + 2 <= n; k += 2, a += 2) {
#pragma GCC unroll 4
            for (int j = 0; j < n_strip; j++) {
                vf w[2];
                value2(t, w, p[j] + k * step);
                for (int b = 0; b < 2 * step; b += 64)
                    fetch_ahead(ahead[j] + k * step + b, p[j] + k * step + b, n_row);
#pragma GCC unroll 16
                for (int i = 0; i < n_row; i++) {
                    vf *sum = &s[j * n_row + i];
                    *sum = vf_fma(w[0], vf_set1(a[i * ACT_GROUP]), *sum);
                    *sum = vf_fma(w[1], vf_set1(a[i * ACT_GROUP + 1]), *sum);
                }
            }
        }
#pragma GCC unroll 4
        for (int j = 0; j < n_strip; j++)
#pragma GCC unroll 16
            for (int i = 0; i < n_row; i++) {
                vf sum = s[j * n_row + i];
                float *to = c + j * C_FLOATS + i * VL;
                if (k < n) sum = vf_fma(value(t, p[j] + k * step), vf_set1(a[i * ACT_GROUP]), sum);
                vf_store(to, g ? vf_add(vf_load(to), sum) : sum);
            }
    }
}

/* Add n k of a SCALED type to the sums s [n_strip][n_row]. The strips' blocks begin at p. a is the
 * first row's activations. A step is a cache line of codes, and the same line of a later group is
 * prefetched. */
ALWAYS void scaled_block(enum qtype t, const int n_row, vf *s, const uint8_t *const p[STRIPS_MAX],
                         const uint8_t *const ahead[STRIPS_MAX], const int *lane, const float *a)
{
    const int n_strip = direct_strips(n_row), per_line = 64 / k_bytes(t);
    for (int k = 0; k < scaled_run(t); k += per_line, a += per_line) {
#pragma GCC unroll 4
        for (int j = 0; j < n_strip; j++) {
            const int at = 4 * PANEL + k * k_bytes(t);
            const vf scale = vf_load((const float *)(const void *)p[j] + lane[j]);
            fetch_ahead(ahead[j] + at, p[j] + at, n_row);
#pragma GCC unroll 4
            for (int i = 0; i < per_line; i += 2) {
                vf w[2];
                value2(t, w, p[j] + at + i * k_bytes(t) + lane[j]);
                w[0] = vf_mul(w[0], scale), w[1] = vf_mul(w[1], scale);
#pragma GCC unroll 16
                for (int r = 0; r < n_row; r++) {
                    vf *sum = &s[j * n_row + r];
                    *sum = vf_fma(w[0], vf_set1(a[r * ACT_GROUP + i]), *sum);
                    *sum = vf_fma(w[1], vf_set1(a[r * ACT_GROUP + i + 1]), *sum);
                }
            }
        }
    }
}

/* Compute tiles directly from the weights of a SCALED type. */
ALWAYS void direct_scaled(enum qtype t, const int n_row, const struct strip *at,
                          const struct act *x, int row, float *c)
{
    const int n_strip = direct_strips(n_row), run = scaled_run(t), step = scaled_bytes(t);
    const uint8_t *p[STRIPS_MAX], *ahead[STRIPS_MAX];
    int lane[STRIPS_MAX];
    vf s[32];
    for (int j = 0; j < n_strip; j++) p[j] = at[j].panel, lane[j] = at[j].lane;
    for (int g = 0; g < x->k; g += ACT_GROUP) {
        const int n = x->k - g < ACT_GROUP ? x->k - g : ACT_GROUP;
        for (int j = 0; j < n_strip; j++)
            ahead[j] = g + ACT_GROUP < x->k ? p[j] + ACT_GROUP / run * step : at[j].next;
#pragma GCC unroll 32
        for (int i = 0; i < n_strip * n_row; i++) s[i] = vf_zero();
        for (int k = 0; k < n; k += run) {
            scaled_block(t, n_row, s, p, ahead, lane, act_rows(x, row, g) + k);
            for (int j = 0; j < n_strip; j++) p[j] += step, ahead[j] += step;
        }
#pragma GCC unroll 4
        for (int j = 0; j < n_strip; j++)
#pragma GCC unroll 16
            for (int i = 0; i < n_row; i++) {
                float *to = c + j * C_FLOATS + i * VL;
                vf_store(to, g ? vf_add(vf_load(to), s[j * n_row + i]) : s[j * n_row + i]);
            }
    }
}

/* ---- every weight type ---- */

struct float_kernels {
    decode_fn *decode;
    direct_fn *direct[DIRECT_ROWS];
};

#define PANEL(id, ...)                                                                             \
    static void decode_##id(float *w, const uint8_t *panel, int lane, int g, int from, int n,      \
                            int n_unit)                                                            \
    {                                                                                              \
        decode_block(&panel_format_##id, w, panel, lane, g, from, n, n_unit);                      \
    }
#include "quant/types.def"

#define FLOAT(id)                                                                                  \
    static void decode_##id(float *w, const uint8_t *panel, int lane, int g, int from, int n,      \
                            int n_unit)                                                            \
    {                                                                                              \
        (void)n_unit;                                                                              \
        decode_float(QT_##id, w, panel, lane, g + from, n);                                        \
    }
#define FLOATS(X) X(f32) X(f16) X(bf16) X(f8_e4m3) X(f8_e5m2)
FLOATS(FLOAT)
#undef FLOAT

#define SCALED(id, run)                                                                            \
    static void decode_##id(float *w, const uint8_t *panel, int lane, int g, int from, int n,      \
                            int n_unit)                                                            \
    {                                                                                              \
        (void)n_unit;                                                                              \
        decode_scaled(QT_##id, w, panel, lane, g + from, n);                                       \
    }
#include "quant/types.def"

#define DIRECT(id, n_row)                                                                          \
    static void direct_##id##_##n_row(const struct strip *at, const struct act *x, int row,        \
                                      float *c)                                                    \
    {                                                                                              \
        if (scaled_run(QT_##id))                                                                   \
            direct_scaled(QT_##id, n_row, at, x, row, c);                                          \
        else                                                                                       \
            direct(QT_##id, n_row, at, x, row, c);                                                 \
    }
#define F32(n_row)  DIRECT(f32, n_row)
#define F16(n_row)  DIRECT(f16, n_row)
#define BF16(n_row) DIRECT(bf16, n_row)
#define E4M3(n_row) DIRECT(f8_e4m3, n_row)
#define E5M2(n_row) DIRECT(f8_e5m2, n_row)
#define FP8S(n_row) DIRECT(e4m3_128, n_row)
DIRECTS(F32)
DIRECTS(F16)
DIRECTS(BF16)
DIRECTS(E4M3)
DIRECTS(E5M2)
DIRECTS(FP8S)
#undef DIRECT

static const struct float_kernels float_kernels[QT_COUNT] = {
#define PANEL(id, ...)     [QT_##id] = {.decode = decode_##id},
#define PANEL_AS(id, like) [QT_##id] = {.decode = decode_##like},
#include "quant/types.def"
#define DIRECT(id, n_row) direct_##id##_##n_row,
    [QT_f32] = {decode_f32, {DIRECTS(F32)}},
    [QT_f16] = {decode_f16, {DIRECTS(F16)}},
    [QT_bf16] = {decode_bf16, {DIRECTS(BF16)}},
    [QT_f8_e4m3] = {decode_f8_e4m3, {DIRECTS(E4M3)}},
    [QT_f8_e5m2] = {decode_f8_e5m2, {DIRECTS(E5M2)}},
    [QT_e4m3_128] = {decode_e4m3_128, {DIRECTS(FP8S)}},
};

/* ---- layers ---- */

/* Store the results c [width][LINEAR_ROWS][VL] of strips j, j + 1, .... */
static inline void strips_put(const struct linear_out *out, const struct strips *s, int j,
                              int width, const float *c, int row, int n_row)
{
    for (int i = 0; i < width && j + i < s->n; i++, c += C_FLOATS)
        strip_put(out, s->w->n_out, s->first + j + i, c, row, n_row);
}

/* Compute all strips of a chunk for n_row rows. */
static void strips_f32(const struct linear_out *out, const struct strips *s, const struct act *x,
                       int row, int n_row)
{
    _Alignas(64) float c[STRIPS_MAX * C_FLOATS];
    const struct float_kernels *f = &float_kernels[s->w->type];
    direct_fn *fn = n_row <= DIRECT_ROWS ? f->direct[n_row - 1] : NULL;
    const int width = fn ? direct_strips(n_row) : TILE_STRIPS;
    for (int j = 0; j < s->n; j += width) {
        struct strip at[STRIPS_MAX];
        strips_at(at, s, j, width);
        if (fn)
            fn(at, x, row, c);
        else
            tiled(f->decode, s->w, at, x, row, n_row, c);
        strips_put(out, s, j, width, c, row, n_row);
    }
}

/* Compute panels [panel, panel + n_panel) for n_row rows: a slot of struct kern. */
static void linear_f32(const struct linear_out *out, const struct panels *w, int panel, int n_panel,
                       const struct act *x, int row, int n_row)
{
    const struct strips s = {w, panel * PANEL_STRIPS, n_panel * PANEL_STRIPS};
    strips_f32(out, &s, x, row, n_row);
}

/* Set the slots of float arithmetic for all formats with panels. */
static inline void linear_float_slots(struct kern *k)
{
    for (int t = 0; t < QT_COUNT; t++)
        if (float_kernels[t].decode) k->linear[ACT_F32][t] = linear_f32;
}

#endif

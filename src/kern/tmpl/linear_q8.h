/* linear_q8.h - linear layers of block formats with int8 activations, for any vector (vec.h,
 * dot.h).
 *
 * The same kernel computes every format and every number of rows. A strip is VL outputs of a panel.
 * STRIPS (1 or 2) strips are computed together. For each unit of 32 k, the codes are converted once
 * to bytes in eight registers per strip. Then for every row of x:
 *
 *     acc = -zero * sum of its 32 activations
 *     eight times:  acc += dot of 4 bytes x 4 broadcast activations     (each strip)
 *     T = fma(acc, scale, T), or with integer scales I += acc * scale   in the L1 cache
 *
 * Each weight byte is read from memory once and unpacked once, for any batch size. With two strips,
 * a row takes 16 dot instructions and 4 other instructions (f32 scales): at most 80 % of the dot
 * instruction's peak. Eight rows are computed together (rows_eight) if the registers suffice,
 * otherwise four rows. Two or more rows are computed in pairs if a level has matrix products
 * (PAIRS). All these methods give equal integers.
 *
 * Bound for one row: the bytes of the weights. One thread of machine A with AVX-512 reads 16.1 to
 * 17.2 GB/s from memory, 1.01 to 1.09 of a plain read (Q2_K: 14.8 GB/s, 0.93). An earlier version
 * prefetched 4 kB ahead into the L1 cache and read 13.9 to 16.2 GB/s (docs/measurements.md,
 * "Reading weights, one row"). Eight rows on two threads read 19.5 to 27.2 GB/s, compared with 19.1
 * to 25.4 GB/s as twice four rows ("Eight rows"). On Zen 5 with AVX2, eight rows reach these shares
 * of the peak of vpmaddubsw: Q4_0 and Q4_K 0.87, Q6_K 0.67, Q8_0 0.54.
 *
 * Bound for many rows: the dot instructions. One thread of Zen 5 reaches these shares of their peak
 * with 64 rows, weights in the L2 cache (docs/measurements.md, "Many rows on Zen 5"): AVX-512 Q4_0
 * 0.68, Q4_K 0.58, Q6_K 0.62, Q8_0 0.67; AVX2 Q4_0 and Q4_K 1.0, Q6_K 0.94, Q8_0 0.72. Conversions
 * of the codes and the sums in the L1 cache take the rest. The replaced loops are those of
 * ref/linear.c, which decode a weight per product: 68 times (Q4_0) and 53 times (Q8_0) as long.
 *
 * This file requires vec.h and these names of the level's dot.h:
 *     STRIPS                1 or 2
 *     WIDE_FILE             1: 32 registers of 64 bytes: sums of several rows are computed together
 *     WIDE_SIGNED           1: dot_step takes bytes above 127 as signed bytes, less 128
 *     struct dot            a sum of products per lane; dot_from(vi) starts it, dot_sum returns it
 *     vi_quad(q, i)         operand of dot_step for the four activations at q + 4 i
 *     dot_step(d, u, s, max, i)
 *                           d + u8 x s8, four per lane, exact for s of -127 to 127 and u of at most
 *                           max; step i of four, 0 to 3 (both are constants)
 *     vi_dot16(acc, a, b)   acc + i16 x i16, two per lane
 *     vi_lut(table, codes)  table[code] per byte, codes below 16; vi_table loads one
 *     vi_bcast4(p)          the four bytes at p in every lane
 *     PAIRS                 1: there are matrix products of two rows (else pair_none.h):
 *     struct pair           a sum of products per output of a strip and per row, of two rows;
 *                           pair_from(int [2]) starts it per row, pair_row(p, row) returns a row's
 *     pair_order(&a, &b)    reorder two k-quads of a strip for pair_step
 *     pair_octet(q, other, j)   the activations at q + 8 j and at other + 8 j
 *     pair_step(p, a, b, octet) p + u8 x s8, eight per output */
#ifndef QUOTH_KERN_TMPL_LINEAR_Q8_H
#define QUOTH_KERN_TMPL_LINEAR_Q8_H

#include "unit.h"

/* ---- one unit against all rows ---- */

/* ROWS_WIDE: rows of a pass over a unit. The sums of these rows fill half of the 32 registers. */
enum { ROWS_WIDE = 8 };

/* Rows of x in one group. Pointers are borrowed from the struct act. */
struct rows {
    const int8_t *q; /* i8 [n, 64] activations; the next 64 k are at q + q_step */
    /* i16 [n, 2] sums of 16 values; the next unit's pairs are at sum + sum_step */
    const int16_t *sum;
    const float *scale; /* f32 [n] */
    int64_t q_step, sum_step;
    int n;
};

/* Prefetch distances in bytes. Hardware prefetchers stop at each 4 kB page and fill only the L2
 * cache. FAR prefetches also load into the L2 cache, so they do not occupy the L1 cache's few fill
 * buffers for the latency of memory. NEAR prefetches then move the lines to the L1 cache. With NEAR
 * prefetches alone, the kernel was 2 to 10 % slower. With FAR prefetches (4 kB) alone, the kernel
 * was 10 to 15 % slower. After the end of a panel, the strips' next panels are prefetched. */
enum { FAR = 2048, NEAR = 1024, PANELS_AT_ONCE = STRIPS * VL / PANEL };

struct ahead {
    const uint8_t *end[STRIPS]; /* ends of the panels, borrowed */
    int64_t jump;               /* distance over the panels of other strips */
};

/* Prefetch data for strip i. The kernel currently uses the strip's n_byte bytes at `at`. */
ALWAYS void fetch(const struct ahead *a, int i, const uint8_t *at, int n_byte)
{
    const uint8_t *far = at + FAR, *near = at + NEAR;
    if (far >= a->end[i]) far += a->jump;
    if (near >= a->end[i]) near += a->jump;
    for (int b = 0; b < n_byte; b += 64) {
        __builtin_prefetch(far + b, 0, 2);
        __builtin_prefetch(near + b);
    }
}

/* Return true if all rows are computed together, by rows_eight. Two planes of levels are 1.2 times
 * as fast in blocks of four rows. */
ALWAYS bool is_eight(const struct panel_format *f, int n_row)
{
    const bool two_planes = panel_upper(f) || panel_is_upper(f);
    return WIDE_FILE && f->sub != 16 && n_row == ROWS_WIDE && !two_planes;
}

enum { T_FLOATS = LINEAR_ROWS * VL }; /* number of values [row][VL] of one strip */

/* Sums of a group's rows. The arrays are borrowed from the caller. */
struct row_sums {
    float *t[STRIPS]; /* [row][VL] of the group: T, or I as integers */
    float *c[STRIPS]; /* [row][VL] total C of the row */
};

/* Initial values of the rows: -zero * sums of 32 values (one array) or of 16 values. The struct
 * also has the sums as f32. */
struct starts {
    int bias[2][LINEAR_ROWS];
    float sum[LINEAR_ROWS];
};

/* Return two 16-bit values as one lane of pairs. */
static inline int pair16(int low, int high)
{
    return (low & 0xFFFF) | (int)((unsigned)high << 16);
}

/* Set the initial values of a unit's sums: minus the zero point times each row's sum. */
ALWAYS void starts_of(struct starts *st, const struct panel_format *f, const struct rows *r, int u)
{
    const int16_t *sum = r->sum + u * r->sum_step;
    const int zero = zero_of(f);
    bool halves = f->sub == 16;
    for (int n = 0; n < r->n; n += VL) {
        vi pair = vi_load(sum + 2 * n), none = vi_zero();
        if (zero)
            vi_store(&st->bias[0][n],
                     vi_dot16(none, pair, vi_set1(pair16(-zero, halves ? 0 : -zero))));
        if (zero && halves)
            vi_store(&st->bias[1][n], vi_dot16(none, pair, vi_set1(pair16(0, -zero))));
        if (f->scales == PANEL_F16_MIN)
            vf_store(&st->sum[n], vf_of_vi(vi_dot16(none, pair, vi_set1(pair16(1, 1)))));
    }
}

/* Sums of one row with each strip over 32 k. lo and hi are the sums over the two halves of the 32 k
 * if sub is 16. */
struct strip_sums {
    vi lo[STRIPS], hi[STRIPS];
};

#define STEP(part, i)                                                                              \
    do {                                                                                           \
        vi a = vi_quad(q, i);                                                                      \
        part[0] = dot_step(part[0], w[0].w##i, a, max, (i) % 4);                                   \
        if (STRIPS == 2)                                                                           \
            part[STRIPS - 1] = dot_step(part[STRIPS - 1], w[STRIPS - 1].w##i, a, max, (i) % 4);    \
    } while (0)

/* Return the sums of row n with each strip over a unit. */
ALWAYS struct strip_sums strip_sums_of(const struct panel_format *f, const struct unit *w,
                                       const int8_t *q, const struct starts *st, int n)
{
    const int max = panel_bytes_max(f), zero = zero_of(f);
    struct dot lo[STRIPS], hi[STRIPS];
    lo[0] = dot_from(zero ? vi_set1(st->bias[0][n]) : vi_zero());
    hi[0] = dot_from(f->sub == 16 && zero ? vi_set1(st->bias[1][n]) : vi_zero());
    lo[STRIPS - 1] = lo[0], hi[STRIPS - 1] = hi[0];
    STEP(lo, 0);
    STEP(hi, 4);
    STEP(lo, 1);
    STEP(hi, 5);
    STEP(lo, 2);
    STEP(hi, 6);
    STEP(lo, 3);
    STEP(hi, 7);
    struct strip_sums s;
    for (int i = 0; i < STRIPS; i++) {
        s.lo[i] = dot_sum(lo[i]), s.hi[i] = dot_sum(hi[i]);
        if (f->sub != 16) s.lo[i] = vi_add(s.lo[i], s.hi[i]);
    }
    return s;
}
#undef STEP

/* Compute the sums of rows n and n + 1. `other` points to the second row's activations. */
#define STEP(part, j, a, b)                                                                        \
    do {                                                                                           \
        vi x = pair_octet(q, other, j);                                                            \
        part[0] = pair_step(part[0], w[0].w##a, w[0].w##b, x);                                     \
        if (STRIPS == 2)                                                                           \
            part[STRIPS - 1] =                                                                     \
                pair_step(part[STRIPS - 1], w[STRIPS - 1].w##a, w[STRIPS - 1].w##b, x);            \
    } while (0)

/* Set s to the sums of two rows with each strip. One dot product computes both rows. */
ALWAYS void pair_sums(const struct panel_format *f, const struct unit *w, const int8_t *q,
                      const int8_t *other, const struct starts *st, int n, struct strip_sums s[2])
{
    static const int none[2];
    const bool zero = zero_of(f) != 0;
    struct pair lo[STRIPS], hi[STRIPS];
    lo[0] = pair_from(zero ? &st->bias[0][n] : none);
    hi[0] = pair_from(zero && f->sub == 16 ? &st->bias[1][n] : none);
    lo[STRIPS - 1] = lo[0], hi[STRIPS - 1] = hi[0];
    STEP(lo, 0, 0, 1);
    STEP(lo, 1, 2, 3);
    if (f->sub == 16) {
        STEP(hi, 2, 4, 5);
        STEP(hi, 3, 6, 7);
    } else {
        STEP(lo, 2, 4, 5);
        STEP(lo, 3, 6, 7);
    }
    for (int row = 0; row < 2; row++)
        for (int i = 0; i < STRIPS; i++)
            s[row].lo[i] = pair_row(lo[i], row), s[row].hi[i] = pair_row(hi[i], row);
}
#undef STEP

/* Reorder a unit's bytes for a dot product of row pairs. */
ALWAYS void unit_pair_order(struct unit *u)
{
    pair_order(&u->w0, &u->w1), pair_order(&u->w2, &u->w3);
    pair_order(&u->w4, &u->w5), pair_order(&u->w6, &u->w7);
}

/* Return true if sums fit into 16 bits. For these sums, one instruction multiplies and adds,
 * instead of four instructions. */
ALWAYS bool is_narrow(const struct panel_format *f)
{
    const int max = panel_bytes_max(f) > 2 * f->zero ? panel_bytes_max(f) - f->zero : f->zero;
    return f->sub && max * 127 * f->sub < 32768;
}

/* Scales of a strip for one unit. */
struct unit_scales {
    vf d, d2, m;
    vi i, i2;
};

/* Return the scales of unit u, converted from their stored form. */
ALWAYS struct unit_scales unit_scales(const struct panel_format *f, const uint8_t *s, int u,
                                      int lane)
{
    struct unit_scales c = {vf_zero(), vf_zero(), vf_zero(), vi_zero(), vi_zero()};
    if (is_f32_scaled(f)) c.d = scale_f32(f, s, u, 0, lane);
    if (f->scales == PANEL_E4M3) c.d2 = scale_f32(f, s, u, 1, lane);
    if (f->scales == PANEL_F16_MIN) c.m = vf_load_f16(s + ((2 * u + 1) * PANEL + lane) * 2);
    if (!is_f32_scaled(f) && f->sub) c.i = scale_int(f, s, f->sub == 16 ? 2 * u : u, lane);
    if (!is_f32_scaled(f) && f->sub == 16) c.i2 = scale_int(f, s, 2 * u + 1, lane);
    if (is_narrow(f)) /* pairs of a scale and 0 */
        c.i = vi_and(c.i, vi_set1(0xFFFF)), c.i2 = vi_and(c.i2, vi_set1(0xFFFF));
    return c;
}

/* Add sums to T or I. */
ALWAYS void part_scale(const struct panel_format *f, float *t, vi sum, vf d, vi i)
{
    if (is_f32_scaled(f))
        vf_store(t, vf_fma(vf_of_vi(sum), d, vf_load(t)));
    else
        vi_store(t, !f->sub        ? vi_add(vi_load(t), panel_is_upper(f) ? vi_sll(sum, 7) : sum)
                    : is_narrow(f) ? vi_dot16(vi_load(t), sum, i)
                                   : vi_add(vi_load(t), vi_mul(sum, i)));
}

/* Add the unit's minimum times the row's sum to t, for formats with f16 minimums. */
ALWAYS void min_scale(const struct panel_format *f, float *t, const struct unit_scales *c,
                      float sum)
{
    if (f->scales == PANEL_F16_MIN) vf_store(t, vf_fma(vf_set1(sum), c->m, vf_load(t)));
}

/* Add a row's sums to the row's T or I. */
ALWAYS void row_scale(const struct panel_format *f, float *t, vi lo, vi hi,
                      const struct unit_scales *c, float sum)
{
    part_scale(f, t, lo, c->d, c->i);
    if (f->sub == 16) part_scale(f, t, hi, c->d2, c->i2);
    min_scale(f, t, c, sum);
}

/* Scale the sums of row n of all strips and add them to the row's T. */
ALWAYS void strips_scale(const struct panel_format *f, const struct row_sums *t, int n,
                         const struct strip_sums *s, const struct unit_scales *c, float sum)
{
    row_scale(f, t->t[0] + n * VL, s->lo[0], s->hi[0], &c[0], sum);
    if (STRIPS == 2)
        row_scale(f, t->t[STRIPS - 1] + n * VL, s->lo[STRIPS - 1], s->hi[STRIPS - 1],
                  &c[STRIPS - 1], sum);
}

/* Return the number of rows whose sums fit into registers together with a unit's codes. A row has
 * two sums per strip if sub is 16. */
ALWAYS int rows_at_once(const struct panel_format *f)
{
    return !WIDE_FILE ? 1 : f->sub == 16 ? 2 : 4;
}

#define STEP(part, i)                                                                              \
    _Pragma("GCC unroll 4") for (int j = 0; j < rows; j++)                                         \
    {                                                                                              \
        vi a = vi_quad(q + 64 * j, i);                                                             \
        part[j][0] = dot_step(part[j][0], w[0].w##i, a, max, (i) % 4);                             \
        if (STRIPS == 2)                                                                           \
            part[j][STRIPS - 1] =                                                                  \
                dot_step(part[j][STRIPS - 1], w[STRIPS - 1].w##i, a, max, (i) % 4);                \
    }

/* Compute the rows [n, n + rows_at_once). Eight chains of sums hide the latency of the dot
 * instruction, so no chain is divided into halves that must be added. This method saves 5 to 7 % of
 * the time of 16 rows (AVX-512). */
ALWAYS void rows_block(const struct panel_format *f, const struct unit *w,
                       const struct unit_scales *c, const int8_t *q, const struct starts *st, int n,
                       const struct row_sums *t)
{
    const int max = panel_bytes_max(f), rows = rows_at_once(f);
    const bool zero = zero_of(f) != 0, halves = f->sub == 16;
    struct dot lo[4][STRIPS], hi[4][STRIPS];
    _Pragma("GCC unroll 4") for (int j = 0; j < rows; j++)
    {
        for (int i = 0; i < STRIPS; i++) {
            lo[j][i] = dot_from(zero ? vi_set1(st->bias[0][n + j]) : vi_zero());
            hi[j][i] = dot_from(zero && halves ? vi_set1(st->bias[1][n + j]) : vi_zero());
        }
    }
    STEP(lo, 0);
    STEP(lo, 1);
    STEP(lo, 2);
    STEP(lo, 3);
    if (halves) {
        STEP(hi, 4);
        STEP(hi, 5);
        STEP(hi, 6);
        STEP(hi, 7);
    } else {
        STEP(lo, 4);
        STEP(lo, 5);
        STEP(lo, 6);
        STEP(lo, 7);
    }
    _Pragma("GCC unroll 4") for (int j = 0; j < rows; j++)
    {
        struct strip_sums s;
        for (int i = 0; i < STRIPS; i++) s.lo[i] = dot_sum(lo[j][i]), s.hi[i] = dot_sum(hi[j][i]);
        strips_scale(f, t, n + j, &s, c, st->sum[n + j]);
    }
}
#undef STEP

/* ---- eight rows ---- */

#define STEP(k)                                                                                    \
    _Pragma("GCC unroll 8") for (int j = 0; j < ROWS_WIDE; j++)                                    \
    {                                                                                              \
        vi a = vi_quad(q + 64 * j, 4 * h + (k));                                                   \
        for (int i = 0; i < STRIPS; i++) s[j][i] = dot_step(s[j][i], w[i].w##k, a, max, k);        \
    }

/* Add the products of half h to s. */
ALWAYS void eight_dots(const struct panel_format *f, const uint8_t *const p[STRIPS], int h,
                       const int8_t *q, struct dot s[ROWS_WIDE][STRIPS])
{
    const int max = panel_bytes_max(f);
    struct half w[STRIPS];
    for (int i = 0; i < STRIPS; i++) w[i] = half_bytes(f, p[i], h);
    STEP(0)
    STEP(1)
    STEP(2)
    STEP(3)
}
#undef STEP

/* Compute eight rows, for formats without scales of 16. Sixteen chains of sums and half a unit's
 * codes fill the registers. For weights in memory, this function is 2 % (Q4_0, Q4_K) to 7 % (Q8_0)
 * faster than two calls of rows_block. Formats with scales of 16 are excluded, because scaling
 * twice as often is 12 % slower (Q6_K). */
ALWAYS void rows_eight(const struct panel_format *f, const uint8_t *const p[STRIPS],
                       const struct unit_scales *c, const int8_t *q, const struct starts *st,
                       const struct row_sums *t)
{
    struct dot s[ROWS_WIDE][STRIPS];
    _Pragma("GCC unroll 8") for (int j = 0; j < ROWS_WIDE; j++)
    {
        for (int i = 0; i < STRIPS; i++)
            s[j][i] = dot_from(zero_of(f) ? vi_set1(st->bias[0][j]) : vi_zero());
    }
    eight_dots(f, p, 0, q, s);
    eight_dots(f, p, 1, q, s);
    _Pragma("GCC unroll 8") for (int j = 0; j < ROWS_WIDE; j++)
    {
        for (int i = 0; i < STRIPS; i++)
            row_scale(f, t->t[i] + j * VL, dot_sum(s[j][i]), vi_zero(), &c[i], st->sum[j]);
    }
}

/* Compute a unit for n_row rows: blocks of rows_at_once rows, then the rest one by one. */
ALWAYS void rows_by_one(const struct panel_format *f, const struct unit *w,
                        const struct unit_scales *c, const int8_t *q, const struct starts *st,
                        int n_row, const struct row_sums *t)
{
    const int at_once = rows_at_once(f);
    int n = 0;
    for (; at_once > 1 && n + at_once <= n_row; n += at_once, q += 64 * at_once)
        rows_block(f, w, c, q, st, n, t);
    for (; n < n_row; n++, q += 64) {
        struct strip_sums s = strip_sums_of(f, w, q, st, n);
        strips_scale(f, t, n, &s, c, st->sum[n]);
    }
}

/* Compute rows in pairs. An odd last row is paired with itself. */
ALWAYS void rows_by_two(const struct panel_format *f, struct unit *w, const struct unit_scales *c,
                        const int8_t *q, const struct starts *st, int n_row,
                        const struct row_sums *t)
{
    for (int i = 0; i < STRIPS; i++) unit_pair_order(&w[i]);
    for (int n = 0; n < n_row; n += 2, q += 128) {
        struct strip_sums s[2];
        pair_sums(f, w, q, n + 1 < n_row ? q + 64 : q, st, n, s);
        strips_scale(f, t, n, &s[0], c, st->sum[n]);
        if (n + 1 < n_row) strips_scale(f, t, n + 1, &s[1], c, st->sum[n + 1]);
    }
}

/* Compute a plane of unit u of a group for all rows of the block. ahead: data to prefetch after the
 * loads of starts_of; NULL if the caller has prefetched. */
ALWAYS void plane_rows(const struct panel_format *f, const uint8_t *const group[STRIPS],
                       const int lane[STRIPS], int u, int scale_bytes, const struct ahead *ahead,
                       const struct rows *r, const struct row_sums *t)
{
    struct starts st;
    struct unit w[STRIPS];
    struct unit_scales c[STRIPS];
    const uint8_t *codes[STRIPS];
    const int at = scale_bytes + u * f->bits * 64;
    const int8_t *q = r->q + u / 2 * r->q_step + u % 2 * UNIT;
    starts_of(&st, f, r, u);
    for (int i = 0; i < STRIPS; i++) {
        if (ahead) fetch(ahead, i, group[i] + at, f->bits * 64);
        codes[i] = group[i] + at + lane[i] * 4;
    }
    if (is_eight(f, r->n)) {
        for (int i = 0; i < STRIPS; i++) c[i] = unit_scales(f, group[i], u, lane[i]);
        rows_eight(f, codes, c, q, &st, t);
        return;
    }
    for (int i = 0; i < STRIPS; i++) {
        w[i] = unit_bytes(f, codes[i]);
        c[i] = unit_scales(f, group[i], u, lane[i]);
    }
    if (PAIRS && r->n > 1)
        rows_by_two(f, w, c, q, &st, r->n, t);
    else
        rows_by_one(f, w, c, q, &st, r->n, t);
}

/* Compute unit u of a group for all rows of the block. Levels of 14 bits are two planes of bytes.
 * Eight rows prefetch after the loads of starts_of, which the prefetches would delay: a step took
 * 4 % longer (Q4_0, AMX machine). Other blocks prefetch first, as before (measurements.md,
 * "Commit 5f214b9 against b4291ad"). */
ALWAYS void unit_rows(const struct panel_format *f, const uint8_t *const group[STRIPS],
                      const int lane[STRIPS], int u, int scale_bytes, const struct ahead *ahead,
                      const struct rows *r, const struct row_sums *t)
{
    const struct panel_format upper = panel_upper_plane(f);
    const bool late = is_eight(f, r->n);
    const int n_byte = f->bits * 64;
    for (int i = 0; !late && i < STRIPS; i++)
        fetch(ahead, i, group[i] + scale_bytes + u * n_byte, n_byte);
    if (panel_upper(f)) plane_rows(&upper, group, lane, u, scale_bytes, NULL, r, t);
    plane_rows(f, group, lane, u, scale_bytes, late ? ahead : NULL, r, t);
}

/* ---- ends of blocks and groups ---- */

/* Set sum [LINEAR_ROWS] to minus the sums of the rows' activations in the units [first, u] of the
 * group. A sum is at most 256 * 127 and is stored as a pair of 16-bit values, with 0 in the upper
 * one. */
ALWAYS void block_sums(int *sum, const struct rows *r, int first, int u)
{
    for (int n = 0; n < r->n; n += VL) {
        vi s = vi_zero();
        for (int i = first; i <= u; i++)
            s = vi_dot16(s, vi_load(r->sum + i * r->sum_step + 2 * n), vi_set1(pair16(-1, -1)));
        vi_store(sum + n, vi_and(s, vi_set1(0xFFFF)));
    }
}

/* End a block of a format with one scale per block: T = fma(I, d, T), I = 0. With ZERO_OWN, first
 * subtract zero * sum of the row's activations from I. The upper half of the strip's memory
 * contains T. */
ALWAYS void block_end(const struct panel_format *f, const uint8_t *s, int n_unit, int block,
                      int lane, const int *sum, float *t, int n)
{
    vf d = scale_one(f, s, block, lane);
    vi zero = f->zero == ZERO_OWN ? vi_load_u8(panel_zeros(f, s, n_unit, block) + lane) : vi_zero();
    for (int i = 0; i < n; i++, t += VL) {
        vi x = vi_load(t);
        if (f->zero == ZERO_OWN) x = vi_dot16(x, zero, vi_set1(sum[i]));
        vf_store(t + T_FLOATS, vf_fma(vf_of_vi(x), d, vf_load(t + T_FLOATS)));
        vi_store(t, vi_zero());
    }
}

/* End the block that ends with unit u of a group, in all strips. */
ALWAYS void block_ends(const struct panel_format *f, const uint8_t *const group[STRIPS],
                       const int lane[STRIPS], int n_unit, int u, const struct rows *r,
                       const struct row_sums *t)
{
    _Alignas(64) int sum[LINEAR_ROWS];
    const int block = u * UNIT / f->block;
    if (f->zero == ZERO_OWN) block_sums(sum, r, block * f->block / UNIT, u);
    for (int i = 0; i < STRIPS; i++)
        block_end(f, group[i], n_unit, block, lane[i], sum, t->t[i], r->n);
}

/* Return the sum over units of min * sum of the row's activations. */
ALWAYS vi row_mins(const vi *min, const struct rows *r, int n, int n_unit)
{
    vi m = vi_zero();
    for (int u = 0; u < n_unit; u++)
        m = vi_dot16(m, vi_bcast4(r->sum + u * r->sum_step + 2 * n), min[u]);
    return m;
}

/* End a group: C = fma(T, scale of the row's group, C). Then set T = 0 for the next group. */
ALWAYS void group_end(const struct panel_format *f, const uint8_t *s, int lane,
                      const struct rows *r, int n_unit, float *t, float *c)
{
    const bool has_min = f->scales == PANEL_I6_MIN || f->scales == PANEL_I4_MIN;
    vf d = vf_zero(), dmin = vf_zero();
    vi min[GROUP_UNITS];
    if (f->sub && !is_f32_scaled(f)) d = scale_f16(f, s, 0, lane);
    if (has_min) dmin = scale_f16(f, s, 1, lane);
    for (int u = 0; u < n_unit && has_min; u++) min[u] = min_pair(f, s, u, lane);
    if (panel_is_one(f)) t += T_FLOATS;
    for (int n = 0; n < r->n; n++, t += VL, c += VL) {
        vf x = vf_load(t);
        if (!is_f32_scaled(f) && f->sub) x = vf_fma(vf_of_vi(vi_cast(x)), d, vf_zero());
        if (has_min) x = vf_fma(vf_of_vi(vi_sub(vi_zero(), row_mins(min, r, n, n_unit))), dmin, x);
        vf_store(c, vf_fma(x, vf_set1(r->scale[n]), vf_load(c)));
        vf_store(t, vf_zero());
    }
}

/* Compute c [STRIPS][LINEAR_ROWS][VL], the outputs of STRIPS strips for n_row rows. `panel` has the
 * start of each strip's panel, `lane` is the strip's first output in its panel. */
ALWAYS void strips_q8(const struct panel_format *f, const uint8_t *const panel[STRIPS],
                      const int lane[STRIPS], int64_t stride, const struct act *x, int row,
                      int n_row, float *c)
{
    const int64_t jump = PANELS_AT_ONCE > 1 ? (PANELS_AT_ONCE - 1) * stride : 0;
    struct ahead ahead = {.end = {panel[0] + stride}, .jump = jump};
    ahead.end[STRIPS - 1] = panel[STRIPS - 1] + stride;
    _Alignas(64) float memory[STRIPS * 2 * T_FLOATS];
    const uint8_t *group[STRIPS] = {panel[0]};
    struct row_sums t = {{memory}, {c}};
    group[STRIPS - 1] = panel[STRIPS - 1];
    t.t[STRIPS - 1] = memory + (STRIPS - 1) * 2 * T_FLOATS;
    t.c[STRIPS - 1] = c + (STRIPS - 1) * T_FLOATS;
    for (int i = 0; i < STRIPS; i++) {
        memset(t.t[i], 0, (size_t)n_row * VL * sizeof(float));
        if (f->block) memset(t.t[i] + T_FLOATS, 0, (size_t)n_row * VL * sizeof(float));
        memset(t.c[i], 0, (size_t)n_row * VL * sizeof(float));
    }
    struct rows r = {
        .q = (const int8_t *)x->x + (int64_t)row * 64,
        .sum = x->sum + (int64_t)row * 2,
        .scale = x->scale + row,
        .q_step = (int64_t)x->n_row * 64,
        .sum_step = (int64_t)x->n_row * 2,
        .n = n_row,
    };
    for (int g = 0; g < x->k; g += ACT_GROUP) {
        const int n_unit = group_units(g, x->k), scale_bytes = panel_scale_bytes(f, n_unit);
        for (int i = 0; i < STRIPS; i++) fetch(&ahead, i, group[i], scale_bytes);
        for (int u = 0; u < n_unit; u++) {
            unit_rows(f, group, lane, u, scale_bytes, &ahead, &r, &t);
            if (f->block && ((u + 1) * UNIT % f->block == 0 || u + 1 == n_unit))
                block_ends(f, group, lane, n_unit, u, &r, &t);
        }
        for (int i = 0; i < STRIPS; i++) {
            group_end(f, group[i], lane[i], &r, n_unit, t.t[i], t.c[i]);
            group[i] += panel_group_bytes(f, n_unit);
        }
        r.q += ACT_GROUP / 64 * r.q_step;
        r.sum += GROUP_UNITS * r.sum_step;
        r.scale += x->n_row;
    }
}

#define PANEL(id, ...)                                                                             \
    static void strips_##id(const uint8_t *const panel[STRIPS], const int lane[STRIPS],            \
                            int64_t stride, const struct act *x, int row, int n_row, float *c)     \
    {                                                                                              \
        strips_q8(&panel_format_##id, panel, lane, stride, x, row, n_row, c);                      \
    }
#include "quant/types.def"

static strips_fn *strips_q8_of(enum qtype t)
{
    static strips_fn *const fn[QT_COUNT] = {
#define PANEL(id, ...)     [QT_##id] = strips_##id,
#define PANEL_AS(id, like) [QT_##id] = strips_##like,
#include "quant/types.def"
    };
    return fn[t];
}

#endif

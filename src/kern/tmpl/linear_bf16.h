/* linear_bf16.h - linear layers of BF16 weights with bf16 activations: ref/linear.c bit for bit.
 * vec.h must be for a processor whose fma flushes denormals to zero, as tdpbf16ps does.
 *
 * An output takes two chains of 16 fma per 32 k, for even and for odd k. Therefore a tile of two
 * strips x up to BF16_ROWS rows keeps 4 x rows chains in registers. Weights are converted to f32 in
 * registers by a shift and a mask. The rows of a tile are converted once per group of 256 k, in the
 * L1 cache. The panels' group also stays in the L1 cache for all rows.
 *
 * Bound: 2 bytes per weight from memory, or f32 FMA: 0.21e12 operations/s per thread with zmm on
 * machine A (measurements.md). FMA has twice the rate of vdpbf16ps. On an AMD EPYC of family 25
 * with AVX2, one row reads 38 GB/s from the L3 cache, 0.49 of a plain read (measurements.md,
 * "Shares of the other kernels"). 2 rows reach 0.63 of the fma peak, 4 to 64 rows 0.48 to 0.52. The
 * reference in C, which this file replaces, reaches 0.005 of the peak.
 *
 * This file requires vec.h and these names:
 *     TILES_BF16(X)         X(1) X(2) ... up to the rows of the largest tile
 *     flush_begin()         flush subnormal operands and results to 0 from here; flush_end(former)
 *     flush_strayed()       true if a result may have become 0 that tdpbf16ps rounds up to 2^-126,
 *                           since flush_begin or its last call; the tile is then recomputed */
#ifndef QUOTH_KERN_TMPL_LINEAR_BF16_H
#define QUOTH_KERN_TMPL_LINEAR_BF16_H

#include "linear_float.h"

enum { BF16_BLOCK = 32 }; /* k values of two chains */

/* Add the chains of n_block blocks to c [2][LINEAR_ROWS][VL]. w points to the first pairs of the
 * strips. Pairs of BF16 begin 64 bytes after the previous pair, pairs of E4M3 codes 32 bytes. x f32
 * [n_row][ACT_GROUP]. Lines at `ahead` are prefetched. */
typedef void bf16_fn(float *c, const uint8_t *const w[TILE_STRIPS], const float *x, int n_block,
                     const uint8_t *const ahead[TILE_STRIPS]);

/* Chains of two strips and the rows of a tile: one set for even k, one for odd k. */
struct chains {
    vf even0[8], even1[8], odd0[8], odd1[8];
};

/* Add a pair of k to the chains. */
ALWAYS void chains_step(enum qtype t, const int n_row, struct chains *s, const uint8_t *p0,
                        const uint8_t *p1, const float *x)
{
    vf w0[2], w1[2];
    value2(t, w0, p0);
    value2(t, w1, p1);
#pragma GCC unroll 8
    for (int i = 0; i < n_row; i++) {
        const vf x0 = vf_set1(x[i * ACT_GROUP]), x1 = vf_set1(x[i * ACT_GROUP + 1]);
        s->even0[i] = vf_fma(w0[0], x0, s->even0[i]);
        s->even1[i] = vf_fma(w1[0], x0, s->even1[i]);
        s->odd0[i] = vf_fma(w0[1], x1, s->odd0[i]);
        s->odd1[i] = vf_fma(w1[1], x1, s->odd1[i]);
    }
}

ALWAYS void bf16_tile(enum qtype t, const int n_row, float *c, const uint8_t *const w[TILE_STRIPS],
                      const float *x, int n_block, const uint8_t *const ahead[TILE_STRIPS])
{
    const int step = 2 * k_bytes(t), per_line = 64 / step;
    const uint8_t *p0 = w[0], *p1 = w[1], *a0 = ahead[0], *a1 = ahead[1];
    for (int b = 0; b < n_block; b++) {
        struct chains s;
#pragma GCC unroll 8
        for (int i = 0; i < n_row; i++) s.even0[i] = s.even1[i] = s.odd0[i] = s.odd1[i] = vf_zero();
        for (int j = 0; j < BF16_BLOCK / 2; j += per_line, a0 += 64, a1 += 64) {
            if (t == QT_bf16) {
                __builtin_prefetch(a0);
                __builtin_prefetch(a1);
            } else
                fetch_ahead(a0, p0, n_row), fetch_ahead(a1, p1, n_row);
#pragma GCC unroll 2
            for (int i = 0; i < per_line; i++, p0 += step, p1 += step, x += 2)
                chains_step(t, n_row, &s, p0, p1, x);
        }
#pragma GCC unroll 8
        for (int i = 0; i < n_row; i++) {
            float *to = c + i * VL;
            vf_store(to, vf_add(vf_load(to), vf_add(s.even0[i], s.odd0[i])));
            vf_store(to + C_FLOATS, vf_add(vf_load(to + C_FLOATS), vf_add(s.even1[i], s.odd1[i])));
        }
    }
}

#define TILE(n_row)                                                                                \
    static void bf16_##n_row(float *c, const uint8_t *const w[TILE_STRIPS], const float *x,        \
                             int n_block, const uint8_t *const ahead[TILE_STRIPS])                 \
    {                                                                                              \
        bf16_tile(QT_bf16, n_row, c, w, x, n_block, ahead);                                        \
    }                                                                                              \
    static void e4m3_##n_row(float *c, const uint8_t *const w[TILE_STRIPS], const float *x,        \
                             int n_block, const uint8_t *const ahead[TILE_STRIPS])                 \
    {                                                                                              \
        bf16_tile(QT_e4m3_128, n_row, c, w, x, n_block, ahead);                                    \
    }
TILES_BF16(TILE)
#undef TILE

static bf16_fn *const bf16_fns[] = {
#define TILE(n_row) bf16_##n_row,
    TILES_BF16(TILE)
#undef TILE
};
static bf16_fn *const e4m3_fns[] = {
#define TILE(n_row) e4m3_##n_row,
    TILES_BF16(TILE)
#undef TILE
};
enum { BF16_ROWS = sizeof bf16_fns / sizeof bf16_fns[0] };

/* Compute bf16_tile value by value, as kern.h defines it. */
static void bf16_tile_plain(int n_row, float *c, const uint8_t *const w[TILE_STRIPS],
                            const float *x, int n_block)
{
    for (int b = 0; b < n_block; b++)
        for (int o = 0; o < TILE_STRIPS * VL; o++) {
            uint16_t weight[BF16_BLOCK], a[BF16_BLOCK];
            const uint8_t *from = w[o / VL] + b * BF16_BLOCK / 2 * 64 + o % VL * 4;
            for (int j = 0; j < BF16_BLOCK / 2; j++) memcpy(weight + 2 * j, from + j * 64, 4);
            for (int i = 0; i < n_row; i++) {
                float *to = c + o / VL * C_FLOATS + i * VL + o % VL;
                for (int j = 0; j < BF16_BLOCK; j++)
                    a[j] = bf16_of_f32(x[i * ACT_GROUP + b * BF16_BLOCK + j]);
                *to = dot32_bf16(*to, weight, a);
            }
        }
}

/* Compute bf16_tile. Recompute the tile value by value if flushing may have differed. */
static void bf16_tile_exact(int n_row, float *c, const uint8_t *const w[TILE_STRIPS],
                            const float *x, int n_block, const uint8_t *const ahead[TILE_STRIPS])
{
    float before[TILE_STRIPS][BF16_ROWS * VL];
    const size_t n_byte = (size_t)n_row * VL * sizeof *c;
    for (int j = 0; j < TILE_STRIPS && FLUSH_STRAYS; j++)
        memcpy(before[j], c + j * C_FLOATS, n_byte);
    bf16_fns[n_row - 1](c, w, x, n_block, ahead);
    if (!flush_strayed()) return;
    for (int j = 0; j < TILE_STRIPS; j++) memcpy(c + j * C_FLOATS, before[j], n_byte);
    flush_end(0);
    bf16_tile_plain(n_row, c, w, x, n_block);
    flush_begin();
}

/* Convert rows of a group to f32. */
static inline void bf16_widen(float *y, const struct act *x, int row, int n_row, int g)
{
    const uint16_t *from =
        (const uint16_t *)x->x + ((int64_t)(g / ACT_GROUP) * x->n_row + row) * ACT_GROUP;
    for (int i = 0; i < n_row * ACT_GROUP; i += VL) vf_store(y + i, vf_load_bf16(from + i));
}

/* Compute one group of two strips. A copy padded with zeros replaces an incomplete last block. */
static void bf16_group(float *c, const uint8_t *const w[TILE_STRIPS], const struct act *x, int row,
                       int n_row, int g, const uint8_t *const ahead[TILE_STRIPS])
{
    _Alignas(64) float wide[BF16_ROWS * ACT_GROUP];
    _Alignas(64) uint8_t tail[TILE_STRIPS][BF16_BLOCK / 2 * 64];
    const int n = x->k - g < ACT_GROUP ? x->k - g : ACT_GROUP, n_block = n / BF16_BLOCK;
    const int n_byte = (n % BF16_BLOCK + 1) / 2 * 64;
    const uint8_t *const last[TILE_STRIPS] = {tail[0], tail[1]};
    for (int j = 0; j < TILE_STRIPS && n_byte; j++) {
        /* a strip of a panel's second half starts inside a pair's 64 bytes, so fewer bytes remain
         * in the block */
        memset(tail[j], 0, sizeof tail[j]);
        for (int i = 0; i < n_byte; i += 64)
            memcpy(tail[j] + i, w[j] + n_block * sizeof tail[j] + i, VL * 4);
    }
    for (int i = 0; i < n_row; i += BF16_ROWS) {
        const int m = n_row - i < BF16_ROWS ? n_row - i : BF16_ROWS;
        float *to = c + i * VL;
        bf16_widen(wide, x, row + i, m, g);
        bf16_tile_exact(m, to, w, wide, n_block, i ? w : ahead);
        if (n_byte) bf16_tile_exact(m, to, last, wide + n_block * BF16_BLOCK, 1, last);
    }
}

static void bf16_strips(const struct strip *at, const struct act *x, int row, int n_row, float *c)
{
    const int step = ACT_GROUP * PANEL * 2;
    for (int j = 0; j < TILE_STRIPS; j++)
        memset(c + j * C_FLOATS, 0, (size_t)n_row * VL * sizeof *c);
    for (int g = 0; g < x->k; g += ACT_GROUP) {
        const uint8_t *w[TILE_STRIPS], *ahead[TILE_STRIPS];
        for (int j = 0; j < TILE_STRIPS; j++) {
            w[j] = at[j].panel + (int64_t)g / ACT_GROUP * step + lane_bytes(QT_bf16, at[j].lane);
            ahead[j] = g + ACT_GROUP < x->k ? w[j] + step : at[j].next;
        }
        bf16_group(c, w, x, row, n_row, g, ahead);
    }
}

/* Compute n_row rows of TILE_STRIPS strips into c [TILE_STRIPS][C_FLOATS]. */
typedef void bf16_strips_fn(const struct strip *at, const struct act *x, int row, int n_row,
                            float *c);

/* Multiply rows by the panels [panel, panel + n_panel). */
static inline void strips_linear(bf16_strips_fn *strips, const struct linear_out *out,
                                 const struct panels *w, int panel, int n_panel,
                                 const struct act *x, int row, int n_row)
{
    const struct strips s = {w, panel * PANEL_STRIPS, n_panel * PANEL_STRIPS};
    _Alignas(64) float c[TILE_STRIPS * C_FLOATS];
    for (int j = 0; j < s.n; j += TILE_STRIPS) {
        struct strip at[TILE_STRIPS];
        strips_at(at, &s, j, TILE_STRIPS);
        const unsigned former = flush_begin();
        strips(at, x, row, n_row, c);
        flush_end(former);
        strips_put(out, &s, j, TILE_STRIPS, c, row, n_row);
    }
}

static void linear_bf16(const struct linear_out *out, const struct panels *w, int panel,
                        int n_panel, const struct act *x, int row, int n_row)
{
    strips_linear(bf16_strips, out, w, panel, n_panel, x, row, n_row);
}

/* ---- E4M3_128 ----
 *
 * The sums T of a block of 128 k are computed like the sums of BF16 weights. Then C = fma(T, scale,
 * C). Up to BF16_ROWS rows use the codes directly. For more rows, a block's codes are converted
 * once to f32 in the L1 cache. The f32 values and the copy of the activations have the even k of
 * each 32 before the odd k. Therefore the tiles of f32 activations can compute the even chain and
 * then the odd chain. With f32 values, a tile has 2 strips x up to 12 rows (AVX2: 6). With codes, a
 * tile has up to 6 rows (AVX2: 2). On a Xeon with AMX, 64 rows reach 0.64 (AVX-512) and 0.71 (AVX2)
 * of the fma peak. With codes, 64 rows reached 0.58 (AVX-512) and 0.46 (AVX2) of the peak. */

enum { E4M3_RUN = 128, E4M3_BLOCKS = E4M3_RUN / BF16_BLOCK, HALF = BF16_BLOCK / 2 };

/* A block of two strips as f32, [k][2 VL] with the even k of each 32 first. */
struct e4m3_block {
    _Alignas(64) float w[E4M3_RUN * TILE_COLS];
    /* codes and data to prefetch, borrowed from the panels */
    const uint8_t *code[TILE_STRIPS], *ahead[TILE_STRIPS];
    vf scale[TILE_STRIPS];
};

static void e4m3_widen(struct e4m3_block *b)
{
    for (int s = 0; s < TILE_STRIPS; s++)
        for (int j = 0; j < E4M3_RUN / 2; j++) {
            float *to = b->w + (j / HALF * BF16_BLOCK + j % HALF) * TILE_COLS + s * VL;
            vf v[2];
            value2(QT_e4m3_128, v, b->code[s] + j * 2 * PANEL);
            vf_store(to, v[0]);
            vf_store(to + HALF * TILE_COLS, v[1]);
        }
}

/* Convert a block of n_row rows to f32 [n_row][ACT_GROUP], with the even k of each 32 first. */
static inline void e4m3_acts(float *y, const uint16_t *x, int n_row)
{
    for (int i = 0; i < n_row; i++, y += ACT_GROUP, x += ACT_GROUP)
        for (int k = 0; k < E4M3_RUN; k += 2 * VL) {
            float *to = y + k / BF16_BLOCK * BF16_BLOCK + k % BF16_BLOCK / 2;
            const vi pairs = vi_load(x + k);
            vf_store(to, vf_cast(vi_sll(pairs, 16)));
            vf_store(to + HALF, vf_cast(vi_and(pairs, vi_set1((int)0xFFFF0000))));
        }
}

/* Set t [n_row][2 VL] to the sums T of a block. e4m3_widen has made w, and e4m3_acts has made x.
 * Prefetch a block at each pointer of `next`; NULL if none. */
typedef void e4m3_fn(float *t, const float *w, const float *x,
                     const uint8_t *const next[TILE_STRIPS]);

/* Compute the chains of HALF k, one of the two parities. */
ALWAYS void e4m3_chains(const int n_row, vf *s0, vf *s1, const float *w, const float *x,
                        const uint8_t *const next[TILE_STRIPS], int at)
{
#pragma GCC unroll 16
    for (int j = 0; j < n_row; j++) s0[j] = s1[j] = vf_zero();
    for (int k = 0; k < HALF; k += 2, w += 2 * TILE_COLS, x += 2, at += 64) {
        if (next) {
            __builtin_prefetch(next[0] + at);
            __builtin_prefetch(next[1] + at);
        }
        tile_step(n_row, s0, s1, w, x);
        tile_step(n_row, s0, s1, w + TILE_COLS, x + 1);
    }
}

ALWAYS void e4m3_tile(const int n_row, float *t, const float *w, const float *x,
                      const uint8_t *const next[TILE_STRIPS])
{
    _Alignas(64) float even[TILE_ROWS * TILE_COLS];
    vf s0[16], s1[16];
    for (int i = 0; i < E4M3_BLOCKS; i++, w += BF16_BLOCK * TILE_COLS, x += BF16_BLOCK) {
        e4m3_chains(n_row, s0, s1, w, x, next, i * HALF * PANEL * 2);
#pragma GCC unroll 16
        for (int j = 0; j < n_row; j++) {
            vf_store(even + j * TILE_COLS, s0[j]);
            vf_store(even + j * TILE_COLS + VL, s1[j]);
        }
        e4m3_chains(n_row, s0, s1, w + HALF * TILE_COLS, x + HALF, NULL, 0);
#pragma GCC unroll 16
        for (int j = 0; j < n_row; j++) {
            const float *e = even + j * TILE_COLS;
            float *to = t + j * TILE_COLS;
            const vf t0 = i ? vf_load(to) : vf_zero(), t1 = i ? vf_load(to + VL) : vf_zero();
            vf_store(to, vf_add(t0, vf_add(vf_load(e), s0[j])));
            vf_store(to + VL, vf_add(t1, vf_add(vf_load(e + VL), s1[j])));
        }
    }
}

#define TILE(n_row)                                                                                \
    static void e4m3_tile_##n_row(float *t, const float *w, const float *x,                        \
                                  const uint8_t *const next[TILE_STRIPS])                          \
    {                                                                                              \
        e4m3_tile(n_row, t, w, x, next);                                                           \
    }
TILES(TILE)
#undef TILE

static e4m3_fn *const e4m3_tiles[] = {
#define TILE(n_row) e4m3_tile_##n_row,
    TILES(TILE)
#undef TILE
};

/* Compute c = fma(t, scale, c) of n_row rows. Row i of t is at i * t_step, its second strip at
 * t_other. */
ALWAYS void e4m3_scale(float *c, const float *t, int t_step, int t_other, const vf *scale,
                       int n_row)
{
    for (int s = 0; s < TILE_STRIPS; s++)
        for (int i = 0; i < n_row; i++) {
            float *to = c + s * C_FLOATS + i * VL;
            vf_store(to, vf_fma(vf_load(t + i * t_step + s * t_other), scale[s], vf_load(to)));
        }
}

/* Add a block of a row to c value by value, as kern.h defines it. */
static void e4m3_plain(float *c, const struct e4m3_block *b, const float *x)
{
    float scale[TILE_STRIPS * VL];
    for (int s = 0; s < TILE_STRIPS; s++) vf_store(scale + s * VL, b->scale[s]);
    for (int o = 0; o < TILE_COLS; o++) {
        float t = 0, *to = c + o / VL * C_FLOATS + o % VL;
        for (int k = 0; k < E4M3_RUN; k += BF16_BLOCK) {
            uint16_t w[BF16_BLOCK], a[BF16_BLOCK];
            for (int j = 0; j < BF16_BLOCK; j++) {
                const int at = k + j % 2 * HALF + j / 2;
                w[j] = bf16_of_f32(b->w[at * TILE_COLS + o]), a[j] = bf16_of_f32(x[at]);
            }
            t = dot32_bf16(t, w, a);
        }
        *to = fma_flush(t, scale[o], *to);
    }
}

/* Add a block to c for up to TILE_ROWS rows. Recompute the block value by value if flushing may
 * have differed. */
static void e4m3_rows(float *c, const struct e4m3_block *b, const uint16_t *x, int n_row,
                      const uint8_t *const next[TILE_STRIPS])
{
    _Alignas(64) float wide[TILE_ROWS * ACT_GROUP], t[TILE_ROWS * TILE_COLS];
    float before[TILE_STRIPS][TILE_ROWS * VL];
    const size_t n_byte = (size_t)n_row * VL * sizeof *c;
    for (int s = 0; s < TILE_STRIPS && FLUSH_STRAYS; s++)
        memcpy(before[s], c + s * C_FLOATS, n_byte);
    e4m3_acts(wide, x, n_row);
    e4m3_tiles[n_row - 1](t, b->w, wide, next);
    e4m3_scale(c, t, TILE_COLS, VL, b->scale, n_row);
    if (!flush_strayed()) return;
    for (int s = 0; s < TILE_STRIPS; s++) memcpy(c + s * C_FLOATS, before[s], n_byte);
    flush_end(0);
    for (int i = 0; i < n_row; i++) e4m3_plain(c + i * VL, b, wide + i * ACT_GROUP);
    flush_begin();
}

/* Add a block to c for up to BF16_ROWS rows, from the codes. */
static void e4m3_direct(float *c, const struct e4m3_block *b, const uint16_t *x, int n_row)
{
    _Alignas(64) float wide[BF16_ROWS * ACT_GROUP], t[TILE_STRIPS * C_FLOATS];
    for (int s = 0; s < TILE_STRIPS; s++)
        memset(t + s * C_FLOATS, 0, (size_t)n_row * VL * sizeof *t);
    for (int i = 0; i < n_row; i++)
        for (int k = 0; k < E4M3_RUN; k += VL)
            vf_store(wide + i * ACT_GROUP + k, vf_load_bf16(x + i * ACT_GROUP + k));
    e4m3_fns[n_row - 1](t, b->code, wide, E4M3_BLOCKS, b->ahead);
    e4m3_scale(c, t, VL, C_FLOATS, b->scale, n_row);
}

static void e4m3_strips(const struct strip *at, const struct act *x, int row, int n_row, float *c)
{
    const int step = scaled_bytes(QT_e4m3_128);
    const int n_tile = (n_row + TILE_ROWS - 1) / TILE_ROWS;
    const bool few = !FLUSH_STRAYS && n_row <= BF16_ROWS;
    for (int s = 0; s < TILE_STRIPS; s++)
        memset(c + s * C_FLOATS, 0, (size_t)n_row * VL * sizeof *c);
    for (int k = 0; k < x->k; k += E4M3_RUN) {
        const uint16_t *a = (const uint16_t *)x->x + k % ACT_GROUP +
                            ((int64_t)(k / ACT_GROUP) * x->n_row + row) * ACT_GROUP;
        struct e4m3_block b;
        for (int s = 0; s < TILE_STRIPS; s++) {
            const uint8_t *block = at[s].panel + (int64_t)k / E4M3_RUN * step;
            b.scale[s] = vf_load((const float *)(const void *)block + at[s].lane);
            b.code[s] = block + 4 * PANEL + at[s].lane;
            b.ahead[s] = k + ACT_GROUP < x->k ? b.code[s] + 2 * step : at[s].next;
        }
        if (few) {
            e4m3_direct(c, &b, a, n_row);
            continue;
        }
        e4m3_widen(&b);
        for (int i = 0; i < n_tile; i++) {
            const int from = n_row * i / n_tile, to = n_row * (i + 1) / n_tile;
            e4m3_rows(c + from * VL, &b, a + from * ACT_GROUP, to - from, i ? NULL : b.ahead);
        }
    }
}

static void linear_e4m3(const struct linear_out *out, const struct panels *w, int panel,
                        int n_panel, const struct act *x, int row, int n_row)
{
    strips_linear(e4m3_strips, out, w, panel, n_panel, x, row, n_row);
}

/* Set the slots of bf16 activations. */
static inline void linear_bf16_slots(struct kern *k)
{
    k->linear[ACT_BF16][QT_bf16] = linear_bf16;
    k->linear[ACT_BF16][QT_e4m3_128] = linear_e4m3;
}

#endif

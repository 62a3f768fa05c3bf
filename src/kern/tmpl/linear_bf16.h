/* linear_bf16.h - linear layers of BF16 weights with bf16 activations: ref/linear.c bit for bit.
 * vec.h must be for a processor whose fma flushes denormals to zero, as tdpbf16ps does.
 *
 * An output takes two chains of 16 fma per 32 k, for even and for odd k. A tile of two strips x up
 * to BF16_ROWS rows therefore keeps 4 x rows chains in registers. Weights are converted to f32 in
 * registers by a shift and a mask. The rows of a tile are converted once per group of 256 k, in the
 * L1 cache. The panels' group also stays in the L1 cache for all rows.
 *
 * Bound: 2 bytes per weight from memory, or f32 FMA: 0.21e12 operations/s per thread with zmm on
 * machine A (measurements.md). FMA has twice the rate of vdpbf16ps. On an AMD EPYC of family 25
 * (AVX2, measurements.md, "Shares of the other kernels") one row reads 38 GB/s from the L3 cache,
 * 0.49 of a plain read. 2 rows reach 0.63 of the fma peak, 4 to 64 rows 0.48 to 0.52. The reference
 * in C, which this file replaces, reaches 0.005.
 *
 * Requires besides vec.h:
 *     TILES_BF16(X)         X(1) X(2) ... up to the rows of the largest tile
 *     flush_begin()         flush subnormal operands and results to 0 from here; flush_end(former)
 *     flush_strayed()       true if a result may have become 0 that tdpbf16ps rounds up to 2^-126,
 *                           since flush_begin or its last call; the tile is then recomputed */
#ifndef QUOTH_KERN_TMPL_LINEAR_BF16_H
#define QUOTH_KERN_TMPL_LINEAR_BF16_H

#include "linear_float.h"

enum { BF16_BLOCK = 32 }; /* k values of two chains */

/* Add the chains of n_block blocks to c [2][LINEAR_ROWS][VL]. w points to the first pairs of the
 * strips. Each pair begins 64 bytes after the previous one. x f32 [n_row][ACT_GROUP]. Lines at
 * `ahead` are prefetched. */
typedef void bf16_fn(float *c, const uint8_t *const w[TILE_STRIPS], const float *x, int n_block,
                     const uint8_t *const ahead[TILE_STRIPS]);

ALWAYS void bf16_tile(const int n_row, float *c, const uint8_t *const w[TILE_STRIPS],
                      const float *x, int n_block, const uint8_t *const ahead[TILE_STRIPS])
{
    const uint8_t *p0 = w[0], *p1 = w[1], *a0 = ahead[0], *a1 = ahead[1];
    for (int b = 0; b < n_block; b++) {
        vf even0[8], even1[8], odd0[8], odd1[8];
#pragma GCC unroll 8
        for (int i = 0; i < n_row; i++) even0[i] = even1[i] = odd0[i] = odd1[i] = vf_zero();
        for (int j = 0; j < BF16_BLOCK / 2; j++, p0 += 64, p1 += 64, a0 += 64, a1 += 64, x += 2) {
            vf w0[2], w1[2];
            value2(QT_bf16, w0, p0);
            value2(QT_bf16, w1, p1);
            __builtin_prefetch(a0);
            __builtin_prefetch(a1);
#pragma GCC unroll 8
            for (int i = 0; i < n_row; i++) {
                const vf x0 = vf_set1(x[i * ACT_GROUP]), x1 = vf_set1(x[i * ACT_GROUP + 1]);
                even0[i] = vf_fma(w0[0], x0, even0[i]);
                even1[i] = vf_fma(w1[0], x0, even1[i]);
                odd0[i] = vf_fma(w0[1], x1, odd0[i]);
                odd1[i] = vf_fma(w1[1], x1, odd1[i]);
            }
        }
#pragma GCC unroll 8
        for (int i = 0; i < n_row; i++) {
            float *to = c + i * VL;
            vf_store(to, vf_add(vf_load(to), vf_add(even0[i], odd0[i])));
            vf_store(to + C_FLOATS, vf_add(vf_load(to + C_FLOATS), vf_add(even1[i], odd1[i])));
        }
    }
}

#define TILE(n_row)                                                                                \
    static void bf16_##n_row(float *c, const uint8_t *const w[TILE_STRIPS], const float *x,        \
                             int n_block, const uint8_t *const ahead[TILE_STRIPS])                 \
    {                                                                                              \
        bf16_tile(n_row, c, w, x, n_block, ahead);                                                 \
    }
TILES_BF16(TILE)
#undef TILE

static bf16_fn *const bf16_fns[] = {
#define TILE(n_row) bf16_##n_row,
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

/* Compute bf16_tile. Recompute it value by value if flushing possibly differed. */
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
        /* a strip of a panel's second half starts inside a pair's 64 bytes: fewer bytes remain */
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

static void strips_bf16(const struct linear_out *out, const struct strips *s, const struct act *x,
                        int row, int n_row)
{
    _Alignas(64) float c[TILE_STRIPS * C_FLOATS];
    for (int j = 0; j < s->n; j += TILE_STRIPS) {
        struct strip at[TILE_STRIPS];
        strips_at(at, s, j, TILE_STRIPS);
        const unsigned former = flush_begin();
        bf16_strips(at, x, row, n_row, c);
        flush_end(former);
        strips_put(out, s, j, TILE_STRIPS, c, row, n_row);
    }
}

static void linear_bf16(const struct linear_out *out, const struct panels *w, int panel,
                        int n_panel, const struct act *x, int row, int n_row)
{
    const struct strips s = {w, panel * PANEL_STRIPS, n_panel * PANEL_STRIPS};
    strips_bf16(out, &s, x, row, n_row);
}

#endif

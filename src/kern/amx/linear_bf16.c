/* linear_bf16.c - linear layers of BF16 weights with bf16 activations by AMX.
 *
 * TDPBF16PS multiplies two tiles: 32 k of a panel, as stored in memory, and 16 rows of activations.
 * No value is converted. Tiles keep the sums of two panels x 32 rows, or of four panels x 16 rows,
 * for all of k. There are four tiles of sums, because an instruction takes 16 cycles and its result
 * is ready after 52 cycles. The arithmetic is canonical (kern.h) for any number of rows. Memory
 * bandwidth limits the speed for few rows.
 *
 * Bound: 2 bytes per weight from memory, or the tile unit. The tile unit's peak on machine A
 * (measurements.md) is 3.10e12 operations/s per thread. The peak of vdpbf16ps is 0.105e12. On one
 * thread of machine A, 64 rows reached 0.80e12 operations/s. This rate is 0.26 of the tile unit's
 * peak and 7.6 times the peak of vdpbf16ps. One row read weights at 22 GB/s. This file replaced the
 * reference in C. */
#include "amx.h"

#include "kern/avx512/dot.h"
#include "kern/tmpl/linear.h"

enum {
    TILE = 16,
    BLOCK = 32, /* k values of an instruction */
    BLOCK_BYTES = BLOCK * PANEL * 2,
    AHEAD = 4096, /* prefetch distance in a panel, bytes; measurements.md, "Constants" */
    PANELS_MAX = 4,
    C_FLOATS = LINEAR_ROWS_MAX * PANEL,
};

/* Configure the tiles. Tiles 0 to 3 are sums, 4 and 5 activations, 6 and 7 weights. `low` is the
 * number of rows of tile 4, and `high` the number of rows of tile 5. Sums 0 and 1 have `low` rows.
 * Sums 2 and 3 have the rows of tile 5, or `low` if only tile 4 has rows. */
static void tiles_open(int low, int high)
{
    struct tile_config t = {.palette = 1};
    const int other = high ? high : low;
    const uint8_t rows[8] = {(uint8_t)low, (uint8_t)low,   (uint8_t)other, (uint8_t)other,
                             (uint8_t)low, (uint8_t)other, TILE,           TILE};
    for (int i = 0; i < 8; i++) t.n_byte[i] = 64, t.n_row[i] = rows[i];
    /* gcc 12 assumes that the instruction reads only 8 bytes, and would drop the stores to the
     * other bytes */
    __asm__ volatile("" : : "r"(&t) : "memory");
    _tile_loadconfig(&t);
}

/* Sources of the tiles of a block of k. Pointers are borrowed. */
struct bf16_operands {
    const uint16_t *a;            /* bf16 [16, ACT_GROUP] rows of activations */
    const uint8_t *b[PANELS_MAX]; /* pairs of k of the panels */
};

/* Multiply two panels by up to 32 rows. */
static inline void step_2x2(const struct bf16_operands *o)
{
    _tile_loadd(4, o->a, ACT_GROUP * 2);
    _tile_loadd(6, o->b[0], 64);
    _tile_loadd(7, o->b[1], 64);
    _tile_loadd(5, o->a + TILE * ACT_GROUP, ACT_GROUP * 2);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

/* Multiply four panels by up to 16 rows. */
static inline void step_4x1(const struct bf16_operands *o)
{
    _tile_loadd(4, o->a, ACT_GROUP * 2);
    _tile_loadd(6, o->b[0], 64);
    _tile_loadd(7, o->b[1], 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(6, o->b[2], 64);
    _tile_loadd(7, o->b[3], 64);
    _tile_dpbf16ps(2, 4, 6);
    _tile_dpbf16ps(3, 4, 7);
}

static inline void fetch(const struct bf16_operands *o, int n_panel)
{
    for (int p = 0; p < n_panel; p++)
        for (int i = 0; i < BLOCK_BYTES; i += 64) __builtin_prefetch(o->b[p] + AHEAD + i);
}

/* Copy the incomplete last block of k and pad it with zeros. */
static void tail_of(uint8_t (*tail)[BLOCK_BYTES], struct bf16_operands *o, int n_panel, int n)
{
    const size_t n_byte = (size_t)(n + 1) / 2 * 64;
    for (int p = 0; p < n_panel; p++) {
        memset(tail[p] + n_byte, 0, BLOCK_BYTES - n_byte);
        memcpy(tail[p], o->b[p], n_byte);
        o->b[p] = tail[p];
    }
    /* make the compiler assume that the tile loads read this memory */
    __asm__ volatile("" : : "r"(tail) : "memory");
}

/* Compute c [n_panel][LINEAR_ROWS_MAX][16] = panels x rows [row, row + n_row). n_panel is 2 for
 * [17, 32] rows, 4 for [1, 16] rows. */
static void tile_rows(const uint8_t *const *panel, int n_panel, const struct act *x, int row,
                      int n_row, float *c)
{
    _Alignas(64) uint8_t tail[PANELS_MAX][BLOCK_BYTES];
    const bool tall = n_row > TILE;
    tiles_open(tall ? TILE : n_row, tall ? n_row - TILE : 0);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    struct bf16_operands o;
    for (int k = 0; k < x->k; k += BLOCK) {
        o.a = (const uint16_t *)x->x + ((int64_t)(k / ACT_GROUP) * x->n_row + row) * ACT_GROUP +
              k % ACT_GROUP;
        for (int p = 0; p < n_panel; p++) o.b[p] = panel[p] + (int64_t)k / BLOCK * BLOCK_BYTES;
        if (x->k - k < BLOCK)
            tail_of(tail, &o, n_panel, x->k - k);
        else
            fetch(&o, n_panel);
        if (tall)
            step_2x2(&o);
        else
            step_4x1(&o);
    }
    _tile_stored(0, c, 64);
    _tile_stored(1, c + C_FLOATS, 64);
    _tile_stored(2, tall ? c + TILE * PANEL : c + 2 * C_FLOATS, 64);
    _tile_stored(3, tall ? c + C_FLOATS + TILE * PANEL : c + 3 * C_FLOATS, 64);
    _tile_release();
}

/* Compute c [n_panel][LINEAR_ROWS_MAX][16]. `panel` has four entries for any n_panel. */
static void block_rows(const uint8_t *const panel[PANELS_MAX], int n_panel, const struct act *x,
                       int row, int n_row, float *c)
{
    for (int i = 0; i < n_row;) {
        const int left = n_row - i, n = left < 2 * TILE ? left : 2 * TILE;
        float *to = c + i * PANEL;
        if (n > TILE)
            for (int p = 0; p < n_panel; p += 2)
                tile_rows(panel + p, 2, x, row + i, n, to + p * C_FLOATS);
        else
            tile_rows(panel, PANELS_MAX, x, row + i, n, to);
        i += n;
    }
}

static void linear(const struct linear_out *out, const struct panels *w, int panel, int n_panel,
                   const struct act *x, int row, int n_row)
{
    _Alignas(64) float c[PANELS_MAX * C_FLOATS];
    for (int p = panel, end = panel + n_panel; p < end; p += PANELS_MAX) {
        const uint8_t *at[PANELS_MAX];
        const int n = end - p < PANELS_MAX ? end - p : PANELS_MAX;
        for (int i = 0; i < PANELS_MAX; i++)
            at[i] = w->data + (p + (i < n ? i : n - 1)) * w->stride;
        block_rows(at, n, x, row, n_row, c);
        for (int i = 0; i < n; i++) strip_put(out, w->n_out, p + i, c + i * C_FLOATS, row, n_row);
    }
}

void kern_linear_bf16_amx(struct kern *k)
{
    k->linear[ACT_BF16][QT_bf16] = linear;
}

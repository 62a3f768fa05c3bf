/* linear_e4m3.c - linear layers of E4M3_128 weights with bf16 activations by AMX.
 *
 * A block is 128 k with one scale. The codes of two panels' blocks become tiles of bf16 in the L1
 * cache, once for all rows of activations:
 *
 *     64 codes [4 k][16] --one shuffle: order of tiles--> two tables of bytes --> 2 rows of a tile
 *
 * For each 16 rows of activations, four TDPBF16PS per panel give the block's sums T. The vector
 * unit adds these sums to C: C = fma(T, scale, C). Meanwhile the tile unit multiplies the next 16
 * rows, and a part of the next block is converted.
 *
 * Bound: 1.03 bytes per weight from memory. 16 rows x 16 outputs x 256 k take 128 cycles of the
 * tile unit, 32 of tile stores and 16 of the vector unit. 4096 codes take 450 cycles of the shuffle
 * unit, for all rows. The rates were measured on one thread of a Xeon with AMX, with weights of
 * 2048 x 2048 in the L3 cache. One row reads 23 GB/s. 64 rows compute 0.96e12 operations/s, 0.26 of
 * the tile unit's peak. The f32 kernel, which this file replaced, reached 14.0 GB/s and 0.20e12
 * operations/s. */
#include "amx.h"
#include "tile.h"

enum {
    STEP = 32, /* k values of an instruction */
    RUN = 128, /* k values of a block */
    N_STEP = RUN / STEP,
    N_LINE = RUN * PANEL / 64, /* lines of a block's codes */
    BLOCK_BYTES = PANEL * (4 + RUN),
    FAR = 4096, /* bytes of prefetch distance into the L2 cache; NEAR: into the L1 cache */
    C_FLOATS = BLOCK_ROWS * PANEL,
    /* Maximum pairs of panels that share a block of many rows. The activations of 256 rows x 4096 k
     * exceed the L2 cache, so one pair alone took 1.5 times as long. */
    PAIRS_MAX = 4,
};

/* ---- codes -> bf16 ---- */

/* Low and high bytes of the bf16 of each code without its sign: first subnormals, then exponents 1
 * to 15. The last code is a NaN. */
/* clang-format off */
#define SAME(x)  x, x, x, x, x, x, x, x
#define STEPS(x) x, x + 16, x + 32, x + 48, x + 64, x + 80, x + 96, x + 112
#define TWO(x)   SAME(x), SAME(x)
static const _Alignas(64) uint8_t low_byte[128] = {
    0,          0,        0x80,       0xC0,     0,          0x20,     0x40,       0x60,
    STEPS(128), STEPS(0), STEPS(128), STEPS(0), STEPS(128), STEPS(0), STEPS(128), STEPS(0),
    STEPS(128), STEPS(0), STEPS(128), STEPS(0), STEPS(128), STEPS(0), STEPS(128),
};
static const _Alignas(64) uint8_t high_byte[128] = {
    0,          0x3B,      0x3B,      0x3B,      0x3C,      0x3C,      0x3C, 0x3C, SAME(0x3C),
    TWO(0x3D),  TWO(0x3E), TWO(0x3F), TWO(0x40), TWO(0x41), TWO(0x42), 0x43, 0x43, 0x43,
    0x43,       0x43,      0x43,      0x43,      0x43,      0x43,      0x43, 0x43, 0x43,
    0x43,       0x43,      0x43,      0x7F,
};
/* Order of 64 codes [4 k][16]: each 16 bytes contain 4 outputs of k 0 and 1, then of k 2 and 3. */
#define OUT(o)  o, o + 16
#define OUTS(o) OUT(o), OUT(o + 1), OUT(o + 2), OUT(o + 3)
#define FOUR(o) OUTS(o), OUTS(o + 32)
static const _Alignas(64) uint8_t tile_order[64] = {FOUR(0), FOUR(4), FOUR(8), FOUR(12)};
/* clang-format on */

/* Convert 4 k of 16 outputs to two rows of a tile. */
ALWAYS void line_open(uint16_t *to, const uint8_t *from)
{
    const vi code = _mm512_permutexvar_epi8(vi_load(tile_order), vi_load(from));
    const vi low = _mm512_permutex2var_epi8(vi_load(low_byte), code, vi_load(low_byte + 64));
    vi high = _mm512_permutex2var_epi8(vi_load(high_byte), code, vi_load(high_byte + 64));
    /* 0xF8: a | (b & c) */
    high = _mm512_ternarylogic_epi32(high, code, vi_set1_i8(-128), 0xF8);
    vi_store(to, _mm512_unpacklo_epi8(low, high));
    vi_store(to + 2 * PANEL, _mm512_unpackhi_epi8(low, high));
}

/* A converted block of two panels. */
struct opened {
    _Alignas(64) uint16_t b[PANELS_MAX][RUN * PANEL];
    vf scale[PANELS_MAX];
};

/* Codes to convert, and the end of each panel for prefetches. Pointers are borrowed. */
struct e4m3_source {
    const uint8_t *at[PANELS_MAX], *end[PANELS_MAX];
    int64_t jump; /* bytes from the end of a panel to the panel that is computed next */
};

ALWAYS void fetch(const struct e4m3_source *s, int p, const uint8_t *at)
{
    const uint8_t *far = at + FAR, *near = at + NEAR;
    if (far >= s->end[p]) far += s->jump;
    if (near >= s->end[p]) near += s->jump;
    __builtin_prefetch(far, 0, 2);
    __builtin_prefetch(near);
}

/* Convert part i of n of the next block. The first part also loads the block's scales. */
static inline void part_open(struct opened *to, const struct e4m3_source *s, int i, int n)
{
    for (int p = 0; p < PANELS_MAX; p++) {
        if (i == 0) {
            to->scale[p] = vf_load((const float *)(const void *)s->at[p]);
            fetch(s, p, s->at[p]);
        }
        const uint8_t *code = s->at[p] + 4 * PANEL;
        for (int j = N_LINE * i / n; j < N_LINE * (i + 1) / n; j++) {
            fetch(s, p, code + j * 64);
            line_open(to->b[p] + j * 64, code + j * 64);
        }
    }
}

/* ---- 16 rows ---- */

/* Set tiles A and B = a block of two panels x 16 rows. */
#define DOTS(A, B, X)                                                                              \
    do {                                                                                           \
        _tile_zero(A);                                                                             \
        _tile_zero(B);                                                                             \
        for (int k = 0; k < N_STEP; k++) {                                                         \
            _tile_loadd(X, x + k * STEP, ACT_GROUP * 2);                                           \
            _tile_loadd(6, w->b[0] + k * STEP * PANEL, 64);                                        \
            _tile_dpbf16ps(A, X, 6);                                                               \
            _tile_loadd(7, w->b[1] + k * STEP * PANEL, 64);                                        \
            _tile_dpbf16ps(B, X, 7);                                                               \
        }                                                                                          \
    } while (0)

ALWAYS void dots(const struct opened *w, const uint16_t *x, int pair)
{
    if (pair)
        DOTS(2, 3, 5);
    else
        DOTS(0, 1, 4);
}

/* Add the sums of a pair of tiles to c. c has two panels of [BLOCK_ROWS][16]. */
ALWAYS void finish(const struct opened *w, int pair, int n_row, float *c)
{
    _Alignas(64) float t[PANELS_MAX][TILE * PANEL];
    if (pair) {
        _tile_stored(2, t[0], 64);
        _tile_stored(3, t[1], 64);
    } else {
        _tile_stored(0, t[0], 64);
        _tile_stored(1, t[1], 64);
    }
    for (int p = 0; p < PANELS_MAX; p++, c += C_FLOATS)
        for (int i = 0; i < n_row; i++)
            vf_store(c + i * PANEL,
                     vf_fma(vf_load(t[p] + i * PANEL), w->scale[p], vf_load(c + i * PANEL)));
}

/* Return the activations of rows [row, ...) from k value k on. */
static inline const uint16_t *rows_at(const struct act *x, int row, int k)
{
    return (const uint16_t *)x->x + ((int64_t)(k / ACT_GROUP) * x->n_row + row) * ACT_GROUP +
           k % ACT_GROUP;
}

/* Compute c [n_pair][2][BLOCK_ROWS][16] = pairs of panels x rows [row, row + n_row). The pairs'
 * blocks of the same k follow each other, so the activations of these k stay in the caches. */
static void pairs(struct e4m3_source *s, int n_pair, const struct act *x, int row, int n_row,
                  float *c)
{
    struct opened w[2];
    const int n_tile = (n_row + TILE - 1) / TILE, n_item = x->k / RUN * n_pair;
    for (int p = 0; p < n_pair * PANELS_MAX; p++)
        memset(c + p * C_FLOATS, 0, (size_t)n_row * PANEL * sizeof *c);
    part_open(&w[0], &s[0], 0, 1);
    dots(&w[0], rows_at(x, row, 0), 0);
    for (int n = 0, now = 0, k = 0, pair = 0; n < n_item; n++) {
        const struct opened *b = &w[n % 2];
        const bool last = n + 1 == n_item;
        float *to = c + now * PANELS_MAX * C_FLOATS;
        for (int p = 0; p < PANELS_MAX; p++) s[now].at[p] += BLOCK_BYTES;
        if (++now == n_pair) now = 0, k += RUN;
        /* k of this item; `k` and `now` already belong to the next item */
        const int here = now ? k : k - RUN;
        for (int i = 0; i < n_tile; i++, pair ^= 1) {
            const int left = n_row - i * TILE;
            if (!last) part_open(&w[(n + 1) % 2], &s[now], i, n_tile);
            if (i + 1 < n_tile)
                dots(b, rows_at(x, row + (i + 1) * TILE, here), !pair);
            else if (!last)
                dots(&w[(n + 1) % 2], rows_at(x, row, k), !pair);
            finish(b, pair, left < TILE ? left : TILE, to + i * TILE * PANEL);
        }
    }
}

static void linear(const struct linear_out *out, const struct panels *w, int panel, int n_panel,
                   const struct act *x, int row, int n_row)
{
    _Alignas(64) float c[PAIRS_MAX * PANELS_MAX * C_FLOATS];
    const int at_once = n_row > TILE ? PAIRS_MAX * PANELS_MAX : PANELS_MAX;
    const unsigned former = flush_begin();
    tiles_open(64);
    for (int p = panel, end = panel + n_panel, n; p < end; p += n) {
        struct e4m3_source s[PAIRS_MAX];
        n = end - p < at_once ? end - p : at_once;
        for (int i = 0; i < (n + 1) / 2 * 2; i++) {
            struct e4m3_source *to = &s[i / PANELS_MAX];
            to->at[i % PANELS_MAX] = w->data + (p + (i < n ? i : n - 1)) * w->stride;
            to->end[i % PANELS_MAX] = to->at[i % PANELS_MAX] + w->stride;
            to->jump = (at_once - 1) * w->stride;
        }
        pairs(s, (n + 1) / 2, x, row, n_row, c);
        flush_end(former);
        for (int i = 0; i < n; i++) strip_put(out, w->n_out, p + i, c + i * C_FLOATS, row, n_row);
        flush_begin();
    }
    _tile_release();
    flush_end(former);
}

void kern_linear_e4m3_amx(struct kern *k)
{
    k->linear[ACT_BF16][QT_e4m3_128] = linear;
}

/* linear.c - linear layers of block formats with int8 activations by AMX.
 *
 * A k-quad vector of a panel is a row of the tile that TDPBSSD multiplies by 16 rows of
 * activations. One instruction computes 16 x 16 outputs x 64 k in 16 cycles. The rate is 1024
 * multiply-adds per cycle, while AVX-512 VNNI has 128. planes.c has the formats with integer
 * scales, spans.c the formats with f32 scales. The time of a tile does not depend on its number of
 * rows. Therefore AVX-512 is faster for few rows. AVX-512 and AMX give the same bits.
 *
 * The unit of measurement was 16 rows x 16 outputs x 256 k, in a call with 64 rows on machine A.
 * AMX took 411 cycles of the time stamp counter with Q4_0 and 498 with Q4_K. AVX-512 took 749
 * cycles with Q4_0 and 898 with Q4_K (docs/measurements.md, "AMX"). */
#include "amx.h"
#include "tile.h"

#include "kern/avx512/avx512.h"

static block_fn *block_of(enum qtype t)
{
    block_fn *fn = amx_planes_of(t);
    return fn ? fn : amx_spans_of(t);
}

static int step_of(enum qtype t)
{
    const struct panel_format *f = panel_format_of(t);
    return is_f32_scaled(f) ? f->sub : 64;
}

/* Numbers of rows below which AVX-512 is faster: REST_MIN for the rows after full tiles, rows_min
 * for all rows. REST_MIN and rows_min were measured with weights in memory (docs/measurements.md).
 * AMX needs more rows for weights in memory than for weights in the caches, because the tiles'
 * loads, stores and prefetches compete for buffers. Byte codes need no unpacking. 16 spans cost
 * twice as much as 8 spans. Two planes of levels take AVX-512 twice as long, but not AMX.
 *
 * REST_MIN: the full tiles before the rest have already unpacked the codes. A further tile of Q4_0
 * then takes at least 270 cycles, and AVX-512 takes 749 / 16 = 47 cycles per row. A tile is faster
 * than AVX-512 from 270 / 47 = 5.8 rows on. */
enum { REST_MIN = 6 };

static int rows_min(enum qtype t)
{
    const struct panel_format *f = panel_format_of(t);
    if (panel_upper(f)) return 6;
    if (f->bits == 8 || f->scales == PANEL_E4M3) return 28;
    return f->bits > 4 ? 16 : 12;
}

static void by_tiles(const struct linear_out *out, const struct panels *w, int panel, int n_panel,
                     const struct act *x, int row, int n_row)
{
    _Alignas(64) float c[PANELS_MAX * BLOCK_ROWS * PANEL];
    block_fn *fn = block_of(w->type);
    tiles_open(step_of(w->type));
    for (int p = panel, end = panel + n_panel; p < end; p += PANELS_MAX) {
        struct panel_block b = {
            .n_panel = end - p < PANELS_MAX ? end - p : PANELS_MAX, .stride = w->stride, .c = c};
        for (int i = 0; i < b.n_panel; i++) b.panel[i] = w->data + (p + i) * w->stride;
        fn(&b, x, row, n_row);
        for (int i = 0; i < b.n_panel; i++)
            strip_put(out, w->n_out, p + i, c + i * BLOCK_ROWS * PANEL, row, n_row);
    }
    _tile_release();
}

static void linear(const struct linear_out *out, const struct panels *w, int panel, int n_panel,
                   const struct act *x, int row, int n_row)
{
    const int rest = n_row < rows_min(w->type) ? n_row : n_row % TILE < REST_MIN ? n_row % TILE : 0;
    if (rest < n_row) by_tiles(out, w, panel, n_panel, x, row, n_row - rest);
    if (rest > 0) linear_q8_avx512(out, w, panel, n_panel, x, row + n_row - rest, rest);
}

void kern_init_amx(struct kern *k)
{
    for (int t = 0; t < QT_COUNT; t++)
        if (block_of((enum qtype)t)) k->linear[ACT_Q8][t] = linear;
    k->linear_rows[ACT_Q8] = k->linear_rows[ACT_BF16] = BLOCK_ROWS;
    kern_linear_bf16_amx(k);
    kern_linear_e4m3_amx(k);
}

/* blocks.h - defines one function per format of an AMX kernel, by the kernel's struct k_group,
 * group_open, group_rows and TAKES(scales). TAKES is a constant, so the compiler omits the
 * functions of other formats before it inlines them. Include this file once, after the definitions
 * of these names. Any thread may call kernels, because they change only the memory of their
 * arguments. */
#ifndef QUOTH_KERN_AMX_BLOCKS_H
#define QUOTH_KERN_AMX_BLOCKS_H

#include "tile.h"

/* Return the group after the current group. The group belongs to the next panel, or to the first
 * panel if the current panel is the last. `from` of the result is NULL if there is no next
 * group. */
ALWAYS struct tile_opening opening_of(const struct panel_format *f, const struct panel_block *b,
                                      int p, int k, int k_end, int64_t at, struct k_group *g)
{
    struct tile_opening o = {.g = g};
    if (p == b->n_panel) {
        at += panel_group_bytes(f, group_units(k, k_end));
        k += ACT_GROUP;
        p = 0;
    }
    if (k >= k_end) return o;
    o.n_unit = group_units(k, k_end);
    o.from = b->panel[p] + at;
    o.ahead =
        ahead_of(b, p, o.from + panel_group_bytes(f, o.n_unit), panel_group_bytes(f, o.n_unit));
    return o;
}

/* Compute a block. The next group is prepared while the tile unit multiplies the current group. */
ALWAYS void block_rows(const struct panel_format *f, const struct panel_block *b,
                       const struct act *x, int row, int n_row)
{
    struct x_rows r = rows_of(x, row);
    struct k_group g[2];
    struct tile_opening next = opening_of(f, b, 0, 0, x->k, 0, &g[0]);
    int64_t at = 0;
    for (int p = 0; p < b->n_panel; p++)
        memset(b->c + p * BLOCK_ROWS * PANEL, 0,
               (size_t)(n_row + TILE - 1) / TILE * TILE * PANEL * sizeof(float));
    if (next.from) group_open(f, &next);
    for (int k = 0; k < x->k; k += ACT_GROUP) {
        const int n_unit = group_units(k, x->k);
        for (int p = 0; p < b->n_panel; p++) {
            const struct k_group *now = next.g;
            next = opening_of(f, b, p + 1, k, x->k, at, now == g ? &g[1] : &g[0]);
            group_rows(f, now, n_unit, &r, n_row, b->c + p * BLOCK_ROWS * PANEL, &next);
        }
        at += panel_group_bytes(f, n_unit);
        rows_next(&r, x);
    }
}

#define PANEL(id, bits, levels, zero, sub, scales, ...)                                            \
    static void block_##id(const struct panel_block *b, const struct act *x, int row, int n_row)   \
    {                                                                                              \
        if (TAKES(scales)) block_rows(&panel_format_##id, b, x, row, n_row);                       \
    }
#include "quant/types.def"

/* Return the function of a type; NULL if the kernel does not support it. */
static inline block_fn *block_of(enum qtype t)
{
    static block_fn *const fn[QT_COUNT] = {
#define PANEL(id, ...)     [QT_##id] = block_##id,
#define PANEL_AS(id, like) [QT_##id] = block_##like,
#include "quant/types.def"
    };
    const struct panel_format *f = panel_format_of(t);
    return f && TAKES(f->scales) ? fn[t] : NULL;
}

#endif

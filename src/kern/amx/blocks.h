/* blocks.h - a function for each format that a kernel of AMX takes, from its group_rows and takes: included
 * once, behind these two. */
#ifndef QUOTH_KERN_AMX_BLOCKS_H
#define QUOTH_KERN_AMX_BLOCKS_H

#include "tile.h"

ALWAYS void block_rows(const struct panel_format *f, const struct panel_block *b,
                       const struct act *x, int row, int n_row)
{
    struct rows r = rows_of(x, row);
    int64_t at = 0;
    for (int k = 0; k < x->k; k += ACT_GROUP) {
        const int n_unit = group_units(k, x->k);
        for (int p = 0; p < b->n_panel; p++) {
            float *c = b->c + p * BLOCK_ROWS * PANEL;
            if (k == 0) memset(c, 0, (size_t)(n_row + TILE - 1) / TILE * TILE * PANEL * sizeof *c);
            group_rows(f, b, p, b->panel[p] + at, n_unit, &r, n_row, c);
        }
        at += panel_group_bytes(f, n_unit);
        rows_next(&r, x);
    }
}

#define PANEL(id, ...)                                                                             \
    static void block_##id(const struct panel_block *b, const struct act *x, int row, int n_row)   \
    {                                                                                              \
        if (takes(&panel_format_##id)) block_rows(&panel_format_##id, b, x, row, n_row);           \
    }
#include "kern/panels.def"
#undef PANEL

/* NULL: not one of these */
static inline block_fn *block_of(enum qtype t)
{
    static block_fn *const fn[QT_COUNT] = {
#define PANEL(id, ...) [QT_##id] = block_##id,
#include "kern/panels.def"
#undef PANEL
    };
    const struct panel_format *f = panel_format_of(t);
    return f && takes(f) ? fn[t] : NULL;
}

#endif

/* tile.h - private to src/kern/amx: the tile unit, and functions shared by planes.c and spans.c.
 * Any thread may call kernels, because they change only the memory of their arguments. */
#ifndef QUOTH_KERN_AMX_TILE_H
#define QUOTH_KERN_AMX_TILE_H

#include "amx.h"

#include "kern/avx512/dot.h"

#include "kern/tmpl/linear.h"
#include "kern/tmpl/unit.h"

enum { TILE = 16 };

/* ---- the tile unit ---- */

/* Configuration: tiles 0 to 3 are sums, 4 and 5 are 16 rows of `step` activations, 6 and 7 are
 * `step` k of 16 outputs. The configuration is constant, because gcc 12 assumes that the
 * instruction reads only 8 bytes and drops stores to the other bytes. */
#define CONFIG(step)                                                                               \
    {                                                                                              \
        .palette = 1, .n_byte = {64, 64, 64, 64, step, step, 64, 64},                              \
        .n_row = {TILE, TILE, TILE, TILE, TILE, TILE, step / 4, step / 4},                         \
    }

static inline void tiles_open(int step)
{
    static const struct tile_config of16 = CONFIG(16), of32 = CONFIG(32), of64 = CONFIG(64);
    _tile_loadconfig(step == 16 ? &of16 : step == 32 ? &of32 : &of64);
}

/* Rows of x in one group: pointers to the first row, and steps to the next 64 k and to the next
 * unit. All pointers are borrowed from the struct act. */
struct x_rows {
    const int8_t *q;    /* i8 [n_row, 64] activations */
    const int16_t *sum; /* i16 [n_row, 2] sums of 16 values */
    const float *scale; /* f32 [n_row] */
    int64_t q_step, sum_step;
};

/* Return the rows of the first group. rows_next advances to the next group. */
ALWAYS struct x_rows rows_of(const struct act *x, int row)
{
    return (struct x_rows){
        .q = (const int8_t *)x->x + (int64_t)row * 64,
        .sum = x->sum + (int64_t)row * 2,
        .scale = x->scale + row,
        .q_step = (int64_t)x->n_row * 64,
        .sum_step = (int64_t)x->n_row * 2,
    };
}

ALWAYS void rows_next(struct x_rows *r, const struct act *x)
{
    r->q += ACT_GROUP / 64 * r->q_step;
    r->sum += GROUP_UNITS * r->sum_step;
    r->scale += x->n_row;
}

/* Some panels for all rows. The groups of the same k of all these panels are computed together. The
 * activations of a group then stay in the L1 cache for all panels. */
enum { PANELS_MAX = 2, BLOCK_ROWS = LINEAR_ROWS_MAX };

struct panel_block {
    const uint8_t *panel[PANELS_MAX]; /* u8 [stride] panels in the packed form, borrowed */
    int n_panel;
    int64_t stride; /* bytes of a panel */
    /* f32 [n_panel, BLOCK_ROWS, 16] sums, borrowed; rows past the last row are undefined */
    float *c;
};

/* Memory to prefetch into the L2 cache: the data after a group of a panel. */
struct tile_ahead {
    const uint8_t *at; /* u8 [n_byte], borrowed; prefetched, never read */
    int n_byte;
};

/* Return the data after the group of panel p that ends at `end`. After the panel's last group, the
 * result is the start of the next block. */
ALWAYS struct tile_ahead ahead_of(const struct panel_block *b, int p, const uint8_t *end,
                                  int n_byte)
{
    if (end >= b->panel[p] + b->stride) end += (PANELS_MAX - 1) * b->stride;
    return (struct tile_ahead){end, n_byte};
}

/* A group to prepare: n_unit units at `from` (NULL if none). */
struct tile_opening {
    struct k_group *g;   /* borrowed; defined by each kernel */
    const uint8_t *from; /* u8 [n_unit] units of a panel, borrowed; NULL: nothing to prepare */
    int n_unit;
    struct tile_ahead ahead;
};

/* Prefetch during the preparation of unit u of a group, n_byte bytes at `at`. Data at distance NEAR
 * are prefetched to the L1 cache. The unit's share of the data after the group is prefetched to the
 * L2 cache. Prefetches to the L2 cache do not occupy the L1 cache's few fill buffers for the
 * latency of memory. Prefetching the whole group to the L1 cache was 10 to 25 % slower (Q4_0, Q8_0;
 * 8 to 32 rows, whole steps). */
enum { NEAR = 1024 }; /* measurements.md, "Constants" */

ALWAYS void fetch_unit(const struct tile_opening *o, int u, const uint8_t *at, int n_byte)
{
    const int lines = o->ahead.n_byte / 64;
    for (int i = lines * u / o->n_unit; i < lines * (u + 1) / o->n_unit; i++)
        __builtin_prefetch(o->ahead.at + i * 64, 0, 2);
    for (int i = 0; i < n_byte; i += 64) __builtin_prefetch(at + NEAR + i);
}

typedef void block_fn(const struct panel_block *b, const struct act *x, int row, int n_row);

/* Return the kernel of a format with integer scales (planes) or f32 scales (spans); NULL for other
 * formats. */
block_fn *amx_planes_of(enum qtype t);
block_fn *amx_spans_of(enum qtype t);

#endif

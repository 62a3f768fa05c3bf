/* linear.c - y = x W^T + b on the CPU: convert the activations once, then chunks of panels and rows
 * on the pool.
 *
 * A chunk is about CHUNK_BYTES of weights times at most LINEAR_ROWS rows: long enough to hide its
 * claim, short enough to share evenly. Chunks of one range of panels follow each other, so that the
 * weights come from memory once and from the L2 cache for the next rows. */
#include "cpu_impl.h"

enum { CHUNK_BYTES = 98304 };

struct linear_job {
    struct cpu_backend *c;
    const float *x;
    struct act act;
    struct linear_out out;
    struct panels w;
    int rows_per_tile, n_tile, panels_per_chunk;
};

static enum act_type act_type_of(const struct cpu_backend *c, enum qtype t)
{
    if (c->act == ACT_CHOICE_F32) return ACT_F32;
    if (qtype_is_block(t)) return ACT_Q8;
    return t == QT_bf16 ? ACT_BF16 : ACT_F32;
}

static void convert_row(void *ctx, int i, int worker)
{
    (void)worker;
    struct linear_job *j = ctx;
    j->c->kern.act[j->act.type](&j->act, i, j->x + (int64_t)i * j->act.k);
}

static void convert(struct linear_job *j)
{
    if ((int64_t)j->act.n_row * j->act.k >= 1 << 16)
        pool_run(j->c->pool, convert_row, j, j->act.n_row);
    else
        for (int i = 0; i < j->act.n_row; i++) convert_row(j, i, 0);
}

static void linear_chunk(void *ctx, int chunk, int worker)
{
    (void)worker;
    const struct linear_job *j = ctx;
    int panel = chunk / j->n_tile * j->panels_per_chunk, row = chunk % j->n_tile * j->rows_per_tile;
    int n_panel = panel_count(j->w.n_out) - panel, n_row = j->act.n_row - row;
    if (n_panel > j->panels_per_chunk) n_panel = j->panels_per_chunk;
    if (n_row > j->rows_per_tile) n_row = j->rows_per_tile;
    j->c->kern.linear[j->act.type][j->w.type](&j->out, &j->w, panel, n_panel, &j->act, row, n_row);
}

void cpu_linear(struct backend *b, float *y, const struct linear *l, const float *x, int n_row)
{
    struct cpu_backend *c = cpu_of(b);
    if (n_row == 0) return;
    struct linear_job j = {
        .c = c,
        .x = x,
        .w = cpu_panels(&l->w),
        .out = {.y = y, .stride = l->w.n_out, .bias = l->bias},
        .act = {.type = act_type_of(c, l->w.type),
                .n_row = n_row,
                .k = (int)l->w.k,
                .x = c->act_x,
                .scale = c->act_scale,
                .sum = c->act_sum},
    };
    j.n_tile = (n_row + LINEAR_ROWS - 1) / LINEAR_ROWS;
    j.rows_per_tile = (n_row + j.n_tile - 1) / j.n_tile;
    j.panels_per_chunk = (int)(CHUNK_BYTES / j.w.stride) & ~1;
    if (j.panels_per_chunk < 2) j.panels_per_chunk = 2;
    convert(&j);
    int n = panel_count(j.w.n_out);
    pool_run(c->pool, linear_chunk, &j,
             (n + j.panels_per_chunk - 1) / j.panels_per_chunk * j.n_tile);
}

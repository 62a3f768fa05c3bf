/* scan.c - ops of recurrent layers on the CPU.
 *
 * A piece is a sequence with some columns of a convolution, or with a head (or some columns) of a
 * recurrence. A piece processes the rows of its sequence in order, one kernel call per row. The
 * arithmetic of a row has one order, so the division into steps and pieces does not change a bit.
 *
 *   state_in --copy--> slot of the last row --row--> --row--> ... --row-->
 *                                               |        |
 *                                     state_out of the row, if any: copy
 *
 * Every last row has a slot (batch.h). The state is computed in this slot, so an op needs no memory
 * for it. */
#include "cpu_impl.h"

#include <string.h>

/* maximum number of columns of a piece of the ops whose columns are independent */
enum { COLUMNS = 256 };

static int piece_count(int64_t n)
{
    return (int)((n + COLUMNS - 1) / COLUMNS);
}

static int piece_len(int64_t n, int64_t at)
{
    return n - at < COLUMNS ? (int)(n - at) : COLUMNS;
}

static float *slot_at(const struct state_layer *s, int32_t slot)
{
    return s->at + slot * s->slot_floats;
}

/* ---- convolution ---- */

/* Arguments of conv. All pointers are borrowed for the op. */
struct conv_job {
    const struct kern *kern;
    float *y; /* f32 [n_row, n] */
    const struct conv *c;
    const struct batch *batch;
};

/* The columns of one piece: their last rows before the step, f32 [n_tap - 1, n], and the rows of
 * the step. */
struct conv_piece {
    float old[TAPS_MAX - 1][COLUMNS];
    const float *x; /* first row of the sequence */
    int64_t x_row;
};

/* Return row i of the sequence in this step, i < 0: a row of earlier steps. */
static const float *row_of(const struct conv_piece *p, int n_old, int i)
{
    return i < 0 ? p->old[n_old + i] : p->x + i * p->x_row;
}

/* Copy the last rows to a slot, after row i of the sequence in this step. */
static void keep_rows(const struct conv_job *j, const struct conv_piece *p, int32_t slot, int i,
                      int64_t at, int n)
{
    const struct conv *c = j->c;
    float *to = slot_at(&c->state, slot) + c->first + at;
    for (int t = 0; t < c->n_tap - 1; t++)
        memcpy(to + t * c->n_all, row_of(p, c->n_tap - 1, i + 2 - c->n_tap + t),
               (size_t)n * sizeof *to);
}

/* Read the last rows of earlier steps. */
static void load_rows(const struct conv_job *j, struct conv_piece *p, int32_t slot, int64_t at,
                      int n)
{
    const struct conv *c = j->c;
    if (slot < 0) memset(p->old, 0, sizeof p->old);
    for (int t = 0; t < c->n_tap - 1 && slot >= 0; t++)
        memcpy(p->old[t], slot_at(&c->state, slot) + t * c->n_all + c->first + at,
               (size_t)n * sizeof **p->old);
}

static void conv_piece(void *ctx, int i, int worker)
{
    (void)worker;
    const struct conv_job *j = ctx;
    const struct conv *c = j->c;
    const struct batch *b = j->batch;
    const int s = i / piece_count(c->n), r0 = b->row0[s] - b->row0[0],
              n_row = b->row0[s + 1] - b->row0[s];
    const int64_t at = (int64_t)(i % piece_count(c->n)) * COLUMNS;
    const int n = piece_len(c->n, at);
    struct conv_piece p = {.x = c->x + r0 * c->x_row + at, .x_row = c->x_row};
    load_rows(j, &p, b->state_in[s], at, n);
    for (int r = 0; r < n_row; r++) {
        const float *x[TAPS_MAX];
        float *y = j->y + (r0 + r) * c->n + at;
        for (int t = 0; t < c->n_tap; t++) x[t] = row_of(&p, c->n_tap - 1, r + 1 - c->n_tap + t);
        j->kern->conv_row(y, x, c->w + c->first + at, c->n_all,
                          c->bias ? c->bias + c->first + at : NULL, c->n_tap, n);
        if (c->curved) j->kern->curve[c->curve](y, y, n);
        if (b->state_out[r0 + r] >= 0) keep_rows(j, &p, b->state_out[r0 + r], r, at, n);
    }
}

void cpu_conv(struct backend *b, float *y, const struct conv *c, const struct batch *batch)
{
    struct conv_job j = {&cpu_of(b)->kern, y, c, batch};
    pool_run(cpu_of(b)->pool, conv_piece, &j, batch->n_seq * piece_count(c->n));
}

/* ---- recurrence ---- */

/* Arguments of scan. All pointers are borrowed for the op. */
struct scan_job {
    const struct kern *kern;
    float *y; /* f32 [n_row, n_head, d_v] */
    const struct scan *s;
    const struct batch *batch;
    int n_piece; /* pieces of a sequence */
};

/* The part of the state that one piece computes: d_k rows of n columns. */
struct part {
    int64_t at; /* offset of the part in a slot */
    int head, column, n;
};

/* Return true for the kinds with one head, whose columns are independent. */
static bool has_columns(const struct scan *s)
{
    return s->kind == SCAN_COLUMNS || s->kind == SCAN_WKV;
}

static struct part part_of(const struct scan *s, int piece)
{
    if (!has_columns(s)) return (struct part){(int64_t)piece * s->d_k * s->d_v, piece, 0, s->d_v};
    const int column = piece * COLUMNS;
    return (struct part){column, 0, column, piece_len(s->d_v, column)};
}

/* Set a part in one slot to the part in another slot, or to zeros if `from` is NULL. */
static void set_part(const struct scan *s, const struct part *p, float *to, const float *from)
{
    if (from == to) return;
    for (int i = 0; i < s->d_k; i++) {
        const int64_t at = p->at + (int64_t)i * s->d_v;
        if (from)
            memcpy(to + at, from + at, (size_t)p->n * sizeof *to);
        else
            memset(to + at, 0, (size_t)p->n * sizeof *to);
    }
}

/* Return the decays of a head, or of a part's columns. */
static const float *decay_of(const struct scan *s, const struct part *p, int row)
{
    const int64_t at = (int64_t)(s->same_decay ? 0 : row) * s->n_head + p->head;
    if (s->kind == SCAN_COLUMNS) return NULL;
    if (s->kind == SCAN_WKV) return s->decay + p->column;
    return s->decay + (s->by_channel ? at * s->d_k : at);
}

/* Return the factors for the values of a row, which COLUMNS and WKV have per column, and WKV_HEADS
 * per row of the state. */
static const float *skip_of(const struct scan *s, const struct part *p)
{
    if (!s->skip) return NULL;
    if (s->kind == SCAN_WKV_HEADS) return s->skip + (int64_t)p->head * s->d_k;
    return s->skip + (has_columns(s) ? p->column : p->head);
}

/* Return the arguments of the kernel for a row. */
static struct scan_row row_args(const struct scan_job *j, const struct part *p, float *state,
                                int row)
{
    const struct scan *s = j->s;
    const bool columns = has_columns(s), delta = s->kind == SCAN_WKV_DELTA;
    const int share = s->n_head / s->n_head_k, h = p->head,
              head_k = s->tiled ? h % s->n_head_k : h / share;
    const int64_t at_k = ((int64_t)row * s->n_head_k + head_k) * s->d_k,
                  at_h = (int64_t)row * s->n_head + h, at_v = at_h * s->d_v + p->column;
    return (struct scan_row){
        .y = j->y + at_v,
        .s = state + p->at,
        .q = s->q ? s->q + at_k : NULL,
        .k = s->k + (s->kind == SCAN_WKV ? at_v : at_k),
        .v = s->v + at_v,
        .decay = decay_of(s, p, row),
        .decay_step = s->by_channel,
        .beta = s->beta ? s->beta + (columns ? at_v : at_h) : NULL,
        .a = s->a ? s->a + (delta ? at_k : p->column) : NULL,
        .b = s->b ? s->b + at_k : NULL,
        .skip = skip_of(s, p),
        .d_k = s->d_k,
        .d_v = p->n,
        .s_row = s->d_v,
    };
}

static void scan_piece(void *ctx, int i, int worker)
{
    (void)worker;
    const struct scan_job *j = ctx;
    const struct scan *s = j->s;
    const struct batch *b = j->batch;
    const int seq = i / j->n_piece, r0 = b->row0[seq] - b->row0[0],
              r1 = b->row0[seq + 1] - b->row0[0];
    const struct part p = part_of(s, i % j->n_piece);
    const int32_t in = b->state_in[seq];
    float *state = slot_at(&s->state, b->state_out[r1 - 1]);
    set_part(s, &p, state, in >= 0 ? slot_at(&s->state, in) : NULL);
    for (int r = r0; r < r1; r++) {
        const struct scan_row row = row_args(j, &p, state, r);
        j->kern->scan_row[s->kind](&row);
        if (b->state_out[r] >= 0) set_part(s, &p, slot_at(&s->state, b->state_out[r]), state);
    }
}

void cpu_scan(struct backend *b, float *y, const struct scan *s, const struct batch *batch)
{
    const int n_piece = has_columns(s) ? piece_count(s->d_v) : s->n_head;
    struct scan_job j = {&cpu_of(b)->kern, y, s, batch, n_piece};
    pool_run(cpu_of(b)->pool, scan_piece, &j, batch->n_seq * n_piece);
}

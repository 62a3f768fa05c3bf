/* attn_plan.h - the division of a step's attention into chunks. attn_plan.c makes the plan, and
 * attn.c uses the plan. The engine's thread makes the plan. Workers only read the plan, and only
 * during an op. */
#ifndef QUOTH_BACKEND_CPU_ATTN_PLAN_H
#define QUOTH_BACKEND_CPU_ATTN_PLAN_H

#include "backend/backend_impl.h"

#include "kern/kern.h"

/* Rows of the batch, with spans that all these rows read from the same pages. Each chunk has n_head
 * KV heads. The last chunk may have fewer. */
struct attn_piece {
    int unit, n_unit; /* units [unit, unit + n_unit) of the plan         */
    int seq;          /* sequence whose page table has the spans         */
    int span0, span1; /* spans [span0, span1)                            */
    int n_head;       /* KV heads of a chunk                             */
    int before;       /* piece of the earlier spans of these units; -1: none */
    bool last;        /* true if no piece follows for these units */
    /* First result slot, by unit and query head. -1: the piece is the only piece of its units, so
     * its total is the result. The first piece of a group of units has one slot per unit. The
     * slot has the total of the spans of its unit. Later pieces have one slot for every span. */
    int64_t slot;
};

/* The plan of a step. The arrays are owned. row, piece and run are allocations. The other arrays
 * are parts of these allocations. */
struct attn_plan {
    /* Number of units. A unit is a row of the batch that attends to positions [from, to). Units of
     * a piece are adjacent. */
    int n_unit;
    int32_t *row, *from, *to; /* [row_max] row and positions [from, to) of each unit */

    int n_piece, n_join;
    struct attn_piece *piece; /* pieces of a unit in ascending spans */
    int32_t *run;             /* [n_piece] all pieces, long pieces first */
    /* [n_join] last pieces of their units, except pieces that are also the first */
    int32_t *join;
    int32_t *chunk0; /* [n_piece + 1] chunks before each piece of run */
    int n_chunk;

    /* Fields for attn_plan_make only. */
    const struct batch *batch; /* the batch of the step, borrowed */
    enum attn_part part;       /* part of a sequence that rows attend to */
    int unit_max, row_max, n_group, n_head, n_head_kv, span_pages, n_extra;
    int64_t n_slot, slot_max, cost_max; /* cost_max: maximum of a chunk */
    /* [row_max + 1] sequences in order of their units, with the first unit, and the number of spans
     * shared with the previous sequence */
    int32_t *seq, *unit0, *shared;
};

/* Allocate the arrays for row_max rows. After ERR_MEMORY, p is safe for attn_plan_close. */
int attn_plan_open(struct attn_plan *p, int row_max, struct err *e);
void attn_plan_close(struct attn_plan *p);

/* Return the distance in rows between heads of a chunk: n_row with padding for query tiles and
 * whole vectors. */
static inline int attn_head_rows(int n_row)
{
    return attn_stride(n_row + 7);
}

/* Return the index in `run` of a chunk's piece. */
int attn_plan_run(const struct attn_plan *p, int chunk);

/* Make the plan of a step. row_max: rows x heads of a chunk. slot_max: available slots. The plan
 * never changes a bit of the result. */
void attn_plan_make(struct attn_plan *p, const struct batch *b, const struct attn_spec *spec,
                    int page_rows, int row_max, int64_t slot_max, int n_thread);

#endif

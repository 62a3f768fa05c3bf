/* attn_plan.h - how a step's attention is divided into chunks; between attn_plan.c and attn.c. */
#ifndef QUOTH_BACKEND_CPU_ATTN_PLAN_H
#define QUOTH_BACKEND_CPU_ATTN_PLAN_H

#include "backend/backend_impl.h"

#include "kern/kern.h"

/* Rows of the batch at spans that they all reach through the same pages. Work on n_head KV heads
 * (the last chunk may have fewer) is one chunk. */
struct attn_piece {
    int unit, n_unit; /* units [unit, unit + n_unit) of the plan         */
    int seq;          /* sequence whose page table has the spans         */
    int span0, span1; /* spans [span0, span1)                            */
    int n_head;       /* KV heads of a chunk                             */
    int before;       /* piece of these units' preceding spans; -1: none */
    bool last;        /* no piece follows for these units                */
    /* First result slot, by unit and query head. The first piece of its units has one slot for
     * each, with the total of its spans; others have one for every span. -1: first and last piece;
     * its total is the result. */
    int64_t slot;
};

struct attn_plan {
    /* A unit is a row of the batch that sees positions [from, to). Units of a piece are
     * adjacent. */
    int n_unit;
    int32_t *row, *from, *to; /* [n_row_max] */

    int n_piece, n_join;
    struct attn_piece *piece; /* pieces of a unit in ascending spans */
    int32_t *run;             /* [n_piece] all pieces, long ones first */
    int32_t *join;            /* [n_join] last pieces of their units, unless also the first */
    int32_t *chunk0;          /* [n_piece + 1] chunks before each piece of run */
    int n_chunk;

    /* Used by attn_plan_make only. */
    const struct batch *batch;
    int unit_max, row_max, n_group, n_head, n_head_kv, span_pages, n_extra;
    int64_t n_slot, slot_max, cost_max; /* cost_max: limit of a chunk */
    /* [n_row_max + 1] sequences in order of their units; first unit of each; spans shared with the
     * previous sequence */
    int32_t *seq, *unit0, *shared;
};

int attn_plan_open(struct attn_plan *p, int n_row_max, struct err *e);
void attn_plan_close(struct attn_plan *p);

/* Return the distance in rows between heads of a chunk: n_row plus padding for query tiles and
 * whole vectors. */
static inline int attn_head_rows(int n_row)
{
    return attn_stride(n_row + 7);
}

/* Return the index in run of a chunk's piece. */
int attn_plan_run(const struct attn_plan *p, int chunk);

/* Make the plan of a step. row_max: rows x heads of a chunk; slot_max: available slots. The plan
 * never changes a bit of the result. */
void attn_plan_make(struct attn_plan *p, const struct batch *b, const struct attn_spec *spec,
                    int page_rows, int row_max, int64_t slot_max, int n_thread);

#endif

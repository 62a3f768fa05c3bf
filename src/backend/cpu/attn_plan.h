/* attn_plan.h - who computes which part of a step's attention: between attn_plan.c and attn.c. */
#ifndef QUOTH_BACKEND_CPU_ATTN_PLAN_H
#define QUOTH_BACKEND_CPU_ATTN_PLAN_H

#include "backend/backend_impl.h"

/* Some rows of the batch, at some spans that they all reach through the same pages. With n_head KV
 * heads (the last ones may be fewer) it is one chunk of work. */
struct attn_piece {
    int unit, n_unit; /* units [unit, unit + n_unit) of the plan                      */
    int seq;          /* whose page table leads to the spans                          */
    int span0, span1; /* spans [span0, span1)                                         */
    int n_head;       /* of a chunk                                                   */
    int before;       /* the piece of the spans before, of these units; -1: the first */
    bool last;        /* no piece follows for these units                             */
    /* Where it leaves its results: the first of its slots, by unit and query head; the first piece
     * of its units has one slot for each, with the total of its spans, others one for every span.
     * -1: it is first and last, and its total is the result. */
    int64_t slot;
};

struct attn_plan {
    /* A unit is a row of the batch; it sees positions [from, to). Units of a piece are adjacent. */
    int n_unit;
    int32_t *row, *from, *to; /* [n_row_max] */

    int n_piece, n_join;
    struct attn_piece *piece; /* [piece_max], those of a unit in ascending spans */
    int32_t *run;             /* [n_piece] all of them, long ones first          */
    int32_t *join;            /* [n_join] the last ones of their units, if not the first too */
    int32_t *chunk0;          /* [n_piece + 1] chunks before those of each of run            */
    int n_chunk;

    /* While it is made. */
    const struct batch *batch;
    int unit_max, row_max, n_group, n_head, n_head_kv, span_pages, n_extra;
    int64_t n_slot, slot_max, cost_max; /* cost_max: of a chunk                          */
    int32_t *seq, *unit0, *shared; /* [n_row_max + 1] sequences in the order of their units; the
                                      first unit of each; spans shared with the one before */
};

int attn_plan_open(struct attn_plan *p, int n_row_max, struct err *e);
void attn_plan_close(struct attn_plan *p);

/* Rows from one head of a chunk to the next: n_row of them, and what tiles of queries and whole
 * vectors take beyond. */
static inline int attn_head_rows(int n_row)
{
    return attn_stride(n_row + 7);
}

/* Of which of run a chunk is. */
int attn_plan_run(const struct attn_plan *p, int chunk);

/* row_max: rows of all heads of a chunk together; slot_max: slots there are. The plan never changes
 * a bit of the result. */
void attn_plan_make(struct attn_plan *p, const struct batch *b, const struct attn_spec *spec,
                    int page_rows, int row_max, int64_t slot_max, int n_thread);

#endif

/* batch.h - struct batch, the input of one step. This file is part of backend.h.
 *
 * Rows are tokens, ragged over sequences. Sequence s has the rows [row0[s], row0[s + 1]) at
 * consecutive positions. Prefill chunks and decodes are mixed. Linear and elementwise ops process
 * rows only. Attention also uses sequences. The arrays are one contiguous allocation, so one copy
 * sends them to a device or another rank (batch_at). One thread writes a batch. Workers only read
 * the batch, and only during an op. */
#ifndef QUOTH_BACKEND_BATCH_H
#define QUOTH_BACKEND_BATCH_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OUT_LOGITS = 1, OUT_HIDDEN = 2 }; /* bits of out_kind */
/* Kinds of copies. dst of OUT and src of IN are a page or a state slot in host memory. */
enum { COPY_KV, COPY_OUT, COPY_IN, COPY_STATE_OUT, COPY_STATE_IN };

struct batch_copy {
    int32_t src, dst, kind;
};

struct batch_limits {
    int n_row, n_seq, page_stride, n_copy;
    /* maximum number of outputs with OUT_LOGITS; n_row is the limit of outputs with OUT_HIDDEN */
    int n_out;
    int n_state;   /* slots for recurrent state; 0: no layer has state */
    int n_segment; /* segments of a text that the model distinguishes; 0 if none */
    int n_source;  /* positions of a source, for a model with encoder and decoder; 0 if none */
    int n_adapter; /* adapters of the model, numbered from 1; 0 if none */
    /* LongRoPE: number of tokens of the longest text that has the short list of divisors. All rows
     * of a longer text have the long list. 0: the rope has only one list. */
    int n_short;
};

struct batch {
    int n_row, n_seq, n_out, n_copy;
    int page_stride;

/* the arrays, borrowed from `memory`; batch.def describes each */
#define INTS(field, room, clear, used, low, high) int32_t *field;
#define COPIES(field, room)                       struct batch_copy *field;
#include "batch.def"
#undef INTS
#undef COPIES

    struct batch_limits limits;
    void *memory; /* memory of the arrays above, owned */
    size_t n_byte;
};

/* Allocate a batch within the limits, without rows. After ERR_MEMORY, b is safe for batch_close. */
int batch_open(struct batch *b, const struct batch_limits *limits, struct err *e);
/* Return the number of bytes of an open batch's memory. */
int64_t batch_bytes(const struct batch_limits *limits);
/* Free the memory of b. A zeroed batch is allowed. */
void batch_close(struct batch *b);
void batch_clear(struct batch *b); /* remove all rows and sequences */
/* Return true if all rows of a text of n tokens have the long list of divisors. */
static inline bool batch_is_long(const struct batch_limits *l, int n)
{
    return l->n_short > 0 && n > l->n_short;
}
/* Set `angle` of the rows of sequence s. The caller must set pos of these rows before. is_long:
 * the rows have the long list.
 * The function has no effect if limits.n_short is 0. */
void batch_rope(struct batch *b, int s, bool is_long);

/* Set the recurrent states of sequence s to one slot, which the sequence reads, unless its rows
 * begin at position 0, and which receives the state after its last row. The caller must set pos of
 * these rows before. The function has no effect if limits.n_state is 0. */
void batch_state(struct batch *b, int s, int32_t slot);

/* Return b with its arrays in `memory`, a copy of the n_byte bytes at b->memory. The counts are
 * equal to the counts of b. The result borrows b and memory. */
struct batch batch_at(const struct batch *b, void *memory);

/* Return sequences [s0, s1) of b with their rows, which are numbered from 0. `host` is the same
 * batch on the host. The result borrows the arrays of b. row0 keeps its numbers, so row0[s] -
 * row0[0] is a row of the result. The result has the outputs of b if s0 is 0, otherwise none. The
 * result has no copies. */
struct batch batch_seqs(const struct batch *b, const struct batch *host, int s0, int s1);
/* Return the first sequence of b whose rows are a source; n_seq if none. `b` is on the host. */
int batch_source0(const struct batch *b);

/* Check that every index is within its limits and that positions are consistent. Return NULL, or a
 * description of the error. The engine asserts the result. The function also validates batches from
 * another rank. */
const char *batch_check(const struct batch *b, int n_vocab, int n_page, int page_rows);

#endif

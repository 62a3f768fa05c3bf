/* batch.h - struct batch: what one step computes. Part of backend.h.
 *
 * Rows are tokens, ragged over sequences: sequence s owns rows row0[s] .. row0[s+1) at consecutive
 * positions. Prefill chunks and decodes are mixed. Linear and elementwise ops see only rows;
 * attention also sees sequences. The arrays are one contiguous allocation, so one copy sends them
 * to a device or another rank (batch_at). */
#ifndef QUOTH_BACKEND_BATCH_H
#define QUOTH_BACKEND_BATCH_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { OUT_LOGITS = 1, OUT_HIDDEN = 2 }; /* bits */
/* dst of OUT and src of IN are a page, or a state slot, in host memory */
enum { COPY_KV, COPY_OUT, COPY_IN, COPY_STATE_OUT, COPY_STATE_IN };

struct batch_copy {
    int32_t src, dst, kind;
};

struct batch_limits {
    int n_row, n_seq, page_stride, n_copy;
    int n_out;   /* outputs with OUT_LOGITS; OUT_HIDDEN is limited by n_row */
    int n_state; /* slots for recurrent state; 0: no layer has state */
};

struct batch {
    int n_row, n_seq, n_out, n_copy;
    int page_stride;

    int32_t *token;  /* [n_row] id                                                   */
    int32_t *pos;    /* [n_row] KV index within the sequence                         */
    int32_t *slot;   /* [n_row] page * page_rows + offset: where K and V are stored  */
    int32_t *row0;   /* [n_seq + 1] first row of each sequence; row0[n_seq] = n_row  */
    int32_t *kv_len; /* [n_seq] positions held after this step                       */
    int32_t *page;   /* [n_seq, page_stride] page table; -1: no page; no row sees it */
    /* [n_seq] slot of the state before the first row; -1: sequence start; only with n_state */
    int32_t *state_in;
    /* [n_row] slot that receives the state after this row, or -1; only with n_state */
    int32_t *state_out;
    int32_t *out_row;        /* [n_out <= n_row] rows whose result is returned, each once     */
    int32_t *out_kind;       /* [n_out] OUT_LOGITS, OUT_HIDDEN, or both                       */
    struct batch_copy *copy; /* [n_copy] page and state copies, done in order before the step */

    struct batch_limits limits;
    void *memory; /* owned; contains the arrays above */
    size_t n_byte;
};

int batch_open(struct batch *b, const struct batch_limits *limits, struct err *e);
void batch_close(struct batch *b);
void batch_clear(struct batch *b); /* no rows, no sequences */

/* Return b with its arrays in `memory`, a copy of the n_byte bytes at b->memory; the counts are
 * b's. Borrows both. */
struct batch batch_at(const struct batch *b, void *memory);

/* Check that every index is inside its limits and that positions are consistent: an assertion of
 * the engine, and validation of a batch from another rank. Returns NULL, or a description of the
 * error. */
const char *batch_check(const struct batch *b, int n_vocab, int n_page, int page_rows);

#endif

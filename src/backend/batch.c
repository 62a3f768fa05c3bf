/* batch.c - memory and validation of struct batch; see batch.h. */
#include "batch.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

enum { N_ARRAY = 11 };

/* List the arrays in memory order: address of the pointer, and size in bytes. Returns the count. */
static int array_list(struct batch *b, void **at[N_ARRAY], size_t n_byte[N_ARRAY])
{
    const struct batch_limits *l = &b->limits;
    size_t row = (size_t)l->n_row, seq = (size_t)l->n_seq, has_state = l->n_state > 0;
    int n = 0;
#define ARRAY(field, count) (at[n] = (void **)&b->field, n_byte[n++] = (count) * sizeof *b->field)
    ARRAY(token, row);
    ARRAY(pos, row);
    ARRAY(slot, row);
    ARRAY(row0, seq + 1);
    ARRAY(kv_len, seq);
    ARRAY(page, seq * (size_t)l->page_stride);
    ARRAY(state_in, has_state * seq);
    ARRAY(state_out, has_state * row);
    ARRAY(out_row, row);
    ARRAY(out_kind, row);
    ARRAY(copy, (size_t)l->n_copy);
#undef ARRAY
    return n;
}

int batch_open(struct batch *b, const struct batch_limits *limits, struct err *e)
{
    CHECK(limits->n_row >= 1 && limits->n_seq >= 1, "%d rows, %d sequences", limits->n_row,
          limits->n_seq);
    *b = (struct batch){.limits = *limits, .page_stride = limits->page_stride};
    void **at[N_ARRAY];
    size_t n_byte[N_ARRAY], offset[N_ARRAY], total = 0;
    int n = array_list(b, at, n_byte);
    for (int i = 0; i < n; i++) {
        offset[i] = total;
        total += (n_byte[i] + 63) / 64 * 64;
    }
    b->memory = calloc(1, total);
    if (!b->memory) return err_memory(e, "the batch", total);
    b->n_byte = total;
    for (int i = 0; i < n; i++) *at[i] = (char *)b->memory + offset[i];
    return 0;
}

void batch_close(struct batch *b)
{
    free(b->memory);
    *b = (struct batch){0};
}

void batch_clear(struct batch *b)
{
    b->n_row = b->n_seq = b->n_out = b->n_copy = 0;
    b->row0[0] = 0;
}

struct batch batch_at(const struct batch *b, void *memory)
{
    struct batch to = *b;
    void **at[N_ARRAY];
    size_t n_byte[N_ARRAY];
    int n = array_list(&to, at, n_byte);
    for (int i = 0; i < n; i++) *at[i] = (char *)memory + ((char *)*at[i] - (char *)b->memory);
    to.memory = memory;
    return to;
}

static const char *check_seq(const struct batch *b, int s, int n_page, int page_rows)
{
    int r0 = b->row0[s], r1 = b->row0[s + 1], len = b->kv_len[s];
    if (r0 >= r1) return "a sequence without rows";
    if (len < r1 - r0 || len > b->page_stride * page_rows) return "kv_len out of range";
    for (int i = 0; i * page_rows < len; i++) {
        int page = b->page[s * b->page_stride + i];
        if (page == -1 && (i + 1) * page_rows <= b->pos[r0]) continue; /* before the window */
        if (page < 0 || page >= n_page) return "page number out of range";
    }
    for (int r = r0; r < r1; r++) {
        if (b->pos[r] != len - r1 + r) return "positions are not consecutive";
        int page = b->page[s * b->page_stride + b->pos[r] / page_rows];
        if (b->slot[r] != page * page_rows + b->pos[r] % page_rows)
            return "slot differs from the page table";
    }
    return NULL;
}

/* Check one copy. Host page numbers are not checked here. */
static bool copy_out_of_range(const struct batch_copy *c, int n_page, int n_state)
{
    const bool in = c->kind == COPY_IN || c->kind == COPY_STATE_IN,
               out = c->kind == COPY_OUT || c->kind == COPY_STATE_OUT;
    const int n = c->kind == COPY_STATE_IN || c->kind == COPY_STATE_OUT ? n_state : n_page;
    if (c->src < 0 || c->dst < 0) return true;
    return (!in && c->src >= n) || (!out && c->dst >= n);
}

/* Return true if another sequence than s reads the slot, or another row than r writes it. */
static bool state_is_shared(const struct batch *b, int s, int r, int32_t slot)
{
    for (int i = 0; i < b->n_seq; i++)
        if (i != s && b->state_in[i] == slot) return true;
    for (int i = 0; i < b->n_row; i++)
        if (i != r && b->state_out[i] == slot) return true;
    return false;
}

static const char *check_state(const struct batch *b, int s)
{
    const int r0 = b->row0[s], r1 = b->row0[s + 1], n = b->limits.n_state;
    if (b->state_in[s] < -1 || b->state_in[s] >= n) return "state_in out of range";
    if ((b->state_in[s] < 0) != (b->pos[r0] == 0))
        return "a sequence goes on from no state, or begins with one";
    if (b->state_out[r1 - 1] < 0) return "the state behind a sequence's last row is not kept";
    for (int r = r0; r < r1; r++) {
        const int32_t slot = b->state_out[r];
        if (slot < -1 || slot >= n) return "state_out out of range";
        if (slot >= 0 && state_is_shared(b, s, r, slot))
            return "a state is written that others read or write";
    }
    return NULL;
}

static int n_logits(const struct batch *b)
{
    int n = 0;
    for (int i = 0; i < b->n_out; i++) n += (b->out_kind[i] & OUT_LOGITS) != 0;
    return n;
}

/* Checks:
 * (1) Counts are within the limits: n_row, n_seq, n_out (at most limits.n_out with OUT_LOGITS),
 *     n_copy.
 * (2) row0 ascends from 0 to n_row, and every sequence has a row.
 * (3) A sequence's rows are its last ones: pos ascends by one and ends at kv_len - 1, and kv_len
 *     fits the page table.
 * (4) Pages up to kv_len exist; -1 only before the first row (outside its window).
 * (5) slot is the page table's entry for pos.
 * (6) Tokens are below n_vocab, output rows below n_row, copied pages below n_page; an output is
 *     logits, a hidden state or both.
 * (7) With recurrent state: a sequence starts without one, the state after its last row is kept,
 *     and a slot that is written is not read by another sequence or written by another row. */
const char *batch_check(const struct batch *b, int n_vocab, int n_page, int page_rows)
{
    const struct batch_limits *l = &b->limits;
    if (b->n_row > l->n_row || b->n_seq > l->n_seq || b->n_out > b->n_row ||
        b->n_copy > l->n_copy || n_logits(b) > l->n_out)
        return "more than the batch has room for";
    if (b->row0[0] != 0 || b->row0[b->n_seq] != b->n_row) return "rows and sequences do not match";
    for (int s = 0; s < b->n_seq; s++) {
        if (b->row0[s + 1] > b->n_row) return "row0 out of range";
        const char *wrong = check_seq(b, s, n_page, page_rows);
        if (!wrong && l->n_state > 0) wrong = check_state(b, s);
        if (wrong) return wrong;
    }
    for (int r = 0; r < b->n_row; r++)
        if (b->token[r] < 0 || b->token[r] >= n_vocab) return "token out of range";
    for (int i = 0; i < b->n_out; i++)
        if (b->out_row[i] < 0 || b->out_row[i] >= b->n_row) return "out_row out of range";
    for (int i = 0; i < b->n_out; i++)
        if (b->out_kind[i] < 1 || b->out_kind[i] > (OUT_LOGITS | OUT_HIDDEN))
            return "out_kind is no kind";
    for (int i = 0; i < b->n_copy; i++)
        if (copy_out_of_range(&b->copy[i], n_page, l->n_state)) return "copy out of range";
    return NULL;
}

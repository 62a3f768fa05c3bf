/* batch.c - memory and validation of struct batch (batch.h).
 *
 * All arrays are in one allocation, each at a multiple of 64 bytes. batch.def lists the arrays with
 * their sizes, their bounds and the part that batch_clear sets to 0. A copy of the memory is also a
 * batch: batch_at translates the pointers. */
#include "batch.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

enum {
#define INTS(field, room, clear, used, low, high) ARRAY_##field,
#define COPIES(field, room)                       ARRAY_##field,
#include "batch.def"
    N_ARRAY
#undef INTS
#undef COPIES
};

/* List the address of the pointer and the size in bytes of each array, in memory order. */
static void array_list(struct batch *b, void **at[N_ARRAY], size_t n_byte[N_ARRAY])
{
    const struct batch_limits *l = &b->limits;
#define ARRAY(field, room)                                                                         \
    at[ARRAY_##field] = (void **)&b->field,                                                        \
    n_byte[ARRAY_##field] = (size_t)(room) * sizeof *b->field;
#define INTS(field, room, clear, used, low, high) ARRAY(field, room)
#define COPIES(field, room)                       ARRAY(field, room)
#include "batch.def"
#undef INTS
#undef COPIES
#undef ARRAY
}

/* Set the offset of each array in one allocation. Return the total size in bytes. */
static size_t lay_out(const size_t n_byte[N_ARRAY], size_t offset[N_ARRAY])
{
    size_t total = 0;
    for (int i = 0; i < N_ARRAY; i++) {
        offset[i] = total;
        total += (n_byte[i] + 63) / 64 * 64;
    }
    return total;
}

int64_t batch_bytes(const struct batch_limits *limits)
{
    struct batch b = {.limits = *limits};
    void **at[N_ARRAY];
    size_t n_byte[N_ARRAY], offset[N_ARRAY];
    array_list(&b, at, n_byte);
    return (int64_t)lay_out(n_byte, offset);
}

int batch_open(struct batch *b, const struct batch_limits *limits, struct err *e)
{
    CHECK(limits->n_row >= 1 && limits->n_seq >= 1, "%d rows, %d sequences", limits->n_row,
          limits->n_seq);
    *b = (struct batch){.limits = *limits, .page_stride = limits->page_stride};
    void **at[N_ARRAY];
    size_t n_byte[N_ARRAY], offset[N_ARRAY];
    array_list(b, at, n_byte);
    size_t total = lay_out(n_byte, offset);
    b->memory = calloc(1, total);
    if (!b->memory) return err_memory(e, "the batch", total);
    b->n_byte = total;
    for (int i = 0; i < N_ARRAY; i++) *at[i] = (char *)b->memory + offset[i];
    return 0;
}

void batch_close(struct batch *b)
{
    free(b->memory);
    *b = (struct batch){0};
}

void batch_clear(struct batch *b)
{
    const struct batch_limits *l = &b->limits;
    b->n_row = b->n_seq = b->n_out = b->n_copy = 0;
#define INTS(field, room, clear, used, low, high)                                                  \
    memset(b->field, 0, (size_t)(clear) * sizeof *b->field);
#define COPIES(field, room)
#include "batch.def"
#undef INTS
#undef COPIES
}

void batch_state(struct batch *b, int s, int32_t slot)
{
    if (b->limits.n_state == 0) return;
    const int r0 = b->row0[s], r1 = b->row0[s + 1];
    b->state_in[s] = b->pos[r0] > 0 ? slot : -1;
    for (int r = r0; r < r1; r++) b->state_out[r] = r + 1 < r1 ? -1 : slot;
}

void batch_rope(struct batch *b, int s, bool is_long)
{
    const int n_short = b->limits.n_short;
    if (n_short == 0) return;
    for (int r = b->row0[s]; r < b->row0[s + 1]; r++)
        b->angle[r] = b->pos[r] + (is_long ? n_short : 0);
}

struct batch batch_at(const struct batch *b, void *memory)
{
    struct batch to = *b;
    void **at[N_ARRAY];
    size_t n_byte[N_ARRAY];
    array_list(&to, at, n_byte);
    for (int i = 0; i < N_ARRAY; i++)
        *at[i] = (char *)memory + ((char *)*at[i] - (char *)b->memory);
    to.memory = memory;
    return to;
}

struct batch batch_seqs(const struct batch *b, const struct batch *host, int s0, int s1)
{
    const int r0 = host->row0[s0];
    struct batch to = *b;
    to.n_seq = s1 - s0;
    to.n_row = host->row0[s1] - r0;
    to.n_out = s0 == 0 ? b->n_out : 0;
    to.n_copy = 0;
    to.token += r0, to.pos += r0, to.slot += r0, to.place += r0;
    if (b->limits.n_segment > 0) to.segment += r0;
    if (b->limits.n_short > 0) to.angle += r0;
    to.row0 += s0, to.kv_len += s0, to.source += s0, to.adapter += s0;
    to.page += (int64_t)s0 * b->page_stride;
    return to;
}

int batch_source0(const struct batch *b)
{
    int s = b->n_seq;
    while (b->limits.n_source > 0 && s > 0 && b->pos[b->row0[s - 1]] < b->source[s - 1]) s--;
    return s;
}

/* Check the values of each array against the bounds in batch.def. */
static const char *check_values(const struct batch *b, int n_vocab, int n_page, int page_rows)
{
    const struct batch_limits *l = &b->limits;
#define INTS(field, room, clear, used, low, high)                                                  \
    for (int i = 0; i < (used); i++)                                                               \
        if (b->field[i] < (low) || b->field[i] > (high)) return #field " out of range";
#define COPIES(field, room)
#include "batch.def"
#undef INTS
#undef COPIES
    return NULL;
}

/* Check rules (2) to (5) of batch_check for sequence s. Return a text for the violated rule; NULL
 * if none. */
static const char *check_seq(const struct batch *b, int s, int n_page, int page_rows)
{
    int r0 = b->row0[s], r1 = b->row0[s + 1], len = b->kv_len[s];
    if (r0 >= r1) return "a sequence without rows";
    if (len < r1 - r0) return "kv_len out of range";
    for (int i = 0; i * page_rows < len; i++) {
        int page = b->page[s * b->page_stride + i];
        /* a page before the window */
        if (page == -1 && (i + 1) * page_rows <= b->pos[r0]) continue;
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

/* Check rule (8) of batch_check for sequence s. Return a text for the violated rule; NULL if
 * none. */
static const char *check_rope(const struct batch *b, int s)
{
    const int n_short = b->limits.n_short, r0 = b->row0[s];
    const int first = b->angle[r0] - b->pos[r0];
    if (first != 0 && first != n_short) return "angle differs from pos";
    if (first == 0 && b->kv_len[s] > n_short) return "a text is too long for its list of divisors";
    for (int r = r0; r < b->row0[s + 1]; r++)
        if (b->angle[r] - b->pos[r] != first)
            return "rows of a sequence have different lists of divisors";
    return NULL;
}

/* Check the indices of one copy. Host page numbers are not checked. */
static bool copy_out_of_range(const struct batch_copy *c, int n_page, int n_state)
{
    const bool in = c->kind == COPY_IN || c->kind == COPY_STATE_IN,
               out = c->kind == COPY_OUT || c->kind == COPY_STATE_OUT;
    const int n = c->kind == COPY_STATE_IN || c->kind == COPY_STATE_OUT ? n_state : n_page;
    if (c->src < 0 || c->dst < 0) return true;
    return (!in && c->src >= n) || (!out && c->dst >= n);
}

/* Return true if another sequence reads the slot, or another row writes it. */
static bool state_is_shared(const struct batch *b, int s, int r, int32_t slot)
{
    for (int i = 0; i < b->n_seq; i++)
        if (i != s && b->state_in[i] == slot) return true;
    for (int i = 0; i < b->n_row; i++)
        if (i != r && b->state_out[i] == slot) return true;
    return false;
}

/* Check rule (7) of batch_check for sequence s. Return a text for the violated rule; NULL if
 * none. */
static const char *check_state(const struct batch *b, int s)
{
    const int r0 = b->row0[s], r1 = b->row0[s + 1];
    if ((b->state_in[s] < 0) != (b->pos[r0] == 0))
        return "a sequence continues without a state, or begins with a state";
    if (b->state_out[r1 - 1] < 0) return "no slot receives the state after a sequence's last row";
    for (int r = r0; r < r1; r++) {
        const int32_t slot = b->state_out[r];
        if (slot >= 0 && state_is_shared(b, s, r, slot))
            return "a written slot has a second reader or writer";
    }
    return NULL;
}

/* Check rule (9) of batch_check for sequence s. n_target: number of sequences whose rows follow
 * their source. Return a text for the violated rule; NULL if none. */
static const char *check_source(const struct batch *b, int s, int n_target)
{
    const int r0 = b->row0[s], n = b->source[s];
    if (n == 0) return "a sequence without a source";
    if (s < n_target && b->pos[r0] < n) return "a source must be after all targets";
    if (s >= n_target && (b->pos[r0] > 0 || b->kv_len[s] != n)) return "a source is divided";
    for (int r = r0; r < b->row0[s + 1]; r++)
        if (b->place[r] != b->pos[r] - (b->pos[r] < n ? 0 : n)) return "place differs from pos";
    return NULL;
}

static int n_logits(const struct batch *b)
{
    int n = 0;
    for (int i = 0; i < b->n_out; i++) n += (b->out_kind[i] & OUT_LOGITS) != 0;
    return n;
}

/* Check a batch:
 * (1) The counts n_row, n_seq, n_out (at most limits.n_out with OUT_LOGITS) and n_copy are within
 *     the limits.
 * (2) row0 ascends from 0 to n_row, and every sequence has a row.
 * (3) A sequence's rows are its last positions. pos ascends by one and ends at kv_len - 1, and
 *     kv_len fits the page table.
 * (4) Pages up to kv_len exist. A page may be -1 only if it is before the first row, outside the
 *     row's window.
 * (5) slot is the page table's entry for pos.
 * (6) Every array's values are within the bounds of batch.def: tokens below n_vocab, adapters at
 *     most limits.n_adapter. Copied pages are below n_page.
 * (7) With recurrent state, a sequence at position 0 reads no state, and every other sequence reads
 *     one. A slot receives the state after a sequence's last row. A written slot has no second
 *     reader or writer in the step.
 * (8) With n_short, all rows of a sequence have the same list of divisors: angle - pos is 0 or
 *     n_short. The difference is n_short if kv_len is above n_short.
 * (9) With n_source, a sequence's rows are its whole source, or follow the source. Sequences with a
 *     source are after all other sequences and have no outputs. */
const char *batch_check(const struct batch *b, int n_vocab, int n_page, int page_rows)
{
    const struct batch_limits *l = &b->limits;
    if (b->n_row > l->n_row || b->n_seq > l->n_seq || b->n_out > b->n_row ||
        b->n_copy > l->n_copy || n_logits(b) > l->n_out)
        return "a count exceeds the limits of the batch";
    if (b->row0[0] != 0 || b->row0[b->n_seq] != b->n_row) return "rows and sequences do not match";
    const char *wrong = check_values(b, n_vocab, n_page, page_rows);
    const int n_target = wrong ? 0 : batch_source0(b);
    for (int s = 0; s < b->n_seq && !wrong; s++) {
        wrong = check_seq(b, s, n_page, page_rows);
        if (!wrong && l->n_state > 0) wrong = check_state(b, s);
        if (!wrong && l->n_short > 0) wrong = check_rope(b, s);
        if (!wrong && l->n_source > 0) wrong = check_source(b, s, n_target);
    }
    for (int i = 0; i < b->n_out && !wrong; i++)
        if (b->out_row[i] >= b->row0[n_target]) wrong = "a row of a source has an output";
    for (int i = 0; i < b->n_copy && !wrong; i++)
        if (copy_out_of_range(&b->copy[i], n_page, l->n_state)) wrong = "copy out of range";
    return wrong;
}

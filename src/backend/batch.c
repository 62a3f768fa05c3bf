/* batch.c - the memory of struct batch; see backend.h. */
#include "backend.h"

#include <stdlib.h>
#include <string.h>

enum { N_ARRAY = 16 };

/* The arrays in the order in which they lie in memory: where the pointer is, and how many bytes
 * it needs. */
static int array_list(struct batch *b, void **at[N_ARRAY], size_t n_byte[N_ARRAY])
{
    const struct batch_limits *l = &b->limits;
    size_t row = (size_t)l->n_row, seq = (size_t)l->n_seq;
    int n = 0;
#define ARRAY(field, count) (at[n] = (void **)&b->field, n_byte[n++] = (count) * sizeof *b->field)
    ARRAY(token, row);
    ARRAY(pos, row);
    ARRAY(slot, row);
    ARRAY(row0, seq + 1);
    ARRAY(kv_len, seq);
    ARRAY(page, seq * (size_t)l->page_stride);
    ARRAY(state, seq);
    ARRAY(adapter, seq);
    ARRAY(out_row, row);
    ARRAY(out_kind, row);
    ARRAY(copy, (size_t)l->n_copy);
    ARRAY(embd_row, (size_t)l->n_embd);
    ARRAY(embd, (size_t)l->n_embd * (size_t)l->d_embd);
    ARRAY(rope_pos, (size_t)l->n_rope_section * row);
    ARRAY(tree_parent, row);
    ARRAY(span, (size_t)l->n_span);
#undef ARRAY
    return n;
}

int batch_open(struct batch *b, const struct batch_limits *limits, struct err *e)
{
    *b = (struct batch){
        .limits = *limits, .page_stride = limits->page_stride, .d_embd = limits->d_embd};
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
    b->n_row = b->n_seq = b->n_out = b->n_copy = b->n_embd = b->n_rope_section = b->n_tree =
        b->n_span = 0;
    b->row0[0] = 0;
}

static const char *check_seq(const struct batch *b, int s, int n_page, int page_rows)
{
    int r0 = b->row0[s], r1 = b->row0[s + 1], len = b->kv_len[s];
    if (r0 >= r1) return "a sequence without rows";
    if (len < r1 - r0 || len > b->page_stride * page_rows) return "kv_len out of range";
    for (int i = 0; i * page_rows < len; i++) {
        int page = b->page[s * b->page_stride + i];
        if (page == -1 && (i + 1) * page_rows <= b->pos[r0]) continue; /* behind a window */
        if (page < 0 || page >= n_page) return "page number out of range";
    }
    for (int r = r0; r < r1; r++) {
        if (b->pos[r] != len - r1 + r) return "positions are not consecutive";
        int page = b->page[s * b->page_stride + b->pos[r] / page_rows];
        if (b->slot[r] != page * page_rows + b->pos[r] % page_rows)
            return "slot is not where the page table says";
    }
    return NULL;
}

/* Host pages are counted by whoever has them. */
static bool copy_out_of_range(const struct batch_copy *c, int n_page)
{
    if (c->src < 0 || c->dst < 0) return true;
    return (c->kind != COPY_IN && c->src >= n_page) || (c->kind != COPY_OUT && c->dst >= n_page);
}

static int n_logits(const struct batch *b)
{
    int n = 0;
    for (int i = 0; i < b->n_out; i++) n += b->out_kind[i] == OUT_LOGITS;
    return n;
}

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
        if (wrong) return wrong;
    }
    for (int r = 0; r < b->n_row; r++)
        if (b->token[r] < -1 || b->token[r] >= n_vocab) return "token out of range";
    for (int i = 0; i < b->n_out; i++)
        if (b->out_row[i] < 0 || b->out_row[i] >= b->n_row) return "out_row out of range";
    for (int i = 0; i < b->n_copy; i++)
        if (copy_out_of_range(&b->copy[i], n_page)) return "copy out of range";
    return NULL;
}

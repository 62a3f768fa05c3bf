/* batch.c - fill a struct batch with work like that of an engine; see measure.h.
 *
 * Sequences have disjoint pages. The pages of the sequences are interleaved, as in an engine after
 * some time:
 *
 *   page number = i * seq_max + seq        slot = page number * page_rows + pos % page_rows
 *
 * Tokens are pseudo-random from a fixed seed, so that every run computes the same work. */
#include "measure.h"

#include "base/rng.h"

int bench_batch_open(struct bench_batch *b, const struct batch_limits *l, int page_rows,
                     int n_vocab, struct err *e)
{
    *b = (struct bench_batch){
        .seq_max = l->n_seq, .page_rows = page_rows, .n_vocab = n_vocab, .rng = 1};
    return batch_open(&b->batch, l, e);
}

void bench_batch_close(struct bench_batch *b)
{
    batch_close(&b->batch);
}

int32_t bench_batch_page(const struct bench_batch *b, int seq, int i)
{
    return i * b->seq_max + seq;
}

/* Append rows [pos0, pos0 + n) of a sequence. KV before pos0 is read without initialization,
 * because its values do not change the time. Only the last row may have logits. */
void bench_batch_add(struct bench_batch *b, int seq, int pos0, int n, bool want_logits)
{
    struct batch *t = &b->batch;
    int s = t->n_seq++, n_page = (pos0 + n + b->page_rows - 1) / b->page_rows;
    for (int i = 0; i < n_page; i++) t->page[s * t->page_stride + i] = bench_batch_page(b, seq, i);
    for (int i = 0; i < n; i++) {
        int row = t->n_row++, pos = pos0 + i;
        t->token[row] = (int32_t)rng_below(&b->rng, (uint64_t)b->n_vocab);
        t->pos[row] = pos;
        t->slot[row] =
            bench_batch_page(b, seq, pos / b->page_rows) * b->page_rows + pos % b->page_rows;
    }
    t->row0[s + 1] = t->n_row;
    t->kv_len[s] = pos0 + n;
    batch_rope(t, s, batch_is_long(&t->limits, pos0 + n));
    batch_state(t, s, seq);
    if (!want_logits) return;
    t->out_row[t->n_out] = t->n_row - 1;
    t->out_kind[t->n_out++] = OUT_LOGITS;
}

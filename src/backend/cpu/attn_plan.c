/* attn_plan.c - the division of rows and of spans of K and V into pieces of work.
 *
 *   long row sequences (prompts)   tiles of unit_max rows, each over all its spans
 *   short rows (decoding, drafts)  sorted by page table, so that sequences with a common prefix are
 *                                  neighbours; a tree of pieces: a shared prefix is read once for
 *                                  all its sequences, then each sequence continues alone
 *   a piece that would keep one    divided into parts of fewer spans, then of fewer KV heads
 *   thread busy while others wait
 *
 *        |---- spans shared by a b c d ----|---- shared by a b ----|-- a --|
 *                                          |                       |--- b ----|
 *                                          |-- c --|
 *                                          |------ d ------|
 *
 * A row's spans are merged in ascending order, and each span is computed independently (kern.h).
 * Therefore the plan never changes a bit of the result. Results of a row with several pieces stay
 * in slots until all pieces are done. No piece is shared or divided if too few slots are free. */
#include "attn_plan.h"

#include <stdlib.h>
#include <string.h>

/* maximum number of parts of all divided pieces, without first parts: 8 for each of 128 threads.
 * With 8 parts, a thread is idle for at most an eighth of its time at the end */
enum { EXTRA_MAX = 1024 };

int attn_plan_open(struct attn_plan *p, int row_max, struct err *e)
{
    /* room for a tree of n leaves, and for tiles */
    size_t n = (size_t)row_max + 1, n_piece = 3 * n + EXTRA_MAX;
    *p = (struct attn_plan){0};
    p->row = malloc(n * 6 * sizeof *p->row);
    p->piece = malloc(n_piece * sizeof *p->piece);
    p->run = malloc((n_piece * 3 + 1) * sizeof *p->run);
    if (!p->row || !p->piece || !p->run)
        return err_memory(e, "the plan of attention", n * 24 + n_piece * (sizeof *p->piece + 12));
    p->from = p->row + n;
    p->to = p->from + n;
    p->seq = p->to + n;
    p->unit0 = p->seq + n;
    p->shared = p->unit0 + n;
    p->join = p->run + n_piece;
    p->chunk0 = p->join + n_piece;
    return 0;
}

void attn_plan_close(struct attn_plan *p)
{
    free(p->row);
    free(p->piece);
    free(p->run);
    *p = (struct attn_plan){0};
}

/* ---- units ---- */

static int n_row_of(const struct batch *b, int s)
{
    return b->row0[s + 1] - b->row0[s];
}

static int source_of(const struct batch *b, int s)
{
    return b->limits.n_source > 0 ? b->source[s] : 0;
}

/* Return the end of the positions that rows of sequence s attend to. */
static int reach_of(const struct attn_plan *p, int s)
{
    return p->part == ATTN_SOURCE ? source_of(p->batch, s) : p->batch->kv_len[s];
}

/* Return the end of the last span that units [u, end) attend to. */
static int span_end(const struct attn_plan *p, int u, int end)
{
    int to = 0;
    for (; u < end; u++) to = p->to[u] > to ? p->to[u] : to;
    return (to + ATTN_SPAN - 1) / ATTN_SPAN;
}

static int span_begin(const struct attn_plan *p, int u, int end)
{
    int from = p->from[u];
    for (; u < end; u++) from = p->from[u] < from ? p->from[u] : from;
    return from / ATTN_SPAN;
}

static void add_units(struct attn_plan *p, const struct attn_spec *spec, int s)
{
    const struct batch *b = p->batch;
    const int first = spec->part == ATTN_TARGET ? source_of(b, s) : 0;
    for (int r = b->row0[s] - b->row0[0]; r < b->row0[s + 1] - b->row0[0]; r++) {
        int pos = b->pos[r], u = p->n_unit++, n_later = b->kv_len[s] - pos - 1;
        p->row[u] = r;
        p->from[u] = spec->window > 0 && pos >= spec->window ? pos - spec->window + 1 : 0;
        p->to[u] = pos + 1 + (spec->n_later < n_later ? spec->n_later : n_later);
        if (spec->chunk > 0) p->from[u] = pos / spec->chunk * spec->chunk;
        if (p->from[u] < first) p->from[u] = first;
        if (spec->part == ATTN_SOURCE) p->from[u] = 0, p->to[u] = source_of(b, s);
    }
}

/* ---- pieces ---- */

static int64_t cost(const struct attn_plan *p, int n_unit, int n_span)
{
    /* Reading and widening K and V takes about as long as the arithmetic of 8 rows. */
    return (int64_t)n_span * (8 + n_unit * p->n_group);
}

static int least(int64_t a, int64_t b)
{
    return (int)(a < b ? a : b);
}

/* Return the number of KV heads per chunk: as many as a worker's memory permits, distributed evenly
 * over the chunks. */
static int heads_of_chunk(const struct attn_plan *p, int n_unit, int64_t most)
{
    int fit = attn_head_rows(p->row_max) / attn_head_rows(n_unit * p->n_group);
    int n = least(least(fit, most), p->n_head_kv), n_chunk;
    if (n < 1) return 1;
    n_chunk = (p->n_head_kv + n - 1) / n;
    return (p->n_head_kv + n_chunk - 1) / n_chunk;
}

/* Return the number of spans, at most n_span, that cost at most cost_max in a chunk of all
 * heads. */
static int spans_of_part(struct attn_plan *p, int n_unit, int n_span)
{
    int64_t n = p->cost_max / (cost(p, n_unit, 1) * heads_of_chunk(p, n_unit, p->n_head_kv));
    if (n_span < 1 || p->slot_max == 0 || n >= n_span) return n_span;
    int part = n < 1 ? 1 : (int)n, extra = (n_span - 1) / part;
    if (p->n_extra + extra > EXTRA_MAX) return n_span;
    p->n_extra += extra;
    return part;
}

/* Add pieces for spans [span0, span1) of units [u, end), in parts if they cost too much. Return the
 * last part. */
static int add_pieces(struct attn_plan *p, int seq, int u, int end, int span0, int span1,
                      int before, bool last)
{
    int n_unit = end - u, begin = span_begin(p, u, end);
    if (span0 < begin) span0 = begin < span1 ? begin : span1;
    int part = spans_of_part(p, n_unit, span1 - span0);
    int n_head = heads_of_chunk(p, n_unit, p->cost_max / cost(p, n_unit, part ? part : 1));
    do {
        int to = least(span0 + part, span1);
        struct attn_piece *x = &p->piece[p->n_piece];
        *x = (struct attn_piece){.unit = u,
                                 .n_unit = n_unit,
                                 .seq = seq,
                                 .span0 = span0,
                                 .span1 = to,
                                 .n_head = n_head,
                                 .before = before,
                                 .last = last && to == span1,
                                 .slot = -1};
        if (before >= 0 || !x->last) {
            x->slot = p->n_slot;
            p->n_slot += (int64_t)n_unit * p->n_head * (before < 0 ? 1 : to - span0);
        }
        before = p->n_piece++;
        span0 = to;
    } while (span0 < span1);
    return before;
}

/* ---- sequences that share pages ---- */

static int n_whole_span(const struct attn_plan *p, int s)
{
    return reach_of(p, s) / ATTN_SPAN;
}

static const int32_t *pages_of(const struct attn_plan *p, int s)
{
    return p->batch->page + (int64_t)s * p->batch->page_stride;
}

static int n_common_span(const struct attn_plan *p, int s, int t)
{
    int n = n_whole_span(p, s) < n_whole_span(p, t) ? n_whole_span(p, s) : n_whole_span(p, t);
    const int32_t *a = pages_of(p, s), *b = pages_of(p, t);
    size_t n_byte = (size_t)p->span_pages * sizeof *a;
    for (int i = 0; i < n; i++)
        if (memcmp(a + i * p->span_pages, b + i * p->span_pages, n_byte) != 0) return i;
    return n;
}

/* Compare sequences for sorting. The sort makes sequences with a common prefix of whole spans
 * neighbours. */
static bool ranks_before(const struct attn_plan *p, int s, int t)
{
    int n = n_common_span(p, s, t);
    if (n == n_whole_span(p, s) || n == n_whole_span(p, t))
        return n_whole_span(p, s) < n_whole_span(p, t);
    size_t at = (size_t)(n * p->span_pages), n_byte = (size_t)p->span_pages * sizeof(int32_t);
    return memcmp(pages_of(p, s) + at, pages_of(p, t) + at, n_byte) < 0;
}

static void sort_seqs(struct attn_plan *p, int n)
{
    static const int gaps[] = {1750, 701, 301, 132, 57, 23, 10, 4, 1}; /* M. Ciura's gaps, 2001 */
    for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++)
        for (int i = gaps[g]; i < n; i++) {
            int s = p->seq[i], j = i;
            for (; j >= gaps[g] && ranks_before(p, s, p->seq[j - gaps[g]]); j -= gaps[g])
                p->seq[j] = p->seq[j - gaps[g]];
            p->seq[j] = s;
        }
}

/* Add pieces for neighbours [a, b). The neighbours share all spans before `span`, which piece
 * `before` computes. */
static void add_tree(struct attn_plan *p, int a, int b, int span, int before)
{
    bool last = b - a == 1;
    int end = last ? span_end(p, p->unit0[a], p->unit0[b]) : p->shared[a + 1];
    for (int i = a + 2; i < b; i++) end = p->shared[i] < end ? p->shared[i] : end;
    if (!last && end > span && p->unit0[b] - p->unit0[a] > p->unit_max) {
        int middle = (a + b) / 2;
        add_tree(p, a, middle, span, before);
        add_tree(p, middle, b, span, before);
        return;
    }
    if (last || end > span)
        before = add_pieces(p, p->seq[a], p->unit0[a], p->unit0[b], span, end, before, last);
    for (int i = a, next; i < b && !last; i = next) {
        for (next = i + 1; next < b && p->shared[next] > end; next++)
            ;
        add_tree(p, i, next, end, before);
    }
}

/* ---- the plan ---- */

/* Sort the sequences: short sequences first, with sequences of common spans as neighbours. Return
 * the number of short sequences. */
static int order_seqs(struct attn_plan *p, const struct attn_spec *spec)
{
    const struct batch *b = p->batch;
    int n = 0, n_short = 0;
    int64_t n_slot = 0;
    for (int s = 0; s < b->n_seq; s++)
        if (n_row_of(b, s) <= p->unit_max) {
            p->seq[n++] = s;
            n_slot += (int64_t)n_row_of(b, s) * p->n_head * (reach_of(p, s) / ATTN_SPAN + 2);
        }
    n_short = n;
    if (n_slot > p->slot_max) p->slot_max = 0;
    if (p->slot_max > 0) sort_seqs(p, n_short);
    for (int s = 0; s < b->n_seq; s++)
        if (n_row_of(b, s) > p->unit_max) p->seq[n++] = s;
    for (int i = 0; i < n; i++) {
        p->unit0[i] = p->n_unit;
        add_units(p, spec, p->seq[i]);
        bool may = p->slot_max > 0 && i > 0 && i < n_short;
        p->shared[i] = may ? n_common_span(p, p->seq[i - 1], p->seq[i]) : 0;
    }
    p->unit0[n] = p->n_unit;
    return n_short;
}

/* Return the maximum cost of a chunk. A chunk of higher cost could still run on one thread after
 * all other threads have finished. */
static int64_t cost_limit(const struct attn_plan *p, int n_thread)
{
    const struct batch *b = p->batch;
    if (n_thread == 1) return INT64_MAX;
    int64_t sum = 0;
    for (int s = 0; s < b->n_seq; s++) {
        int n = n_row_of(b, s), n_span = (reach_of(p, s) + ATTN_SPAN - 1) / ATTN_SPAN;
        sum += n / p->unit_max * cost(p, p->unit_max, n_span) + cost(p, n % p->unit_max, n_span);
    }
    return sum * p->n_head_kv / (4 * n_thread);
}

static int chunks_of(const struct attn_plan *p, const struct attn_piece *x)
{
    return (p->n_head_kv + x->n_head - 1) / x->n_head;
}

/* Sort pieces by cost, long pieces first, in buckets of powers of two. List the last pieces of
 * divided rows. */
static void order_pieces(struct attn_plan *p)
{
    int count[64] = {0};
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < p->n_piece; i++) {
            const struct attn_piece *x = &p->piece[i];
            uint64_t c = (uint64_t)(cost(p, x->n_unit, x->span1 - x->span0) * x->n_head) | 1;
            int bucket = __builtin_clzll(c);
            if (pass == 0)
                count[bucket]++;
            else
                p->run[count[bucket]++] = i;
        }
        for (int k = 0, at = 0; k < 64 && pass == 0; k++) {
            int n = count[k];
            count[k] = at;
            at += n;
        }
    }
    p->n_join = p->n_chunk = 0;
    for (int i = 0; i < p->n_piece; i++) {
        p->chunk0[i] = p->n_chunk;
        p->n_chunk += chunks_of(p, &p->piece[p->run[i]]);
    }
    p->chunk0[p->n_piece] = p->n_chunk;
    for (int i = 0; i < p->n_piece; i++)
        if (p->piece[i].last && p->piece[i].slot >= 0) p->join[p->n_join++] = i;
}

int attn_plan_run(const struct attn_plan *p, int chunk)
{
    int lo = 0, hi = p->n_piece;
    while (hi - lo > 1) {
        int middle = (lo + hi) / 2;
        if (p->chunk0[middle] <= chunk)
            lo = middle;
        else
            hi = middle;
    }
    return lo;
}

void attn_plan_make(struct attn_plan *p, const struct batch *b, const struct attn_spec *spec,
                    int page_rows, int row_max, int64_t slot_max, int n_thread)
{
    const int n_group = spec->n_head / spec->n_head_kv, unit_max = row_max / n_group;
    p->batch = b, p->part = spec->part;
    p->n_unit = p->n_piece = p->n_join = p->n_extra = 0;
    p->n_slot = 0, p->slot_max = slot_max;
    p->unit_max = unit_max, p->row_max = row_max;
    p->n_head = spec->n_head, p->n_head_kv = spec->n_head_kv, p->n_group = n_group;
    p->span_pages = ATTN_SPAN / page_rows;
    p->cost_max = cost_limit(p, n_thread);
    int n_short = order_seqs(p, spec);
    if (n_short > 0) add_tree(p, 0, n_short, 0, -1);
    p->slot_max = 0; /* prompts have enough pieces and are never divided */
    for (int i = n_short; i < b->n_seq; i++)
        for (int u = p->unit0[i]; u < p->unit0[i + 1]; u += unit_max) {
            int end = u + unit_max < p->unit0[i + 1] ? u + unit_max : p->unit0[i + 1];
            add_pieces(p, p->seq[i], u, end, 0, span_end(p, u, end), -1, true);
        }
    order_pieces(p);
}

/* pooling.c - a prompt becomes one vector: the mean of its rows' final hidden states, another
 * combination of these states, or several combinations one after the other.
 *
 * Each row arrives once, in the order of positions, for any chunks and any number of preemptions
 * (seq_wanted). Rows are added in f64 in this order, so the vector depends on the prompt only
 * (docs/design.md 5). The client's thread normalizes and shortens the vector. */
#include "engine_impl.h"

#include "base/check.h"

#include <math.h>
#include <string.h>

int pooling_check(const struct engine *en, const struct request *r, struct err *e)
{
    if (en->executor.d_hidden == 0)
        return err_field(e, ERR_UNSUPPORTED, "pooling",
                         ": not supported yet by this model: it returns no hidden states");
    if (r->head != HEAD_EMBED && en->executor.head_out[r->head] == 0)
        return err_field(e, ERR_UNSUPPORTED, "model", ": classifier not found in \"%.80s\"",
                         en->executor.name ? en->executor.name : "");
    if (r->max_tokens || r->n > 1 || r->best_of > 1 || r->beam_width || r->n_prompt_logprob >= 0)
        return err_field(e, ERR_ARG, "pooling",
                         ": must come without generated tokens and without logprobs, got "
                         "max_tokens %d, n %d, best_of %d, beam_width %d, prompt_logprobs %d",
                         r->max_tokens, r->n, r->best_of, r->beam_width, r->n_prompt_logprob);
    const bool leaves_out = r->pooling != POOLING_ALL;
    if (leaves_out && (r->pool_from < 0 || (size_t)r->pool_from >= r->prompt.n))
        return err_field(e, ERR_ARG, "pooling",
                         ": must have a token after the %d of the prompt that the model leaves "
                         "out, got %zu tokens",
                         r->pool_from, r->prompt.n);
    return 0;
}

enum pooling pooling_join(enum pooling list, enum pooling last)
{
    int n = 0;
    while (pooling_part(list, n)) n++;
    CHECK(n < POOLINGS_MAX, "%d methods", n);
    return (enum pooling)((unsigned)list | (unsigned)last << POOLING_BITS * n);
}

enum pooling pooling_part(enum pooling list, int i)
{
    if (i >= POOLINGS_MAX) return POOLING_NONE;
    return (enum pooling)((unsigned)list >> POOLING_BITS * i & ((1u << POOLING_BITS) - 1));
}

/* Return the number of the prompt's first rows that are pooled. As in transformers, the row of a
 * classifier of the last row is that of the last token that is not padding, or the first row. */
static int n_pooled(const struct group *g, const struct engine *en)
{
    const struct request *r = g->request;
    const int32_t *pad = r->head == HEAD_CLASS ? en->executor.class_pad : NULL;
    int n = g->seq->n_prompt;
    if (!pad || r->pooling != POOLING_LAST) return n;
    while (n > r->pool_from + 1 && g->seq->token[n - 1] == *pad) n--;
    return n;
}

/* The first and the last row are used without a copy. */
bool pooling_open(struct group *g, const struct engine *en)
{
    const enum pooling list = g->request->pooling;
    const size_t d = (size_t)en->executor.d_hidden;
    size_t n = 0;
    g->n_pooled = n_pooled(g, en);
    if (list == POOLING_ALL || list == POOLING_FIRST || list == POOLING_LAST) return true;
    while (pooling_part(list, (int)n)) n++;
    g->sum = arena_push0(&g->arena, n * d, sizeof *g->sum);
    g->row = arena_push0(&g->arena, n * d, sizeof *g->row);
    return g->sum && g->row;
}

/* Add row pos of [from, n_row) to a method's sum [d]. */
static void add_row(enum pooling method, double *sum, const float *row, int d, int pos, int from,
                    int n_row)
{
    const bool only = method == POOLING_FIRST || method == POOLING_LAST;
    const double weight = method == POOLING_WEIGHTED ? pos + 1 : 1;
    if (only && pos != (method == POOLING_FIRST ? from : n_row - 1)) return;
    for (int i = 0; i < d; i++)
        if (method != POOLING_MAX)
            sum[i] += weight * (double)row[i];
        else if (pos == from || (double)row[i] > sum[i] || isnan(row[i]))
            sum[i] = (double)row[i]; /* NaN stays: no value is greater */
}

/* Return the divisor of a method's sum of the rows [from, n_row). */
static double divisor(enum pooling method, int from, int n_row)
{
    const double n = n_row - from;
    if (method == POOLING_WEIGHTED) return n * (from + 1 + n_row) / 2;
    return method == POOLING_MEAN ? n : method == POOLING_SQRT ? sqrt(n) : 1;
}

/* Add a row to the sums of all methods. After the last of n_row rows, return the results; otherwise
 * NULL. */
static const float *add_to_all(struct group *g, int pos, int n_row, const float *hidden, int d)
{
    enum pooling method;
    const int from = g->request->pool_from;
    for (int k = 0; (method = pooling_part(g->request->pooling, k)); k++) {
        double *sum = g->sum + (int64_t)k * d;
        float *row = g->row + (int64_t)k * d;
        const double by = divisor(method, from, n_row);
        add_row(method, sum, hidden, d, pos, from, n_row);
        for (int i = 0; i < d && pos == n_row - 1; i++) row[i] = (float)(sum[i] / by);
    }
    return pos == n_row - 1 ? g->row : NULL;
}

/* Apply the request's head to the pooled row. */
static void finish(const struct engine *en, const struct request *r, const float *row)
{
    const struct executor *x = &en->executor;
    if (x->head)
        x->head(x->ctx, r->head, row, r->pooled);
    else
        memcpy(r->pooled, row, (size_t)x->d_hidden * sizeof *row);
}

void pooling_row(const struct engine *en, struct seq *s, int pos, const float *hidden)
{
    struct group *g = s->group;
    int d = en->executor.d_hidden;
    CHECK(pos >= s->n_emitted && pos < g->n_pooled, "row %d of %d, after %d", pos, g->n_pooled,
          s->n_emitted);
    s->n_emitted = pos + 1;
    if (g->request->pooling == POOLING_ALL) {
        memcpy(g->request->pooled + (int64_t)pos * d, hidden, (size_t)d * sizeof *hidden);
        return;
    }
    if (g->sum) hidden = add_to_all(g, pos, g->n_pooled, hidden, d);
    if (hidden) finish(en, g->request, hidden);
}

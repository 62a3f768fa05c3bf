/* pooling.c - a prompt becomes one vector: the mean of its rows' final hidden states, or the last
 * or first of these states.
 *
 * Each row arrives once, in the order of positions, for any chunks and any number of preemptions
 * (seq_wanted). Rows are added in f64 in this order, so the vector depends on the prompt only
 * (docs/design.md 5). The client's thread normalizes and shortens the vector. */
#include "engine_impl.h"

#include "base/check.h"

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
    return 0;
}

bool pooling_open(struct group *g, const struct engine *en)
{
    if (g->request->pooling != POOLING_MEAN) return true;
    g->sum = arena_push0(&g->arena, (size_t)en->executor.d_hidden, sizeof *g->sum);
    g->row = arena_push0(&g->arena, (size_t)en->executor.d_hidden, sizeof *g->row);
    return g->sum && g->row;
}

/* Add a row to the sum. After the last of n_row rows, return the mean of the rows; otherwise
 * NULL. */
static const float *add_row(struct group *g, int n_row, bool last, const float *hidden, int d)
{
    for (int i = 0; i < d; i++) g->sum[i] += (double)hidden[i];
    for (int i = 0; i < d && last; i++) g->row[i] = (float)(g->sum[i] / n_row);
    return last ? g->row : NULL;
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
    CHECK(pos >= s->n_emitted && pos < s->n_prompt, "row %d of %d, after %d", pos, s->n_prompt,
          s->n_emitted);
    s->n_emitted = pos + 1;
    if (g->request->pooling == POOLING_ALL) {
        memcpy(g->request->pooled + (int64_t)pos * d, hidden, (size_t)d * sizeof *hidden);
        return;
    }
    if (g->sum) hidden = add_row(g, s->n_prompt, s->n_emitted == s->n_prompt, hidden, d);
    if (hidden) finish(en, g->request, hidden);
}

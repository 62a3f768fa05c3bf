/* logprob.c - log probabilities of the model's own distribution.
 *
 * They are the log-softmax of the raw logits, before any stage, mask or temperature (the OpenAI
 * API's logprobs, as vLLM computes them by default). Rank 1 is the most likely token; equal logits
 * rank by id, so that ranks agree with top[]. Tokens whose logit is -inf or NaN have logprob -inf
 * and never appear in top[]. */
#include "sample_impl.h"
#include "sample_math.h"

#include <assert.h>

static float clamped(float logit)
{
    return logit > FLT_MAX ? FLT_MAX : logit;
}

static int32_t rank_in(const float *logits, int n_vocab, int32_t id)
{
    float own = logits[id];
    int32_t n_better = 0;
    for (int i = 0; i < id; i++) n_better += logits[i] >= own;
    for (int i = id + 1; i < n_vocab; i++) n_better += logits[i] > own;
    return n_better + 1;
}

static struct logprob logprob_of(const float *logits, int n_vocab, int32_t id, double log_total)
{
    if (id < 0 || id >= n_vocab || !(logits[id] >= -FLT_MAX))
        return (struct logprob){.id = id, .logprob = -INFINITY};
    return (struct logprob){.id = id,
                            .logprob = (float)((double)clamped(logits[id]) - log_total),
                            .rank = rank_in(logits, n_vocab, id)};
}

/* The candidates, at most 100 of them, into top[] by insertion; equal ones keep their ascending
 * ids. */
static int top_sort(const struct sample_work *w, struct logprob *top, double log_total)
{
    for (int i = 0; i < w->n; i++) {
        struct logprob l = {.id = w->id[i], .logprob = (float)((double)w->logit[i] - log_total)};
        uint32_t rank = rank_of_logit(w->logit[i]);
        int at = i;
        for (; at > 0 && w->rank[at - 1] > rank; at--) {
            top[at] = top[at - 1];
            w->rank[at] = w->rank[at - 1];
        }
        top[at] = l;
        w->rank[at] = rank;
    }
    for (int i = 0; i < w->n; i++) top[i].rank = i + 1;
    return w->n;
}

static void keep_top(struct sample_work *w, const float *logits, int n_vocab, int n)
{
    cand_gather(w, logits, n_vocab, cand_floor_of_k(w, n_vocab, n));
    if (w->n <= n) return;
    cand_rank_by_logit(w);
    cand_keep_cut(w, rank_cut(w, NULL, w->n, n));
}

void sample_logprobs(struct sample_work *w, const float *logits, int n_vocab, int32_t id,
                     int n_logprob, struct pick *out)
{
    assert(n_vocab <= w->n_vocab && n_logprob <= 100);
    out->id = id;
    out->n_top = 0;
    out->chosen = (struct logprob){.id = id, .logprob = -INFINITY};
    if (!cand_survey(w, logits, n_vocab)) return;
    cand_gather(w, logits, n_vocab, -FLT_MAX);
    cand_weigh(w, 1);
    double log_total = w->max + sample_log(w->total);
    out->chosen = logprob_of(logits, n_vocab, id, log_total);
    if (n_logprob <= 0) return;
    keep_top(w, logits, n_vocab, n_logprob);
    out->n_top = top_sort(w, out->top, log_total);
}

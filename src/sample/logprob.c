/* logprob.c - log probabilities of the model's own distribution.
 *
 * The result is the log-softmax of the raw logits, before any stage, mask or temperature. This is
 * the definition of the OpenAI API and the default of vLLM. Rank 1 is the most likely token. Ties
 * are ranked by id, so that ranks agree with top[]. Tokens whose logit is -inf or NaN have logprob
 * -inf and are never in top[]. */
#include "sample_impl.h"

#include "base/check.h"
#include "sample_math.h"

static float clamped(float logit)
{
    return logit > FLT_MAX ? FLT_MAX : logit;
}

/* Return the rank of a token: 1 + the number of tokens before it. Tokens are ordered by descending
 * logit. Equal logits are ordered by ascending id. */
static int32_t rank_in(const struct sample_work *w, const float *logits, int n_vocab, int32_t id)
{
    int n_lower, n_higher;
    float above = nextafterf(logits[id], INFINITY);
    w->kern.row_mass(NULL, logits, id, logits[id], &n_lower);
    w->kern.row_mass(NULL, logits + id, n_vocab - id, above, &n_higher);
    return 1 + n_lower + (logits[id] < INFINITY ? n_higher : 0);
}

static struct logprob logprob_of(const struct sample_work *w, const float *logits, int n_vocab,
                                 int32_t id, double log_total)
{
    if (id < 0 || id >= n_vocab || !(logits[id] >= -FLT_MAX))
        return (struct logprob){.id = id, .logprob = -INFINITY};
    return (struct logprob){.id = id,
                            .logprob = (float)((double)clamped(logits[id]) - log_total),
                            .rank = rank_in(w, logits, n_vocab, id)};
}

/* Insert the candidates, at most 100, into top[] in order. Ties keep their ascending ids. */
static int top_sort(const struct sample_work *w, struct logprob *top, double log_total)
{
    for (int i = 0; i < w->n; i++) {
        int at = i;
        for (; at > 0 && w->key[at - 1] < w->logit[i]; at--) {
            top[at] = top[at - 1];
            w->key[at] = w->key[at - 1];
        }
        top[at].id = w->id[i];
        top[at].logprob = (float)((double)w->logit[i] - log_total);
        w->key[at] = w->logit[i];
    }
    for (int i = 0; i < w->n; i++) top[i].rank = i + 1;
    return w->n;
}

/* Compute logprobs of the row of the last cand_survey. */
static void logprobs_of(struct sample_work *w, const uint32_t *mask, int32_t id, int n_logprob,
                        struct pick *out)
{
    const float *logits = w->row;
    int n_vocab = w->n;
    out->id = id;
    out->n_top = 0;
    out->chosen = (struct logprob){.id = id, .logprob = -INFINITY};
    if (!(w->max >= -FLT_MAX)) return;
    cand_weigh(w, 1);
    double log_total = w->max + sample_log(w->total);
    out->chosen = logprob_of(w, logits, n_vocab, id, log_total);
    if (n_logprob <= 0) return;
    if (mask) {
        w->kern.row_mask(w->edited, logits, mask, n_vocab);
        if (!cand_survey(w, w->edited, n_vocab)) return;
    }
    cand_keep_top(w, n_logprob);
    out->n_top = top_sort(w, out->top, log_total);
}

void logprobs_of_row(struct sample_work *w, int32_t id, int n_logprob, struct pick *out)
{
    logprobs_of(w, NULL, id, n_logprob, out);
}

void sample_logprobs(struct sample_work *w, const float *logits, int n_vocab, const uint32_t *mask,
                     int32_t id, int n_logprob, struct pick *out)
{
    CHECK(n_vocab <= w->n_vocab && n_logprob <= 100, "%d logits, room for %d; %d wanted", n_vocab,
          w->n_vocab, n_logprob);
    cand_survey(w, logits, n_vocab);
    logprobs_of(w, mask, id, n_logprob, out);
}

/* logprob.c - log probabilities of the model's own distribution.
 *
 * The result is the log-softmax of the raw logits, before any stage, mask or temperature. The
 * OpenAI API defines logprobs in this way, and vLLM does so by default. Rank 1 is the most likely
 * token. Ties are ranked by id, so that ranks agree with top[]. Tokens whose logit is -inf or NaN
 * have logprob -inf and are never in top[], unless the request names them (logprob_token_ids). With
 * post_logprob, the result is for the distribution after all stages. */
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

/* Insert a logprob into top[n] in descending order. Equal logprobs keep their order. */
static void insert(struct logprob *top, int n, struct logprob one)
{
    int at = n;
    for (; at > 0 && top[at - 1].logprob < one.logprob; at--) top[at] = top[at - 1];
    top[at] = one;
}

/* Set top[] to the tokens of the lists. */
static void logprobs_of_ids(const struct sample_work *w, const struct sample_lists *l,
                            double log_total, struct pick *out)
{
    const float *logits = w->row;
    for (; out->n_top < l->n_logprob_id; out->n_top++)
        insert(out->top, out->n_top,
               logprob_of(w, logits, w->n, l->logprob_id[out->n_top], log_total));
}

/* Compute logprobs of the row of the last cand_survey. */
static void logprobs_of(struct sample_work *w, const struct sample_lists *l, const uint32_t *mask,
                        int32_t id, int n_logprob, struct pick *out)
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
    if (l && l->n_logprob_id > 0) {
        logprobs_of_ids(w, l, log_total, out);
        return;
    }
    if (mask) {
        w->kern.row_mask(w->edited, logits, mask, n_vocab);
        if (!cand_survey(w, w->edited, n_vocab)) return;
    }
    cand_keep_top(w, n_logprob);
    out->n_top = top_sort(w, out->top, log_total);
}

void logprobs_of_row(struct sample_work *w, const struct sample_lists *l, int32_t id, int n_logprob,
                     struct pick *out)
{
    logprobs_of(w, l, NULL, id, n_logprob, out);
}

/* Set the ranks of top[] and of the drawn token by the weights of the list. */
static void rank_draw(const struct sample_work *w, int at, struct pick *out)
{
    int32_t rank = 1;
    for (int i = 0; i < w->n; i++)
        rank += w->weight[i] > w->weight[at] || (w->weight[i] == w->weight[at] && i < at);
    out->chosen.rank = rank;
    for (int i = 0; i < out->n_top; i++) out->top[i].rank = i + 1;
}

/* The candidates are gathered after the draw, because the sums of a list may differ from the sums
 * of the row. After a stage that changes weights, the candidates are already a list with these
 * weights. */
void logprobs_of_draw(struct sample_work *w, int32_t id, int n_logprob, struct pick *out)
{
    if (w->row) {
        cand_gather(w, -FLT_MAX);
        cand_weigh(w, w->temperature_inverse);
    }
    int chosen = 0;
    out->n_top = 0;
    for (int i = 0; i < w->n; i++) {
        const struct logprob one = {.id = w->id[i],
                                    .logprob = (float)sample_log((double)w->weight[i] / w->total)};
        if (w->id[i] == id) chosen = i, out->chosen = one;
        bool enters = out->n_top < n_logprob ||
                      (n_logprob > 0 && out->top[n_logprob - 1].logprob < one.logprob);
        if (!enters || !(w->weight[i] > 0)) continue;
        if (out->n_top == n_logprob) out->n_top--;
        insert(out->top, out->n_top++, one);
    }
    rank_draw(w, chosen, out);
}

void sample_logprobs(struct sample_work *w, const float *logits, int n_vocab, const uint32_t *mask,
                     int32_t id, int n_logprob, struct pick *out)
{
    CHECK(n_vocab <= w->n_vocab && n_logprob <= 100, "%d logits, room for %d; %d wanted", n_vocab,
          w->n_vocab, n_logprob);
    cand_survey(w, logits, n_vocab);
    logprobs_of(w, NULL, mask, id, n_logprob, out);
}

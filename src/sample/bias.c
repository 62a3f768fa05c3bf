/* bias.c - restrictions of the tokens that may be picked.
 *
 *   logit_bias  (OpenAI API) logit += bias; -100 forbids
 *   bad_words   (vLLM; Hugging Face's NoBadWordsLogitsProcessor) the last token of a word is
 *               forbidden if the history (prompt included) ends with all its other tokens
 *   allowed     (vLLM's allowed_token_ids) all other tokens are forbidden
 *   min_tokens  (vLLM) end-of-generation and stop tokens are forbidden before min_tokens tokens
 *
 * ignore_eos (vLLM) forbids no token. An end-of-generation token may be picked, and the engine
 * continues. The stages edit only the logits of tokens in the samplers' shared lists (lists.c). */
#include "sample_impl.h"

/* ---- logit_bias ------------------------------------------------------------------------------ */

static bool logit_bias_wanted(const struct sample_params *p)
{
    return p->n_bias > 0;
}

static void logit_bias_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    (void)state;
    const struct token_bias *bias = s->lists->bias;
    for (int i = 0; i < s->lists->n_bias; i++) {
        float *logit = &w->edited[bias[i].id];
        if (bias[i].bias <= -100)
            *logit = -INFINITY;
        else
            logit_set(logit, *logit + bias[i].bias);
    }
}

const struct stage stage_logit_bias = {
    .forbids = FORBIDS_BIAS, .wanted = logit_bias_wanted, .apply = logit_bias_apply};

/* ---- bad_words ------------------------------------------------------------------------------- */

static bool bad_words_wanted(const struct sample_params *p)
{
    return p->n_bad_word > 0;
}

/* Return the index of the first word whose second-to-last token is `before` or greater. */
static int first_word(const struct sample_lists *l, int32_t before)
{
    int lo = 0, hi = l->n_word;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (l->word[mid].before < before)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void bad_words_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    (void)state;
    const struct sample_lists *l = s->lists;
    for (int i = 0; i < l->n_single; i++) w->edited[l->single[i]] = -INFINITY;
    if (s->n_history == 0) return;
    int32_t last = s->history[s->n_history - 1];
    for (int i = first_word(l, last); i < l->n_word && l->word[i].before == last; i++) {
        const struct bad_word *word = &l->word[i];
        int n_before = word->n - 1;
        if (n_before > s->n_history) continue;
        const int32_t *tail = s->history + (s->n_history - n_before);
        if (memcmp(tail, word->v, (size_t)n_before * sizeof *tail) == 0)
            w->edited[word->v[n_before]] = -INFINITY;
    }
}

const struct stage stage_bad_words = {
    .needs_history = true,
    .forbids = FORBIDS_WORDS,
    .wanted = bad_words_wanted,
    .apply = bad_words_apply,
};

/* ---- allowed_token_ids ----------------------------------------------------------------------- */

static bool allowed_wanted(const struct sample_params *p)
{
    return p->n_allowed > 0;
}

static void allowed_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    (void)state;
    w->kern.row_mask(w->edited, w->edited, s->lists->allowed, s->v.n_vocab);
}

const struct stage stage_allowed = {
    .forbids = FORBIDS_ALLOWED, .wanted = allowed_wanted, .apply = allowed_apply};

/* ---- min_tokens ------------------------------------------------------------------------------ */

static bool min_tokens_wanted(const struct sample_params *p)
{
    return p->min_tokens > 0;
}

static void min_tokens_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    (void)state;
    int n = s->n_out < s->p.min_tokens ? s->lists->n_ending : 0;
    for (int i = 0; i < n; i++) w->edited[s->lists->ending[i]] = -INFINITY;
}

const struct stage stage_min_tokens = {
    .forbids = FORBIDS_ENDS, .wanted = min_tokens_wanted, .apply = min_tokens_apply};

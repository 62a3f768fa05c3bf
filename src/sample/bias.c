/* bias.c - what may be picked at all.
 *
 *   logit_bias  (OpenAI API) logit += bias; -100 forbids
 *   bad_words   (vLLM; Hugging Face's NoBadWordsLogitsProcessor) where the history, prompt
 * included, ends with all but the last token of a word, that last token is forbidden allowed
 * (vLLM's allowed_token_ids) everything else is forbidden min_tokens  (vLLM) until so many tokens
 * are out, end-of-generation and stop tokens are forbidden ignore_eos  (llama.cpp)
 * end-of-generation tokens are forbidden throughout
 *
 * All of them edit only the logits they name; `allowed` is a bit mask made at open. */
#include "sample_impl.h"

/* ---- logit_bias ------------------------------------------------------------------------------ */

static bool logit_bias_wanted(const struct sample_params *p)
{
    return p->n_bias > 0;
}

static void *logit_bias_open(struct sampler *s)
{
    size_t n_byte = (size_t)s->p.n_bias * sizeof *s->p.bias;
    struct token_bias *copy = arena_push(&s->mem, n_byte, 16);
    return copy ? memcpy(copy, s->p.bias, n_byte) : NULL;
}

static void logit_bias_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    const struct token_bias *bias = state;
    for (int i = 0; i < s->p.n_bias; i++) {
        float *logit = &w->edited[bias[i].id];
        if (bias[i].bias <= -100)
            *logit = -INFINITY;
        else
            logit_set(logit, *logit + bias[i].bias);
    }
}

const struct stage stage_logit_bias = {
    .wanted = logit_bias_wanted, .open = logit_bias_open, .apply = logit_bias_apply};

/* ---- bad_words ------------------------------------------------------------------------------- */

static bool bad_words_wanted(const struct sample_params *p)
{
    return p->n_bad_word > 0;
}

static void *bad_words_open(struct sampler *s)
{
    struct ids *word = arena_push0(&s->mem, (size_t)s->p.n_bad_word, sizeof *word);
    for (int i = 0; word && i < s->p.n_bad_word; i++) {
        const struct ids *from = &s->p.bad_word[i];
        word[i].n = from->n;
        word[i].v = arena_push(&s->mem, from->n * sizeof *from->v, 16);
        if (!word[i].v) return NULL;
        memcpy(word[i].v, from->v, from->n * sizeof *from->v);
    }
    return word;
}

static void bad_words_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    const struct ids *word = state;
    for (int i = 0; i < s->p.n_bad_word; i++) {
        size_t n_before = word[i].n - 1, n_history = (size_t)s->n_history;
        if (n_before > n_history) continue;
        const int32_t *tail = s->history + (n_history - n_before);
        if (memcmp(tail, word[i].v, n_before * sizeof *tail) == 0)
            w->edited[word[i].v[n_before]] = -INFINITY;
    }
}

const struct stage stage_bad_words = {.needs_history = true,
                                      .wanted = bad_words_wanted,
                                      .open = bad_words_open,
                                      .apply = bad_words_apply};

/* ---- allowed_token_ids ----------------------------------------------------------------------- */

static bool allowed_wanted(const struct sample_params *p)
{
    return p->n_allowed > 0;
}

static void *allowed_open(struct sampler *s)
{
    uint32_t *mask = arena_push0(&s->mem, ((size_t)s->v.n_vocab + 31) / 32, sizeof *mask);
    for (int i = 0; mask && i < s->p.n_allowed; i++)
        mask[s->p.allowed[i] / 32] |= (uint32_t)1 << s->p.allowed[i] % 32;
    return mask;
}

static void allowed_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    w->kern.row_mask(w->edited, w->edited, state, s->v.n_vocab);
}

const struct stage stage_allowed = {
    .wanted = allowed_wanted, .open = allowed_open, .apply = allowed_apply};

/* ---- min_tokens, ignore_eos ------------------------------------------------------------------ */

struct endings {
    int n_eog, n; /* the model's own come first, the request's stop tokens behind them */
    int32_t id[];
};

static bool min_tokens_wanted(const struct sample_params *p)
{
    return p->min_tokens > 0 || p->ignore_eos;
}

static void endings_add(struct endings *e, const int32_t *ids, int n, int n_vocab)
{
    for (int i = 0; i < n; i++)
        if (ids[i] >= 0 && ids[i] < n_vocab) e->id[e->n++] = ids[i];
}

static void *min_tokens_open(struct sampler *s)
{
    size_t n = (size_t)s->v.n_eog + (size_t)s->p.n_stop_id;
    struct endings *e = arena_push(&s->mem, sizeof *e + n * sizeof *e->id, 16);
    if (!e) return NULL;
    e->n = 0;
    endings_add(e, s->v.eog, s->v.n_eog, s->v.n_vocab);
    e->n_eog = e->n;
    endings_add(e, s->p.stop_id, s->p.n_stop_id, s->v.n_vocab);
    return e;
}

static void min_tokens_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    const struct endings *e = state;
    int n = s->n_out < s->p.min_tokens ? e->n : s->p.ignore_eos ? e->n_eog : 0;
    for (int i = 0; i < n; i++) w->edited[e->id[i]] = -INFINITY;
}

const struct stage stage_min_tokens = {
    .wanted = min_tokens_wanted, .open = min_tokens_open, .apply = min_tokens_apply};

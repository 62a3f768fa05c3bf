/* penalty.c - repetition, frequency and presence penalty.
 *
 *   repetition  (Keskar et al. 2019, CTRL, in Hugging Face's and vLLM's form) of a token in the
 *               prompt or the output: a positive logit is divided by the penalty, another one
 *               multiplied
 *   frequency   (OpenAI API) logit -= penalty * number of occurrences in the output
 *   presence    (OpenAI API) logit -= penalty, if it occurs in the output
 *
 * in this order, each in float. repeat_last_n > 0 counts only in the last n tokens of the
 * history.
 *
 * Memory: a dense index by token and a list of the tokens in the history, so that a pick touches
 * only these. The index is 4 bytes per token of the vocabulary: 0.6 MB at 152 k, 39 MB for 64
 * sequences with penalties (others need none), next to gigabytes of KV pages. A hash table would
 * need as much from a context of 32 k on. */
#include "sample_impl.h"

struct seen {
    int32_t id, n_prompt, n_out; /* occurrences inside the window */
};

struct penalty {
    int n_seen;
    struct seen *seen; /* [n_seen], at most min(context_max + 1, n_vocab) */
    int32_t *entry;    /* [n_vocab] index into seen plus 1; 0: not in seen */
};

static bool penalty_wanted(const struct sample_params *p)
{
    bool neutral =
        p->repetition_penalty == 1 && p->frequency_penalty == 0 && p->presence_penalty == 0;
    return !neutral && p->repeat_last_n != 0;
}

static void *penalty_open(struct sampler *s)
{
    int seen_max = s->context_max < s->v.n_vocab ? s->context_max + 1 : s->v.n_vocab;
    struct penalty *p = arena_push0(&s->mem, 1, sizeof *p);
    if (!p) return NULL;
    p->seen = arena_push(&s->mem, (size_t)seen_max * sizeof *p->seen, 16);
    p->entry = arena_push0(&s->mem, (size_t)s->v.n_vocab, sizeof *p->entry);
    return p->seen && p->entry ? p : NULL;
}

/* Count a token of the history that enters (1) or leaves (-1) the window. */
static void penalty_count(struct penalty *p, const struct sampler *s, int at, int change)
{
    int32_t id = s->history[at];
    if (id < 0 || id >= s->v.n_vocab) return;
    if (p->entry[id] == 0) {
        p->seen[p->n_seen] = (struct seen){.id = id};
        p->entry[id] = ++p->n_seen;
    }
    struct seen *seen = &p->seen[p->entry[id] - 1];
    *(at < s->n_prompt ? &seen->n_prompt : &seen->n_out) += change;
}

static void penalty_accept(void *state, const struct sampler *s, int32_t id)
{
    (void)id;
    int at = s->n_history - 1, window = s->p.repeat_last_n;
    penalty_count(state, s, at, 1);
    if (window > 0 && at >= window) penalty_count(state, s, at - window, -1);
}

static void penalty_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    const struct penalty *p = state;
    for (int i = 0; i < p->n_seen; i++) {
        const struct seen *seen = &p->seen[i];
        if (seen->n_prompt + seen->n_out == 0) continue;
        float logit = w->edited[seen->id];
        logit = logit > 0 ? logit / s->p.repetition_penalty : logit * s->p.repetition_penalty;
        logit -= s->p.frequency_penalty * (float)seen->n_out;
        logit -= seen->n_out > 0 ? s->p.presence_penalty : 0;
        logit_set(&w->edited[seen->id], logit);
    }
}

const struct stage stage_penalty = {.needs_history = true,
                                    .wanted = penalty_wanted,
                                    .open = penalty_open,
                                    .accept = penalty_accept,
                                    .apply = penalty_apply};

/* penalty.c - repetition, frequency and presence penalty.
 *
 *   repetition  (Keskar et al. 2019, CTRL, in Hugging Face's and vLLM's form) for a token in the
 *               prompt or the output: a positive logit is divided by the penalty, any other logit
 *               is multiplied by the penalty
 *   frequency   (OpenAI API) logit -= penalty * number of occurrences in the output
 *   presence    (OpenAI API) logit -= penalty if the token occurs in the output
 *
 * The repetition penalty is applied first, then the frequency penalty, then the presence penalty,
 * in float arithmetic. Only the last repeat_last_n tokens of the history are considered if
 * repeat_last_n > 0.
 *
 * Memory is a dense index by token and a list of the tokens in the history. A pick accesses only
 * the tokens of the list. The index has 4 bytes per token of the vocabulary: 0.6 MB for 152 k
 * tokens, and 39 MB for 64 sequences with penalties. Sequences without penalties need no index. The
 * index is small in comparison with KV pages, which need gigabytes. A hash table would need as much
 * memory for a context of 32 k or more. */
#include "sample_impl.h"

struct occurrence {
    /* token id; numbers of the token's occurrences in the prompt and in the output, within the
     * window */
    int32_t id, n_prompt, n_out;
};

/* State of the stage. The arrays are in the arena of the sampler. */
struct penalty {
    int n_occurrence;
    /* [n_occurrence] tokens in the window, at most min(context_max + 1, n_vocab) */
    struct occurrence *occurrence;
    /* [n_vocab] index into occurrence[] plus 1; 0 if the token is not in the window */
    int32_t *entry;
};

static bool penalty_wanted(const struct sample_params *p)
{
    bool neutral =
        p->repetition_penalty == 1 && p->frequency_penalty == 0 && p->presence_penalty == 0;
    return !neutral && p->repeat_last_n != 0;
}

static void *penalty_open(struct sampler *s)
{
    int occurrence_max = s->context_max < s->v.n_vocab ? s->context_max + 1 : s->v.n_vocab;
    struct penalty *p = arena_push0(&s->mem, 1, sizeof *p);
    if (!p) return NULL;
    p->occurrence = arena_push(&s->mem, (size_t)occurrence_max * sizeof *p->occurrence, 16);
    p->entry = arena_push0(&s->mem, (size_t)s->v.n_vocab, sizeof *p->entry);
    return p->occurrence && p->entry ? p : NULL;
}

/* Count a token of the history that enters (change 1) or leaves (change -1) the window. */
static void penalty_count(struct penalty *p, const struct sampler *s, int at, int change)
{
    int32_t id = s->history[at];
    if (id < 0 || id >= s->v.n_vocab) return;
    if (p->entry[id] == 0) {
        p->occurrence[p->n_occurrence] = (struct occurrence){.id = id};
        p->entry[id] = ++p->n_occurrence;
    }
    struct occurrence *o = &p->occurrence[p->entry[id] - 1];
    *(at < s->n_prompt ? &o->n_prompt : &o->n_out) += change;
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
    for (int i = 0; i < p->n_occurrence; i++) {
        const struct occurrence *o = &p->occurrence[i];
        if (o->n_prompt + o->n_out == 0) continue;
        float logit = w->edited[o->id];
        logit = logit > 0 ? logit / s->p.repetition_penalty : logit * s->p.repetition_penalty;
        logit -= s->p.frequency_penalty * (float)o->n_out;
        logit -= o->n_out > 0 ? s->p.presence_penalty : 0;
        logit_set(&w->edited[o->id], logit);
    }
}

const struct stage stage_penalty = {.needs_history = true,
                                    .wanted = penalty_wanted,
                                    .open = penalty_open,
                                    .accept = penalty_accept,
                                    .apply = penalty_apply};

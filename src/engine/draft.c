/* draft.c - rows of guesses: several tokens of one sequence in one step.
 *
 *     token[n_kv .. n_token)   rows that must be computed; the last one's logits pick a token
 *     draft[0 .. n_draft)      rows after them: guessed by a drafter, or forced by a constraint
 *
 * Each row's logits pick as they would alone, with the random numbers of that position (emit.c). A
 * row is valid if the token before it is the one picked there. The rest is rejected: n_kv ends
 * before it, its pages are given back (hold_commit), and it has no other effect: history,
 * penalties, stop tokens and constraint process picked tokens only. So a guess changes no bit of an
 * answer. Rows of guesses use what the step has left after all other rows are planned, and preempt
 * no sequence. */
#include "engine_impl.h"

bool seq_decodes(const struct seq *s)
{
    int n = s->n_token - s->n_kv;
    return n > 0 && n <= s->n_fresh;
}

int seq_n_left(const struct seq *s)
{
    return seq_decodes(s) ? 1 : s->n_token - s->n_kv;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Return how many rows s may have in addition to those planned. */
static int room_for(const struct engine *en, const struct seq *s)
{
    const struct batch_limits *l = &en->batch.limits;
    const struct group *g = s->group;
    bool one = g->forked || g->n_seq == 1; /* else its first logits are for all choices */
    if (!s->decodes || s->n_pick != 1 || s->n_draft_max == 0 || s->padding || !one) return 0;
    int n = least(s->n_draft_max, l->n_row - en->plan.n_row);
    n = least(n, l->n_out - en->plan.n_logits);
    n = least(n, g->request->max_tokens - s->n_output - 1);
    if (!g->held) n = least(n, emit_part(s) - 1);
    return n > 0 ? n : 0;
}

/* Guess up to n tokens. A guess may be anything: an invalid or forbidden token ends it. */
static int guess(struct engine *en, struct seq *s, int n)
{
    const struct drafter *d = &en->drafter;
    if (d->n_max == 0) return 0;
    int n_guess = d->guess(d->ctx, s->group->request, s->choice, s->token, s->n_token, s->draft,
                           least(n, d->n_max));
    for (int i = 0; i < n_guess; i++)
        if (s->draft[i] < 0 || s->draft[i] >= en->vocab.n_vocab) n_guess = i;
    return constraint_allows(s, s->draft, n_guess);
}

static void plan_draft(struct engine *en, struct seq *s)
{
    int room = room_for(en, s), n = 0;
    if (room > 0 && emit_needs_logits(s)) n = constraint_forced(en, s, s->draft, room);
    if (room > 0 && n == 0) n = guess(en, s, room);
    if (n > 0) n = portion_rows(en, s, n, false);
    if (n > 0) n = hold_more(en, s, n);
    if (n <= 0) return;
    int n_event = emit_events(s, 0, n);
    step_load_add(&en->load, s->n_kv + s->n_row, n, false);
    portion_take(en, s, n, false);
    s->n_draft = n;
    s->n_row += n, s->n_out += n, s->n_logits += n, s->n_pick += n;
    s->n_event += n_event;
    s->group->n_reserved += n_event;
    en->plan.n_row += n, en->plan.n_logits += n, en->plan.n_draft += n;
}

void draft_plan(struct engine *en)
{
    for (int i = 0; i < en->n_running; i++) plan_draft(en, en->running[i]);
}

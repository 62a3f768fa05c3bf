/* draft.c - rows of draft tokens: several tokens of one sequence in one step.
 *
 *     token[n_kv, n_token)   rows that must be computed; the logits of the last row pick a token
 *     draft[0, n_draft)      later rows: proposed by a drafter, or forced by a constraint
 *
 * Each row's logits pick the same token as without a draft, with the random numbers of that
 * position (emit.c). A draft token is accepted if it equals the token that the previous row picked.
 * The rows of other draft tokens are rejected. n_kv ends before rejected rows, and hold_commit
 * releases their pages. Histories, penalties, stop tokens and constraints process picked tokens
 * only. Therefore a draft changes no bit of an answer. All rows of a text have one list of divisors
 * (LongRoPE), so a draft ends at a change of the list. Draft rows use the room that all other rows
 * of the step leave, and preempt no sequence. */
#include "engine_impl.h"

#include "base/check.h"

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Return the number of rows that s may have in addition to the planned rows. */
static int room_for(const struct engine *en, const struct seq *s)
{
    const struct batch_limits *l = &en->batch.limits;
    const struct group *g = s->group;
    /* no draft in this case, because the first logits of the prompt are for all choices */
    bool one = g->forked || g->n_seq == 1;
    if (!s->plan.decodes || s->plan.n_pick != 1 || s->draft_max == 0 || s->padding || !one)
        return 0;
    int n = least(s->draft_max, l->n_row - en->plan.n_row);
    n = least(n, l->n_out - en->plan.n_logits);
    n = least(n, g->request->max_tokens - s->n_output - 1);
    if (l->n_short > 0 && !s->is_long) n = least(n, l->n_short - s->n_token);
    if (!g->ranked) n = least(n, emit_part(s) - 1);
    return n > 0 ? n : 0;
}

/* Let the drafter propose up to n tokens. The first invalid or forbidden token ends the draft. */
static int propose(struct engine *en, struct seq *s, int n)
{
    const struct drafter *d = &en->drafter;
    if (d->n_max == 0) return 0;
    int n_draft = d->propose(d->ctx, s->group->request, s->choice, s->token, s->n_token, s->draft,
                             least(n, d->n_max));
    CHECK(n_draft >= 0 && n_draft <= n, "%d draft tokens of %d", n_draft, n);
    for (int i = 0; i < n_draft; i++)
        if (s->draft[i] < 0 || s->draft[i] >= en->vocab.n_vocab) n_draft = i;
    return constraint_allows(s, s->draft, n_draft);
}

static void plan_draft(struct engine *en, struct seq *s)
{
    int room = room_for(en, s), n = 0;
    if (room > 0 && emit_needs_logits(s)) n = constraint_forced(en, s, s->draft, room);
    if (room > 0 && n == 0) n = propose(en, s, room);
    if (n > 0) n = portion_rows(en, s, n, false);
    if (n > 0) n = hold_more(en, s, n);
    if (n <= 0) return;
    int n_event = emit_events(s, 0, n);
    step_load_add(&en->load, s->n_kv + s->plan.n_row, n, false);
    portion_take(en, s, n, false);
    s->plan.n_draft = n;
    s->plan.n_row += n, s->plan.n_out += n, s->plan.n_logits += n, s->plan.n_pick += n;
    s->plan.n_event += n_event;
    s->group->n_reserved += n_event;
    en->plan.n_row += n, en->plan.n_logits += n, en->plan.n_draft += n;
}

void draft_plan(struct engine *en)
{
    for (int i = 0; i < en->n_running; i++) plan_draft(en, en->running[i]);
}

/* plan.c - the rows of a step: the sequences that compute tokens, and the number of tokens of each
 * sequence.
 *
 *   plan_decodes -> (admit.c) -> plan_load -> plan_short -> plan_prompts -> (draft.c) ->
 *   plan_padding
 *
 * Sequences that decode get their row before any prompt. Prompts share the remaining rows and the
 * remaining time of the step (budget.h), in chunks, in rank order. The division of a prompt never
 * changes a bit of the result (docs/design.md 5). Half of the rows for prompts go to shorter
 * prompts that have the rank of the first prompt.
 *
 * A text that must be computed whole (an encoder's) gets all its rows or none. A step has room for
 * the longest whole text next to the decodes. The first whole text of a step is not subject to the
 * limits of time and of holders. Therefore the text that ranks first never waits.
 *
 * A sequence acquires pages for its rows as it grows. The running sequence that ranks last is
 * preempted if no page is free (hold.c). Therefore the sequence that ranks first always makes
 * progress, and every sequence ranks first at some time.
 *
 * (1) plan.n_row and plan.n_logits are the sums over the running sequences, and do not exceed the
 *     limits of the batch.
 * (2) A planned row has a page that only its sequence holds, and room for its events in the reply
 *     queue. group.n_reserved is the sum over the group's sequences. */
#include "engine_impl.h"

#include "base/check.h"

#include <limits.h>
#include <math.h>

/* SHORTER: a shorter prompt has at most a quarter of a longer prompt's rows. Therefore the longer
 * prompt waits at most as long as its own rows take. CONTENDED_US: time after a second request
 * during which steps of prompts are short. CONTENDED_US is the time of two steps of 512 rows, 0.9 s
 * each with llama-1b. Times between 0 and 8 s change the mean completion time by -0.7 to 1.3 %
 * (docs/measurements.md, "Constants"). */
enum { SHORTER = 4, CONTENDED_US = 2 * 1000 * 1000 };

void plan_clear(struct seq *s)
{
    CHECK(s->group->n_reserved >= s->plan.n_event, "%d events of %d", s->plan.n_event,
          s->group->n_reserved);
    s->group->n_reserved -= s->plan.n_event;
    s->plan = (struct seq_plan){0};
}

/* Remove the rows of s from the step that is being planned. */
void plan_undo(struct engine *en, struct seq *s)
{
    en->plan.n_row -= s->plan.n_row;
    if (seq_n_whole(s) > 0) en->plan.n_whole -= s->plan.n_row;
    en->plan.n_logits -= s->plan.n_logits;
    state_unplan(en, s);
    plan_clear(s);
}

/* ---- rows of one sequence ---- */

/* Set n_out, n_pick, n_logits and n_event for computing the next n rows of s. The results are the
 * wanted results of prompt rows, plus one sampled token if the rows include the last known token.
 * Pooled hidden states cause no events and use no logits. */
static void plan_results(struct seq *s, int n)
{
    const struct request *r = s->group->request;
    struct wanted w = seq_wanted(s);
    int from = s->n_kv > w.from ? s->n_kv : w.from, to = s->n_kv + n < w.to ? s->n_kv + n : w.to;
    int prompt = to > from ? to - from : 0;
    int pick = n > 0 && s->n_kv + n == s->n_token && r->max_tokens > 0;
    s->plan.n_out = prompt + pick;
    s->plan.n_pick = pick;
    s->plan.n_logits = r->pooling ? 0 : s->plan.n_out;
    s->plan.n_event = r->pooling ? 0 : emit_events(s, prompt, pick);
}

/* Return the number of rows, at most n, whose results fit into the step. */
static int rows_in_room(const struct engine *en, struct seq *s, int n)
{
    int n_logits = en->batch.limits.n_out - en->plan.n_logits, n_event = emit_room(s->group);
    for (; n > 0; n--) {
        plan_results(s, n);
        if (s->plan.n_logits <= n_logits && s->plan.n_event <= n_event) break;
    }
    return n;
}

/* Adopt pages for s. Count the pages as found at admission if s has computed none of them
 * before. */
static void catch_up(struct engine *en, struct seq *s)
{
    bool fresh = s->n_kv >= s->n_reached;
    int n = hold_catch_up(en, s);
    if (n == 0 || !fresh) return;
    s->n_cached += n;
    stats_found(en->stats, n);
}

/* Plan tokens that may be forced after the pick: as many as the reply queue has room for. */
static void plan_forced(const struct engine *en, struct seq *s)
{
    if (s->plan.n_pick == 0 || !s->constraint || en->no_jump_forward || emit_needs_logits(s))
        return;
    int part = emit_part(s) - 1;
    s->plan.n_more = part < FORCED_MAX ? part > 0 ? part : 0 : FORCED_MAX;
    s->plan.n_event += emit_events(s, 0, s->plan.n_more);
}

/* Return the sequence whose pages s may take: the last sequence ranked after s that holds pages or
 * a state; NULL if none. */
static struct seq *page_victim(const struct engine *en, const struct seq *s)
{
    int i = en->n_running - 1;
    while (en->running[i] != s && !hold_holds(en->running[i])) i--;
    return en->running[i] == s ? NULL : en->running[i];
}

/* Acquire pages for the next n rows of s, by preemption if necessary. Return the number of rows
 * that have pages. */
static int take_pages(struct engine *en, struct seq *s, int n)
{
    for (;;) {
        bool lacks;
        int n_has = hold_rows(en, s, n, &lacks);
        struct seq *victim = lacks ? page_victim(en, s) : NULL;
        if (!victim) return n_has;
        seq_preempt(en, victim);
    }
}

/* Return the number of rows, at most n, that the limits of holders and of time leave. A whole text
 * may exceed these limits if it is the first whole text of the step. */
static int rows_allowed(struct engine *en, struct seq *s, int n)
{
    const bool decoding = seq_decodes(s);
    if (seq_n_whole(s) > 0 && en->plan.n_whole == 0) return n;
    n = portion_rows(en, s, n, !decoding);
    if (n > 0 && !decoding && !en->executor.whole)
        n = budget_rows(&en->budget, &en->load, s->n_kv, portion_undivided(en, s), n);
    return n;
}

static void plan_rows(struct engine *en, struct seq *s, int max)
{
    const struct batch_limits *l = &en->batch.limits;
    const bool decoding = seq_decodes(s);
    const int n_whole = seq_n_whole(s);
    if (!decoding && en->plan.n_row < l->n_row) catch_up(en, s);
    int n = (n_whole > 0 ? n_whole : s->n_token) - s->n_kv;
    if (n > l->n_row - en->plan.n_row) n = l->n_row - en->plan.n_row;
    if (n > max) n = max;
    n = rows_in_room(en, s, n);
    if (n > 0) n = rows_allowed(en, s, n);
    if (n < n_whole) n = 0;
    if (n > 0) n = take_pages(en, s, n);
    if (n < n_whole) {
        hold_give_back(en, s);
        n = 0;
    }
    plan_results(s, n > 0 ? n : 0);
    if (n <= 0) return;
    if (!decoding) step_load_add(&en->load, s->n_kv, n, true);
    portion_take(en, s, n, !decoding);
    plan_forced(en, s);
    s->plan.n_row = n;
    s->plan.decodes = decoding;
    s->group->n_reserved += s->plan.n_event;
    en->plan.n_row += n;
    if (n_whole > 0) en->plan.n_whole += n;
    en->plan.n_logits += s->plan.n_logits;
}

/* ---- rows of the step ---- */

static bool needs_row(const struct seq *s)
{
    return !s->stall && s->plan.n_row == 0 && seq_decodes(s);
}

/* Insert s into the order in which decodes get rows. The order is by rank, except that the
 * sequences of a limited holder take turns. */
static void put_in_order(struct engine *en, int n, struct seq *s)
{
    struct seq **v = en->order;
    for (; n > 0 && v[n - 1]->entity.holder == s->entity.holder && v[n - 1]->row_no > s->row_no;
         n--) {
        if (!portion_bounded(en, s)) break;
        v[n] = v[n - 1];
    }
    v[n] = s;
}

/* Return the maximum number of rows of a sequence that decodes. The maximum leaves room for the
 * longest source. */
static int decode_max(const struct engine *en)
{
    const struct batch_limits *l = &en->batch.limits;
    return en->executor.n_start > 0 ? (l->n_row - l->n_source) / l->n_seq : INT_MAX;
}

/* Plan the rows of sequences that decode. The function may preempt sequences of a worse rank. */
void plan_decodes(struct engine *en)
{
    int n = 0;
    if (en->executor.whole) return;
    for (int i = 0; i < en->n_running; i++)
        if (needs_row(en->running[i])) put_in_order(en, n++, en->running[i]);
    for (int i = 0; i < n; i++) {
        struct seq *s = en->order[i];
        if (s->state != SEQ_RUNNING) continue;
        plan_rows(en, s, decode_max(en));
        if (s->plan.n_row > 0) s->row_no = ++en->n_row_given;
    }
}

/* Compute the load of the decodes. The step is shorter than planned if a prompt preempts one of the
 * decodes later. */
void plan_load(struct engine *en)
{
    int n_prompt = 0;
    en->load = (struct step_load){0};
    for (int i = 0; i < en->n_running; i++) {
        const struct seq *s = en->running[i];
        if (s->plan.n_row > 0)
            step_load_add(&en->load, s->n_kv, s->plan.n_row, false);
        else if (!s->stall && seq_n_left(s) > 1)
            n_prompt++;
    }
    budget_share(&en->budget, en->load.n_row, n_prompt);
    budget_contended(&en->budget,
                     en->contended_us > 0 && en->now_us - en->contended_us < CONTENDED_US);
}

static bool has_prompt_left(const struct seq *s)
{
    return !s->stall && s->plan.n_row == 0 && seq_n_left(s) > 1;
}

/* Return the shortest prompt that has the rank of `first` and at most a SHORTER-th of the remaining
 * rows of `first`; NULL if none. A longer prompt waits at most SHORTER times as long as its own
 * rows take. */
static struct seq *shorter_prompt(const struct engine *en, const struct seq *first)
{
    struct seq *best = NULL;
    int least = (first->n_token - first->n_kv) / SHORTER + 1;
    for (int i = 0; i < en->n_running; i++) {
        struct seq *s = en->running[i];
        if (s == first || s->rank != first->rank || !has_prompt_left(s)) continue;
        if (seq_n_whole(s) > 0) continue;
        if (s->n_token - s->n_kv >= least) continue;
        best = s;
        least = s->n_token - s->n_kv;
    }
    return best;
}

/* Assign up to half of the rows to prompts that are shorter than the first prompt, so that no
 * prompt waits for another whole prompt. Prompts of similar length get rows by arrival, and so do
 * all prompts if no client waits for tokens. */
void plan_short(struct engine *en)
{
    const struct seq *first = NULL;
    for (int i = 0; i < en->n_running && !first; i++)
        if (has_prompt_left(en->running[i])) first = en->running[i];
    if (!first || seq_n_whole(first) > 0 || policy_holds(en->policy) ||
        isinf(en->budget.options.target_us) || !shorter_prompt(en, first))
        return;
    int room = en->batch.limits.n_row - en->plan.n_row;
    int half = budget_rows(&en->budget, &en->load, first->n_kv, 0, room) / 2;
    for (struct seq *s; half > 0 && (s = shorter_prompt(en, first));) {
        int before = en->plan.n_row;
        int whole = portion_undivided(en, s);
        plan_rows(en, s, half > whole ? half : whole);
        if (s->plan.n_row == 0) return;
        half -= en->plan.n_row - before;
    }
}

/* Plan prompts, and sequences that were admitted with one token left. */
void plan_prompts(struct engine *en)
{
    for (int i = 0; i < en->n_running; i++) {
        struct seq *s = en->running[i];
        if (!s->stall && s->plan.n_row == 0) plan_rows(en, s, INT_MAX);
    }
}

/* Plan rows of padding sequences in the remaining room of the step. With recurrent state, plan no
 * rows of padding, because the state is already after the recomputed row. */
void plan_padding(struct engine *en)
{
    const struct batch_limits *l = &en->batch.limits;
    int rows = pages_rows(en->pages);
    for (int i = 0; i < en->n_running; i++) {
        struct seq *s = en->running[i];
        if (!s->padding || en->states || en->plan.n_row == l->n_row ||
            en->plan.n_logits == l->n_out)
            continue;
        /* other sequences read the page */
        if (page_refs(en->pages, s->page[(s->n_kv - 1) / rows]) > 1) continue;
        s->plan.n_row = s->plan.n_out = s->plan.n_logits = 1;
        s->plan.decodes = true;
        en->plan.n_row++, en->plan.n_logits++;
    }
}

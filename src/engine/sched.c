/* sched.c - the schedule of a step, and its commit.
 *
 *   sched_next     ended requests leave -> rank.c -> rows of decodes (plan.c) -> admit.c -> rows of
 *                  prompts (plan.c) -> drafts (draft.c) -> struct batch
 *   sched_commit   computed rows count -> finished sequences leave (seq.c, group.c)
 *
 * The policy determines the order (policy.h).
 *
 * Static batching, the baseline, keeps finished sequences in the batch until the whole batch is
 * done. Finished sequences are padding: they take a row of each step without effect and end
 * together. Padding ends earlier if another sequence needs its pages.
 *
 * (1) The batch has the planned rows of each running sequence, in rank order with sources last. The
 *     batch has one entry of out_row for each of a sequence's n_out results.
 * (2) After sched_commit no sequence has planned rows, and no running sequence except padding has a
 *     finish. */
#include "engine_impl.h"

#include "base/check.h"

#include <string.h>

/* Minimum number of prompt rows of a step that counts for the rate of prefill. Rates of fewer rows
 * are lower: 8, 16 and 64 rows have 216, 339 and 493 tokens/s (docs/measurements.md). */
enum { PREFILL_ROWS = 16 };
/* Share of a new rate in the running mean, which covers about 10 steps. Shares of 0.02 and 0.5 give
 * the same times on Azure's trace (docs/measurements.md, "Constants"). */
static const double rate_share = 0.1;

/* ---- the batch ---- */

static void add_rows(struct engine *en, struct seq *s)
{
    struct batch *b = &en->batch;
    const struct request *r = s->group->request;
    const struct wanted w = seq_wanted(s);
    int page_rows = pages_rows(en->pages), iseq = b->n_seq++;
    const int from = s->padding ? s->n_kv - 1 : s->n_kv;
    int kind = r->pooling ? OUT_HIDDEN : OUT_LOGITS;
    memcpy(b->page + (int64_t)iseq * b->page_stride, s->page, (size_t)s->n_page * sizeof *s->page);
    s->plan.row0 = b->n_row;
    s->plan.pos0 = from;
    s->plan.out0 = b->n_out;
    s->plan.logits0 = en->plan.n_out_logits;
    s->plan.hidden0 = en->plan.n_hidden;
    if (kind & OUT_LOGITS) en->plan.n_out_logits += s->plan.n_out;
    if (kind & OUT_HIDDEN) en->plan.n_hidden += s->plan.n_out;
    for (int i = 0; i < s->plan.n_row; i++) {
        int row = b->n_row++, pos = from + i;
        b->token[row] = pos < s->n_token ? s->token[pos] : s->draft[pos - s->n_token];
        b->pos[row] = pos;
        if (b->limits.n_segment > 1) b->segment[row] = r->segment1 > 0 && pos >= r->segment1;
        if (b->limits.n_source > 0) b->place[row] = pos < s->n_whole ? pos : pos - s->n_whole;
        b->slot[row] = s->page[pos / page_rows] * page_rows + pos % page_rows;
        bool wanted = (pos >= w.from && pos < w.to) || s->padding;
        if (!wanted && (pos < s->n_token - 1 || r->max_tokens == 0)) continue;
        b->out_row[b->n_out] = row;
        b->out_kind[b->n_out++] = kind;
    }
    CHECK(b->n_out - s->plan.out0 == s->plan.n_out, "%d outputs, %d planned",
          b->n_out - s->plan.out0, s->plan.n_out);
    b->row0[iseq + 1] = b->n_row;
    b->kv_len[iseq] = from + s->plan.n_row;
    batch_rope(b, iseq, s->is_long);
    if (b->limits.n_source > 0) b->source[iseq] = s->n_whole;
    b->adapter[iseq] = r->adapter;
    state_rows(en, s, iseq);
}

/* Add the planned rows of sources, or the planned rows of all other sequences, which are before the
 * sources. */
static void add_planned(struct engine *en, bool sources)
{
    for (int i = 0; i < en->n_running; i++) {
        struct seq *s = en->running[i];
        const bool is_source = en->executor.n_start > 0 && seq_n_whole(s) > 0;
        if (s->plan.n_row > 0 && is_source == sources) add_rows(en, s);
    }
}

bool sched_next(struct engine *en)
{
    batch_clear(&en->batch);
    memset(&en->plan, 0, sizeof en->plan);
    group_end_expired(en);
    seq_end_padding(en);
    bool emitted = group_reap_all(en);
    emitted |= constraint_prepare(en);
    rank_running(en);
    portion_begin(en);
    plan_decodes(en);
    admit_waiting(en);
    plan_load(en);
    plan_short(en);
    plan_prompts(en);
    draft_plan(en);
    plan_padding(en);
    add_planned(en, false);
    add_planned(en, true);
    group_reap_all(en); /* groups of refused sequences, and of padding that lost its pages */
    return en->batch.n_row > 0 || en->batch.n_copy > 0 || emitted || en->plan.unmasked;
}

/* ---- after the step ---- */

static void learn_prefill_rate(struct engine *en, int64_t us)
{
    if (us <= 0 || en->batch.n_row - en->plan.n_draft - en->batch.n_seq < PREFILL_ROWS) return;
    en->prefill_rate += rate_share * ((double)en->batch.n_row / (double)us - en->prefill_rate);
}

static void commit_seq(struct engine *en, struct seq *s, int64_t us)
{
    hold_commit(en, s);
    record_rows(en, s);
    s->entity.n_left = seq_n_left(s);
    s->entity.decodes = s->plan.decodes;
    if (s->plan.n_row > 0)
        policy_served(en->policy, &s->entity, s->plan.n_row, en->batch.n_row, us, en->now_us + us);
    int again = (s->n_kv < s->n_reached ? s->n_kv : s->n_reached) - s->plan.pos0;
    if (s->plan.n_row > 0 && again > 0) stats_count(en->stats, STAT_recomputed, again);
    if (s->n_reached < s->n_kv) s->n_reached = s->n_kv;
}

/* Return true if s is done. With max_tokens 0, s is done after its prompt. */
static bool is_done(const struct seq *s)
{
    return s->finish != FINISH_NONE ||
           (s->group->request->max_tokens == 0 && s->n_kv == s->n_prompt);
}

/* Keep a finished s in the batch if the policy holds batches. Return true if the policy does. */
static bool becomes_padding(const struct engine *en, struct seq *s)
{
    if (!policy_holds(en->policy) || s->group->n_seq > 1 || s->finish == FINISH_NONE) return false;
    s->padding = true;
    return true;
}

/* Recompute the sequences whose texts have outgrown the short list of the rope. A waiting beam may
 * also have a new token. */
static void lengthen_all(struct engine *en)
{
    if (en->batch.limits.n_short == 0) return;
    for (int i = 0; i < en->n_running; i++) seq_lengthen(en, en->running[i]);
    for (struct seq *s = en->waiting.head; s; s = s->next) seq_lengthen(en, s);
}

void sched_commit(struct engine *en)
{
    int64_t us = engine_now(en) - en->now_us;
    struct seq **done = en->order;
    int n = 0;
    learn_prefill_rate(en, us);
    for (int i = 0; i < en->n_running; i++) {
        struct seq *s = en->running[i];
        if (!s->padding) commit_seq(en, s, us);
        plan_clear(s);
        if (is_done(s) && !s->padding && !becomes_padding(en, s)) done[n++] = s;
    }
    for (int i = 0; i < n; i++)
        if (done[i]->finish != FINISH_NONE)
            seq_end(en, done[i], done[i]->finish);
        else
            group_end(en, done[i]->group, FINISH_LENGTH);
    lengthen_all(en);
    seq_end_padding(en);
    group_reap_all(en);
    step_lap(en);
}

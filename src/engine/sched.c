/* sched.c - which sequences compute which rows in the next step.
 *
 *   sched_next   rank -> rows of decodes -> admit waiting ones -> rows of prompts -> batch
 *
 * The policy decides the order (policy.h). Sequences that decode get their row before any prompt.
 * Prompts share the rest of the step's rows and of its time limit (budget.h), in chunks, in rank
 * order. How a prompt is cut never changes a bit of the result (docs/design.md 5).
 *
 * A waiting sequence is admitted when there are pages for all its known tokens, in addition to what
 * running prompts still need and a watermark, so that admission is not undone at once. Later it
 * acquires pages as it grows. When no page is free, the lowest-ranked running sequence is preempted
 * and waits again (hold.c). So the highest-ranked one always makes progress, and every sequence
 * becomes the highest-ranked some day. Policies that preempt may also displace running sequences
 * for a waiting one that ranks before them, but none that has run for less than twice the time that
 * its return will cost. A sequence whose client does not read its events gets no rows and ranks
 * after all others, so it cannot keep memory from them.
 *
 * Requests of one holder share as well. Half of the rows for prompts go to shorter prompts that
 * rank like the first one. Choices of a request, and prompts of a call, beyond ORDINARY rank after
 * other sequences of equal rank and yield to them.
 *
 * Static batching, the baseline, keeps finished sequences in the batch until all of it is done.
 * They are padding: they take a row of each step without effect and end together, or when another
 * sequence needs their pages. */
#include "engine_impl.h"

#include "base/check.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum {
    ORDINARY = 8,
    SHORTER = 4,
    LATE = 16,
    EXTRA_US = 10 * 1000 * 1000,
    CONTENDED_US = 2 * 1000 * 1000
};
enum { RESIDE_US = 50 * 1000, GROWTH_ROWS = 16, WATERMARK = 100, PREFILL_ROWS = 16 };

/* ---- states ---- */

static void arrive(struct engine *en, struct seq *s)
{
    const struct request *r = s->group->request;
    s->entity = (struct sched_entity){.arrival = s->entity.arrival,
                                      .submit_us = r->submit_us,
                                      .priority = r->priority,
                                      .share_id = r->share_id,
                                      .share_weight = r->share_weight,
                                      .n_prompt = s->n_prompt,
                                      .n_left = s->n_token};
    policy_arrive(en->policy, &s->entity, en->now_us);
}

void seq_wait(struct engine *en, struct seq *s)
{
    if (s->state == SEQ_IDLE) arrive(en, s);
    s->state = SEQ_WAITING;
    record_wait(en, s);
    list_push(&en->waiting, s);
}

/* Set s's rank for this step. One of many choices, or of a call's many prompts, is extra. It is
 * late instead, that is not extra, once it has waited for EXTRA_US, while late ones have at most a
 * LATE-th of the places: so extra ones progress next to any number of others. Beams are never
 * extra, since they advance together. */
static void rank_seq(struct engine *en, struct seq *s)
{
    bool many = !s->group->beam && (s->group->request->extra || s->n_before >= ORDINARY);
    if (s->state == SEQ_WAITING)
        s->late = many && en->now_us - s->entity.ready_us >= EXTRA_US &&
                  en->plan.n_late * LATE < en->batch.limits.n_seq;
    s->extra = many && !s->late;
    s->rank = policy_rank(en->policy, &s->entity, en->now_us);
}

static bool ranks_before(const struct seq *a, const struct seq *b)
{
    if (a->stalled != b->stalled) return b->stalled;
    if (a->rank != b->rank) return a->rank < b->rank;
    if (a->extra != b->extra) return b->extra;
    return a->entity.arrival < b->entity.arrival;
}

/* Insert s into the running ones in rank order. */
static void insert(struct engine *en, struct seq *s)
{
    int i = en->n_running++;
    for (; i > 0 && ranks_before(s, en->running[i - 1]); i--) en->running[i] = en->running[i - 1];
    en->running[i] = s;
}

static void take_out(struct engine *en, struct seq *s)
{
    int i = 0;
    record_run_end(en, s);
    portion_run_end(en, s);
    while (en->running[i] != s) i++;
    memmove(en->running + i, en->running + i + 1,
            (size_t)(--en->n_running - i) * sizeof(struct seq *));
}

static void leave_waiting(struct engine *en, struct seq *s)
{
    record_wait_end(en, s);
    list_remove(&en->waiting, s);
}

static void clear_rows(struct seq *s)
{
    s->n_row = s->n_out = s->n_logits = s->n_pick = s->n_draft = s->n_event = s->n_more = 0;
    s->decodes = false;
}

void seq_run(struct engine *en, struct seq *s)
{
    if (s->state == SEQ_IDLE) arrive(en, s);
    if (s->state == SEQ_WAITING) leave_waiting(en, s);
    s->state = SEQ_RUNNING;
    record_run(en, s);
    portion_run(en, s);
    policy_admitted(en->policy, &s->entity, en->now_us);
    s->admit_us = en->now_us;
    clear_rows(s);
    en->plan.n_late += s->late;
    rank_seq(en, s);
    insert(en, s);
}

/* Remove its rows from the step that is being planned. */
static void unplan(struct engine *en, struct seq *s)
{
    en->plan.n_row -= s->n_row;
    en->plan.n_logits -= s->n_logits;
    s->group->n_reserved -= s->n_event;
    state_unplan(en, s);
    clear_rows(s);
}

void seq_preempt(struct engine *en, struct seq *s)
{
    unplan(en, s);
    en->plan.preempted = true;
    if (s->padding) {
        seq_end(en, s, s->finish);
        return;
    }
    s->group->n_preempted++;
    stats_count(en->stats, STAT_preemptions, 1);
    hold_preempt(en, s);
    take_out(en, s);
    s->entity.n_left = s->n_token - s->n_kv;
    policy_preempted(en->policy, &s->entity, en->now_us);
    seq_wait(en, s);
}

/* Emit the group's last events as the queue has room. Returns false if some are left for the next
 * step. */
static bool emit_end(struct engine *en, struct group *g)
{
    if (g->held && (g->ended == FINISH_NONE || g->ended == FINISH_LENGTH)) {
        if (!g->answer[0].token) group_rank(en, g);
        if (!emit_answers(en, g)) return false;
    }
    emit_done(en, g);
    return true;
}

/* End groups whose sequences are all done. Returns true if there was room for some of their
 * events. */
static bool end_groups(struct engine *en)
{
    bool emitted = false;
    for (struct group **at = &en->ended, *g; (g = *at);) {
        emitted |= g->held && emit_room(g) > 0;
        if (!emit_end(en, g)) {
            at = &g->next_ended;
            continue;
        }
        *at = g->next_ended;
        *g->at = g->next;
        if (g->next) g->next->at = g->at;
        door_leave(&en->door, g);
        group_close(g);
        atomic_fetch_sub(&en->n_open, 1);
    }
    return emitted;
}

void seq_idle(struct engine *en, struct seq *s)
{
    if (s->state == SEQ_IDLE) return;
    hold_drop(en, s);
    if (s->state == SEQ_RUNNING)
        take_out(en, s);
    else
        leave_waiting(en, s);
    policy_leave(en->policy, &s->entity);
    s->state = SEQ_IDLE;
}

void seq_end(struct engine *en, struct seq *s, enum finish f)
{
    struct group *g = s->group;
    seq_idle(en, s);
    s->finish = f;
    s->state = SEQ_DONE;
    for (int i = s->choice + 1; i < g->n_seq; i++) g->seq[i].n_before--;
    g->n_live--;
    if (!g->held && g->n_seq > 1) emit_choice(en, s);
    if (g->n_live > 0) return;
    g->next_ended = en->ended;
    en->ended = g;
}

/* ---- requests come and go ---- */

void sched_submit(struct engine *en, struct group *take_g)
{
    take_g->next = en->groups;
    if (take_g->next) take_g->next->at = &take_g->next;
    take_g->at = &en->groups;
    en->groups = take_g;
    for (int i = 0; i < take_g->n_seq; i++) {
        take_g->seq[i].entity.arrival = en->n_arrived++;
        take_g->seq[i].n_before = i;
    }
    if (take_g->next) en->contended_us = en->now_us;
    portion_submitted(en, take_g->request->share_id);
    seq_wait(en, &take_g->seq[0]);
}

void sched_end_group(struct engine *en, struct group *g, enum finish f)
{
    g->ended = f;
    for (int i = 0; i < g->n_seq; i++)
        if (g->seq[i].state != SEQ_DONE) seq_end(en, &g->seq[i], f);
}

void sched_cancel(struct engine *en, uint64_t request_id, int choice)
{
    struct group *g = en->groups;
    while (g && g->request->id != request_id) g = g->next;
    if (!g) return;
    if (g->n_live == 0) { /* its answers are being emitted */
        if (g->held && (choice < 0 || g->n_answer == 1)) g->ended = FINISH_ABORT;
        return;
    }
    if (choice < 0 || g->n_seq == 1 || g->held)
        sched_end_group(en, g, FINISH_ABORT);
    else if (choice < g->n_seq && g->forked && g->seq[choice].state != SEQ_DONE)
        seq_end(en, &g->seq[choice], FINISH_ABORT);
}

/* End requests that are past their deadline or refused. */
static void end_expired(struct engine *en)
{
    for (struct group *g = en->groups; g; g = g->next) {
        const struct request *r = g->request;
        g->n_reserved = 0;
        if (g->n_live == 0) {
            continue;
        } else if (r->deadline_us > 0 && en->now_us - r->arrival_us >= r->deadline_us &&
                   !g->seq[0].padding) { /* padding: its answer was in time */
            sched_end_group(en, g, FINISH_TIMEOUT);
        } else if (door_refused(g)) {
            sched_end_group(en, g, FINISH_REFUSED);
        }
    }
}

/* ---- rank ---- */

static void rank_running(struct engine *en)
{
    int n = en->n_running;
    en->n_running = 0;
    for (int i = 0; i < n; i++) {
        struct seq *s = en->running[i];
        clear_rows(s);
        s->entity.n_left = seq_n_left(s);
        rank_seq(en, s);
        s->stalled =
            s->padding || emit_room(s->group) < emit_events(s, 0, 1) || constraint_waits(en, s);
        en->plan.n_late += s->late;
        insert(en, s);
    }
}

/* ---- rows ---- */

/* Set n_out, n_pick, n_logits and n_event for computing the next n rows of s: wanted results of
 * prompt rows, plus one sampled token if the last known token is included. Pooled hidden states
 * make no events and use no logits. */
static void plan_results(struct seq *s, int n)
{
    const struct request *r = s->group->request;
    struct wanted w = seq_wanted(s);
    int from = s->n_kv > w.from ? s->n_kv : w.from, to = s->n_kv + n < w.to ? s->n_kv + n : w.to;
    int prompt = to > from ? to - from : 0;
    int pick = n > 0 && s->n_kv + n == s->n_token && r->max_tokens > 0;
    s->n_out = prompt + pick;
    s->n_pick = pick;
    s->n_logits = r->pooling ? 0 : s->n_out;
    s->n_event = r->pooling ? 0 : emit_events(s, prompt, pick);
}

/* Return how many of n rows have results that fit into the step. */
static int rows_in_room(const struct engine *en, struct seq *s, int n)
{
    int n_logits = en->batch.limits.n_out - en->plan.n_logits, n_event = emit_room(s->group);
    for (; n > 0; n--) {
        plan_results(s, n);
        if (s->n_logits <= n_logits && s->n_event <= n_event) break;
    }
    return n;
}

/* Adopt pages for s. Those it never computed itself count as found at admission. */
static void catch_up(struct engine *en, struct seq *s)
{
    bool fresh = s->n_kv >= s->n_reached;
    int n = hold_catch_up(en, s);
    if (n == 0 || !fresh) return;
    s->n_cached += n;
    stats_found(en->stats, n);
}

/* Plan tokens that may be forced after the pick, as many as their events have room for. */
static void plan_forced(const struct engine *en, struct seq *s)
{
    if (s->n_pick == 0 || !s->constraint || en->no_jump_forward || emit_needs_logits(s)) return;
    int part = emit_part(s) - 1;
    s->n_more = part < FORCED_MAX ? part > 0 ? part : 0 : FORCED_MAX;
    s->n_event += emit_events(s, 0, s->n_more);
}

/* Return the sequence whose pages s may take: the last one ranked after it that holds some; NULL if
 * none. */
static struct seq *page_victim(const struct engine *en, const struct seq *s)
{
    int i = en->n_running - 1;
    while (en->running[i] != s && en->running[i]->n_page == 0 && en->running[i]->state_at < 0) i--;
    return en->running[i] == s ? NULL : en->running[i];
}

/* Acquire pages for the next n rows of s, by preemption if necessary. Returns for how many rows. */
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

static void plan_rows(struct engine *en, struct seq *s, int most)
{
    const struct batch_limits *l = &en->batch.limits;
    const bool decoding = seq_decodes(s);
    if (!decoding && en->plan.n_row < l->n_row) catch_up(en, s);
    int n = s->n_token - s->n_kv;
    if (n > l->n_row - en->plan.n_row) n = l->n_row - en->plan.n_row;
    if (n > most) n = most;
    n = rows_in_room(en, s, n);
    if (n > 0) n = portion_rows(en, s, n, !decoding);
    if (n > 0 && !decoding)
        n = budget_rows(&en->budget, &en->load, s->n_kv, portion_free(en, s), n);
    if (n > 0) n = take_pages(en, s, n);
    plan_results(s, n > 0 ? n : 0);
    if (n <= 0) return;
    if (!decoding) step_load_add(&en->load, s->n_kv, n, true);
    portion_take(en, s, n, !decoding);
    plan_forced(en, s);
    s->n_row = n;
    s->decodes = decoding;
    s->group->n_reserved += s->n_event;
    en->plan.n_row += n;
    en->plan.n_logits += s->n_logits;
}

static bool needs_row(const struct seq *s)
{
    return !s->stalled && s->n_row == 0 && seq_decodes(s);
}

/* Insert s into the order in which decodes get rows: rank order, but the sequences of a limited
 * holder take turns. */
static void put_in_order(struct engine *en, int n, struct seq *s)
{
    struct seq **v = en->order;
    for (; n > 0 && v[n - 1]->entity.share_id == s->entity.share_id && v[n - 1]->row_no > s->row_no;
         n--) {
        if (!portion_bounded(en, s)) break;
        v[n] = v[n - 1];
    }
    v[n] = s;
}

/* Planning a sequence may preempt those ranked after it. */
static void plan_decodes(struct engine *en)
{
    int n = 0;
    for (int i = 0; i < en->n_running; i++)
        if (needs_row(en->running[i])) put_in_order(en, n++, en->running[i]);
    for (int i = 0; i < n; i++) {
        struct seq *s = en->order[i];
        if (s->state != SEQ_RUNNING) continue;
        plan_rows(en, s, INT_MAX);
        if (s->n_row > 0) s->row_no = ++en->n_row_given;
    }
}

/* Plan prompts, and sequences that were admitted with one token left. */
static void plan_prompts(struct engine *en)
{
    for (int i = 0; i < en->n_running; i++) {
        struct seq *s = en->running[i];
        if (!s->stalled && s->n_row == 0) plan_rows(en, s, INT_MAX);
    }
}

static bool has_prompt_left(const struct seq *s)
{
    return !s->stalled && s->n_row == 0 && seq_n_left(s) > 1;
}

/* Return the shortest prompt that ranks like `first` and has at most a SHORTER-th of its rows left,
 * NULL if none. A longer one waits at most SHORTER times as long as its own rows take. */
static struct seq *shorter_prompt(const struct engine *en, const struct seq *first)
{
    struct seq *best = NULL;
    int least = (first->n_token - first->n_kv) / SHORTER + 1;
    for (int i = 0; i < en->n_running; i++) {
        struct seq *s = en->running[i];
        if (s == first || s->rank != first->rank || !has_prompt_left(s)) continue;
        if (s->n_token - s->n_kv >= least) continue;
        best = s;
        least = s->n_token - s->n_kv;
    }
    return best;
}

/* Give short prompts up to half of the rows next to a long one that came first, so that neither
 * waits for all of the other. Prompts of similar length go by arrival; all do if no client waits
 * for tokens. */
static void plan_short(struct engine *en)
{
    const struct seq *first = NULL;
    for (int i = 0; i < en->n_running && !first; i++)
        if (has_prompt_left(en->running[i])) first = en->running[i];
    if (!first || policy_holds(en->policy) || isinf(en->budget.options.target_us) ||
        !shorter_prompt(en, first))
        return;
    int room = en->batch.limits.n_row - en->plan.n_row;
    int half = budget_rows(&en->budget, &en->load, first->n_kv, 0, room) / 2;
    for (struct seq *s; half > 0 && (s = shorter_prompt(en, first));) {
        int before = en->plan.n_row;
        int whole = portion_free(en, s);
        plan_rows(en, s, half > whole ? half : whole);
        if (s->n_row == 0) return;
        half -= en->plan.n_row - before;
    }
}

/* Plan rows of padding sequences from the rest. None with recurrent state: it is already after the
 * recomputed row. */
static void plan_padding(struct engine *en)
{
    const struct batch_limits *l = &en->batch.limits;
    int rows = pages_rows(en->pages);
    for (int i = 0; i < en->n_running; i++) {
        struct seq *s = en->running[i];
        if (!s->padding || en->states || en->plan.n_row == l->n_row ||
            en->plan.n_logits == l->n_out)
            continue;
        if (page_refs(en->pages, s->page[(s->n_kv - 1) / rows]) > 1) continue; /* others read it */
        s->n_row = s->n_out = s->n_logits = 1;
        s->decodes = true;
        en->plan.n_row++, en->plan.n_logits++;
    }
}

/* Compute the load of the decodes. (If a prompt preempts one of them, the step is shorter than
 * planned.) */
static void plan_load(struct engine *en)
{
    int n_prompt = 0;
    en->load = (struct step_load){0};
    for (int i = 0; i < en->n_running; i++) {
        const struct seq *s = en->running[i];
        if (s->n_row > 0)
            step_load_add(&en->load, s->n_kv, s->n_row, false);
        else if (!s->stalled && seq_n_left(s) > 1)
            n_prompt++;
    }
    budget_share(&en->budget, en->load.n_row, n_prompt);
    budget_contended(&en->budget,
                     en->contended_us > 0 && en->now_us - en->contended_us < CONTENDED_US);
}

/* ---- admission ---- */

/* Return the waiting sequence that ranks first; *oldest_us: earliest submission of a waiting
 * one. */
static struct seq *first_waiting(struct engine *en, int64_t *oldest_us)
{
    struct seq *best = NULL;
    *oldest_us = INT64_MAX;
    for (struct seq *s = en->waiting.head; s; s = s->next) {
        if (s->entity.submit_us < *oldest_us) *oldest_us = s->entity.submit_us;
        s->entity.n_left = s->n_token - s->n_kv;
        s->entity.n_cached = hold_cached(en, s);
        rank_seq(en, s);
        if (en->plan.blocked) s->rank = 0;
        s->stalled = emit_room(s->group) < emit_events(s, 0, 1) || constraint_waits(en, s);
        if (s->stalled || (en->plan.blocked ? !s->group->forked : portion_barred(en, s))) continue;
        if (!best || ranks_before(s, best)) best = s;
    }
    return best;
}

/* Return the free pages left after admitting s if only the first n_running running sequences
 * stayed. Below zero: s does not fit. */
static int pages_left(const struct engine *en, const struct seq *s, int n_running)
{
    int rows = pages_rows(en->pages), n = pages_n_free(en->pages) - hold_need(en, s);
    int watermark = n_running * ((GROWTH_ROWS + rows - 1) / rows);
    if (watermark < pages_n_total(en->pages) / WATERMARK)
        watermark = pages_n_total(en->pages) / WATERMARK;
    for (int i = 0; i < en->n_running; i++)
        if (i >= n_running)
            n += hold_freed(en, en->running[i], s);
        else if (!en->plan.idle)
            n -= hold_reserved(en, en->running[i]);
    if (n_running > 0 && !en->plan.idle) n -= watermark;
    int n_state = states_left(en, n_running);
    return n < n_state ? n : n_state;
}

/* Return whether it has run for long enough that preempting it is no waste. */
static bool has_resided(const struct engine *en, const struct seq *s)
{
    int64_t us = 2 * hold_return_us(en, s);
    return en->now_us - s->admit_us >= (us > RESIDE_US ? us : RESIDE_US);
}

/* n_yielded: number of other sequences displaced for s. */
static bool may_displace(const struct engine *en, const struct seq *s, const struct seq *last,
                         int n_yielded)
{
    bool blocked = last->stalled && !constraint_waits(en, last); /* a mask comes soon */
    if (blocked || (en->plan.idle && ranks_before(s, last))) return true;
    if (policy_yields(en->policy, &last->entity, &s->entity, n_yielded)) return true;
    bool alike =
        last->entity.share_id == s->entity.share_id && last->entity.priority == s->entity.priority;
    if (policy_preempts(en->policy) && alike && last->extra && !s->extra) return true;
    return policy_preempts(en->policy) && last->rank > s->rank && has_resided(en, last);
}

/* Return whether its holder has all its places. Beams advance together, so all of a group get
 * theirs. */
static bool is_full(const struct engine *en, const struct seq *s)
{
    return !en->plan.blocked && !s->group->beam && portion_full(en, s);
}

static bool fits(const struct engine *en, const struct seq *s)
{
    return en->n_running < en->batch.limits.n_seq && !is_full(en, s) &&
           pages_left(en, s, en->n_running) >= 0;
}

/* Return the sequence to displace if s lacks only a place: of the permitted ones, the one with the
 * least cost of return; one of the same holder if that holder is full. NULL if none. */
static struct seq *cheapest_victim(struct engine *en, const struct seq *s)
{
    struct seq *best = NULL;
    int64_t least = INT64_MAX;
    bool full = is_full(en, s);
    if ((!full && en->n_running < en->batch.limits.n_seq) || pages_left(en, s, en->n_running) < 0)
        return NULL;
    for (int i = en->n_running - 1; i >= 0; i--) {
        if (full && en->running[i]->entity.share_id != s->entity.share_id) continue;
        if (!may_displace(en, s, en->running[i], 0)) continue;
        int64_t us = hold_return_us(en, en->running[i]);
        if (us >= least) continue;
        best = en->running[i];
        least = us;
    }
    return best;
}

static void make_way(struct engine *en, struct seq *last)
{
    seq_preempt(en, last);
    stats_count(en->stats, STAT_displaced, 1);
}

/* Make room for s, as its rank allows: displace one sequence if s lacks a place, else the last ones
 * if that is enough. */
static bool make_room(struct engine *en, const struct seq *s)
{
    int n = en->n_running;
    struct seq *victim = cheapest_victim(en, s);
    if (victim) make_way(en, victim);
    if (victim) return fits(en, s);
    if (is_full(en, s)) return false;
    for (; n > 0 && (n == en->batch.limits.n_seq || pages_left(en, s, n) < 0); n--)
        if (!may_displace(en, s, en->running[n - 1], en->n_running - n)) return false;
    while (en->n_running > n) make_way(en, en->running[en->n_running - 1]);
    return true;
}

/* Displace sequences for s. One batch copies s in and the others out. The copies of s are reserved:
 * without them its pages would hold another sequence's K and V. A displaced sequence without a copy
 * is recomputed. */
static bool displace(struct engine *en, const struct seq *s)
{
    en->plan.n_copy_kept = hold_copies(s);
    bool fits_now = make_room(en, s);
    en->plan.n_copy_kept = 0;
    return fits_now;
}

static void start(struct engine *en, struct seq *s)
{
    bool first = atomic_load(&s->group->door.state) != DOOR_INSIDE;
    if (!door_pass(&en->door, s->group)) {
        sched_end_group(en, s->group, FINISH_REFUSED);
        return;
    }
    hold_acquire(en, s);
    s->entity.n_left = s->n_token - s->n_kv; /* what was found is not computed and costs nothing */
    seq_run(en, s);
    s->stalled = !constraint_admit(en, s);
    en->plan.unmasked |= s->stalled;
    if (!first) return;
    s->sched_us = en->now_us;
    s->n_cached = s->n_kv;
    if (seq_wanted(s).from > 0) stats_queried(en->stats, s->n_prompt, s->n_cached);
}

/* Return whether running[i] can compute a row: it has a page, or may take a free one or one of a
 * sequence ranked after it. */
static bool can_continue(const struct engine *en, int i)
{
    const struct seq *s = en->running[i];
    if (s->n_token == s->n_kv) return false;
    int open = s->n_kv / pages_rows(en->pages);
    bool own = open < s->n_page && page_refs(en->pages, s->page[open]) == 1;
    if (s->n_row > 0 || ((own || pages_n_free(en->pages) > 0) && state_may_own(en, s))) return true;
    for (i++; i < en->n_running; i++)
        if (en->running[i]->n_page > 0) return true;
    return false;
}

/* Set plan.idle if no running sequence can continue. Then running beams wait for waiting beams of
 * their groups, and nothing continues until those have room. They get it in the order of arrival,
 * whatever the policy, so that one group gets all its beams. Otherwise there would be deadlock
 * between two groups with beams of equal rank, in a batch that no sequence may join, and for a
 * sequence that lacks a page while beams rank before it. */
static void find_idle(struct engine *en)
{
    int n = en->n_running;
    en->plan.idle = true;
    en->plan.blocked = false;
    for (int i = 0; i < n; i++) {
        const struct seq *s = en->running[i];
        if (s->stalled) continue;
        if (can_continue(en, i)) en->plan.idle = false;
        en->plan.blocked = true;
    }
    en->plan.blocked &= en->plan.idle;
    if (!en->plan.blocked) return;
    en->n_running = 0;
    for (int i = 0; i < n; i++) {
        en->running[i]->rank = 0;
        insert(en, en->running[i]);
    }
}

static void admit(struct engine *en)
{
    find_idle(en);
    while (en->waiting.n > 0 && !en->plan.preempted) {
        int64_t oldest_us;
        struct seq *s = first_waiting(en, &oldest_us);
        en->plan.deferred =
            !en->plan.blocked &&
            !policy_admits(en->policy, en->n_running, en->waiting.n, oldest_us, en->now_us);
        if (en->plan.deferred || !s) return;
        if (!hold_can_acquire(en, s)) return;
        bool full = is_full(en, s);
        if (!fits(en, s) && !displace(en, s)) {
            if (!full) return;
            portion_bar(en, s); /* other holders may have room */
            continue;
        }
        start(en, s);
        en->plan.idle = en->plan.blocked = false;
    }
}

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
    s->row0 = b->n_row;
    s->pos0 = from;
    s->out0 = b->n_out;
    s->logits0 = en->plan.n_out_logits;
    s->hidden0 = en->plan.n_hidden;
    if (kind & OUT_LOGITS) en->plan.n_out_logits += s->n_out;
    if (kind & OUT_HIDDEN) en->plan.n_hidden += s->n_out;
    for (int i = 0; i < s->n_row; i++) {
        int row = b->n_row++, pos = from + i;
        b->token[row] = pos < s->n_token ? s->token[pos] : s->draft[pos - s->n_token];
        b->pos[row] = pos;
        b->slot[row] = s->page[pos / page_rows] * page_rows + pos % page_rows;
        bool wanted = (pos >= w.from && pos < w.to) || s->padding;
        if (!wanted && (pos < s->n_token - 1 || r->max_tokens == 0)) continue;
        b->out_row[b->n_out] = row;
        b->out_kind[b->n_out++] = kind;
    }
    CHECK(b->n_out - s->out0 == s->n_out, "%d outputs, %d planned", b->n_out - s->out0, s->n_out);
    b->row0[iseq + 1] = b->n_row;
    b->kv_len[iseq] = from + s->n_row;
    state_rows(en, s, iseq);
}

/* End the batch if all running sequences are padding. */
static void end_padding(struct engine *en)
{
    for (int i = 0; i < en->n_running; i++)
        if (!en->running[i]->padding) return;
    while (en->n_running > 0) seq_end(en, en->running[0], en->running[0]->finish);
}

bool sched_next(struct engine *en)
{
    batch_clear(&en->batch);
    memset(&en->plan, 0, sizeof en->plan);
    end_expired(en);
    end_padding(en);
    bool emitted = end_groups(en);
    emitted |= constraint_prepare(en);
    rank_running(en);
    portion_begin(en);
    plan_decodes(en);
    admit(en);
    plan_load(en);
    plan_short(en);
    plan_prompts(en);
    draft_plan(en);
    plan_padding(en);
    for (int i = 0; i < en->n_running; i++)
        if (en->running[i]->n_row > 0) add_rows(en, en->running[i]);
    end_groups(en); /* of padding sequences that lost their pages, and of refused ones */
    return en->batch.n_row > 0 || en->batch.n_copy > 0 || emitted || en->plan.unmasked;
}

/* ---- after the step ---- */

static void measure(struct engine *en, int64_t us)
{
    if (us <= 0 || en->batch.n_row - en->plan.n_draft - en->batch.n_seq < PREFILL_ROWS) return;
    en->prefill_rate += 0.1 * ((double)en->batch.n_row / (double)us - en->prefill_rate);
}

static void serve(struct engine *en, struct seq *s, int64_t us)
{
    hold_commit(en, s);
    record_rows(en, s);
    s->entity.n_left = seq_n_left(s);
    s->entity.decodes = s->decodes;
    if (s->n_row > 0)
        policy_served(en->policy, &s->entity, s->n_row, en->batch.n_row, us, en->now_us + us);
    int again = (s->n_kv < s->n_reached ? s->n_kv : s->n_reached) - s->pos0;
    if (s->n_row > 0 && again > 0) stats_count(en->stats, STAT_recomputed, again);
    if (s->n_reached < s->n_kv) s->n_reached = s->n_kv;
    s->n_row = 0;
}

/* Return whether s is done. Without max_tokens that is when its prompt is computed. */
static bool is_done(const struct seq *s)
{
    return s->finish != FINISH_NONE ||
           (s->group->request->max_tokens == 0 && s->n_kv == s->n_prompt);
}

/* Keep a finished s in the batch if the policy holds batches. Returns whether it does. */
static bool becomes_padding(const struct engine *en, struct seq *s)
{
    if (!policy_holds(en->policy) || s->group->n_seq > 1 || s->finish == FINISH_NONE) return false;
    s->padding = true;
    return true;
}

void sched_commit(struct engine *en)
{
    int64_t us = engine_now(en) - en->now_us;
    struct seq **done = en->order;
    int n = 0;
    measure(en, us);
    for (int i = 0; i < en->n_running; i++) {
        struct seq *s = en->running[i];
        if (s->padding)
            s->n_row = 0;
        else
            serve(en, s, us);
        if (is_done(s) && !s->padding && !becomes_padding(en, s)) done[n++] = s;
    }
    for (int i = 0; i < n; i++)
        if (done[i]->finish != FINISH_NONE)
            seq_end(en, done[i], done[i]->finish);
        else
            sched_end_group(en, done[i]->group, FINISH_LENGTH);
    end_padding(en);
    end_groups(en);
}

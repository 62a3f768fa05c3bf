/* sched.c - which sequences compute which rows in the next step.
 *
 *   sched_next   rank -> rows of those that decode -> admit who waits -> rows of prompts -> batch
 *
 * The policy says who goes first (policy.h). Sequences that decode get their row before any prompt
 * does; prompts share what is left of the step's rows, and of the time that it may take (budget.h), in
 * chunks, first ones first. How a prompt is cut never changes a bit of the result (docs/design.md 5).
 *
 * A waiting sequence is admitted when there are pages for all its known tokens, beside what running
 * prompts still need and a watermark, so that admission is not undone at once. Later it takes pages as
 * it grows. When there are none, the sequence that ranks last gives its own up and waits again (hold.c):
 * so the first one always goes on, and every one is the first some day. Policies that preempt may
 * also displace running sequences for a waiting one that ranks before them, but none before it has run
 * for twice the time that its return will cost. A sequence whose client does not read its events gets
 * no rows, and ranks behind all others: it must not keep memory from them.
 *
 * Static batching, the baseline, keeps sequences that are done in the batch until all of it is: they are
 * spent, take a row of each step for nothing, and end together, or when somebody needs their pages. */
#include "engine_impl.h"

#include <assert.h>
#include <string.h>

enum { RESIDE_US = 50 * 1000, GROWTH_ROWS = 16, WATERMARK = 100, PREFILL_ROWS = 16 };

/* ---- states ---- */

static void arrive(struct engine *en, struct seq *s)
{
    const struct request *r = s->group->request;
    s->turn = (struct turn){.arrival = s->turn.arrival,
                            .submit_us = r->submit_us,
                            .priority = r->priority,
                            .share_id = r->share_id,
                            .share_weight = r->share_weight,
                            .n_prompt = s->n_prompt,
                            .n_left = s->n_token};
    policy_arrive(en->policy, &s->turn, en->now_us);
}

void seq_wait(struct engine *en, struct seq *s)
{
    if (s->state == SEQ_IDLE) arrive(en, s);
    s->state = SEQ_WAITING;
    record_wait(en, s);
    list_push(&en->waiting, s);
}

static bool goes_before(const struct seq *a, const struct seq *b)
{
    if (a->stuck != b->stuck) return b->stuck;
    if (a->rank != b->rank) return a->rank < b->rank;
    return a->turn.arrival < b->turn.arrival;
}

/* Into its place among the running ones. */
static void insert(struct engine *en, struct seq *s)
{
    int i = en->n_running++;
    for (; i > 0 && goes_before(s, en->running[i - 1]); i--) en->running[i] = en->running[i - 1];
    en->running[i] = s;
}

static void take_out(struct engine *en, struct seq *s)
{
    int i = 0;
    record_run_end(en, s);
    while (en->running[i] != s) i++;
    memmove(en->running + i, en->running + i + 1,
            (size_t)(--en->n_running - i) * sizeof(struct seq *));
}

static void leave_waiting(struct engine *en, struct seq *s)
{
    record_wait_end(en, s);
    list_remove(&en->waiting, s);
}

void seq_run(struct engine *en, struct seq *s)
{
    if (s->state == SEQ_IDLE) arrive(en, s);
    if (s->state == SEQ_WAITING) leave_waiting(en, s);
    s->state = SEQ_RUNNING;
    record_run(en, s);
    policy_admitted(en->policy, &s->turn, en->now_us);
    s->admit_us = en->now_us;
    s->n_row = s->n_out = s->n_logits = 0;
    s->rank = policy_rank(en->policy, &s->turn, en->now_us);
    insert(en, s);
}

/* Its rows of the step that is being planned. */
static void unplan(struct engine *en, struct seq *s)
{
    en->plan.n_row -= s->n_row;
    en->plan.n_logits -= s->n_logits;
    s->group->n_reserved -= s->n_event;
    s->n_row = s->n_out = s->n_logits = s->n_event = 0;
}

void seq_preempt(struct engine *en, struct seq *s)
{
    unplan(en, s);
    en->plan.preempted = true;
    if (s->spent) {
        seq_end(en, s, s->finish);
        return;
    }
    s->group->n_preempted++;
    stats_count(en->stats, STAT_preemptions, 1);
    hold_preempt(en, s);
    take_out(en, s);
    s->turn.n_left = s->n_token - s->n_kv;
    policy_preempted(en->policy, &s->turn, en->now_us);
    seq_wait(en, s);
}

static void group_end(struct engine *en, struct group *g)
{
    if (g->held && (g->ended == FINISH_NONE || g->ended == FINISH_LENGTH)) {
        if (!g->answer[0].token) group_rank(en, g);
        if (!emit_answers(en, g)) return; /* again next step */
    }
    emit_done(en, g);
    *g->at = g->next;
    if (g->next) g->next->at = g->at;
    if (g->queued) atomic_fetch_sub(&en->n_queued, 1);
    atomic_fetch_sub(&en->n_byte, g->n_byte);
    group_close(g);
    atomic_fetch_sub(&en->n_open, 1);
}

void seq_idle(struct engine *en, struct seq *s)
{
    if (s->state == SEQ_IDLE) return;
    hold_drop(en, s);
    if (s->state == SEQ_RUNNING)
        take_out(en, s);
    else
        leave_waiting(en, s);
    policy_leave(en->policy, &s->turn);
    s->state = SEQ_IDLE;
}

/* Its group may be gone afterwards. */
void seq_end(struct engine *en, struct seq *s, enum finish f)
{
    struct group *g = s->group;
    seq_idle(en, s);
    s->finish = f;
    s->state = SEQ_DONE;
    g->n_live--;
    if (!g->held && g->n_seq > 1) emit_choice(en, s);
    if (g->n_live == 0) group_end(en, g);
}

/* ---- requests come and go ---- */

void sched_submit(struct engine *en, struct group *take_g)
{
    take_g->next = en->groups;
    if (take_g->next) take_g->next->at = &take_g->next;
    take_g->at = &en->groups;
    en->groups = take_g;
    take_g->queued = true;
    for (int i = 0; i < take_g->n_seq; i++) take_g->seq[i].turn.arrival = en->n_arrived++;
    seq_wait(en, &take_g->seq[0]);
}

void sched_end_group(struct engine *en, struct group *g, enum finish f)
{
    int left = g->n_live; /* the last one takes the group with it */
    g->ended = f;
    for (int i = 0; left > 0; i++)
        if (g->seq[i].state != SEQ_DONE) left--, seq_end(en, &g->seq[i], f);
}

void sched_cancel(struct engine *en, uint64_t request_id, int choice)
{
    struct group *g = en->groups;
    while (g && g->request->id != request_id) g = g->next;
    if (!g) return;
    if (g->n_live == 0) { /* it is telling its answers */
        if (choice >= 0 && g->n_answer > 1) return;
        g->i_answer = g->n_answer;
        g->ended = FINISH_ABORT;
        group_end(en, g);
        return;
    }
    if (choice < 0 || g->n_seq == 1 || g->held)
        sched_end_group(en, g, FINISH_ABORT);
    else if (choice < g->n_seq && g->forked && g->seq[choice].state != SEQ_DONE)
        seq_end(en, &g->seq[choice], FINISH_ABORT);
}

/* Requests whose time is over, and the answers of those that tell at the end. true: there was room for
 * some. */
static bool visit_groups(struct engine *en)
{
    bool told = false;
    for (struct group *g = en->groups, *next; g; g = next) {
        const struct request *r = g->request;
        next = g->next;
        g->n_reserved = 0;
        if (g->n_live == 0) {
            told |= emit_room(g) > 0;
            group_end(en, g);
        } else if (r->deadline_us > 0 && en->now_us - r->submit_us >= r->deadline_us &&
                   !g->seq[0].spent) { /* spent: its answer was there in time */
            sched_end_group(en, g, FINISH_TIMEOUT);
        }
    }
    return told;
}

/* ---- rank ---- */

static void rank_running(struct engine *en)
{
    int n = en->n_running;
    en->n_running = 0;
    for (int i = 0; i < n; i++) {
        struct seq *s = en->running[i];
        s->n_row = s->n_out = s->n_logits = s->n_event = 0;
        s->turn.n_left = s->n_token - s->n_kv;
        s->rank = policy_rank(en->policy, &s->turn, en->now_us);
        s->stuck = s->spent || emit_room(s->group) < emit_events(s, 0, 1);
        insert(en, s);
    }
}

/* ---- rows ---- */

/* What s makes if it computes n rows now: results of its prompt's rows, a pick of its next token, and
 * events of both. Hidden states are pooled without a word, and cost the step nothing. */
static void plan_results(struct seq *s, int n)
{
    const struct request *r = s->group->request;
    struct wanted w = seq_wanted(s);
    int from = s->n_kv > w.from ? s->n_kv : w.from, to = s->n_kv + n < w.to ? s->n_kv + n : w.to;
    int prompt = to > from ? to - from : 0;
    int pick = n > 0 && s->n_kv + n == s->n_token && r->max_tokens > 0;
    s->n_out = prompt + pick;
    s->n_logits = r->pooling ? 0 : s->n_out;
    s->n_event = r->pooling ? 0 : emit_events(s, prompt, pick);
}

/* The most of n rows whose results the step has room for. */
static int rows_in_room(const struct engine *en, struct seq *s, int n)
{
    int n_logits = en->batch.limits.n_out - en->plan.n_logits, n_event = emit_room(s->group);
    for (; n > 0; n--) {
        plan_results(s, n);
        if (s->n_logits <= n_logits && s->n_event <= n_event) break;
    }
    return n;
}

/* Pages that s finds now and never computed itself count as found when it was admitted. */
static void catch_up(struct engine *en, struct seq *s)
{
    bool fresh = s->n_kv >= s->n_reached;
    int n = hold_catch_up(en, s);
    if (n == 0 || !fresh) return;
    s->n_cached += n;
    stats_found(en->stats, n);
}

static void plan_rows(struct engine *en, struct seq *s, bool decoding)
{
    const struct batch_limits *l = &en->batch.limits;
    if (!decoding && en->plan.n_row < l->n_row) catch_up(en, s);
    int n = s->n_token - s->n_kv;
    if (n > l->n_row - en->plan.n_row) n = l->n_row - en->plan.n_row;
    n = rows_in_room(en, s, n);
    if (n > 0 && !decoding) n = budget_rows(&en->budget, &en->load, s->n_kv, n);
    if (n > 0) n = hold_rows(en, s, n);
    plan_results(s, n > 0 ? n : 0);
    if (n <= 0) return;
    if (!decoding) step_load_add(&en->load, s->n_kv, n, true);
    s->n_row = n;
    s->group->n_reserved += s->n_event;
    en->plan.n_row += n;
    en->plan.n_logits += s->n_logits;
}

/* Sequences behind the one that is planned may be preempted by it, none before it. */
static void plan_pass(struct engine *en, bool decoding)
{
    for (int i = 0; i < en->n_running; i++) {
        struct seq *s = en->running[i];
        /* The second pass has prompts, and whoever was admitted since the first with one token left. */
        bool one = s->n_token - s->n_kv <= 1;
        if (s->stuck || s->n_row > 0 || (decoding && !one)) continue;
        plan_rows(en, s, one);
    }
}

/* Of the rows that are left. */
static void plan_spent(struct engine *en)
{
    const struct batch_limits *l = &en->batch.limits;
    int rows = pages_rows(en->pages);
    for (int i = 0; i < en->n_running; i++) {
        struct seq *s = en->running[i];
        if (!s->spent || en->plan.n_row == l->n_row || en->plan.n_logits == l->n_out) continue;
        if (page_refs(en->pages, s->page[(s->n_kv - 1) / rows]) > 1) continue; /* others read it */
        s->n_row = s->n_out = s->n_logits = 1;
        en->plan.n_row++, en->plan.n_logits++;
    }
}

/* What those that decode make of the step. (Should a prompt preempt one of them, the step is shorter
 * than it was planned.) */
static void plan_load(struct engine *en)
{
    int n_prompt = 0;
    en->load = (struct step_load){0};
    for (int i = 0; i < en->n_running; i++) {
        const struct seq *s = en->running[i];
        if (s->n_row > 0)
            step_load_add(&en->load, s->n_kv, s->n_row, false);
        else if (!s->stuck && s->n_token - s->n_kv > 1)
            n_prompt++;
    }
    budget_share(&en->budget, en->load.n_row, n_prompt);
}

/* ---- admission ---- */

/* The waiting sequence that ranks first; oldest_us: since when the longest waiting one waits. */
static struct seq *first_waiting(struct engine *en, int64_t *oldest_us)
{
    struct seq *best = NULL;
    *oldest_us = INT64_MAX;
    for (struct seq *s = en->waiting.head; s; s = s->next) {
        if (s->turn.submit_us < *oldest_us) *oldest_us = s->turn.submit_us;
        s->turn.n_left = s->n_token - s->n_kv;
        s->turn.n_cached = hold_cached(en, s);
        s->rank = en->plan.blocked ? 0 : policy_rank(en->policy, &s->turn, en->now_us);
        s->stuck = emit_room(s->group) < emit_events(s, 0, 1);
        if (s->stuck || (en->plan.blocked && !s->group->forked)) continue;
        if (!best || goes_before(s, best)) best = s;
    }
    return best;
}

/* Free pages that would be left with s admitted, if the first n_running of the running sequences
 * stayed. Below zero: it does not fit. */
static int pages_left(const struct engine *en, const struct seq *s, int n_running)
{
    int rows = pages_rows(en->pages), n = pages_n_free(en->pages) - hold_need(en, s);
    int watermark = n_running * ((GROWTH_ROWS + rows - 1) / rows);
    if (watermark < pages_n_total(en->pages) / WATERMARK)
        watermark = pages_n_total(en->pages) / WATERMARK;
    for (int i = 0; i < en->n_running; i++)
        if (i >= n_running)
            n += hold_private(en, en->running[i]);
        else if (!en->plan.idle)
            n -= hold_reserved(en, en->running[i]);
    return n_running > 0 && !en->plan.idle ? n - watermark : n;
}

/* Has it run for long enough that preempting it is no waste? */
static bool has_resided(const struct engine *en, const struct seq *s)
{
    int64_t us = 2 * hold_return_us(en, s);
    return en->now_us - s->admit_us >= (us > RESIDE_US ? us : RESIDE_US);
}

static bool may_displace(const struct engine *en, const struct seq *s, const struct seq *last)
{
    if (last->stuck || (en->plan.idle && goes_before(s, last))) return true;
    return policy_preempts(en->policy) && last->rank > s->rank && has_resided(en, last);
}

/* Make room for s, whose rank allows it: the last ones go, if that is enough. */
static bool displace(struct engine *en, const struct seq *s)
{
    int n = en->n_running;
    while (n > 0 && (n == en->batch.limits.n_seq || pages_left(en, s, n) < 0))
        if (!may_displace(en, s, en->running[--n])) return false;
    while (en->n_running > n) {
        seq_preempt(en, en->running[en->n_running - 1]);
        stats_count(en->stats, STAT_displaced, 1);
    }
    return true;
}

static bool fits(const struct engine *en, const struct seq *s)
{
    return en->n_running < en->batch.limits.n_seq && pages_left(en, s, en->n_running) >= 0;
}

static void start(struct engine *en, struct seq *s)
{
    hold_begin(en, s);
    s->turn.n_left = s->n_token - s->n_kv; /* what was found is not computed, and costs nothing */
    seq_run(en, s);
    if (!s->group->queued) return;
    s->group->queued = false;
    atomic_fetch_sub(&en->n_queued, 1);
    s->sched_us = en->now_us;
    s->n_cached = s->n_kv;
    if (seq_wanted(s).from > 0) stats_queried(en->stats, s->n_prompt, s->n_cached);
}

/* Has nobody who runs anything to compute? Then beams among them wait for others of theirs that wait, and nothing goes
 * on unless room is made for those: in the order of arrival, whatever the policy says, so that one group gets all of
 * its beams. Two groups whose beams rank alike, or a batch that nobody may join, would wait for ever. */
static void find_idle(struct engine *en)
{
    int n = en->n_running;
    en->plan.idle = true;
    en->plan.blocked = false;
    for (int i = 0; i < n; i++) {
        const struct seq *s = en->running[i];
        if (s->stuck) continue;
        if (s->n_token > s->n_kv) en->plan.idle = false;
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
        if (!hold_can_begin(en, s) || (!fits(en, s) && !displace(en, s))) return;
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
    const int from = s->spent ? s->n_kv - 1 : s->n_kv;
    int kind = r->pooling ? OUT_HIDDEN : OUT_LOGITS;
    memcpy(b->page + (int64_t)iseq * b->page_stride, s->page, (size_t)s->n_page * sizeof *s->page);
    s->row0 = b->n_row;
    s->out0 = b->n_out;
    s->result0 = en->plan.n_result[kind];
    en->plan.n_result[kind] += s->n_out;
    for (int i = 0; i < s->n_row; i++) {
        int row = b->n_row++, pos = from + i;
        b->token[row] = s->token[pos];
        b->pos[row] = pos;
        b->slot[row] = s->page[pos / page_rows] * page_rows + pos % page_rows;
        bool wanted = (pos >= w.from && pos < w.to) || s->spent;
        if (!wanted && (pos < s->n_token - 1 || r->max_tokens == 0)) continue;
        b->out_row[b->n_out] = row;
        b->out_kind[b->n_out++] = kind;
    }
    assert(b->n_out - s->out0 == s->n_out);
    b->row0[iseq + 1] = b->n_row;
    b->kv_len[iseq] = from + s->n_row;
    b->state[iseq] = -1;
    b->adapter[iseq] = r->adapter;
}

/* Nobody is left who computes for somebody. */
static void end_spent(struct engine *en)
{
    for (int i = 0; i < en->n_running; i++)
        if (!en->running[i]->spent) return;
    while (en->n_running > 0) seq_end(en, en->running[0], en->running[0]->finish);
}

bool sched_next(struct engine *en)
{
    batch_clear(&en->batch);
    memset(&en->plan, 0, sizeof en->plan);
    bool told = visit_groups(en);
    end_spent(en);
    rank_running(en);
    plan_pass(en, true);
    admit(en);
    plan_load(en);
    plan_pass(en, false);
    plan_spent(en);
    for (int i = 0; i < en->n_running; i++)
        if (en->running[i]->n_row > 0) add_rows(en, en->running[i]);
    return en->batch.n_row > 0 || en->batch.n_copy > 0 || told;
}

/* ---- after the step ---- */

static void measure(struct engine *en, int64_t us)
{
    if (us <= 0 || en->batch.n_row - en->batch.n_seq < PREFILL_ROWS) return;
    en->prefill_rate += 0.1 * ((double)en->batch.n_row / (double)us - en->prefill_rate);
}

static void serve(struct engine *en, struct seq *s, int64_t us)
{
    hold_commit(en, s);
    record_rows(en, s);
    s->turn.n_left = s->n_token - s->n_kv;
    if (s->n_row > 0)
        policy_served(en->policy, &s->turn, s->n_row, en->batch.n_row, us, en->now_us + us);
    int again = (s->n_kv < s->n_reached ? s->n_kv : s->n_reached) - (s->n_kv - s->n_row);
    if (again > 0) stats_count(en->stats, STAT_recomputed, again);
    if (s->n_reached < s->n_kv) s->n_reached = s->n_kv;
    s->n_row = 0;
}

/* It is done: does it stay until the others are? */
static bool becomes_spent(const struct engine *en, struct seq *s)
{
    if (!policy_holds(en->policy) || s->group->n_seq > 1) return false;
    s->spent = true;
    return true;
}

void sched_commit(struct engine *en)
{
    int64_t us = engine_now(en) - en->now_us;
    measure(en, us);
    for (int i = 0; i < en->n_running;) {
        struct seq *s = en->running[i];
        if (s->spent) {
            s->n_row = 0, i++;
            continue;
        }
        serve(en, s, us);
        if (s->finish == FINISH_NONE && s->group->request->max_tokens == 0 &&
            s->n_kv == s->n_prompt) {
            sched_end_group(en, s->group, FINISH_LENGTH);
            i = 0; /* no more than one of the group runs, but it may be anywhere */
        } else if (s->finish != FINISH_NONE && !becomes_spent(en, s)) {
            seq_end(en, s, s->finish);
        } else {
            i++;
        }
    }
    end_spent(en);
}

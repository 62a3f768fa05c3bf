/* admit.c - admission: selection of the waiting sequences that join the running sequences.
 *
 * A waiting sequence is admitted if there are pages for all its known tokens. The pages that
 * running prompts need and a watermark stay free, so that no preemption immediately reverts the
 * admission. Policies that preempt may displace running sequences for a waiting sequence of a
 * better rank. A policy displaces no sequence that has run for less than twice the cost of its
 * return.
 *
 * (1) A sequence is admitted only if pages_left is at least 0 for it, and a place is free.
 * (2) After a preemption a step admits at most one sequence: the sequence for which another was
 *     displaced.
 * (3) A holder that has all its places (portion.c) does not prevent the admission of other holders.
 * (4) Neither the watermark nor reserved pages prevent an admission if no running sequence can
 *     continue. Therefore the engine never waits for itself. */
#include "engine_impl.h"

/* RESIDE_US: minimum time between admission and displacement. The time is about a step of 8
 * sequences of llama-1b (57 to 63 ms, docs/measurements.md). GROWTH_ROWS: free rows per running
 * sequence, enough for 16 steps without a preemption. WATERMARK: at least 1 / 100 of the pages
 * stays free, as in vLLM. */
enum { RESIDE_US = 50 * 1000, GROWTH_ROWS = 16, WATERMARK = 100 };

/* ---- room ---- */

/* Return the number of free pages after an admission of s, if only the first n_running running
 * sequences stay. The result is negative if s does not fit. */
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

/* Return true if the holder of s has all its places. The limit does not apply to beams, because all
 * beams of a group advance together. */
static bool is_full(const struct engine *en, const struct seq *s)
{
    return !en->plan.blocked && !s->group->beam && portion_full(en, s);
}

static bool fits(const struct engine *en, const struct seq *s)
{
    return en->n_running < en->batch.limits.n_seq && !is_full(en, s) &&
           pages_left(en, s, en->n_running) >= 0;
}

/* ---- displacing ---- */

/* Return true if s has run for long enough to be preempted. */
static bool has_resided(const struct engine *en, const struct seq *s)
{
    int64_t us = 2 * hold_return_us(en, s);
    return en->now_us - s->admit_us >= (us > RESIDE_US ? us : RESIDE_US);
}

/* Return true if s may displace `last`. n_yielded: number of other sequences displaced for s. */
static bool may_displace(const struct engine *en, const struct seq *s, const struct seq *last,
                         int n_yielded)
{
    /* STALL_MASK does not count, because the mask of the sequence will be ready soon */
    bool stuck = last->stall && last->stall != STALL_MASK;
    if (stuck || (en->plan.idle && rank_before(s, last))) return true;
    if (policy_yields(en->policy, &last->entity, &s->entity, n_yielded)) return true;
    bool alike =
        last->entity.holder == s->entity.holder && last->entity.priority == s->entity.priority;
    if (policy_preempts(en->policy) && alike && last->extra && !s->extra) return true;
    return policy_preempts(en->policy) && last->rank > s->rank && has_resided(en, last);
}

/* Return the sequence to displace if s lacks only a place: the permitted sequence with the least
 * cost of return; NULL if none. The result is a sequence of the holder of s if this holder has all
 * its places. */
static struct seq *cheapest_victim(struct engine *en, const struct seq *s)
{
    struct seq *best = NULL;
    int64_t least = INT64_MAX;
    bool full = is_full(en, s);
    if ((!full && en->n_running < en->batch.limits.n_seq) || pages_left(en, s, en->n_running) < 0)
        return NULL;
    for (int i = en->n_running - 1; i >= 0; i--) {
        if (full && en->running[i]->entity.holder != s->entity.holder) continue;
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

/* Make room for s if its rank permits. Displace one sequence if s lacks only a place. Otherwise
 * displace the sequences that rank last if their pages are enough. */
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

/* Displace sequences for s. One batch copies s in, and copies the other sequences out. The copies
 * of s are reserved, because the pages of s would otherwise keep the K and V of another sequence. A
 * displaced sequence without a copy is recomputed. */
static bool displace(struct engine *en, const struct seq *s)
{
    en->plan.n_copy_kept = hold_copies(s);
    bool fits_now = make_room(en, s);
    en->plan.n_copy_kept = 0;
    return fits_now;
}

/* ---- admission ---- */

/* Return the waiting sequence that ranks first; set *oldest_us to the earliest submission of a
 * waiting sequence. */
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
        s->stall = rank_stall(en, s);
        if (s->stall || (en->plan.blocked ? !s->group->forked : portion_barred(en, s))) continue;
        if (!best || rank_before(s, best)) best = s;
    }
    return best;
}

/* Move a sequence from waiting to running. The figures of the wait and of the cache are recorded
 * only at the first admission of a sequence. Therefore preempted sequences are not counted
 * twice. */
static void admit_seq(struct engine *en, struct seq *s)
{
    bool first = atomic_load(&s->group->door.state) != DOOR_INSIDE;
    if (!door_pass(&en->door, s->group)) {
        group_end(en, s->group, FINISH_REFUSED);
        return;
    }
    hold_acquire(en, s);
    s->entity.n_left = s->n_token - s->n_kv; /* tokens from the cache cost no time */
    seq_run(en, s);
    if (!constraint_admit(en, s)) {
        s->stall = STALL_ADMITTED;
        en->plan.unmasked = true;
    }
    if (!first) return;
    s->sched_us = en->now_us;
    s->n_cached = s->n_kv;
    if (seq_wanted(s).from > 0) stats_queried(en->stats, s->n_prompt, s->n_cached);
}

/* Return true if running[i] can compute a row. running[i] has a page for the row, or may take a
 * free page or a page of a sequence ranked after it. */
static bool can_continue(const struct engine *en, int i)
{
    const struct seq *s = en->running[i];
    if (s->n_token == s->n_kv) return false;
    int open = s->n_kv / pages_rows(en->pages);
    bool own = open < s->n_page && page_refs(en->pages, s->page[open]) == 1;
    if (s->plan.n_row > 0 || ((own || pages_n_free(en->pages) > 0) && state_may_own(en, s)))
        return true;
    for (i++; i < en->n_running; i++)
        if (en->running[i]->n_page > 0) return true;
    return false;
}

/* Set plan.idle if no running sequence can continue. Running beams wait for waiting beams of their
 * groups if the engine is idle, until the waiting beams have room. Groups get room in the order of
 * arrival, under every policy, so that one group gets all its beams. Any other order can deadlock,
 * if two groups have beams of equal rank or no sequence can join the batch. A sequence may also
 * lack a page while beams rank before it. */
static void find_idle(struct engine *en)
{
    int n = en->n_running;
    en->plan.idle = true;
    en->plan.blocked = false;
    for (int i = 0; i < n; i++) {
        const struct seq *s = en->running[i];
        if (s->stall) continue;
        if (can_continue(en, i)) en->plan.idle = false;
        en->plan.blocked = true;
    }
    en->plan.blocked &= en->plan.idle;
    if (!en->plan.blocked) return;
    en->n_running = 0;
    for (int i = 0; i < n; i++) {
        en->running[i]->rank = 0;
        rank_insert(en, en->running[i]);
    }
}

void admit_waiting(struct engine *en)
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
            portion_bar(en, s); /* other holders may still have room */
            continue;
        }
        admit_seq(en, s);
        en->plan.idle = en->plan.blocked = false;
    }
}

/* rank.c - the order of sequences in a step.
 *
 * The first difference between two sequences determines their order. Sequences that are not stalled
 * (enum stall) go first, then sequences of a lower rank (policy.h), then sequences that are not
 * extra, then earlier sequences. Choices of a request, and prompts of a call, beyond ORDINARY_MAX
 * are extra. Extra sequences rank after other sequences of equal rank and yield to the other
 * sequences. A stalled sequence ranks last, so it cannot hold memory that other sequences need.
 *
 * (1) engine.running is in this order after rank_running and after each rank_insert. */
#include "engine_impl.h"

#include "base/check.h"

/* LATE: late extra sequences take at most 1 / 16 = 6 % of the places. EXTRA_US is equal to
 * COMPANY_US, the time after which a holder counts as absent. */
enum { LATE = 16, EXTRA_US = 10 * 1000 * 1000 };

/* Set s's rank for this step. A choice or a prompt of a call beyond ORDINARY_MAX is extra. After a
 * wait of EXTRA_US the sequence is late, not extra. Late sequences have at most a LATE-th of the
 * places. Therefore extra sequences make progress next to any number of other sequences. Beams are
 * never extra, because they advance together. */
void rank_seq(struct engine *en, struct seq *s)
{
    bool many = !s->group->beam && (s->group->request->extra || s->n_before >= ORDINARY_MAX);
    if (s->state == SEQ_WAITING)
        s->late = many && en->now_us - s->entity.ready_us >= EXTRA_US &&
                  en->plan.n_late * LATE < en->batch.limits.n_seq;
    s->extra = many && !s->late;
    s->rank = policy_rank(en->policy, &s->entity, en->now_us);
}

enum stall rank_stall(const struct engine *en, const struct seq *s)
{
    if (constraint_waits(en, s)) return STALL_MASK;
    if (s->padding) return STALL_PADDING;
    return emit_room(s->group) < emit_events(s, 0, 1) ? STALL_READER : STALL_NONE;
}

bool rank_before(const struct seq *a, const struct seq *b)
{
    if (!a->stall != !b->stall) return b->stall;
    if (a->rank != b->rank) return a->rank < b->rank;
    if (a->extra != b->extra) return b->extra;
    return a->entity.arrival < b->entity.arrival;
}

/* Insert s into the running sequences in rank order. */
void rank_insert(struct engine *en, struct seq *s)
{
    CHECK(en->n_running < en->batch.limits.n_seq, "%d of %d run", en->n_running,
          en->batch.limits.n_seq);
    int i = en->n_running++;
    for (; i > 0 && rank_before(s, en->running[i - 1]); i--) en->running[i] = en->running[i - 1];
    en->running[i] = s;
}

void rank_running(struct engine *en)
{
    int n = en->n_running;
    en->n_running = 0;
    for (int i = 0; i < n; i++) {
        struct seq *s = en->running[i];
        s->entity.n_left = seq_n_left(s);
        rank_seq(en, s);
        s->stall = rank_stall(en, s);
        en->plan.n_late += s->late;
        rank_insert(en, s);
    }
}

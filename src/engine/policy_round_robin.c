/* policy_round_robin.c - an entity that has generated a slice of tokens goes to the end of the
 * round. This is Kleinrock's round robin of time sharing (1964), with tokens for time.
 *
 *   arrive --> the end of the round --> it runs --slice_tokens generated--> the end of the round
 *
 * A prompt is one indivisible step of its first slice, because a half-computed prompt that is
 * preempted is recomputed. Rows recomputed after a preemption are also part of an indivisible step,
 * because they generate nothing. A waiting entity displaces a running one that is later in the
 * round. */
#include "policy_impl.h"

static void join_end(struct policy *p, struct sched_entity *se)
{
    se->round_robin.n_served = 0;
    se->round_robin.ticket = ++p->round_robin.n_ticket;
}

static void arrive(struct policy *p, struct sched_entity *se, int64_t now_us)
{
    (void)now_us;
    join_end(p, se);
}

static void served(struct policy *p, struct sched_entity *se, int n_row, int n_step, int64_t us)
{
    (void)n_row, (void)n_step, (void)us;
    if (se->n_left > 1) return; /* the row was part of the prompt */
    if (++se->round_robin.n_served >= p->options.slice_tokens) join_end(p, se);
}

static int64_t rank(const struct policy *p, const struct sched_entity *se)
{
    (void)p;
    return se->round_robin.ticket;
}

const struct policy_type policy_type_round_robin = {
    .name = "round_robin",
    .preempts = true,
    .arrive = arrive,
    .served = served,
    .rank = rank,
};

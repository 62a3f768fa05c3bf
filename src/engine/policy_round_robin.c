/* policy_round_robin.c - a turn that has generated a slice of tokens goes to the end of the round
 * (Kleinrock's round robin of time sharing, 1964, with tokens for time).
 *
 *   arrive --> the end of the round --> it runs --slice_tokens generated--> the end of the round
 *
 * A prompt is one indivisible step of its first slice, because a half-computed prompt that is
 * preempted is recomputed. So are rows recomputed after a preemption: they generate nothing. A
 * waiting turn displaces a running one that is later in the round. */
#include "policy_impl.h"

static void join_end(struct policy *p, struct turn *t)
{
    t->n_served = 0;
    t->ticket = ++p->n_ticket;
}

static void arrive(struct policy *p, struct turn *t, int64_t now_us)
{
    (void)now_us;
    join_end(p, t);
}

static void served(struct policy *p, struct turn *t, int n_row, int n_step, int64_t us)
{
    (void)n_row, (void)n_step, (void)us;
    if (t->n_left > 1) return; /* a row of its prompt */
    if (++t->n_served >= p->options.slice_tokens) join_end(p, t);
}

static int64_t rank(const struct policy *p, const struct turn *t)
{
    (void)p;
    return t->ticket;
}

const struct policy_type policy_type_round_robin = {
    .name = "round_robin",
    .help = "a slice of tokens each, in turns; preempts",
    .preempts = true,
    .arrive = arrive,
    .served = served,
    .rank = rank,
};

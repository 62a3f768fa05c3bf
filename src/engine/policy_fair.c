/* policy_fair.c - weighted fair sharing among holders by a virtual token counter. See Sheng et al.,
 * "Fairness in Serving Large Language Models", OSDI 2024. The policy is start-time fair queueing
 * (Goyal, Vin, Cheng, 1996) for jobs of unknown length. It charges time, not tokens.
 *
 *   virtual time   of a holder: microseconds of machine time that the holder had, divided by its
 *                  weight. A step's time is divided by rows. The holder with the least virtual time
 *                  goes first. Entities of one holder are first come, first served.
 *   arrival        A holder that was idle starts at the virtual time of the least served active
 *                  holder, so absence earns nothing. A holder that left ahead of other holders
 *                  returns with its old virtual time.
 *   admission      A prompt is charged in advance, at the recent price of rows. The steps of the
 *                  prompt are not charged until they have consumed the advance charge. Without an
 *                  advance charge, all waiting entities of a key would be admitted before the first
 *                  step was charged. The advance charge orders waiting entities only. The advance
 *                  charge is not part of the virtual time, because a prompt may be cancelled, or
 *                  found in the cache. In that case, a holder that arrived meanwhile would start
 *                  with a disadvantage.
 *   displacing     A waiting entity displaces a running entity whose holder is ahead by more than
 *                  SLACK_US. Therefore a key with many requests delays another key by at most
 *                  SLACK_US. A displaced entity displaces another entity only if its disadvantage
 *                  exceeds SLACK_US plus its prompt.
 *   places         A waiting entity also displaces a running entity of another holder immediately,
 *                  if the other holder still runs as many entities per weight as its own holder.
 *                  Therefore a holder that uses little waits for no place. The rule counts places
 *                  instead of time, so two holders with many requests reach equal numbers.
 *   starvation     concerns a holder, not an entity: an overdue entity goes first (policy.c) only
 *                  if its holder has no running entity. Otherwise many overdue entities of one
 *                  holder would go before all other entities.
 *
 * Holders are in a fixed table. An idle holder leaves the table if its place is needed. The holder
 * with the least virtual time leaves first, because it has the least history. A new holder joins
 * holder 0 if all holders of the table are active. */
#include "policy_impl.h"

#include <stdlib.h>

/* N_HOLDER: maximum number of holders of one server that are active within minutes of each other.
 * The table takes 40 kB. SLACK_US: unfairness that equals the cost of a displacement, which is a
 * copy or a recomputation of a prompt. N_PROBE: number of places in which a holder may be. All 16
 * places are taken with a probability of about 2^-16 if half of the table is taken. */
enum { N_HOLDER = 1024, N_PROBE = 16, SLACK_US = 1000 * 1000 };
/* Share of a step's price in the running mean, which covers about 20 steps. Shares of 0.01 and 0.25
 * give the same times on Azure's trace (docs/measurements.md, "Constants"). */
static const double price_share = 0.05;

/* State of a holder in this policy. */
struct fair_holder {
    uint64_t id;
    bool used;
    int n_entity;  /* number of waiting or running entities; > 0: the holder is active */
    int n_running; /* number of running entities; > 0: the holder does not starve */
    double virtual_us;
    double prepaid_us; /* prepaid microseconds of its running entities, divided by their weights */
};

struct fair_holders {
    struct fair_holder other; /* holder 0, and holders without a place in the table */
    struct fair_holder v[N_HOLDER];
    double idle_us;    /* virtual time of the holder that became idle last */
    double us_per_row; /* recent cost of a prompt row */
};

/* ---- the table: a holder is within N_PROBE places of the hash of its id ---- */

static struct fair_holder *probe(struct fair_holders *s, uint64_t id, int i)
{
    uint64_t h = id * 0x9E3779B97F4A7C15u;
    return &s->v[((h >> 32) + (uint64_t)i) % N_HOLDER];
}

static struct fair_holder *holder_of(struct fair_holders *s, uint64_t id)
{
    struct fair_holder *best = NULL;
    if (id == 0) return &s->other;
    for (int i = 0; i < N_PROBE; i++) {
        struct fair_holder *x = probe(s, id, i);
        if (x->used && x->id == id) return x;
        if (x->n_entity > 0) continue;
        if (!best || (best->used && (!x->used || x->virtual_us < best->virtual_us))) best = x;
    }
    if (!best) return &s->other;
    *best = (struct fair_holder){.id = id, .used = true};
    return best;
}

static void lower(double *least, bool *any, const struct fair_holder *x)
{
    if (x->n_entity == 0 || (*any && x->virtual_us >= *least)) return;
    *least = x->virtual_us;
    *any = true;
}

/* Return the virtual time of the least served active holder. Return the virtual time of the holder
 * that became idle last if no holder is active. */
static double least_us(const struct fair_holders *s)
{
    double least = s->idle_us;
    bool any = false;
    lower(&least, &any, &s->other);
    for (int i = 0; i < N_HOLDER; i++) lower(&least, &any, &s->v[i]);
    return least;
}

/* ---- the policy ---- */

static int fair_open(struct policy *p, struct err *e)
{
    p->fair = calloc(1, sizeof *p->fair);
    return p->fair ? 0 : err_memory(e, "the table of holders", sizeof *p->fair);
}

static void fair_close(struct policy *p)
{
    free(p->fair);
}

static double weight(const struct sched_entity *se)
{
    return se->holder_weight > 0 ? se->holder_weight : 1;
}

static void charge(struct sched_entity *se, double us)
{
    se->fair.holder->virtual_us += us / weight(se);
}

static void prepay(struct sched_entity *se, double us)
{
    se->fair.holder->prepaid_us += (us - se->fair.prepaid_us) / weight(se);
    se->fair.prepaid_us = us;
}

static void arrive(struct policy *p, struct sched_entity *se, int64_t now_us)
{
    (void)now_us;
    struct fair_holders *s = p->fair;
    struct fair_holder *x = holder_of(s, se->holder);
    se->fair.holder = x;
    se->fair.prepaid_us = 0;
    if (x->n_entity == 0) {
        double least = least_us(s);
        if (x->virtual_us < least) x->virtual_us = least;
    }
    x->n_entity++;
}

static void admitted(struct policy *p, struct sched_entity *se)
{
    prepay(se, se->n_left * p->fair->us_per_row);
    se->fair.holder->n_running++;
}

static void preempted(struct policy *p, struct sched_entity *se)
{
    (void)p;
    prepay(se, 0);
    se->fair.holder->n_running--;
}

static void served(struct policy *p, struct sched_entity *se, int n_row, int n_step, int64_t us)
{
    struct fair_holders *s = p->fair;
    double per_row = (double)us / n_step, cost = per_row * n_row, left = se->fair.prepaid_us - cost;
    charge(se, cost);
    /* rows of a decode do not measure the price of prompts */
    if (se->decodes || n_row == 1) {
        prepay(se, 0);
        return;
    }
    s->us_per_row += (per_row - s->us_per_row) * (s->us_per_row > 0 ? price_share : 1);
    /* number of rows, less than the charge if other sequences computed a part of the prompt */
    double max = se->n_left * s->us_per_row;
    if (left > max) left = max;
    prepay(se, left > 0 ? left : 0);
}

static void leave(struct policy *p, struct sched_entity *se)
{
    struct fair_holder *x = se->fair.holder;
    prepay(se, 0);
    x->n_running -= se->running;
    if (--x->n_entity > 0) return;
    x->prepaid_us = 0; /* the assignment removes rounding errors */
    if (x->virtual_us > p->fair->idle_us) p->fair->idle_us = x->virtual_us;
}

static int64_t rank(const struct policy *p, const struct sched_entity *se)
{
    (void)p;
    const struct fair_holder *x = se->fair.holder;
    return (int64_t)(se->running ? x->virtual_us - SLACK_US : x->virtual_us + x->prepaid_us);
}

static bool promotes(const struct sched_entity *se)
{
    return se->fair.holder->n_running == 0;
}

static bool yields(const struct sched_entity *running, const struct sched_entity *waiting,
                   int n_yielded)
{
    const struct fair_holder *from = running->fair.holder, *to = waiting->fair.holder;
    return from != to && (from->n_running - 1 - n_yielded) / weight(running) >=
                             (to->n_running + 1) / weight(waiting);
}

const struct policy_type policy_type_fair = {
    .name = "fair",
    .preempts = true,
    .divides = true,
    .open = fair_open,
    .close = fair_close,
    .arrive = arrive,
    .admitted = admitted,
    .preempted = preempted,
    .served = served,
    .leave = leave,
    .rank = rank,
    .promotes = promotes,
    .yields = yields,
};

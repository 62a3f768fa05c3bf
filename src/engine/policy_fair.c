/* policy_fair.c - weighted fair sharing by key or user: the virtual token counter (Sheng et al.,
 * "Fairness in Serving Large Language Models", OSDI 2024), which is start-time fair queueing
 * (Goyal, Vin, Cheng, 1996) for jobs of unknown length. It charges time, not tokens.
 *
 *   virtual time   of a share: microseconds of machine time that it had, divided by its weight. A
 *                  step's time is split by rows. The share with the least goes first; within a
 *                  share first come, first served.
 *   arrival        A share that was idle starts at the least served active one: absence earns
 *                  nothing. One that left ahead of the others returns where it left.
 *   admission      A prompt is paid in advance, at the recent price of rows, and the payment is set
 *                  off against its steps. Otherwise all waiting entities of a key would be admitted
 *                  before its first step was charged. Advance payment is not part of the virtual
 *                  time: it orders waiting entities only. It is not service and may be returned (a
 *                  prompt that is cancelled, or found in the cache after all); a share that arrived
 *                  meanwhile would start that far behind.
 *   displacing     A waiting entity displaces a running one whose share is ahead by more than
 *                  SLACK_US, so a flooding key delays another by at most that much. A displaced
 *                  entity has to be behind by as much again, plus its prompt, before it displaces
 *                  in its turn.
 *   places         A waiting entity also displaces, at once, a running one of a share that would
 *                  then still run as many entities per weight as its own share. So a share that
 *                  uses little waits for no place. As this counts places, not time, two flooding
 *                  shares settle at an equal number.
 *   starvation     belongs to a share, not an entity: an overdue entity goes first (policy.c) if
 *                  nothing of its share runs. Otherwise a flood, whose entities have all waited for
 *                  long, would go before all others.
 *
 * Shares are in a fixed table. An idle one leaves it when its place is needed, the least advanced
 * first, because it has the least history. If all are active, a new one joins share 0. */
#include "policy_impl.h"

#include <stdlib.h>

enum { N_SHARE = 1024, N_PROBE = 16, SLACK_US = 1000 * 1000 };

struct payer {
    uint64_t id;
    bool used;
    int n_entity;  /* waiting or running; > 0: active */
    int n_running; /* > 0: it does not starve */
    double virtual_us;
    double prepaid_us; /* of its running entities, divided by their weights */
};

struct payers {
    struct payer other; /* share 0, and shares without a place in the table */
    struct payer payer[N_SHARE];
    double idle_us;    /* virtual time of the last share that became idle */
    double us_per_row; /* recent cost of a prompt row */
};

/* ---- the table: a share is within N_PROBE places of the hash of its id ---- */

static struct payer *place(struct payers *s, uint64_t id, int i)
{
    uint64_t h = id * 0x9E3779B97F4A7C15u;
    return &s->payer[((h >> 32) + (uint64_t)i) % N_SHARE];
}

static struct payer *payer_find(struct payers *s, uint64_t id)
{
    struct payer *best = NULL;
    if (id == 0) return &s->other;
    for (int i = 0; i < N_PROBE; i++) {
        struct payer *x = place(s, id, i);
        if (x->used && x->id == id) return x;
        if (x->n_entity > 0) continue;
        if (!best || (best->used && (!x->used || x->virtual_us < best->virtual_us))) best = x;
    }
    if (!best) return &s->other;
    *best = (struct payer){.id = id, .used = true};
    return best;
}

static void lower(double *least, bool *any, const struct payer *x)
{
    if (x->n_entity == 0 || (*any && x->virtual_us >= *least)) return;
    *least = x->virtual_us;
    *any = true;
}

/* Return the virtual time of the least served active share; of the last one to become idle if none
 * is active. */
static double least_us(const struct payers *s)
{
    double least = s->idle_us;
    bool any = false;
    lower(&least, &any, &s->other);
    for (int i = 0; i < N_SHARE; i++) lower(&least, &any, &s->payer[i]);
    return least;
}

/* ---- the policy ---- */

static int fair_open(struct policy *p, struct err *e)
{
    p->payers = calloc(1, sizeof *p->payers);
    return p->payers ? 0 : err_memory(e, "the table of shares", sizeof *p->payers);
}

static void fair_close(struct policy *p)
{
    free(p->payers);
}

static double weight(const struct sched_entity *se)
{
    return se->share_weight > 0 ? se->share_weight : 1;
}

static void charge(struct sched_entity *se, double us)
{
    se->payer->virtual_us += us / weight(se);
}

static void prepay(struct sched_entity *se, double us)
{
    se->payer->prepaid_us += (us - se->prepaid_us) / weight(se);
    se->prepaid_us = us;
}

static void arrive(struct policy *p, struct sched_entity *se, int64_t now_us)
{
    (void)now_us;
    struct payers *s = p->payers;
    se->payer = payer_find(s, se->share_id);
    se->prepaid_us = 0;
    if (se->payer->n_entity == 0) {
        double least = least_us(s);
        if (se->payer->virtual_us < least) se->payer->virtual_us = least;
    }
    se->payer->n_entity++;
}

static void admitted(struct policy *p, struct sched_entity *se)
{
    prepay(se, se->n_left * p->payers->us_per_row);
    se->payer->n_running++;
}

static void preempted(struct policy *p, struct sched_entity *se)
{
    (void)p;
    prepay(se, 0);
    se->payer->n_running--;
}

static void served(struct policy *p, struct sched_entity *se, int n_row, int n_step, int64_t us)
{
    struct payers *s = p->payers;
    double per_row = (double)us / n_step, cost = per_row * n_row, left = se->prepaid_us - cost;
    charge(se, cost);
    /* a decode's rows: the prompt is done, and they do not measure the price of prompts */
    if (se->decodes || n_row == 1) {
        prepay(se, 0);
        return;
    }
    s->us_per_row += (per_row - s->us_per_row) * (s->us_per_row > 0 ? 0.05 : 1);
    /* less than estimated if others computed a part of it */
    double most = se->n_left * s->us_per_row;
    if (left > most) left = most;
    prepay(se, left > 0 ? left : 0);
}

static void leave(struct policy *p, struct sched_entity *se)
{
    struct payer *x = se->payer;
    prepay(se, 0);
    x->n_running -= se->running;
    if (--x->n_entity > 0) return;
    x->prepaid_us = 0; /* removes rounding errors */
    if (x->virtual_us > p->payers->idle_us) p->payers->idle_us = x->virtual_us;
}

static int64_t rank(const struct policy *p, const struct sched_entity *se)
{
    (void)p;
    const struct payer *x = se->payer;
    return (int64_t)(se->running ? x->virtual_us - SLACK_US : x->virtual_us + x->prepaid_us);
}

static bool promotes(const struct sched_entity *se)
{
    return se->payer->n_running == 0;
}

static bool yields(const struct sched_entity *running, const struct sched_entity *waiting,
                   int n_yielded)
{
    const struct payer *from = running->payer, *to = waiting->payer;
    return from != to && (from->n_running - 1 - n_yielded) / weight(running) >=
                             (to->n_running + 1) / weight(waiting);
}

const struct policy_type policy_type_fair = {
    .name = "fair",
    .help = "weighted fair sharing by key or user; preempts",
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

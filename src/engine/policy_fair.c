/* policy_fair.c - weighted fair sharing by key or user: the virtual token counter (Sheng et al.,
 * "Fairness in Serving Large Language Models", OSDI 2024), which is start-time fair queueing (Goyal,
 * Vin, Cheng, 1996) for jobs whose length nobody knows. Charged is time, not tokens.
 *
 *   virtual time   of a share: microseconds of the machine it had, divided by its weight. A step's
 *                  time is split by rows. Who has had least goes first; within a share first come,
 *                  first served.
 *   arrival        A share that was idle begins where the least served active one is: absence earns
 *                  nothing. One that left ahead of the others comes back where it left.
 *   admission      A prompt is paid in advance, at the price that rows had lately, and the payment
 *                  set off against its steps. Otherwise everything that a key has waiting would be
 *                  admitted before its first step was charged. What is paid in advance is in no virtual time: it
 *                  orders those that wait, and nobody else. It is no service, and may be given back (a prompt
 *                  that is cancelled, or found in the cache after all): who came meanwhile would be as far behind.
 *   displacing     A waiting turn displaces a running one whose share is ahead by more than SLACK_US. So a
 *                  key that floods holds back another for so long at most. One that was displaced has to be
 *                  behind by as much again, and by its prompt, before it displaces in its turn.
 *   starvation     is a share's, not a turn's: an overdue turn goes first (policy.c) if nothing of its
 *                  share runs. Otherwise a flood, whose turns have all waited for long, would go
 *                  before everybody.
 *
 * Shares live in a fixed table. An idle one leaves it when its place is needed, those first that are
 * least ahead and have least to remember; if all are active, who comes then joins share 0. */
#include "policy_impl.h"

#include <stdlib.h>

enum { N_SHARE = 1024, N_PROBE = 16, SLACK_US = 1000 * 1000 };

struct share {
    uint64_t id;
    bool used;
    int n_turn;    /* waiting or running: > 0 is active */
    int n_running; /* > 0: it does not starve         */
    double virtual_us;
    double prepaid_us; /* of its turns that run, divided by their weights */
};

struct shares {
    struct share nobody; /* share 0, and those that found no place        */
    struct share share[N_SHARE];
    double idle_us;    /* virtual time of the last one that became idle */
    double us_per_row; /* of prompts, lately                            */
};

/* ---- the table: a share lies within N_PROBE places of where its id points ---- */

static struct share *place(struct shares *s, uint64_t id, int i)
{
    uint64_t h = id * 0x9E3779B97F4A7C15u;
    return &s->share[((h >> 32) + (uint64_t)i) % N_SHARE];
}

static struct share *share_find(struct shares *s, uint64_t id)
{
    struct share *best = NULL;
    if (id == 0) return &s->nobody;
    for (int i = 0; i < N_PROBE; i++) {
        struct share *x = place(s, id, i);
        if (x->used && x->id == id) return x;
        if (x->n_turn > 0) continue;
        if (!best || (best->used && (!x->used || x->virtual_us < best->virtual_us))) best = x;
    }
    if (!best) return &s->nobody;
    *best = (struct share){.id = id, .used = true};
    return best;
}

static void lower(double *least, bool *any, const struct share *x)
{
    if (x->n_turn == 0 || (*any && x->virtual_us >= *least)) return;
    *least = x->virtual_us;
    *any = true;
}

/* Where the least served active share is; where the last one was, if none is active. */
static double least_us(const struct shares *s)
{
    double least = s->idle_us;
    bool any = false;
    lower(&least, &any, &s->nobody);
    for (int i = 0; i < N_SHARE; i++) lower(&least, &any, &s->share[i]);
    return least;
}

/* ---- the policy ---- */

static int fair_open(struct policy *p, struct err *e)
{
    p->shares = calloc(1, sizeof *p->shares);
    return p->shares ? 0 : err_memory(e, "the table of shares", sizeof *p->shares);
}

static void fair_close(struct policy *p)
{
    free(p->shares);
}

static double weight(const struct turn *t)
{
    return t->share_weight > 0 ? t->share_weight : 1;
}

static void charge(struct turn *t, double us)
{
    t->share->virtual_us += us / weight(t);
}

static void prepay(struct turn *t, double us)
{
    t->share->prepaid_us += (us - t->prepaid_us) / weight(t);
    t->prepaid_us = us;
}

static void arrive(struct policy *p, struct turn *t, int64_t now_us)
{
    (void)now_us;
    struct shares *s = p->shares;
    t->share = share_find(s, t->share_id);
    t->prepaid_us = 0;
    if (t->share->n_turn == 0) {
        double least = least_us(s);
        if (t->share->virtual_us < least) t->share->virtual_us = least;
    }
    t->share->n_turn++;
}

static void admitted(struct policy *p, struct turn *t)
{
    prepay(t, t->n_left * p->shares->us_per_row);
    t->share->n_running++;
}

static void preempted(struct policy *p, struct turn *t)
{
    (void)p;
    prepay(t, 0);
    t->share->n_running--;
}

static void served(struct policy *p, struct turn *t, int n_row, int n_step, int64_t us)
{
    struct shares *s = p->shares;
    double per_row = (double)us / n_step, cost = per_row * n_row, left = t->prepaid_us - cost;
    charge(t, cost);
    /* a decode's row: the prompt is done, and the row says nothing about the price of prompts */
    if (n_row == 1) {
        prepay(t, 0);
        return;
    }
    s->us_per_row += (per_row - s->us_per_row) * (s->us_per_row > 0 ? 0.05 : 1);
    double most = t->n_left * s->us_per_row; /* less than was thought, where others computed a part of it */
    if (left > most) left = most;
    prepay(t, left > 0 ? left : 0);
}

static void leave(struct policy *p, struct turn *t)
{
    struct share *x = t->share;
    prepay(t, 0);
    x->n_running -= t->running;
    if (--x->n_turn > 0) return;
    x->prepaid_us = 0; /* no rounding stays */
    if (x->virtual_us > p->shares->idle_us) p->shares->idle_us = x->virtual_us;
}

static int64_t rank(const struct policy *p, const struct turn *t)
{
    (void)p;
    const struct share *x = t->share;
    return (int64_t)(t->running ? x->virtual_us - SLACK_US : x->virtual_us + x->prepaid_us);
}

static bool promotes(const struct turn *t)
{
    return t->share->n_running == 0;
}

const struct policy_type policy_type_fair = {
    .name = "fair",
    .help = "weighted fair sharing by key or user; preempts",
    .preempts = true,
    .open = fair_open,
    .close = fair_close,
    .arrive = arrive,
    .admitted = admitted,
    .preempted = preempted,
    .served = served,
    .leave = leave,
    .rank = rank,
    .promotes = promotes,
};

/* policy.h - who goes first: the order in which sequences get pages and rows. Engine thread only.
 *
 * A policy knows sequences only as turns, and says three things: how a turn ranks now, whether
 * waiting ones may be admitted at this moment, and whether a waiting one may displace a running
 * one that ranks behind it. Pages, rows and preemption itself are the scheduler's (sched.c). */
#ifndef QUOTH_ENGINE_POLICY_H
#define QUOTH_ENGINE_POLICY_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct share; /* what one key or user was served so far (weighted fair sharing) */

/* What a policy sees of a sequence; part of struct seq. Filled by the scheduler before
 * policy_arrive, n_left and n_cached kept true by it afterwards. */
struct turn {
    uint64_t arrival;    /* unique, ascending: ties go to the lower                         */
    int64_t submit_us;   /* when it was submitted                                           */
    int priority;        /* the request's; lower goes first                                 */
    uint64_t share_id;   /* the key or user who pays; 0: nobody in particular               */
    double share_weight; /* > 0; of that key                                                */
    int n_prompt;        /* tokens of its prompt                                            */
    int n_left;          /* tokens known but not yet computed: 1 while it decodes           */
    int n_cached;        /* leading tokens that the prefix cache would give it, while it waits */
    bool running;        /* between policy_admitted and policy_preempted or policy_leave    */
    /* the policy's own */
    int64_t ready_us;    /* waiting since; a prompt that runs: without a row since          */
    bool overdue;        /* was admitted, or had rows, when its starvation bound was reached */
    int level, n_served; /* mlfq: its queue, 0 first; rows it had there                     */
    int n_done, n_redo;  /* mlfq: rows of its own so far; of these lost when it was preempted */
    struct share *share; /* fair: borrowed from the policy                                  */
    double prepaid_us;   /* fair: paid for its prompt in advance and not yet used           */
};

struct policy; /* opaque */

struct policy_options {
    const char *name;      /* NULL: fcfs                                             */
    int64_t window_us;     /* window: wait so long for a batch to fill; 0: 10 ms     */
    int window_n;          /* window: or until so many wait; 0: n_seq                */
    int64_t starvation_us; /* no turn waits longer before it goes first; 0: 120 s    */
    int n_seq;             /* sequences a batch may hold                             */
};

/* ERR_ARG names the policies that exist. */
int policy_open(struct policy **out, const struct policy_options *o, struct err *e);
void policy_close(struct policy *p); /* NULL is fine */

/* The life of a turn: arrive, then admitted and preempted in turns, then leave, at any point. */
void policy_arrive(struct policy *p, struct turn *t, int64_t now_us);
void policy_admitted(struct policy *p, struct turn *t, int64_t now_us); /* sets t->running   */
/* It waits again; n_left says what it will have to compute. Clears t->running. */
void policy_preempted(struct policy *p, struct turn *t, int64_t now_us);
/* It had n_row rows in a step that took us microseconds and is over now, of n_step rows altogether. n_left says what
 * it has still to compute. */
void policy_served(struct policy *p, struct turn *t, int n_row, int n_step, int64_t us,
                   int64_t now_us);
void policy_leave(struct policy *p, struct turn *t);

/* Lower goes first, in admission as in what is left of a step; equal ranks: lower arrival. A turn
 * that has waited for starvation_us ranks before all that have not, those that waited longest
 * first, and keeps that rank until it leaves: nothing but another such turn displaces it. A prompt that runs
 * waits while it gets no row. (Under fair if nothing of its share runs: who floods must not gain by waiting.) */
int64_t policy_rank(const struct policy *p, const struct turn *t, int64_t now_us);
/* May a waiting turn displace a running one that ranks behind it? */
bool policy_preempts(const struct policy *p);
/* Do sequences that are done stay in the batch, and cost a row of each step, until all of it is? */
bool policy_holds(const struct policy *p);
/* May waiting turns be admitted now? Asked before each one. oldest_us: when the longest waiting one
 * was submitted. */
bool policy_admits(struct policy *p, int n_running, int n_waiting, int64_t oldest_us,
                   int64_t now_us);

#endif

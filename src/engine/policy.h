/* policy.h - the order in which sequences get pages and rows. Engine thread only.
 *
 * A policy sees sequences as entities and decides three things: how an entity ranks now, whether
 * waiting entities may be admitted at this moment, and whether a waiting entity may displace a
 * running one that ranks after it. Pages, rows and preemption are the scheduler's (sched.c). */
#ifndef QUOTH_ENGINE_POLICY_H
#define QUOTH_ENGINE_POLICY_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct payer; /* service that one key or user received (weighted fair sharing) */

/* A policy's view of a sequence; part of struct seq. The scheduler fills it in before policy_arrive
 * and keeps n_left and n_cached up to date. */
struct sched_entity {
    uint64_t arrival;    /* unique, ascending: the lower one wins a tie */
    int64_t submit_us;   /* time of submission */
    int priority;        /* of the request; lower goes first */
    uint64_t share_id;   /* key or user charged; 0: none */
    double share_weight; /* > 0; weight of that key */
    int n_prompt;        /* prompt tokens */
    int n_left;          /* known tokens not yet computed; 1 while it decodes */
    bool decodes;        /* its rows of the served step were decoded ones */
    int n_cached;        /* while it waits: leading tokens in the prefix cache */
    bool running;        /* from policy_admitted to policy_preempted or policy_leave */
    /* of the policy */
    int64_t ready_us;    /* start of its wait; running prompt: time of its last row */
    bool overdue;        /* its starvation bound was reached when it was admitted or had rows */
    int level, n_served; /* mlfq: queue, 0 first; rows in it. round_robin: tokens of the slice */
    int64_t ticket;      /* round_robin: place in the round */
    int n_done, n_redo;  /* mlfq: rows of its own so far; rows lost by preemption */
    struct payer *payer; /* fair: borrowed from the policy */
    double prepaid_us;   /* fair: payment for its prompt that is not used yet */
};

struct policy; /* opaque */

struct policy_options {
    const char *name;      /* NULL: fcfs */
    int64_t window_us;     /* window: maximum wait for a full batch; 0: 10 ms */
    int window_min;        /* window: or until this number waits; 0: window_max */
    int window_max;        /* window: sequences of a batch; 0: n_seq */
    int slice_tokens;      /* round_robin: tokens of an entity's slice; 0: 128 */
    int64_t starvation_us; /* longest wait before an entity goes first; 0: 120 s */
    int n_seq;             /* maximum sequences of a batch */
};

/* Open a policy. ERR_ARG lists the policies that exist. */
int policy_open(struct policy **out, const struct policy_options *o, struct err *e);
void policy_close(struct policy *p); /* p may be NULL */

/* Life of an entity: arrive, then alternately admitted and preempted, then leave, at any point. */
void policy_arrive(struct policy *p, struct sched_entity *se, int64_t now_us);
void policy_admitted(struct policy *p, struct sched_entity *se,
                     int64_t now_us); /* sets se->running */
/* se waits again; n_left is what it will have to compute. Clears se->running. */
void policy_preempted(struct policy *p, struct sched_entity *se, int64_t now_us);
/* se had n_row of the n_step rows of a step that took us microseconds and has ended. n_left is what
 * it still has to compute. */
void policy_served(struct policy *p, struct sched_entity *se, int n_row, int n_step, int64_t us,
                   int64_t now_us);
void policy_leave(struct policy *p, struct sched_entity *se);

/* Return the rank: lower goes first, for admission and for rows; ties: lower arrival. An entity
 * that has waited for starvation_us ranks before all others, longest wait first, and keeps that
 * rank until it leaves: only another starved entity displaces it. A running prompt waits while it
 * gets no row. (Under fair only if nothing of its share runs: a flooding key must not gain by
 * waiting.) */
int64_t policy_rank(const struct policy *p, const struct sched_entity *se, int64_t now_us);
/* Return whether a waiting entity may displace a running one that ranks after it. */
bool policy_preempts(const struct policy *p);
/* Return whether a running entity must yield to a waiting one at once, however short it ran: its
 * payer would still run as many entities per weight as the other's payer. n_yielded: running
 * entities of the same payer that yield as well. */
bool policy_yields(const struct policy *p, const struct sched_entity *running,
                   const struct sched_entity *waiting, int n_yielded);
/* Return whether steps and places are divided among holders (portion.c). */
bool policy_divides(const struct policy *p);
/* Return whether finished sequences stay in the batch, with a row in each step, until all of it is
 * done. */
bool policy_holds(const struct policy *p);
/* Return whether waiting entities may be admitted now; called before each admission. oldest_us:
 * submission time of the longest-waiting entity. */
bool policy_admits(struct policy *p, int n_running, int n_waiting, int64_t oldest_us,
                   int64_t now_us);

#endif

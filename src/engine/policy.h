/* policy.h - the order in which sequences get pages and rows. Engine thread only.
 *
 * For a policy, a sequence is an entity. The policy ranks entities, and permits or delays the
 * admission of waiting entities. The policy also permits or forbids that a waiting entity displaces
 * a running entity of a worse rank. The scheduler decides about pages, rows and preemption
 * (admit.c, plan.c). */
#ifndef QUOTH_ENGINE_POLICY_H
#define QUOTH_ENGINE_POLICY_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct fair_holder; /* private to policy_fair.c */

/* Fields of a sequence that policies use; part of struct seq. The scheduler fills in the struct
 * before policy_arrive and updates n_left and n_cached. */
struct sched_entity {
    uint64_t arrival;     /* unique, ascending number of arrival; the lower number wins a tie */
    int64_t submit_us;    /* time of submission */
    int priority;         /* priority of the request; lower values first */
    uint64_t holder;      /* number of the holder; 0 if none */
    double holder_weight; /* share of the holder relative to others, > 0 */
    int n_prompt;         /* number of prompt tokens */
    /* number of known tokens without a computed row; 1 while the entity decodes */
    int n_left;
    bool decodes; /* true: the entity's rows of the last finished step were decoded rows */
    int n_cached; /* number of leading tokens in the prefix cache, while the entity waits */
    bool running; /* true from policy_admitted to policy_preempted or policy_leave */
    /* fields of policy.c */
    /* start time of the entity's wait; for a running prompt, time of its last row */
    int64_t ready_us;
    /* true: the entity was admitted or had a row after its starvation bound */
    bool overdue;
    union { /* state of the entity under one policy */
        struct {
            int level;    /* index of the queue, 0 first */
            int n_served; /* number of rows in that queue */
            int n_done;   /* number of rows so far */
            int n_redo;   /* number of rows lost by preemption */
        } mlfq;
        struct {
            int n_served;   /* number of tokens of the entity's slice */
            int64_t ticket; /* place in the round */
            bool inside;    /* true: the entity has run and belongs to the round */
        } round_robin;
        struct {
            struct fair_holder *holder; /* borrowed from the policy */
            /* unused part of the charge for the entity's prompt, microseconds */
            double prepaid_us;
        } fair;
    };
};

struct policy; /* opaque */

struct policy_options {
    const char *name;  /* borrowed; NULL: fcfs */
    int64_t window_us; /* window: maximum wait for a full batch, microseconds; 0: 10 ms */
    /* window: number of waiting entities that ends the wait; 0: window_max */
    int window_min;
    int window_max;        /* window: maximum number of sequences of a batch; 0: n_seq */
    int slice_tokens;      /* round_robin: tokens of an entity's slice; 0: 128 */
    int64_t starvation_us; /* maximum wait before an entity ranks first; 0: 120 s */
    int n_seq;             /* maximum number of sequences of a batch */
};

/* Open a policy. The caller owns *out, which is NULL after an error. Return ERR_ARG with a list of
 * the policies for an unknown name, or ERR_MEMORY. */
int policy_open(struct policy **out, const struct policy_options *o, struct err *e);
void policy_close(struct policy *p); /* close p; NULL is allowed */

/* Order of calls for an entity: policy_arrive, then policy_admitted and policy_preempted
 * alternately, then policy_leave at any point. */
void policy_arrive(struct policy *p, struct sched_entity *se, int64_t now_us);
/* Admit se and set se->running. */
void policy_admitted(struct policy *p, struct sched_entity *se, int64_t now_us);
/* Preempt se, which waits again, and clear se->running. se->n_left is the number of tokens that se
 * must compute later. */
void policy_preempted(struct policy *p, struct sched_entity *se, int64_t now_us);
/* Record that se had n_row of the n_step rows of a finished step. us: duration of the step in
 * microseconds. se->n_left is the number of tokens that se still has to compute. */
void policy_served(struct policy *p, struct sched_entity *se, int n_row, int n_step, int64_t us,
                   int64_t now_us);
/* Remove se from the policy. se may be waiting or running. */
void policy_leave(struct policy *p, struct sched_entity *se);

/* Return the rank, for admission and for rows. The entity of the lower rank goes first, or the
 * earlier entity if ranks are equal. An entity that has waited for starvation_us ranks before all
 * other entities, longest wait first. A starved entity keeps its rank until it leaves, so only
 * another starved entity displaces it. A running prompt waits while it gets no row. Under fair, an
 * entity starves only if its holder has no running entity, because a holder with many requests must
 * not gain by waiting. */
int64_t policy_rank(const struct policy *p, const struct sched_entity *se, int64_t now_us);
/* Return true if a waiting entity may displace a running entity of a worse rank. */
bool policy_preempts(const struct policy *p);
/* Return true if a running entity must immediately yield to a waiting entity, even if it has run
 * for a short time. The condition is that its holder would still run as many entities per weight as
 * the other holder. n_yielded: number of other running entities of its holder that also yield. */
bool policy_yields(const struct policy *p, const struct sched_entity *running,
                   const struct sched_entity *waiting, int n_yielded);
/* Return true if steps and places are divided among holders (portion.c). */
bool policy_divides(const struct policy *p);
/* Return true if finished sequences stay in the batch, with a row in each step, until the whole
 * batch is done. */
bool policy_holds(const struct policy *p);
/* Return true if waiting entities may be admitted now; called before each admission. oldest_us:
 * submission time of the longest-waiting entity. */
bool policy_admits(struct policy *p, int n_running, int n_waiting, int64_t oldest_us,
                   int64_t now_us);

#endif

/* policy_impl.h - definition of a policy; private to policy.c and policy_*.c. */
#ifndef QUOTH_ENGINE_POLICY_IMPL_H
#define QUOTH_ENGINE_POLICY_IMPL_H

#include "engine.h"
#include "policy.h"

struct policy {
    const struct policy_type *type;
    struct policy_options options; /* with defaults filled in */
    int64_t batch_us;              /* static, window: start of the running batch */
    int64_t n_ticket;              /* round_robin: tickets given so far */
    struct payers *payers;         /* fair: owned */
};

/* Any function may be NULL: the default is that of first come, first served. policy.c handles what
 * all policies share (waiting times, the starvation bound) before it calls these. */
struct policy_type {
    const char *name, *help;
    bool preempts, holds, divides;
    int (*open)(struct policy *p, struct err *e); /* policy_close follows even if it fails */
    void (*close)(struct policy *p);
    void (*arrive)(struct policy *p, struct sched_entity *se, int64_t now_us);
    void (*admitted)(struct policy *p, struct sched_entity *se);
    void (*preempted)(struct policy *p, struct sched_entity *se);
    void (*served)(struct policy *p, struct sched_entity *se, int n_row, int n_step, int64_t us);
    void (*leave)(struct policy *p, struct sched_entity *se);
    int64_t (*rank)(const struct policy *p, const struct sched_entity *se);
    bool (*promotes)(const struct sched_entity *se); /* may go first once overdue; NULL: yes */
    /* NULL: no */
    bool (*yields)(const struct sched_entity *running, const struct sched_entity *waiting,
                   int n_yielded);
    bool (*admits)(struct policy *p, int n_running, int n_waiting, int64_t oldest_us,
                   int64_t now_us);
};

/* For static and window: return whether entities may join the batch. A new batch begins when the
 * last one is done. */
bool policy_batch_open(struct policy *p, int n_running, bool begin, int64_t now_us);

#endif

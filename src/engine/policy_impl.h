/* policy_impl.h - definition of a policy; private to policy.c and policy_*.c. Engine thread
 * only. */
#ifndef QUOTH_ENGINE_POLICY_IMPL_H
#define QUOTH_ENGINE_POLICY_IMPL_H

#include "engine.h"
#include "policy.h"

struct policy {
    const struct policy_type *type; /* table of the policy's functions; static */
    struct policy_options options;  /* options with defaults filled in */
    union {                         /* state of the policy */
        struct {
            int64_t begin_us; /* time of the start of the running batch */
        } batch;              /* static and window */
        struct {
            int64_t n_ticket; /* number of tickets so far */
            int n_inside;     /* number of entities of the round */
        } round_robin;
        struct fair_holders *fair; /* owned */
    };
};

/* Functions of a policy. NULL: the default, which is the function of first come, first served.
 * policy.c handles waiting times and the starvation bound before it calls these functions. */
struct policy_type {
    const char *name; /* static */
    bool preempts, holds, divides;
    /* Open the policy. The caller calls policy_close also after ERR_MEMORY. */
    int (*open)(struct policy *p, struct err *e);
    void (*close)(struct policy *p);
    void (*arrive)(struct policy *p, struct sched_entity *se, int64_t now_us);
    void (*admitted)(struct policy *p, struct sched_entity *se);
    void (*preempted)(struct policy *p, struct sched_entity *se);
    void (*served)(struct policy *p, struct sched_entity *se, int n_row, int n_step, int64_t us);
    void (*leave)(struct policy *p, struct sched_entity *se);
    int64_t (*rank)(const struct policy *p, const struct sched_entity *se);
    /* Return true if the overdue entity may rank first; NULL: always true. */
    bool (*promotes)(const struct sched_entity *se);
    /* Return true if `running` must yield to `waiting` (policy_yields); NULL: always false. */
    bool (*yields)(const struct sched_entity *running, const struct sched_entity *waiting,
                   int n_yielded);
    bool (*admits)(struct policy *p, int n_running, int n_waiting, int64_t oldest_us,
                   int64_t now_us);
};

/* Return true if entities may join the batch of static or window. A new batch begins after the end
 * of the previous batch. */
bool policy_batch_open(struct policy *p, int n_running, bool begin, int64_t now_us);

#endif

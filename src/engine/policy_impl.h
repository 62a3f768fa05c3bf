/* policy_impl.h - what one policy is made of; private to policy.c and policy_*.c. */
#ifndef QUOTH_ENGINE_POLICY_IMPL_H
#define QUOTH_ENGINE_POLICY_IMPL_H

#include "engine.h"
#include "policy.h"

struct policy {
    const struct policy_type *type;
    struct policy_options options; /* defaults filled in                                     */
    int64_t batch_us;              /* static, window: when the batch that runs was begun     */
    struct shares *shares;         /* fair: owned                                            */
};

/* Any function may be NULL: the default is that of first come, first served. What all policies do
 * alike (waiting times, the starvation bound) is done by policy.c before these are called. */
struct policy_type {
    const char *name, *help;
    bool preempts, holds;
    int (*open)(struct policy *p, struct err *e); /* policy_close follows also where it fails */
    void (*close)(struct policy *p);
    void (*arrive)(struct policy *p, struct turn *t, int64_t now_us);
    void (*admitted)(struct policy *p, struct turn *t);
    void (*preempted)(struct policy *p, struct turn *t);
    void (*served)(struct policy *p, struct turn *t, int n_row, int n_step, int64_t us);
    void (*leave)(struct policy *p, struct turn *t);
    int64_t (*rank)(const struct policy *p, const struct turn *t);
    bool (*promotes)(const struct turn *t); /* may it go first now that it is overdue? NULL: yes */
    bool (*admits)(struct policy *p, int n_running, int n_waiting, int64_t oldest_us,
                   int64_t now_us);
};

/* static's and window's: a new batch begins when the one before is done. */
bool policy_batch_open(struct policy *p, int n_running, bool begin, int64_t now_us);

#endif

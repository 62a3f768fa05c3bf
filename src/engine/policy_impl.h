/* policy_impl.h - what one policy is made of; private to policy.c and policy_*.c. */
#ifndef QUOTH_ENGINE_POLICY_IMPL_H
#define QUOTH_ENGINE_POLICY_IMPL_H

#include "policy.h"

struct policy {
    const struct policy_type *type;
    struct policy_options options; /* defaults filled in */
};

/* Any function may be NULL: the default is that of first come, first served. */
struct policy_type {
    const char *name, *help;
    bool preempts;
    void (*arrive)(struct policy *p, struct turn *t, int64_t now_us);
    void (*served)(struct policy *p, struct turn *t, int n_row, int n_step, int64_t us,
                   int64_t now_us);
    void (*leave)(struct policy *p, struct turn *t);
    int64_t (*rank)(const struct policy *p, const struct turn *t, int64_t now_us);
    bool (*admits)(const struct policy *p, int n_running, int n_waiting, int64_t oldest_us,
                   int64_t now_us);
};

#endif

/* policy_static.c - static batching: all waiting entities become a batch. The policy is the
 * baseline for continuous batching, as in model servers before Orca (Yu et al., OSDI 2022). No
 * entity joins the batch before all its entities are done, and finished entities are still computed
 * until the end of the batch. */
#include "policy_impl.h"

bool policy_batch_open(struct policy *p, int n_running, bool begin, int64_t now_us)
{
    if (n_running == 0 && begin) p->batch.begin_us = now_us;
    return n_running == 0 ? begin : p->batch.begin_us == now_us;
}

static bool admits(struct policy *p, int n_running, int n_waiting, int64_t oldest_us,
                   int64_t now_us)
{
    (void)n_waiting, (void)oldest_us;
    return policy_batch_open(p, n_running, true, now_us);
}

const struct policy_type policy_type_static = {
    .name = "static",
    .holds = true,
    .admits = admits,
};

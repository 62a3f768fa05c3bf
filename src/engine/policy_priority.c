/* policy_priority.c - the request's priority, lower values first, as in vLLM. The earlier arrival
 * wins a tie. A waiting entity displaces a running entity of a higher value. */
#include "policy_impl.h"

static int64_t rank(const struct policy *p, const struct sched_entity *se)
{
    (void)p;
    return se->priority;
}

const struct policy_type policy_type_priority = {
    .name = "priority",
    .preempts = true,
    .rank = rank,
};

/* policy_sjf.c - shortest job first; a job's length is the rest of its prompt after the cached
 * prefix. The length of its answer is unknown (mlfq estimates it). Best mean time to first token of
 * all orders that do not preempt; long prompts wait for their starvation bound while short ones
 * keep arriving. */
#include "policy_impl.h"

static int64_t rank(const struct policy *p, const struct sched_entity *se)
{
    (void)p;
    return se->running ? se->n_left : se->n_left - se->n_cached;
}

const struct policy_type policy_type_sjf = {
    .name = "sjf",
    .help = "shortest remaining prompt first",
    .rank = rank,
};

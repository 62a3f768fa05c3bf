/* policy_sjf.c - shortest job first; a job's length is the rest of its prompt after the cached
 * prefix. The length of the answer is unknown (mlfq estimates it). Shortest job first has the
 * lowest mean time to first token of all orders that do not preempt. Long prompts wait until their
 * starvation bound while short prompts keep arriving. */
#include "policy_impl.h"

static int64_t rank(const struct policy *p, const struct sched_entity *se)
{
    (void)p;
    return se->running ? se->n_left : se->n_left - se->n_cached;
}

const struct policy_type policy_type_sjf = {
    .name = "sjf",
    .rank = rank,
};

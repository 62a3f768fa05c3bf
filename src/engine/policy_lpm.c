/* policy_lpm.c - longest cached prefix first. See Zheng et al., "SGLang: Efficient Execution of
 * Structured Language Model Programs", 2024, section 3. A depth-first traversal of the radix tree
 * is the order with the most hits, and longest match first is its online form. With longest match
 * first, prefixes are used while they are cached, before an unrelated prompt evicts them. */
#include "policy_impl.h"

static int64_t rank(const struct policy *p, const struct sched_entity *se)
{
    (void)p;
    return -(int64_t)se->n_cached;
}

const struct policy_type policy_type_lpm = {
    .name = "lpm",
    .rank = rank,
};

/* policy_fcfs.c - first come, first served: every default of policy.c. */
#include "policy_impl.h"

const struct policy_type policy_type_fcfs = {
    .name = "fcfs",
};

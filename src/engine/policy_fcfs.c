/* policy_fcfs.c - first come, first served. All functions are the defaults of policy.c. */
#include "policy_impl.h"

const struct policy_type policy_type_fcfs = {
    .name = "fcfs",
};

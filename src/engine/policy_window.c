/* policy_window.c - dynamic batching with a wait window, as in model servers before continuous
 * batching (Triton's max_queue_delay, preferred and maximum batch size). The policy is the second
 * baseline, next to static. There is one batch at a time, as with static. A batch begins only if
 * window_min entities wait, or if the oldest entity has waited for window_us. A batch has at most
 * window_max entities. */
#include "policy_impl.h"

static bool admits(struct policy *p, int n_running, int n_waiting, int64_t oldest_us,
                   int64_t now_us)
{
    if (n_running >= p->options.window_max) return false;
    bool full = n_waiting >= p->options.window_min,
         late = now_us - oldest_us >= p->options.window_us;
    return policy_batch_open(p, n_running, full || late, now_us);
}

const struct policy_type policy_type_window = {
    .name = "window",
    .holds = true,
    .admits = admits,
};

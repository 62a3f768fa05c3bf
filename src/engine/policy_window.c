/* policy_window.c - dynamic batching with a wait window, as in model servers before continuous
 * batching (Triton's max_queue_delay, preferred and maximum batch size); the other baseline. One
 * batch at a time as with static, but it begins only when window_min entities wait or the oldest
 * has waited for window_us, and holds at most window_max. */
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
    .help = "static after waiting for a batch to fill (a baseline)",
    .holds = true,
    .admits = admits,
};

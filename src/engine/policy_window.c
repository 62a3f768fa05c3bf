/* policy_window.c - dynamic batching with a wait window, as model servers before continuous batching
 * had it (Triton's max_queue_delay and preferred batch size), the other baseline: a batch at a time,
 * like static, but it begins only when window_n wait or the oldest has waited for window_us. */
#include "policy_impl.h"

static bool admits(struct policy *p, int n_running, int n_waiting, int64_t oldest_us,
                   int64_t now_us)
{
    bool full = n_waiting >= p->options.window_n, late = now_us - oldest_us >= p->options.window_us;
    return policy_batch_open(p, n_running, full || late, now_us);
}

const struct policy_type policy_type_window = {
    .name = "window",
    .help = "static after waiting for a batch to fill (a baseline)",
    .holds = true,
    .admits = admits,
};

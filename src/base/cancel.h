/* cancel.h - cancel the work of a thread. Reasons are a client that has disconnected, a request
 * that has timed out, or a load of a model that is no longer needed. The thread points its
 * cancel_flag at a flag, which another thread sets, or sets a deadline. A long loop checks
 * cancelled() and fails with an error that no client receives. Any thread, for its own work. */
#ifndef QUOTH_BASE_CANCEL_H
#define QUOTH_BASE_CANCEL_H

#include "err.h"
#include "os.h"

#include <stdatomic.h>
#include <stdbool.h>

/* flag of this thread's work, borrowed; NULL: no other thread can cancel the work */
extern _Thread_local const atomic_bool *cancel_flag;
/* time (time_us) at which this thread's work ends; 0: no deadline */
extern _Thread_local int64_t cancel_at_us;

static inline bool cancelled_late(void) /* return true after the deadline */
{
    return cancel_at_us && time_us() >= cancel_at_us;
}

/* Return true if the work of the calling thread was cancelled. */
static inline bool cancelled(void)
{
    bool flag = cancel_flag && atomic_load_explicit(cancel_flag, memory_order_relaxed);
    return flag || cancelled_late();
}

/* Set the error of cancelled work. Return ERR_BUSY. */
static inline int err_cancelled(struct err *e)
{
    return err_set(e, ERR_BUSY, "cancelled: the client disconnected, or its timeout passed");
}

#endif

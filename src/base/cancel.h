/* cancel.h - cancel the work of a thread whose client has disconnected. The thread points its
 * cancel_flag at a flag. Another thread sets the flag. A long loop checks cancelled() and fails
 * with an error that no client receives. */
#ifndef QUOTH_BASE_CANCEL_H
#define QUOTH_BASE_CANCEL_H

#include "err.h"

#include <stdatomic.h>
#include <stdbool.h>

/* flag of this thread's client, borrowed; NULL: the thread's work cannot be cancelled */
extern _Thread_local const atomic_bool *cancel_flag;

static inline bool cancelled(void)
{
    return cancel_flag && atomic_load_explicit(cancel_flag, memory_order_relaxed);
}

static inline int err_cancelled(struct err *e)
{
    return err_set(e, ERR_BUSY, "cancelled: the client disconnected");
}

#endif

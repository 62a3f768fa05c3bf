/* cancel.h - cancel work whose client has disconnected. A thread that works for a client points its
 * cancel_flag at a flag that another thread sets. Long loops check cancelled() and fail with an
 * error, which no client receives. */
#ifndef QUOTH_BASE_CANCEL_H
#define QUOTH_BASE_CANCEL_H

#include "err.h"

#include <stdatomic.h>
#include <stdbool.h>

/* borrowed; NULL: this work cannot be cancelled */
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

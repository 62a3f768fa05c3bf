/* progress.h - how slow work says how far it is, to whoever wants to show it. */
#ifndef QUOTH_BASE_PROGRESS_H
#define QUOTH_BASE_PROGRESS_H

#include <stdint.h>

/* `done` of n bytes; called several times a second, on the thread that asked for the work, and at
 * the end with done = n. */
typedef void progress_fn(void *ctx, uint64_t done, uint64_t n);

#endif

/* progress.h - the callback for the progress of slow work. */
#ifndef QUOTH_BASE_PROGRESS_H
#define QUOTH_BASE_PROGRESS_H

#include <stdint.h>

/* Receive the number of processed bytes, `done` of n. The thread that requested the work calls it
 * several times a second, and at the end with done = n. */
typedef void progress_fn(void *ctx, uint64_t done, uint64_t n);

#endif

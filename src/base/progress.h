/* progress.h - the callback by which slow work reports its progress. */
#ifndef QUOTH_BASE_PROGRESS_H
#define QUOTH_BASE_PROGRESS_H

#include <stdint.h>

/* Report that `done` of n bytes are processed. Called several times a second on the thread that
 * requested the work, and at the end with done = n. */
typedef void progress_fn(void *ctx, uint64_t done, uint64_t n);

#endif

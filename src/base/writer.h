/* writer.h - lines that a separate thread writes to a descriptor. A caller therefore never waits
 * for a blocked reader, a full disk or a terminal. The buffer is bounded. Lines that do not fit are
 * dropped and counted. A log line reports the number of dropped lines after writing resumes. One
 * thread opens and closes a writer. Any thread may use it. */
#ifndef QUOTH_BASE_WRITER_H
#define QUOTH_BASE_WRITER_H

#include "err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct writer; /* opaque */

/* Open a writer to fd (borrowed) with at most bytes_max bytes pending. The caller owns *out.
 * ERR_MEMORY also if the thread cannot start. */
int writer_open(struct writer **out, int fd, size_t bytes_max, struct err *e);
/* Write pending lines for at most wait_ms, then free w. A thread that stays blocked is abandoned.
 * NULL is allowed. */
void writer_close(struct writer *w, int wait_ms);

/* Append whole lines. Return false if they were dropped. Never wait for the descriptor. */
bool writer_put(struct writer *w, const char *lines, size_t n);
/* Wait until all pending lines are written or lost, for at most wait_ms. */
void writer_flush(const struct writer *w, int wait_ms);
/* Return the number of lines lost since writer_open. */
int64_t writer_n_lost(const struct writer *w);

#endif

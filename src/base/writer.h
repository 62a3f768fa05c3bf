/* writer.h - lines written to a descriptor by a thread of its own, so that no caller waits for a
 * blocked reader, a full disk or a terminal. The buffer is bounded: lines that do not fit are
 * dropped and counted, and a line reports their number when writing resumes. */
#ifndef QUOTH_BASE_WRITER_H
#define QUOTH_BASE_WRITER_H

#include "err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct writer; /* opaque */

/* Open a writer to fd (borrowed) with at most n_byte_max bytes pending. */
int writer_open(struct writer **out, int fd, size_t n_byte_max, struct err *e);
/* Write pending lines for at most wait_ms. A thread that is blocked longer is abandoned. NULL is
 * allowed. */
void writer_close(struct writer *w, int wait_ms);

/* Append whole lines. Returns false if they were dropped. Never waits for the descriptor. Any
 * thread. */
bool writer_put(struct writer *w, const char *lines, size_t n);
/* Wait until all pending lines are written or lost, for at most wait_ms. */
void writer_flush(const struct writer *w, int wait_ms);
int64_t writer_n_lost(const struct writer *w); /* lines lost since writer_open */

#endif

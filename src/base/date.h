/* date.h - format times for logs and HTTP, in UTC. Any thread. Each thread caches the text of its
 * last second, because formatting takes a microsecond. */
#ifndef QUOTH_BASE_DATE_H
#define QUOTH_BASE_DATE_H

#include "buf.h"

/* Append wall_us (microseconds since 1970, from time_wall_us) as text. */
void date_put_iso(struct buf *b, int64_t wall_us); /* append a time as 2026-11-22T12:34:56.789Z */
/* Append a time as Sun, 22 Nov 2026 12:34:56 GMT. */
void date_put_http(struct buf *b, int64_t wall_us);

#endif

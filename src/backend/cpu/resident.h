/* resident.h - weights of a mapped file in limited memory (--weights-memory). Reading a weight that
 * is not in memory only takes longer, because the file is mapped. Therefore this part never changes
 * a result.
 *
 * One thread, the engine's, calls resident_begin, resident_want and resident_use. Own threads read
 * and drop. */
#ifndef QUOTH_CPU_RESIDENT_H
#define QUOTH_CPU_RESIDENT_H

#include "backend/ops.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A section of the file that is read and dropped as a whole: one matrix. */
struct resident_unit {
    const uint8_t *at;
    size_t n_byte;
    bool routed; /* true: the rows decide whether the matrix is used (an expert) */
};

/* Reading and dropping of sections. Any thread of the resident set, several at a time. */
struct resident_io {
    void *ctx;                                                 /* borrowed */
    void (*read)(void *ctx, const uint8_t *at, size_t n_byte); /* return when it is in memory */
    void (*drop)(void *ctx, const uint8_t *at, size_t n_byte);
};

struct resident; /* opaque */

/* Open a resident set of n units, which are copied, with a limit of n_byte. Units that are not
 * routed are used in their order. Pinned units are read in the background. The caller owns *out,
 * which is NULL after an error. ERR_LIMIT, with the least possible limit, if n_byte is too small.
 * ERR_MEMORY, also if a thread cannot start. */
int resident_open(struct resident **out, const struct resident_unit *unit, int n, int64_t n_byte,
                  const struct resident_io *io, struct err *e);
void resident_close(struct resident *r); /* NULL is allowed */

/* Begin an op. Units of the previous op may be dropped. */
void resident_begin(struct resident *r);
/* Request the unit that begins at `at`, before all earlier requests, without waiting for it. No
 * effect if there is none. */
void resident_want(struct resident *r, const uint8_t *at);
/* Return when the unit that begins at `at` is in memory. It stays there until the next
 * resident_begin. No effect if there is none. */
void resident_use(struct resident *r, const uint8_t *at);

/* Return the figures since resident_open. Any thread. */
struct weights_use resident_figures(struct resident *r);

#endif

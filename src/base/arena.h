/* arena.h - memory with one lifetime: allocated piece by piece, released together.
 *
 * quoth has three lifetimes: model (open .. close), request (accept .. done), step (one engine
 * step). A pointer may only point to an equal or longer lifetime. Not thread-safe: an arena has one
 * owner. */
#ifndef QUOTH_BASE_ARENA_H
#define QUOTH_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena_chunk;

struct arena {
    struct arena_chunk *head; /* newest chunk, owned; NULL while empty          */
    size_t n_byte;            /* bytes allocated so far, without alignment */
    size_t n_byte_max;        /* a push beyond this fails; 0: no limit */
    bool limited;             /* a push failed because of n_byte_max */
};

/* A zeroed struct arena is ready for use; there is no arena_init. */

/* Return n bytes aligned to `align` (a power of two, at most 4096), contents undefined. NULL if
 * memory or the arena's limit is exhausted. */
void *arena_push(struct arena *a, size_t n, size_t align);

/* Return count * size zeroed bytes. NULL if the product overflows, or memory or the limit is
 * exhausted. */
void *arena_push0(struct arena *a, size_t count, size_t size);

/* Return a NUL-terminated copy of n bytes. NULL if memory or the limit is exhausted. */
char *arena_text(struct arena *a, const char *text, size_t n);

/* Release everything but one chunk, so that a step that repeats does not allocate. */
void arena_reset(struct arena *a);

/* Release everything to the system. Safe on a zeroed arena. */
void arena_deinit(struct arena *a);

#endif

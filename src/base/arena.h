/* arena.h - memory with one lifetime: pushed piece by piece, released together.
 *
 * quoth has three lifetimes: model (open .. close), request (accept .. done), step (one engine
 * step). A pointer may only point to an equal or longer life. Not thread-safe: an arena has one
 * owner. */
#ifndef QUOTH_BASE_ARENA_H
#define QUOTH_BASE_ARENA_H

#include <stddef.h>

struct arena_chunk;

struct arena {
    struct arena_chunk *head; /* newest chunk, owned; NULL while empty          */
    size_t n_byte;            /* handed out so far, alignment included          */
    size_t n_byte_max;        /* a push beyond this fails; 0 = no limit         */
};

/* A zeroed struct arena is ready for use; there is no arena_init. */

/* n bytes aligned to `align` (a power of two, at most 4096), contents undefined.
 * NULL when memory or the arena's limit is exhausted. */
void *arena_push(struct arena *a, size_t n, size_t align);

/* The same, zeroed; n = count * size, NULL on overflow too. */
void *arena_push0(struct arena *a, size_t count, size_t size);

/* A NUL-terminated copy of n bytes. */
char *arena_text(struct arena *a, const char *text, size_t n);

/* Give everything back (and keep one chunk for reuse, so that a step that repeats does not
 * allocate). */
void arena_reset(struct arena *a);

/* Give everything back to the system. Safe on a zeroed arena. */
void arena_deinit(struct arena *a);

#endif

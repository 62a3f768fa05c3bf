/* arena.h - memory with one lifetime: allocated in pieces, released together.
 *
 * quoth has three lifetimes: model (from open to close), request (from accept to done), step (one
 * engine step). A pointer may only point to an equal or longer lifetime. An arena is not
 * thread-safe: one thread owns it. */
#ifndef QUOTH_BASE_ARENA_H
#define QUOTH_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena_chunk;

struct arena {
    struct arena_chunk *head; /* newest chunk, owned; NULL if empty          */
    size_t n_byte;            /* bytes allocated so far, without alignment */
    size_t bytes_max;         /* maximum of n_byte, which no push may exceed; 0: no limit */
    bool limited;             /* true after a push that failed because of bytes_max */
};

/* A zeroed struct arena is ready for use; there is no arena_init. */

/* Return n bytes with undefined contents, aligned to `align` (a power of two, at most 4096). NULL
 * if memory or the arena's limit is exhausted. */
void *arena_push(struct arena *a, size_t n, size_t align);

/* Return count * size zeroed bytes. NULL if the product overflows, or memory or the limit is
 * exhausted. */
void *arena_push0(struct arena *a, size_t count, size_t size);

/* Return a NUL-terminated copy of n bytes. NULL if memory or the limit is exhausted. */
char *arena_text(struct arena *a, const char *text, size_t n);

/* Release all memory to the system. A zeroed arena is allowed. */
void arena_deinit(struct arena *a);

#endif

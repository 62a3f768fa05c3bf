/* arena.c - a list of chunks; see arena.h. Each chunk is at least twice as large as its
 * predecessor.
 *
 * Each chunk is an ordinary allocation, so AddressSanitizer detects overruns of a chunk. */
#include "arena.h"
#include "check.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct arena_chunk {
    struct arena_chunk *next; /* previous chunk, owned; NULL in the first chunk */
    size_t cap, used;         /* size of data[] and of its used part, in bytes */
    char data[];
};

/* minimum size of a chunk: half of malloc's threshold for mmap, so that most chunks need no system
 * call */
enum { CHUNK_MIN = 64 * 1024 };

static struct arena_chunk *chunk_add(struct arena *a, size_t need)
{
    size_t cap = a->head ? a->head->cap * 2 : CHUNK_MIN;
    if (cap < need) cap = need;
    struct arena_chunk *c = malloc(sizeof *c + cap);
    if (!c) return NULL;
    *c = (struct arena_chunk){.next = a->head, .cap = cap};
    a->head = c;
    return c;
}

static void *chunk_take(struct arena_chunk *c, size_t n, size_t align)
{
    uintptr_t at = (uintptr_t)c->data + c->used;
    size_t pad = (size_t)(-at & (align - 1));
    if (pad > c->cap - c->used || n > c->cap - c->used - pad) return NULL;
    c->used += pad + n;
    return (void *)(at + pad);
}

void *arena_push(struct arena *a, size_t n, size_t align)
{
    CHECK(align && (align & (align - 1)) == 0, "align %zu", align);
    if (n > SIZE_MAX / 4) return NULL;
    if (a->bytes_max && n > a->bytes_max - a->n_byte) return a->limited = true, NULL;
    void *p = a->head ? chunk_take(a->head, n, align) : NULL;
    if (!p && chunk_add(a, n + align)) p = chunk_take(a->head, n, align);
    if (p) a->n_byte += n;
    return p;
}

void *arena_push0(struct arena *a, size_t count, size_t size)
{
    size_t n;
    if (__builtin_mul_overflow(count, size, &n)) return NULL;
    void *p = arena_push(a, n ? n : 1, 16);
    return p ? memset(p, 0, n) : NULL;
}

char *arena_text(struct arena *a, const char *text, size_t n)
{
    CHECK(text || n == 0, "%zu bytes of no text", n);
    char *p = arena_push(a, n + 1, 1);
    if (!p) return NULL;
    memcpy(p, text, n);
    p[n] = 0;
    return p;
}

void arena_deinit(struct arena *a)
{
    for (struct arena_chunk *c = a->head, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    a->head = NULL;
    a->n_byte = 0;
    a->limited = false;
}

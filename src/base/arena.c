/* arena.c - a list of chunks, each twice its predecessor; see arena.h.
 *
 * Without NDEBUG, released memory is filled with 0xA5 to expose stale pointers. Each chunk is an
 * ordinary allocation, so AddressSanitizer detects overruns of a chunk. */
#include "arena.h"
#include "check.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct arena_chunk {
    struct arena_chunk *next; /* older */
    size_t cap, used;         /* bytes of data[] */
    char data[];
};

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
    if (a->n_byte_max && n > a->n_byte_max - a->n_byte) return a->limited = true, NULL;
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
    char *p = arena_push(a, n + 1, 1);
    if (!p) return NULL;
    memcpy(p, text, n);
    p[n] = 0;
    return p;
}

static void chunk_drop_all(struct arena_chunk *c)
{
    while (c) {
        struct arena_chunk *next = c->next;
        free(c);
        c = next;
    }
}

void arena_reset(struct arena *a)
{
    if (!a->head) return;
    chunk_drop_all(a->head->next);
    a->head->next = NULL;
#ifndef NDEBUG
    memset(a->head->data, 0xA5, a->head->used);
#endif
    a->head->used = 0;
    a->n_byte = 0;
    a->limited = false;
}

void arena_deinit(struct arena *a)
{
    chunk_drop_all(a->head);
    a->head = NULL;
    a->n_byte = 0;
    a->limited = false;
}

/* ring.c - a byte ring with one writer and one reader. A ring transfers a stream's bytes from their
 * producer to the owner of the socket. A ring needs no lock, extra copy or allocation. The fields
 * head and tail never decrease. The ring contains head - tail bytes. */
#include "net_impl.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

bool ring_open(struct ring *r)
{
    CHECK(!r->data, "the ring has %zu bytes", ring_used(r));
    r->data = malloc(RING_BYTES);
    return r->data != NULL;
}

void ring_close(struct ring *r)
{
    free(r->data);
    r->data = NULL;
}

size_t ring_used(const struct ring *r)
{
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
    return (size_t)(atomic_load_explicit(&r->head, memory_order_acquire) - tail);
}

/* Write the bytes before `head` is released, so that a reader of the new `head` also reads the
 * bytes. A second copy writes the bytes that do not fit before the end of the ring to its
 * beginning. */
size_t ring_put(struct ring *r, const char *s, size_t n)
{
    size_t used = ring_used(r), room = RING_BYTES - used;
    CHECK(r->data && used <= RING_BYTES, "%zu bytes in the ring", used);
    if (n > room) n = room;
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    size_t at = head % RING_BYTES, first = RING_BYTES - at < n ? RING_BYTES - at : n;
    memcpy(r->data + at, s, first);
    memcpy(r->data, s + first, n - first);
    atomic_store_explicit(&r->head, head + n, memory_order_release);
    return n;
}

size_t ring_span(const struct ring *r, const char **s)
{
    size_t n = ring_used(r);
    size_t at = atomic_load_explicit(&r->tail, memory_order_relaxed) % RING_BYTES;
    *s = r->data + at;
    return n < RING_BYTES - at ? n : RING_BYTES - at;
}

/* The writer acquires `tail` before it overwrites the bytes, so the reader must have copied
 * them. */
void ring_take(struct ring *r, size_t n)
{
    CHECK(n <= ring_used(r), "%zu bytes of %zu", n, ring_used(r));
    atomic_fetch_add_explicit(&r->tail, n, memory_order_release);
}

/* ring.c - a byte ring with one writer and one reader: carries a stream's bytes from the thread
 * that makes them to the one that owns the socket, without a lock, an extra copy or an allocation.
 * head and tail only grow; head - tail bytes are in it. */
#include "net_impl.h"

#include <stdlib.h>
#include <string.h>

bool ring_open(struct ring *r)
{
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

size_t ring_put(struct ring *r, const char *s, size_t n)
{
    size_t room = RING_BYTES - ring_used(r);
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

void ring_take(struct ring *r, size_t n)
{
    atomic_fetch_add_explicit(&r->tail, n, memory_order_release);
}

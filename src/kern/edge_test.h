/* edge_test.h - memory that ends at an inaccessible page. A kernel that accesses memory past the
 * end crashes. A kernel that writes before the beginning changes the canary. The test's thread
 * only. */
#ifndef QUOTH_KERN_EDGE_TEST_H
#define QUOTH_KERN_EDGE_TEST_H

#include "../../tests/unit.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { EDGE_CANARY = 64 }; /* bytes before the memory; they must keep their value */

struct edge {
    uint8_t *page; /* [room] usable bytes, then an inaccessible page */
    size_t room, page_bytes;
};

/* Allocate bytes that end at an inaccessible page. */
static inline void edge_open(struct edge *e, size_t room)
{
    e->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    e->room = (room + EDGE_CANARY + e->page_bytes - 1) / e->page_bytes * e->page_bytes;
    e->page = mmap(NULL, e->room + e->page_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (e->page == MAP_FAILED || mprotect(e->page + e->room, e->page_bytes, PROT_NONE) != 0)
        abort();
}

/* Unmap the memory. */
static inline void edge_close(struct edge *e)
{
    munmap(e->page, e->room + e->page_bytes);
}

/* Return the last n_byte of the room. These bytes and the canary before them are filled with
 * 0xA5. */
static inline void *edge_take(struct edge *e, size_t n_byte)
{
    uint8_t *p = e->page + e->room - n_byte;
    memset(p - EDGE_CANARY, 0xA5, n_byte + EDGE_CANARY);
    return p;
}

/* Return true if the canary before the memory is unchanged. */
static inline bool edge_intact(const struct edge *e, size_t n_byte)
{
    const uint8_t *p = e->page + e->room - n_byte;
    for (int i = 1; i <= EDGE_CANARY; i++)
        if (p[-i] != 0xA5) return false;
    return true;
}

#endif

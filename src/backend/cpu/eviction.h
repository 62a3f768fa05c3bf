/* eviction.h - the order in which units of limited weights leave the memory (resident.c). One
 * thread at a time calls these functions. */
#ifndef QUOTH_CPU_EVICTION_H
#define QUOTH_CPU_EVICTION_H

#include "base/err.h"

#include <stdint.h>

/* Classes of units, in the order of their eviction: used plain units, experts, and plain units that
 * were read ahead and are not yet used. */
enum eviction_class { EVICT_PLAIN, EVICT_EXPERT, EVICT_AHEAD };

/* Place of a unit in the order: by class, then by first and second ascending, then by the number of
 * the unit. */
struct eviction_key {
    enum eviction_class class;
    uint64_t first, second;
};

/* Units that may be dropped: a binary heap. All arrays are owned. */
struct eviction {
    struct eviction_key *key; /* [n_max] keys of the units of the heap */
    int *heap;  /* [n_max] units; the first n are valid, and heap[0] is evicted next */
    int *place; /* [n_max] place of each unit in heap; -1 if it is not there */
    int n, n_max;
};

/* Open an empty heap for units [0, n_max). The caller calls eviction_close also after
 * ERR_MEMORY. */
int eviction_open(struct eviction *v, int n_max, struct err *e);
void eviction_close(struct eviction *v); /* free the memory of v, which may be zeroed */
/* Add a unit that is not in the heap. O(log n). */
void eviction_add(struct eviction *v, int unit, struct eviction_key key);
/* Remove a unit. No effect if it is not in the heap. O(log n). */
void eviction_remove(struct eviction *v, int unit);
/* Remove the unit that is evicted next, and return it; -1 if the heap is empty. O(log n). */
int eviction_next(struct eviction *v);
/* Halve the first values of all experts in the heap. O(n). */
void eviction_halve(struct eviction *v);

#endif

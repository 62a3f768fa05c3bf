/* eviction.c - a binary heap of units, with the place of each unit. A mixture of 44,000 matrices
 * drops one per read. A scan of all of them took 0.1 ms per drop with the lock held
 * (docs/measurements.md, "Weights in limited memory").
 *
 * (1) heap[place[u]] = u for each unit u of the heap. (2) A unit's key is not before the key of its
 * parent. */
#include "eviction.h"

#include "base/check.h"

#include <stdbool.h>
#include <stdlib.h>

int eviction_open(struct eviction *v, int n_max, struct err *e)
{
    const size_t n = (size_t)n_max + 1;
    *v = (struct eviction){.key = calloc(n, sizeof *v->key),
                           .heap = calloc(n, sizeof *v->heap),
                           .place = calloc(n, sizeof *v->place),
                           .n_max = n_max};
    if (!v->key || !v->heap || !v->place)
        return err_memory(e, "the order of eviction",
                          n * (sizeof *v->key + sizeof *v->heap + sizeof *v->place));
    for (int i = 0; i < n_max; i++) v->place[i] = -1;
    return 0;
}

void eviction_close(struct eviction *v)
{
    free(v->key);
    free(v->heap);
    free(v->place);
    *v = (struct eviction){0};
}

/* Return true if unit a is evicted before unit b. */
static bool is_before(const struct eviction *v, int a, int b)
{
    const struct eviction_key *x = &v->key[a], *y = &v->key[b];
    if (x->class != y->class) return x->class < y->class;
    if (x->first != y->first) return x->first < y->first;
    if (x->second != y->second) return x->second < y->second;
    return a < b;
}

static void put(struct eviction *v, int place, int unit)
{
    v->heap[place] = unit;
    v->place[unit] = place;
}

/* Move a unit from a free place towards the root, to its place. */
static void rise(struct eviction *v, int place, int unit)
{
    while (place > 0 && is_before(v, unit, v->heap[(place - 1) / 2])) {
        put(v, place, v->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    put(v, place, unit);
}

/* Move a unit from a free place away from the root, to its place. */
static void sink(struct eviction *v, int place, int unit)
{
    for (int child; (child = 2 * place + 1) < v->n; place = child) {
        child += child + 1 < v->n && is_before(v, v->heap[child + 1], v->heap[child]);
        if (!is_before(v, v->heap[child], unit)) break;
        put(v, place, v->heap[child]);
    }
    put(v, place, unit);
}

void eviction_add(struct eviction *v, int unit, struct eviction_key key)
{
    CHECK(unit >= 0 && unit < v->n_max && v->place[unit] < 0, "unit %d of %d", unit, v->n_max);
    v->key[unit] = key;
    rise(v, v->n++, unit);
}

void eviction_remove(struct eviction *v, int unit)
{
    CHECK(unit >= 0 && unit < v->n_max, "unit %d of %d", unit, v->n_max);
    const int place = v->place[unit];
    if (place < 0) return;
    v->place[unit] = -1;
    const int last = v->heap[--v->n];
    if (last == unit) return;
    if (place > 0 && is_before(v, last, v->heap[(place - 1) / 2]))
        rise(v, place, last);
    else
        sink(v, place, last);
}

int eviction_next(struct eviction *v)
{
    if (v->n == 0) return -1;
    const int unit = v->heap[0];
    eviction_remove(v, unit);
    return unit;
}

/* Equal halves are ordered by the second values, so the order may change. */
void eviction_halve(struct eviction *v)
{
    for (int i = 0; i < v->n; i++) {
        struct eviction_key *key = &v->key[v->heap[i]];
        if (key->class == EVICT_EXPERT) key->first /= 2;
    }
    for (int i = v->n / 2 - 1; i >= 0; i--) sink(v, i, v->heap[i]);
}

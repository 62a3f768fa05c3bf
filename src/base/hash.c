/* hash.c - see hash.h.
 *
 * strmap uses open addressing with linear probing. At most two thirds of the slots are used. Keys
 * are borrowed and are never removed, so no slot needs a mark for deleted keys. */
#include "hash.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash_bytes(const void *data, size_t n, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, n, seed);
}

/* Return the slot of key, or the empty slot for it. An empty slot exists because cap > n. */
static struct strmap_slot *slot_of(const struct strmap *m, const char *key, size_t n)
{
    size_t i = hash_bytes(key, n, 0) & (m->cap - 1);
    while (m->slot[i].key && (m->slot[i].n != n || memcmp(m->slot[i].key, key, n) != 0))
        i = (i + 1) & (m->cap - 1);
    return &m->slot[i];
}

bool strmap_reserve(struct strmap *m, size_t n)
{
    size_t cap = 16;
    if (n + n / 2 + 1 <= m->cap) return true;
    while (cap < n + n / 2 + 1) cap *= 2;
    struct strmap grown = {.slot = calloc(cap, sizeof *grown.slot), .cap = cap, .n = m->n};
    if (!grown.slot) return false;
    for (size_t i = 0; i < m->cap; i++) {
        const struct strmap_slot *s = &m->slot[i];
        if (s->key) *slot_of(&grown, s->key, s->n) = *s;
    }
    free(m->slot);
    *m = grown;
    return true;
}

bool strmap_put(struct strmap *m, const char *key, size_t n, uint32_t value)
{
    if (n > UINT32_MAX || !strmap_reserve(m, m->n + 1)) return false;
    struct strmap_slot *s = slot_of(m, key, n);
    if (!s->key) m->n++;
    *s = (struct strmap_slot){.key = key, .n = (uint32_t)n, .value = value};
    return true;
}

const uint32_t *strmap_get(const struct strmap *m, const char *key, size_t n)
{
    if (m->n == 0) return NULL;
    const struct strmap_slot *s = slot_of(m, key, n);
    return s->key ? &s->value : NULL;
}

void strmap_deinit(struct strmap *m)
{
    free(m->slot);
    *m = (struct strmap){0};
}

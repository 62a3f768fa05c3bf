/* hash.h - 64-bit hashes and a map from byte strings to 32-bit numbers. Any thread. Several threads
 * may read a map while no thread writes it. */
#ifndef QUOTH_BASE_HASH_H
#define QUOTH_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Return XXH3 of n bytes with `seed`. The seed may be an earlier hash. The result is equal on every
 * machine. */
uint64_t hash_bytes(const void *data, size_t n, uint64_t seed);

/* A map, string -> uint32_t, with open addressing. Keys are borrowed and must outlive the map. A
 * zeroed map is empty. */
struct strmap {
    struct strmap_slot *slot; /* slots of the table, owned */
    size_t n, cap;            /* numbers of keys and of slots (0 or a power of two) */
};
struct strmap_slot {
    const char *key; /* key of the entry, borrowed [n]; NULL: empty slot */
    uint32_t n, value;
};

/* Reserve space for n keys. Return false if memory is exhausted. */
bool strmap_reserve(struct strmap *m, size_t n);
/* Set or replace the value of a key of n bytes, which is borrowed. Return false if memory is
 * exhausted, or if n > UINT32_MAX. */
bool strmap_put(struct strmap *m, const char *key, size_t n, uint32_t value);
/* Return the value of a key of n bytes, borrowed until the next strmap_put; NULL if the map does
 * not contain the key. */
const uint32_t *strmap_get(const struct strmap *m, const char *key, size_t n);
/* Free the memory of the map. A zeroed map is allowed. The map is zeroed afterwards. */
void strmap_deinit(struct strmap *m);

#endif

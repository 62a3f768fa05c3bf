/* hash.h - 64-bit hashes and a map from byte strings to 32-bit numbers. */
#ifndef QUOTH_BASE_HASH_H
#define QUOTH_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Return XXH3 of n bytes with `seed`, e.g. of a former hash. Equal on every machine. */
uint64_t hash_bytes(const void *data, size_t n, uint64_t seed);

/* map, string -> uint32_t, with open addressing. Keys are borrowed and must outlive the map. Not
 * thread-safe while it is written; afterwards any number of readers. A zeroed map is empty and
 * valid. */
struct strmap {
    struct strmap_slot *slot; /* owned */
    size_t n, cap;            /* cap is 0 or a power of two */
};
struct strmap_slot {
    const char *key; /* NULL: empty slot */
    uint32_t len, value;
};

/* Reserve space for n keys. Returns false if memory ran out. */
bool strmap_reserve(struct strmap *m, size_t n);
/* Set or replace a value. Returns false if memory ran out. */
bool strmap_put(struct strmap *m, const char *key, size_t len, uint32_t value);
/* Return the value, NULL if none. */
const uint32_t *strmap_get(const struct strmap *m, const char *key, size_t len);
void strmap_deinit(struct strmap *m);

#endif

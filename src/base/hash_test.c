/* hash_test.c - compare the hash with published values and the map with a plain array. */
#include "hash.h"
#include "rng.h"
#include "../../tests/unit.h"

TEST(hash_known_values)
{
    EXPECT(hash_bytes("", 0, 0) == 0x2D06800538D394C2u);
    EXPECT(hash_bytes("abc", 3, 0) == 0x78AF5F94892F3950u);
    EXPECT(hash_bytes("abc", 3, 1) != hash_bytes("abc", 3, 0));
}

TEST(strmap_against_array)
{
    /* Goal: the latest value of a key is found. Other keys have no value. Method: random keys and
     * the empty key. */
    enum { N = 5000 };
    static char key[N][8];
    static uint32_t value[N];
    struct strmap m = {0};
    uint64_t rng = 3;
    EXPECT(!strmap_get(&m, "a", 1));
    for (int i = 0; i < N; i++) snprintf(key[i], sizeof key[i], "%x", i);
    key[0][0] = 0;
    for (int i = 0; i < 3 * N; i++) {
        uint32_t k = (uint32_t)rng_below(&rng, N);
        value[k] = (uint32_t)rng_next(&rng) | 1;
        NEED(strmap_put(&m, key[k], strlen(key[k]), value[k]));
    }
    size_t n_used = 0;
    for (int i = 0; i < N; i++) {
        const uint32_t *got = strmap_get(&m, key[i], strlen(key[i]));
        NEED(value[i] ? got && *got == value[i] : !got);
        n_used += value[i] != 0;
    }
    EXPECT(m.n == n_used && !strmap_get(&m, "nothere", 7));
    strmap_deinit(&m);
    EXPECT(m.cap == 0 && !strmap_get(&m, key[1], 1));
}

TEST(strmap_keys_with_nul)
{
    struct strmap m = {0};
    EXPECT(strmap_put(&m, "a\0b", 3, 1) && strmap_put(&m, "a\0c", 3, 2) &&
           strmap_put(&m, "a", 1, 3));
    EXPECT(m.n == 3 && *strmap_get(&m, "a\0c", 3) == 2 && *strmap_get(&m, "a", 1) == 3);
    strmap_deinit(&m);
}

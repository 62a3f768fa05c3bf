/* rng_test.c - compare Philox and splitmix64 with their published values, and test uniformity. */
#include "rng.h"
#include "../../tests/unit.h"

TEST(rng_known_values)
{
    /* Goal: philox4x32-10 of zeros equals Random123's kat_vectors. splitmix64 from 0 equals its
     * published values. */
    uint32_t w[4];
    rng_words(w, &(struct rng_key){0}, 0);
    EXPECT(w[0] == 0x6627E8D5 && w[1] == 0xE169C58D && w[2] == 0xBC57AC4C && w[3] == 0x9B00DBD8);
    uint64_t state = 0;
    EXPECT(rng_next(&state) == 0xE220A8397B1DCDAFu && rng_next(&state) == 0x6E789E6AA1B965F4u);
}

TEST(rng_depends_on_every_field)
{
    const struct rng_key key[] = {
        {1, 2, 3}, {2, 2, 3}, {1ull << 32 | 1, 2, 3}, {1, 3, 3}, {1, 2, 4}};
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < i; k++) EXPECT(rng_unit(&key[i], 0) != rng_unit(&key[k], 0));
    EXPECT(rng_unit(&key[0], 0) == rng_unit(&key[0], 0) &&
           rng_unit(&key[0], 0) != rng_unit(&key[0], 1));
}

TEST(rng_unit_is_uniform)
{
    /* Goal: numbers are in [0, 1), and each of 100 bins is within 5 sigma of its share. Method: the
     * first 10^6 positions. */
    int bin[100] = {0};
    for (uint32_t i = 0; i < 1000000; i++) {
        double x = rng_unit(&(struct rng_key){.seed = 7, .position = i}, 0);
        NEED(x >= 0 && x < 1);
        bin[(int)(x * 100)]++;
    }
    for (int i = 0; i < 100; i++) EXPECT(bin[i] > 9500 && bin[i] < 10500);
    uint64_t state = 1;
    for (int i = 0; i < 1000; i++) {
        EXPECT(rng_below(&state, 7) < 7);
        float f = rng_float(&state);
        EXPECT(f >= 0 && f < 1);
    }
    EXPECT_INT(rng_below(&state, 0), 0);
}

/* match_test.c - goal: the automaton reports every occurrence, also if occurrences overlap. Method:
 * compare with memcmp at every position of random texts over an alphabet of two letters. */
#include "sample_test.h"

TEST(sample_match_finds_every_occurrence)
{
    char text[50];
    uint64_t rng = 1;
    for (int v = 0; v < 2000; v++) {
        char word[5];
        size_t n = 1 + rng_below(&rng, sizeof word);
        struct arena mem = {0};
        struct match m;
        for (size_t i = 0; i < n; i++) word[i] = "ab"[rng_below(&rng, 2)];
        for (size_t i = 0; i < sizeof text; i++) text[i] = "ab"[rng_below(&rng, 2)];
        NEED(match_make(&m, &mem, word, n));
        for (size_t end = 1; end <= sizeof text; end++) {
            bool ends = end >= n && memcmp(text + end - n, word, n) == 0;
            EXPECT_INT(match_step(&m, text[end - 1]), ends);
        }
        arena_deinit(&mem);
    }
}

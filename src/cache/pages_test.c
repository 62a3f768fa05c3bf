/* pages_test.c - goal: the page table keeps its invariants. Method: random takes, shares and drops by imaginary
 * sequences, with pages_check after each. */
#include "../../test/unit.h"

#include "base/rng.h"
#include "cache.h"

enum { N_TABLE = 6, N_PAGE = 40 };

TEST(pages_keep_their_invariants)
{
    struct pages *p;
    struct err e;
    NEED_OK(pages_open(&p, N_PAGE, 16, &e), &e);
    int32_t table[N_TABLE][N_PAGE * 2];
    const int32_t *at[N_TABLE];
    int n[N_TABLE] = {0};
    for (int t = 0; t < N_TABLE; t++) at[t] = table[t];
    uint64_t rng = 1;
    for (int i = 0; i < 20000; i++) {
        int t = (int)rng_below(&rng, N_TABLE), from = (int)rng_below(&rng, N_TABLE);
        uint64_t what = rng_below(&rng, 10);
        if (what < 5 && n[t] < N_PAGE * 2) {
            int32_t page = page_take(p);
            EXPECT((page < 0) == (pages_n_free(p) == 0 && page < 0));
            if (page >= 0) table[t][n[t]++] = page;
        } else if (what < 7 && n[from] > 0 && n[t] < N_PAGE * 2) {
            table[t][n[t]] = table[from][rng_below(&rng, (uint64_t)n[from])];
            page_ref(p, table[t][n[t]++]);
        } else {
            int drop = (int)rng_below(&rng, 4);
            while (n[t] > 0 && drop-- > 0) page_drop(p, table[t][--n[t]]);
        }
        const char *wrong = pages_check(p, at, n, N_TABLE);
        if (wrong) test_fail(__FILE__, __LINE__, "step %d: %s", i, wrong);
        if (wrong) break;
    }
    if (n[0] > 0) { /* a check that cannot fail checks nothing */
        n[0]--;
        EXPECT(pages_check(p, at, n, N_TABLE) != NULL);
    }
    pages_close(p);
}

TEST(page_sizes_that_cannot_be_are_refused)
{
    struct pages *p;
    struct err e;
    EXPECT_INT(pages_open(&p, 4, 24, &e), ERR_ARG);
    EXPECT_INT(pages_open(&p, 4, 128, &e), ERR_ARG);
    EXPECT_INT(pages_open(&p, 0, 16, &e), ERR_ARG);
    EXPECT(p == NULL);
}

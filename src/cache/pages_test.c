/* pages_test.c - goal: the page table keeps its invariants and finds exactly the cached prefixes.
 * Method: random takes, shares, seals, finds and drops by imaginary sequences, compared with brute
 * force. pages_check runs after each operation. */
#include "../../tests/unit.h"

#include "base/rng.h"
#include "cache.h"

enum { N_TABLE = 6, N_PAGE = 40, ROWS = 4, LEN_MAX = 80 };

/* An imaginary sequence. The tokens of a sequence are from an alphabet of two, so that prefixes are
 * often shared. */
struct imaginary {
    int32_t token[LEN_MAX], page[LEN_MAX / ROWS];
    int n_page, n_reused;
};

static void sequence_end(struct pages *p, struct imaginary *s)
{
    while (s->n_page > 0) page_drop(p, s->page[--s->n_page]);
}

/* Reuse the pages that are found, take the other pages and seal all pages, like the scheduler. */
static void sequence_begin(struct pages *p, struct imaginary *s, uint64_t *rng)
{
    int n = 1 + (int)rng_below(rng, LEN_MAX / ROWS);
    for (int i = 0; i < n * ROWS; i++) s->token[i] = rng_below(rng, 8) == 0;
    uint64_t name = PAGE_ROOT;
    s->n_reused = 0;
    for (bool hit = true; s->n_page < n; s->n_page++) {
        const int32_t *tokens = s->token + s->n_page * ROWS;
        name = page_name(p, name, tokens, 0);
        int32_t page = hit ? page_find(p, name, tokens) : -1;
        hit = page >= 0;
        s->n_reused += hit;
        if (!hit) page = page_take(p);
        if (page < 0) return;
        s->page[s->n_page] = page_seal(p, page, name, tokens);
        if (rng_below(rng, 4) == 0) page_value(p, s->page[s->n_page], (int)rng_below(rng, 100));
    }
}

TEST(pages_keep_their_invariants)
{
    struct pages *p;
    struct err e;
    NEED_OK(pages_open(&p, N_PAGE, ROWS, true, &e), &e);
    static struct imaginary s[N_TABLE];
    const int32_t *at[N_TABLE];
    int n[N_TABLE], n_reused = 0;
    uint64_t rng = 1;
    for (int i = 0; i < 20000; i++) {
        int t = (int)rng_below(&rng, N_TABLE);
        sequence_end(p, &s[t]);
        if (rng_below(&rng, 500) == 0) pages_clear(p);
        if (rng_below(&rng, 3)) sequence_begin(p, &s[t], &rng);
        n_reused += s[t].n_reused;
        const int32_t first = page_look(p, page_name(p, PAGE_ROOT, s[t].token, 0), s[t].token);
        if (first >= 0) page_value(p, first, (int)rng_below(&rng, 100)); /* held or cached */
        for (int k = 0; k < N_TABLE; k++) at[k] = s[k].page, n[k] = s[k].n_page;
        const char *wrong = pages_check(p, at, n, N_TABLE);
        if (wrong) test_fail(__FILE__, __LINE__, "step %d: %s", i, wrong);
        if (wrong) break;
    }
    EXPECT(n_reused > 1000);
    if (n[0] > 0) { /* test that pages_check can fail */
        n[0]--;
        EXPECT(pages_check(p, at, n, N_TABLE) != NULL);
    }
    pages_close(p);
}

TEST(a_prefix_is_found_exactly_as_far_as_it_agrees)
{
    struct pages *p;
    struct err e;
    NEED_OK(pages_open(&p, 16, ROWS, true, &e), &e);
    int32_t token[16];
    for (int i = 0; i < 16; i++) token[i] = i;
    uint64_t name[4], last = PAGE_ROOT;
    int32_t page[4];
    for (int i = 0; i < 4; i++) {
        page[i] = page_take(p);
        last = name[i] = page_name(p, last, token + i * ROWS, 0);
        page_seal(p, page[i], name[i], token + i * ROWS);
    }
    EXPECT(page_name(p, PAGE_ROOT, token, 0) != page_name(p, PAGE_ROOT, token, 1));
    EXPECT(page_name(p, PAGE_ROOT, token, 0) != page_name(p, name[0], token, 0));
    for (int i = 3; i >= 0; i--) page_drop(p, page[i]);
    EXPECT_INT(pages_n_cached(p), 4);
    EXPECT_INT(pages_n_free(p), 16);
    EXPECT_INT(page_find(p, name[1], token + ROWS), page[1]);
    EXPECT_INT(page_refs(p, page[1]), 1);
    EXPECT_INT(page_find(p, name[1], token), -1); /* the name matches, but the tokens do not */
    page_drop(p, page[1]);
    /* 12 free pages, then the oldest cached page (the leaf) */
    for (int i = 0; i < 13; i++) EXPECT(page_take(p) >= 0);
    EXPECT_INT(page_find(p, name[3], token + 3 * ROWS), -1);
    EXPECT_INT(page_find(p, name[0], token), page[0]);
    pages_close(p);
}

TEST(without_keeping_nothing_is_found)
{
    struct pages *p;
    struct err e;
    int32_t token[ROWS] = {0};
    NEED_OK(pages_open(&p, 4, ROWS, false, &e), &e);
    int32_t page = page_take(p);
    uint64_t name = page_name(p, PAGE_ROOT, token, 0);
    page_seal(p, page, name, token);
    page_drop(p, page);
    EXPECT_INT(page_find(p, name, token), -1);
    EXPECT_INT(pages_n_cached(p), 0);
    pages_close(p);
}

TEST(page_sizes_that_cannot_be_are_refused)
{
    struct pages *p;
    struct err e;
    EXPECT_INT(pages_open(&p, 4, 24, true, &e), ERR_ARG);
    EXPECT_INT(pages_open(&p, 4, 128, true, &e), ERR_ARG);
    EXPECT_INT(pages_open(&p, 0, 16, true, &e), ERR_ARG);
    EXPECT(p == NULL);
}

/* ---- eviction ---- */

/* Expected content of the cache, by brute force: prefixes of some pages each, with the time of
 * their last use. */
struct known {
    uint64_t name;
    int depth;
    long used;
    bool cached;
};
enum { N_KNOWN = 4096 };
static struct known known[N_KNOWN];
static int n_known;

static struct known *entry_of(uint64_t name, int depth)
{
    for (int i = 0; i < n_known; i++)
        if (known[i].name == name) return &known[i];
    known[n_known] = (struct known){name, depth, 0, false};
    return &known[n_known++];
}

/* Remove the least recently used leaf. No other prefix contains it, because longer prefixes were
 * used later or evicted before. */
static void forget_oldest(void)
{
    struct known *oldest = NULL;
    for (int i = 0; i < n_known; i++) {
        struct known *k = &known[i];
        if (!k->cached) continue;
        if (!oldest || k->used < oldest->used ||
            (k->used == oldest->used && k->depth > oldest->depth))
            oldest = k;
    }
    if (oldest) oldest->cached = false;
}

static int n_cached(void)
{
    int n = 0;
    for (int i = 0; i < n_known; i++) n += known[i].cached;
    return n;
}

TEST(the_cache_holds_what_an_lru_of_leaves_holds)
{
    struct pages *p;
    struct err e;
    enum { DEPTH = 6, POOL = 24 };
    NEED_OK(pages_open(&p, POOL, ROWS, true, &e), &e);
    uint64_t rng = 11;
    int n_hit = 0, n_evicted = 0;
    n_known = 0;
    for (long now = 1; now <= 3000 && n_known < N_KNOWN - DEPTH; now++) {
        int32_t token[DEPTH * ROWS], page[DEPTH];
        uint64_t name[DEPTH];
        int depth = 1 + (int)rng_below(&rng, DEPTH);
        bool hit = true;
        for (int i = 0; i < depth * ROWS; i++)
            token[i] = i % ROWS ? 0 : (int32_t)rng_below(&rng, 3);
        for (int i = 0; i < depth; i++) {
            name[i] = page_name(p, i ? name[i - 1] : PAGE_ROOT, token + i * ROWS, 0);
            struct known *k = entry_of(name[i], i);
            page[i] = hit ? page_find(p, name[i], token + i * ROWS) : -1;
            if (hit && (page[i] >= 0) != k->cached)
                test_fail(__FILE__, __LINE__, "step %ld: page %d of the prefix is %s", now, i,
                          k->cached ? "gone" : "there");
            hit = page[i] >= 0;
            n_hit += hit;
            k->used = now;
            k->cached = hit;
        }
        for (int i = 0; i < depth; i++) {
            if (page[i] >= 0) continue;
            if (n_cached() == POOL) forget_oldest(), n_evicted++;
            entry_of(name[i], i)->cached = true;
            page[i] = page_take(p);
            EXPECT_INT(page_seal(p, page[i], name[i], token + i * ROWS), page[i]);
        }
        for (int i = depth - 1; i >= 0; i--) page_drop(p, page[i]);
    }
    EXPECT(n_hit > 1000 && n_evicted > 1000);
    pages_close(p);
}

TEST(a_page_computed_twice_is_given_back)
{
    struct pages *p;
    struct err e;
    int32_t token[ROWS] = {1, 2, 3, 4};
    NEED_OK(pages_open(&p, 4, ROWS, true, &e), &e);
    int32_t a = page_take(p), b = page_take(p);
    uint64_t name = page_name(p, PAGE_ROOT, token, 0);
    EXPECT_INT(page_seal(p, a, name, token), a);
    EXPECT_INT(page_seal(p, b, name, token), a);
    EXPECT_INT(page_refs(p, a), 2);
    EXPECT_INT(pages_n_free(p), 3);
    const int32_t *tables[] = {&a, &a};
    EXPECT(!pages_check(p, tables, (int[]){1, 1}, 2));
    pages_close(p);
}

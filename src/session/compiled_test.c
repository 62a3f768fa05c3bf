/* Goal: requests share a compiled grammar only if their constraints are equal. The cache never
 * exceeds its limits. Method: compare the counts of hits and misses and the pointers of entries,
 * with several threads. */
#include "compiled.h"
#include "../../tests/unit.h"

#include "base/cancel.h"
#include "base/rng.h"

#include <pthread.h>
#include <string.h>

static struct compiled *get(struct compiled_cache *c, const char *regex, struct grammar_options o)
{
    struct compiled *g = NULL;
    struct err e = {0};
    if (compiled_get(&g, c, &(struct compiled_want){GRAMMAR_REGEX, regex, strlen(regex), &o, 64, 0},
                     &e) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s", regex, e.text);
    return g;
}

static int no_import(const void *arg, const char *path, char **text, size_t *n, struct err *e)
{
    (void)arg, (void)path, (void)text, (void)n, (void)e;
    return 0;
}

TEST(compiled_grammars_are_shared_by_equal_constraints_only)
{
    struct compiled_cache *c = compiled_cache_open(8, 0);
    struct grammar_options o = {0};
    NEED(c);
    struct compiled *a = get(c, "a+", o), *again = get(c, "a+", o);
    EXPECT(a == again);
    struct compiled *other[] = {get(c, "a*", o),
                                get(c, "a+", (struct grammar_options){.any_order = true}),
                                get(c, "a+", (struct grammar_options){.start = "x"}),
                                get(c, "a+", (struct grammar_options){.limits.bytes_max = 1 << 20}),
                                get(c, "a+", (struct grammar_options){.import = no_import}),
                                get(c, "a+", (struct grammar_options){.import = no_import})};
    enum { N = sizeof other / sizeof *other };
    for (int i = 0; i < N; i++)
        for (int k = 0; k < i; k++) EXPECT(other[i] != a && other[i] != other[k]);
    struct compiled_counts n = compiled_counts(c);
    EXPECT_INT(n.n_hit, 1);
    EXPECT_INT(n.n_miss, 1 + N);
    EXPECT_INT(n.n_kept, 5);
    EXPECT(n.n_byte > 0);
    for (int i = 0; i < N; i++) compiled_drop(other[i]);
    compiled_drop(a);
    compiled_drop(again);
    compiled_cache_close(c);
}

TEST(compiled_grammars_leave_least_recently_used_first)
{
    struct compiled_cache *c = compiled_cache_open(2, 0);
    struct grammar_options o = {0};
    NEED(c);
    compiled_drop(get(c, "a", o));
    compiled_drop(get(c, "b", o));
    compiled_drop(get(c, "a", o)); /* after this call, "a" is the most recently used entry */
    compiled_drop(get(c, "c", o)); /* evicts "b" */
    compiled_drop(get(c, "a", o));
    EXPECT_INT(compiled_counts(c).n_hit, 2);
    compiled_drop(get(c, "b", o));
    EXPECT_INT(compiled_counts(c).n_hit, 2);
    EXPECT_INT(compiled_counts(c).n_kept, 2);
    compiled_cache_close(c);
    c = compiled_cache_open(8, 1); /* there is memory for only one grammar */
    NEED(c);
    compiled_drop(get(c, "a", o));
    struct compiled *b = get(c, "b", o);
    EXPECT_INT(compiled_counts(c).n_kept, 1);
    struct compiled *g;
    struct err e = {0};
    EXPECT_INT(compiled_get(&g, c, &(struct compiled_want){GRAMMAR_REGEX, "d", 1, &o, 64, 0}, &e),
               ERR_BUSY);
    compiled_drop(b);
    compiled_drop(get(c, "d", o));
    compiled_cache_close(c);
}

TEST(compiled_refusals_are_not_kept)
{
    struct compiled_cache *c = compiled_cache_open(8, 0);
    struct grammar_options o = {0};
    struct compiled *g;
    struct err e = {0};
    atomic_bool left = true;
    NEED(c);
    for (int i = 0; i < 2; i++)
        EXPECT_INT(
            compiled_get(&g, c, &(struct compiled_want){GRAMMAR_REGEX, "(", 1, &o, 64, 0}, &e),
            ERR_FORMAT);
    EXPECT(strstr(e.text, "regular expression"));
    static char large[601];
    for (int i = 0; i < 600; i++) large[i] = i & 1 ? 'w' : '\\';
    cancel_flag = &left;
    int rc = compiled_get(
        &g, c, &(struct compiled_want){GRAMMAR_REGEX, large, strlen(large), &o, 64, 0}, &e);
    cancel_flag = NULL;
    EXPECT_INT(rc, ERR_BUSY);
    EXPECT_INT(compiled_counts(c).n_kept, 0);
    EXPECT_INT(compiled_counts(c).n_byte, 0);
    compiled_drop(get(c, large, o)); /* this call recompiles the grammar for its client */
    compiled_cache_close(c);
}

/* Goal: a grammar that is too large is compiled once for equal requests, and its memory is
 * released. */
TEST(compiled_refusals_of_large_grammars_are_kept)
{
    static const char large[] = "(\\w{1,40},){9}\\w+";
    struct compiled_cache *c = compiled_cache_open(2, 0);
    const struct grammar_options small = {.limits.bytes_max = 100000};
    struct compiled *g;
    struct err e[3] = {{{0}, {0}, 0, 0, 0, 0}};
    NEED(c);
    for (int i = 0; i < 3; i++)
        EXPECT_INT(compiled_get(
                       &g, c,
                       &(struct compiled_want){GRAMMAR_REGEX, large, strlen(large), &small, 64, 0},
                       &e[i]),
                   ERR_LIMIT);
    EXPECT(e[0].text[0] && strcmp(e[0].text, e[2].text) == 0);
    EXPECT_INT(compiled_counts(c).n_miss, 1);
    EXPECT_INT(compiled_counts(c).n_kept, 1);
    EXPECT(compiled_counts(c).n_byte < 4096);
    struct grammar_options o = {0};
    compiled_drop(get(c, large, o)); /* other limits give another key */
    compiled_drop(get(c, "a", o));   /* evicts the entry of the rejected grammar */
    EXPECT_INT(compiled_counts(c).n_kept, 2);
    EXPECT_INT(compiled_counts(c).n_miss, 3);
    compiled_cache_close(c);
}

enum { N_THREAD = 6 };
struct client {
    struct compiled_cache *c;
    struct compiled *g[2];
    int rc;
};

static void *compile(void *arg)
{
    static const char text[] = "(\\w{1,40},){9}\\w+";
    struct client *k = arg;
    struct grammar_options o = {0};
    struct err e = {0};
    int rc = compiled_get(
        &k->g[0], k->c, &(struct compiled_want){GRAMMAR_REGEX, text, strlen(text), &o, 64, 0}, &e);
    k->rc =
        compiled_get(&k->g[1], k->c, &(struct compiled_want){GRAMMAR_REGEX, "[", 1, &o, 64, 0}, &e);
    return rc ? arg : NULL;
}

TEST(compiled_once_for_concurrent_requests)
{
    struct compiled_cache *c = compiled_cache_open(8, 0);
    struct client k[N_THREAD];
    pthread_t thread[N_THREAD];
    NEED(c);
    for (int i = 0; i < N_THREAD; i++) k[i] = (struct client){.c = c};
    for (int i = 0; i < N_THREAD; i++) NEED(pthread_create(&thread[i], NULL, compile, &k[i]) == 0);
    for (int i = 0; i < N_THREAD; i++) {
        void *bad;
        pthread_join(thread[i], &bad);
        EXPECT(!bad && k[i].g[0] == k[0].g[0]);
        EXPECT_INT(k[i].rc, ERR_FORMAT);
        compiled_drop(k[i].g[0]);
    }
    EXPECT_INT(compiled_counts(c).n_hit, N_THREAD - 1);
    EXPECT_INT(compiled_counts(c).n_kept, 1);
    compiled_cache_close(c);
}

/* ---- memory ---- */

static const char grows[] = "([ab]*a[ab]{99}|[ab]*b[ab]{98})+c";

/* Accept a text. Each of its bytes makes a new state. */
static void run_on(struct compiled *g, int n)
{
    uint32_t state = g->first;
    uint64_t rng = 1;
    for (int i = 0; i < n && !compiled_over(g); i++) {
        state = grammar_accept(g->g, state, rng_next(&rng) % 2 ? "a" : "b", 1, NULL);
        compiled_count(g);
    }
}

/* Get a grammar for a holder. NULL if compiled_get returns ERR_BUSY. */
static struct compiled *get_for(struct compiled_cache *c, uint64_t holder, const char *regex)
{
    struct compiled *g = NULL;
    struct err e = {0};
    struct grammar_options o = {0};
    int rc = compiled_get(
        &g, c, &(struct compiled_want){GRAMMAR_REGEX, regex, strlen(regex), &o, 64, holder}, &e);
    if (rc != 0 && rc != ERR_BUSY) test_fail(__FILE__, __LINE__, "%s: %s", regex, e.text);
    return g;
}

/* Goal: the cache counts the growth of grammars while they run. Only the largest grammar of the
 * largest holder fails if the total exceeds the limit. */
TEST(compiled_growth_fails_the_largest_holder)
{
    struct compiled_cache *c = compiled_cache_open(8, 1 << 20);
    NEED(c);
    struct compiled *small = get_for(c, 1, "a+b"), *large = get_for(c, 2, grows),
                    *second = get_for(c, 2, "c+");
    NEED(small && large && second);
    run_on(large, 20000);
    EXPECT(compiled_over(large) && !compiled_over(small) && !compiled_over(second));
    EXPECT(compiled_counts(c).n_byte < 2 << 20);
    struct compiled *again = get_for(c, 1, grows);
    EXPECT(again && again != large);
    compiled_drop(large);
    compiled_drop(again);
    compiled_drop(small);
    compiled_drop(second);
    compiled_cache_close(c);
    /* a single grammar has only the limits of its options */
    c = compiled_cache_open(8, 300000);
    NEED(c);
    large = get_for(c, 2, grows);
    run_on(large, 1000);
    EXPECT(compiled_counts(c).n_byte > 300000 && !compiled_over(large));
    compiled_drop(large);
    compiled_cache_close(c);
}

/* Goal: the memory of a compilation is counted from its start. */
TEST(compiled_bytes_count_while_compiling)
{
    static const char text[] = "(\\w{1,40},){9}\\w+";
    struct compiled_cache *c = compiled_cache_open(8, 0);
    NEED(c);
    struct compiled *g = get_for(c, 1, text);
    int64_t n_byte = compiled_counts(c).n_byte;
    NEED(g);
    compiled_drop(g);
    compiled_cache_close(c);
    c = compiled_cache_open(8, n_byte / 2);
    NEED(c);
    struct compiled *other = get_for(c, 2, "a");
    EXPECT(other && !get_for(c, 1, text) && !compiled_over(other));
    EXPECT(compiled_counts(c).n_byte < n_byte / 2);
    compiled_drop(other);
    g = get_for(c, 1, text); /* no other grammar is in the cache */
    EXPECT(g);
    compiled_drop(g);
    compiled_cache_close(c);
}

/* Goal: a holder cannot use the share of another holder. */
TEST(compiled_bytes_are_divided_by_holder)
{
    char text[64];
    struct compiled *mine[6] = {0}, *yours;
    struct compiled_cache *c = compiled_cache_open(8, 0);
    NEED(c);
    mine[0] = get_for(c, 1, grows);
    int64_t n_byte = compiled_counts(c).n_byte;
    compiled_drop(mine[0]);
    compiled_cache_close(c);
    c = compiled_cache_open(8, n_byte * 7 / 2);
    NEED(c);
    int n = 0, n_over = 0;
    for (; n < 6; n++) {
        snprintf(text, sizeof text, "%s%d", grows, n);
        if (!(mine[n] = get_for(c, 1, text))) break;
    }
    EXPECT(n >= 3 && n < 6);
    EXPECT((yours = get_for(c, 2, "other")));
    for (int i = 0; i < n; i++) n_over += compiled_over(mine[i]);
    EXPECT(n_over >= 1 && n_over < n && yours && !compiled_over(yours));
    EXPECT(!get_for(c, 1, "(ab){400}") || compiled_counts(c).n_byte < 4 * n_byte);
    for (int i = 0; i < n; i++) compiled_drop(mine[i]);
    compiled_drop(yours);
    compiled_cache_close(c);
}

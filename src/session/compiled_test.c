/* Goal: requests with an equal constraint share one compiled grammar, others never do, and the cache stays within its limits. Method: counts of
 * hits and misses, pointers of entries, several threads at once. */
#include "compiled.h"
#include "../../tests/unit.h"

#include "base/cancel.h"

#include <pthread.h>
#include <string.h>

static struct compiled *get(struct compiled_cache *c, const char *regex, struct grammar_options o)
{
    struct compiled *g = NULL;
    struct err e = {0};
    if (compiled_get(&g, c, GRAMMAR_REGEX, regex, strlen(regex), &o, 64, &e) != 0)
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
    struct compiled *other[] = {
        get(c, "a*", o),
        get(c, "a+", (struct grammar_options){.any_order = true}),
        get(c, "a+", (struct grammar_options){.start = "x"}),
        get(c, "a+", (struct grammar_options){.limits.n_byte_max = 1 << 20}),
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
    compiled_drop(get(c, "a", o)); /* used again */
    compiled_drop(get(c, "c", o)); /* b leaves */
    compiled_drop(get(c, "a", o));
    EXPECT_INT(compiled_counts(c).n_hit, 2);
    compiled_drop(get(c, "b", o));
    EXPECT_INT(compiled_counts(c).n_hit, 2);
    EXPECT_INT(compiled_counts(c).n_kept, 2);
    compiled_cache_close(c);
    c = compiled_cache_open(8, 1); /* no memory at all: each is alone */
    NEED(c);
    compiled_drop(get(c, "a", o));
    struct compiled *b = get(c, "b", o);
    EXPECT_INT(compiled_counts(c).n_kept, 1);
    struct compiled *g;
    struct err e = {0};
    EXPECT_INT(compiled_get(&g, c, GRAMMAR_REGEX, "d", 1, &o, 64, &e), ERR_BUSY);
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
        EXPECT_INT(compiled_get(&g, c, GRAMMAR_REGEX, "(", 1, &o, 64, &e), ERR_FORMAT);
    EXPECT(strstr(e.text, "regular expression"));
    static char large[601];
    for (int i = 0; i < 600; i++) large[i] = i & 1 ? 'w' : '\\';
    cancel_flag = &left;
    int rc = compiled_get(&g, c, GRAMMAR_REGEX, large, strlen(large), &o, 64, &e);
    cancel_flag = NULL;
    EXPECT_INT(rc, ERR_BUSY);
    EXPECT_INT(compiled_counts(c).n_kept, 0);
    EXPECT_INT(compiled_counts(c).n_byte, 0);
    compiled_drop(get(c, large, o)); /* another client's is compiled */
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
    int rc = compiled_get(&k->g[0], k->c, GRAMMAR_REGEX, text, strlen(text), &o, 64, &e);
    k->rc = compiled_get(&k->g[1], k->c, GRAMMAR_REGEX, "[", 1, &o, 64, &e);
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

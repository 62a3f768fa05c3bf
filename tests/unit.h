/* unit.h - the test harness: one binary, build/unit [-jN] [filter...], runs every TEST of every
 * *_test.c, in one process or in N processes.
 *
 * TEST(name) { ... } registers itself. EXPECT records a failure and continues. NEED ends the test.
 * A test that needs real data calls data_path(), and SKIPs if the data are missing. Tests are
 * independent: each test may run alone. TEST_ALONE(name) is a TEST that measures time on the clock
 * or needs all processors. Such a test runs after the parallel tests. One thread at a time. */
#ifndef QUOTH_TEST_UNIT_H
#define QUOTH_TEST_UNIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct test {
    const char *name, *file;
    void (*run)(void);
    bool alone;  /* true: no other test runs at the same time */
    bool chosen; /* true if a filter matches, or if there is no filter */
    struct test *next;
};

/* Add a test to the list. TEST calls this function before main. */
void test_register(struct test *t);
/* Record a failure of the running test with a sentence. */
void test_fail(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Record that the running test is skipped, with the reason. */
void test_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Print a line of information below the test's name, such as a measured figure. */
void test_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Return the path of a file or folder of the real data (environment QUOTH_DATA, else
 * ../shared/data), in a static ring of 8 buffers. NULL if no such item exists. */
const char *data_path(const char *relative);
/* Return the path of a file of this repository, relative to its root (environment QUOTH_ROOT, else
 * "."), in a static ring of 8 buffers. */
const char *repo_path(const char *relative);
/* Return a path for a temporary file of that name, in a folder that is removed at exit. */
const char *temp_path(const char *name);
/* Write a text to a temporary file, and create the folders above it. Return false on failure. */
bool temp_put(const char *name, const char *text);
/* Return true under `make long` (environment QUOTH_LONG): run the full counts. */
bool test_long(void);
/* Return the distance to the next case of a sampled sweep, at random in [1, 2 * mean - 1]. Under
 * `make long` return 1, for all cases. rng is a state of rng_next (base/rng.h). */
uint64_t test_stride(uint64_t *rng, uint64_t mean);
/* Print "sampled: N of M WHAT" if not all cases ran. Fail the test if none ran. */
void test_sampled(int64_t n, int64_t of, const char *what);

/* Return the number of allocations since the start (malloc, calloc, realloc, aligned_alloc of the
 * whole process). */
uint64_t test_n_malloc(void);

#define TEST(id)       TEST_OF(id, false)
#define TEST_ALONE(id) TEST_OF(id, true)
#define TEST_OF(id, is_alone)                                                                      \
    static void test_##id(void);                                                                   \
    __attribute__((constructor)) static void register_##id(void)                                   \
    {                                                                                              \
        static struct test t = {#id, __FILE__, test_##id, .alone = is_alone};                      \
        test_register(&t);                                                                         \
    }                                                                                              \
    static void test_##id(void)

#define EXPECT(cond)                                                                               \
    do {                                                                                           \
        if (!(cond)) test_fail(__FILE__, __LINE__, "%s", #cond);                                   \
    } while (0)
#define NEED(cond)                                                                                 \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            test_fail(__FILE__, __LINE__, "%s", #cond);                                            \
            return;                                                                                \
        }                                                                                          \
    } while (0)
/* NEED_OK(rc, &err): fail with the error's sentence unless rc == 0. */
#define NEED_OK(rc, e)                                                                             \
    do {                                                                                           \
        if ((rc) != 0) {                                                                           \
            test_fail(__FILE__, __LINE__, "%s: %s", #rc, (e)->text);                               \
            return;                                                                                \
        }                                                                                          \
    } while (0)
#define EXPECT_INT(got, want)                                                                      \
    do {                                                                                           \
        long long g_ = (long long)(got), w_ = (long long)(want);                                   \
        if (g_ != w_) test_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #got, g_, w_);         \
    } while (0)
#define EXPECT_TEXT(got, want)                                                                     \
    do {                                                                                           \
        const char *g_ = (got), *w_ = (want);                                                      \
        if (!g_ || strcmp(g_, w_) != 0)                                                            \
            test_fail(__FILE__, __LINE__, "%s is \"%s\", not \"%s\"", #got, g_ ? g_ : "(null)",    \
                      w_);                                                                         \
    } while (0)
#define EXPECT_BITS(got, want, n_byte)                                                             \
    do {                                                                                           \
        if (memcmp((got), (want), (n_byte)) != 0)                                                  \
            test_fail(__FILE__, __LINE__, "%s and %s differ", #got, #want);                        \
    } while (0)
#define SKIP(...)                                                                                  \
    do {                                                                                           \
        test_skip(__VA_ARGS__);                                                                    \
        return;                                                                                    \
    } while (0)

#endif

/* Goal: owners read exactly their own records, within the limits of size and time. Method: random
 * operations are compared with a list that has the same rules. */

#include "store.h"

#include "base/os.h"
#include "base/rng.h"

#include "../../tests/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Return a new store; NULL after a failure, which fails the test. */
static struct store *open_store(const struct store_options *o)
{
    struct store *s;
    struct err e = {0};
    if (store_open(&s, o, &e) != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    return s;
}

/* Remove a record. Return true if it existed. */
static bool delete (struct store *s, uint64_t owner, const char *id)
{
    struct err e = {0};
    const int rc = store_delete(s, owner, id, &e);
    EXPECT(rc == 0 || rc == ERR_MISSING);
    return rc == 0;
}

/* Store n bytes of `letter`. */
static int put(struct store *s, uint64_t owner, const char *id, char letter, size_t n)
{
    struct buf b = {0}, input = {0};
    struct err e = {0};
    for (size_t i = 0; i < n; i++) buf_add_char(&b, letter);
    buf_add_text(&input, id);
    int rc = store_put(s, owner, id, &(struct store_texts){.head = &b, .body = &input}, &e);
    buf_deinit(&b);
    buf_deinit(&input);
    return rc;
}

/* Return the first letter of a record. 0 if the record does not exist. */
static char get(struct store *s, uint64_t owner, const char *id)
{
    struct buf b = {0}, input = {0}, events = {0};
    struct err e = {0};
    int rc = store_get(s, owner, id,
                       &(struct store_texts){.head = &b, .body = &input, .log = &events}, &e);
    char letter = rc == 0 && b.n ? b.data[0] : 0;
    if (rc == 0) EXPECT_TEXT(input.data, id);
    EXPECT_INT(events.n, 0);
    if (rc != 0) EXPECT_INT(rc, ERR_MISSING);
    buf_deinit(&b);
    buf_deinit(&input);
    return letter;
}

TEST(store_keeps_owners_apart)
{
    struct store *s = open_store(&(struct store_options){.bytes_max = 1 << 20});
    NEED(s);
    EXPECT_INT(put(s, 1, "resp_a", 'x', 100), 0);
    EXPECT_INT(put(s, 2, "resp_a", 'y', 100), 0);
    EXPECT_INT(get(s, 1, "resp_a"), 'x');
    EXPECT_INT(get(s, 2, "resp_a"), 'y');
    EXPECT_INT(get(s, 3, "resp_a"), 0);
    EXPECT_INT(get(s, 1, "resp_b"), 0);
    EXPECT(!delete (s, 3, "resp_a"));
    EXPECT(delete (s, 1, "resp_a"));
    EXPECT(!delete (s, 1, "resp_a"));
    EXPECT_INT(get(s, 1, "resp_a"), 0);
    EXPECT_INT(get(s, 2, "resp_a"), 'y');
    EXPECT_INT(put(s, 2, "resp_a", 'z', 50), 0);
    EXPECT_INT(get(s, 2, "resp_a"), 'z');
    EXPECT_INT(store_stats(s).n_record, 1);
    store_close(s);
}

TEST(store_evicts_the_least_recently_used)
{
    struct store *s =
        open_store(&(struct store_options){.bytes_max = 10000, .holder_bytes_max = 6000});
    NEED(s);
    EXPECT_INT(put(s, 1, "a", 'a', 1500), 0);
    EXPECT_INT(put(s, 1, "b", 'b', 1500), 0);
    EXPECT_INT(put(s, 1, "c", 'c', 1500), 0);
    EXPECT_INT(get(s, 1, "a"), 'a'); /* b is now the oldest */
    EXPECT_INT(put(s, 1, "d", 'd', 1500), 0);
    EXPECT_INT(get(s, 1, "b"), 0);
    EXPECT_INT(get(s, 1, "a"), 'a');
    /* records of the largest owner are evicted for a smaller owner */
    EXPECT_INT(put(s, 2, "a", 'e', 5500), 0);
    EXPECT_INT(get(s, 1, "c"), 0);
    EXPECT_INT(get(s, 1, "d"), 'd');
    EXPECT_INT(get(s, 2, "a"), 'e');
    /* a record that can never fit evicts nothing */
    EXPECT_INT(put(s, 2, "b", 'f', 6000), ERR_LIMIT);
    EXPECT_INT(get(s, 2, "a"), 'e');
    EXPECT(store_check(s) == NULL);
    store_close(s);
}

TEST(store_expires_unused_records)
{
    struct store *s = open_store(&(struct store_options){.bytes_max = 10000, .unused_us = 50000});
    NEED(s);
    EXPECT_INT(put(s, 1, "a", 'a', 10), 0);
    EXPECT_INT(get(s, 1, "a"), 'a');
    usleep(80000);
    EXPECT_INT(get(s, 1, "a"), 0);
    EXPECT_INT(store_stats(s).n_byte, 0);
    store_close(s);
}

/* A list with the rules of the store: most recently used last. */
struct model {
    struct {
        uint64_t owner;
        int id;
        char letter;
        int64_t n;
    } v[400];
    int n;
};

static int model_find(const struct model *m, uint64_t owner, int id)
{
    for (int i = 0; i < m->n; i++)
        if (m->v[i].owner == owner && m->v[i].id == id) return i;
    return -1;
}

static void model_remove(struct model *m, int i)
{
    memmove(&m->v[i], &m->v[i + 1], (size_t)(m->n - i - 1) * sizeof m->v[0]);
    m->n--;
}

TEST(store_is_a_list_of_recent_records)
{
    struct store *s =
        open_store(&(struct store_options){.bytes_max = 40000, .holder_bytes_max = 15000});
    static struct model m;
    uint64_t rng = 3;
    int64_t n_record = 0; /* bytes of a record without its texts */
    NEED(s);
    EXPECT_INT(put(s, 9, "x", 'x', 10), 0);
    n_record = store_stats(s).n_byte - 10 - 1;
    EXPECT(delete (s, 9, "x"));
    m.n = 0;
    for (int i = 0; i < 20000; i++) {
        const uint64_t owner = rng_below(&rng, 4), what = rng_below(&rng, 10);
        const int number = (int)rng_below(&rng, 40);
        char id[12], letter = (char)('a' + rng_below(&rng, 26));
        snprintf(id, sizeof id, "r%02d", number);
        int k = model_find(&m, owner, number);
        if (what < 4) {
            const size_t n = 1 + rng_below(&rng, 3000);
            if (k >= 0) model_remove(&m, k);
            m.v[m.n].owner = owner, m.v[m.n].id = number, m.v[m.n].letter = letter;
            m.v[m.n++].n = (int64_t)n + 3 + n_record;
            EXPECT_INT(put(s, owner, id, letter, n), 0);
            for (int limit = 0; limit < 2; limit++)
                /* first apply the owner's limit, then the limit of all owners */
                for (bool over = true; over;) {
                    int64_t sum[4] = {0}, all = 0;
                    uint64_t victim = limit ? 0 : owner;
                    for (int j = 0; j < m.n; j++) sum[m.v[j].owner] += m.v[j].n, all += m.v[j].n;
                    /* the new record does not make its owner a victim */
                    sum[owner] -= limit ? m.v[m.n - 1].n : 0;
                    for (uint64_t j = 0; limit && j < 4; j++)
                        if (sum[j] > sum[victim]) victim = j;
                    over = limit ? all > 40000 : sum[owner] > 15000;
                    for (int j = 0; over && j < m.n; j++)
                        if (m.v[j].owner == victim) {
                            model_remove(&m, j);
                            break;
                        }
                }
        } else if (what < 9) {
            EXPECT_INT(get(s, owner, id), k >= 0 ? m.v[k].letter : 0);
            if (k >= 0) {
                m.v[m.n] = m.v[k];
                m.n++;
                model_remove(&m, k);
            }
        } else {
            EXPECT_INT(delete (s, owner, id), k >= 0);
            if (k >= 0) model_remove(&m, k);
        }
        EXPECT_INT(store_stats(s).n_record, m.n);
        const char *why = store_check(s);
        if (why) test_fail(__FILE__, __LINE__, "operation %d: %s", i, why);
    }
    store_close(s);
}

/* ---- changes ---- */

enum { ADDERS = 3, ADDED = 400 };

struct adder {
    struct store *s;
    int first; /* number of the first item */
};

static void *add_items(void *arg)
{
    const struct adder *a = arg;
    for (int i = 0; i < ADDED; i++) {
        struct buf b = {0};
        struct err e = {0};
        buf_addf(&b, "%d", a->first + i);
        EXPECT_INT(store_append(a->s, 1, "conv_a", &b, NULL, &e), 0);
        buf_deinit(&b);
    }
    return NULL;
}

/* Return the number of items, and check that each number was added at most once. */
static int count_items(const struct buf *input)
{
    static bool seen[ADDERS * ADDED];
    int n = 0;
    memset(seen, 0, sizeof seen);
    for (const char *p = input->data; p && *p; n++) {
        long number = strtol(p, (char **)&p, 10);
        EXPECT(number >= 0 && number < ADDERS * ADDED && !seen[number]);
        seen[number] = true;
        p += *p == ',';
    }
    return n;
}

/* Goal: changes of a record by several threads are not lost. */
TEST(store_keeps_all_changes)
{
    struct store *s = open_store(&(struct store_options){.bytes_max = 1 << 20});
    pthread_t thread[ADDERS];
    struct adder adder[ADDERS];
    struct buf object = {0}, none = {0}, input = {0};
    struct err e = {0};
    int n_change = 0;
    int64_t version;
    NEED(s);
    buf_add_text(&object, "x");
    EXPECT_INT(store_append(s, 1, "conv_a", &none, NULL, &e), ERR_MISSING);
    EXPECT_INT(store_put(s, 1, "conv_a", &(struct store_texts){.head = &object}, &e), 0);
    for (int i = 0; i < ADDERS; i++) {
        adder[i] = (struct adder){s, i * ADDED};
        NEED(pthread_create(&thread[i], NULL, add_items, &adder[i]) == 0);
    }
    for (int i = 0; i < 300; i++) {
        struct buf old = {0}, items = {0};
        const struct store_texts t = {.head = &old, .body = &items, .version = &version};
        EXPECT_INT(store_get(s, 1, "conv_a", &t, &e), 0);
        buf_add_char(&old, 'x');
        int rc = store_replace(s, 1, "conv_a", version, &t, &e);
        EXPECT(rc == 0 || rc == ERR_BUSY);
        n_change += rc == 0;
        buf_deinit(&old);
        buf_deinit(&items);
    }
    for (int i = 0; i < ADDERS; i++) pthread_join(thread[i], NULL);
    buf_clear(&object);
    EXPECT_INT(
        store_get(s, 1, "conv_a",
                  &(struct store_texts){.head = &object, .body = &input, .version = &version}, &e),
        0);
    EXPECT_INT(object.n, n_change + 1);
    EXPECT_INT(count_items(&input), ADDERS * ADDED);
    EXPECT_INT(store_replace(s, 1, "conv_a", version - 1, &(struct store_texts){0}, &e), ERR_BUSY);
    EXPECT(store_check(s) == NULL);
    buf_deinit(&object);
    buf_deinit(&input);
    store_close(s);
}

enum { RESERVED = 4000, N_PUT = 1000 };

static atomic_bool putting;

/* Run the calling thread on the first of its processors only. A thread that waits for a lock then
 * often runs directly after its release. */
static void use_one_processor(void)
{
    cpu_set_t all, one;
    int i = 0;
    NEED(pthread_getaffinity_np(pthread_self(), sizeof all, &all) == 0);
    while (!CPU_ISSET(i, &all)) i++;
    CPU_ZERO(&one);
    CPU_SET(i, &one);
    EXPECT(pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0);
}

static void *put_records(void *arg)
{
    struct store *s = arg;
    char id[16];
    use_one_processor();
    for (int i = 0; i < N_PUT; i++) {
        snprintf(id, sizeof id, "r%d", i % 7);
        EXPECT_INT(put(s, 1, id, 'x', 1000), 0);
        usleep(200);
    }
    putting = false;
    return NULL;
}

static void *reserve(void *arg)
{
    struct store *s = arg;
    const char *why = NULL;
    use_one_processor();
    while (putting && !why) {
        EXPECT(store_reserve(s, 1, RESERVED));
        why = store_check(s);
        EXPECT(store_reserve(s, 1, -RESERVED));
    }
    if (why) test_fail(__FILE__, __LINE__, "%s", why);
    return NULL;
}

/* Goal: a record of another thread does not use the room of a reservation. */
TEST(store_reserves_within_limits)
{
    struct store *s = open_store(&(struct store_options){.bytes_max = 10000});
    pthread_t putter, reserver;
    NEED(s);
    putting = true;
    NEED(pthread_create(&putter, NULL, put_records, s) == 0);
    NEED(pthread_create(&reserver, NULL, reserve, s) == 0);
    pthread_join(putter, NULL);
    pthread_join(reserver, NULL);
    store_close(s);
}

/* Add chunk k of n bytes, which does not fit. Return true if the size in the error exceeds the
 * limit in the error. */
static bool explains(struct store *s, uint64_t holder, int64_t k, struct buf *b, size_t n)
{
    struct err e = {0};
    b->n = n;
    EXPECT_INT(store_add_chunk(s, holder, "a", 0, k, b, &e), ERR_LIMIT);
    char *size = e.text + strcspn(e.text, "0123456789"), *end;
    const long long n_byte = strtoll(size, &end, 10);
    return n_byte > strtoll(end + strcspn(end, "0123456789"), NULL, 10);
}

/* Goal: the error of a chunk that does not fit has a size that exceeds its limit. */
TEST(store_explains_what_does_not_fit)
{
    struct store *s =
        open_store(&(struct store_options){.bytes_max = 10000, .holder_bytes_max = 6000});
    struct buf b = {0};
    struct err e = {0};
    NEED(s);
    for (int i = 0; i < 4000; i++) buf_add_char(&b, 'c');
    for (uint64_t holder = 1; holder <= 2; holder++) {
        b.n = 4000;
        EXPECT_INT(store_put(s, holder, "a", &(struct store_texts){.pinned = true}, &e), 0);
        EXPECT_INT(store_add_chunk(s, holder, "a", 0, 0, &b, &e), 0);
    }
    EXPECT(explains(s, 1, 1, &b, 3000)); /* more than the limit of a holder */
    EXPECT(explains(s, 1, 1, &b, 1600)); /* more than the limit of all holders */
    EXPECT(store_check(s) == NULL);
    buf_deinit(&b);
    store_close(s);
}

/* Goal: an addition that does not fit changes nothing. An addition that fits evicts only other
 * records. */
TEST(store_additions_stay_within_limits)
{
    struct store *s =
        open_store(&(struct store_options){.bytes_max = 10000, .holder_bytes_max = 6000});
    struct buf b = {0};
    struct err e = {0};
    NEED(s);
    EXPECT_INT(put(s, 1, "a", 'a', 2000), 0);
    EXPECT_INT(put(s, 1, "b", 'b', 2000), 0);
    for (int i = 0; i < 6000; i++) buf_add_char(&b, 'c');
    EXPECT_INT(store_append(s, 1, "a", &b, NULL, &e), ERR_LIMIT);
    EXPECT_INT(store_stats(s).n_record, 2);
    b.n = 2000;
    EXPECT_INT(store_append(s, 1, "a", &b, NULL, &e), 0);
    EXPECT_INT(get(s, 1, "b"), 0);
    EXPECT_INT(store_stats(s).n_record, 1);
    EXPECT(store_reserve(s, 1, 1000));
    EXPECT(!store_reserve(s, 1, 5500));
    EXPECT_INT(store_append(s, 1, "a", &b, NULL, &e), ERR_LIMIT);
    EXPECT_INT(store_stats(s).n_record, 1);
    EXPECT(store_reserve(s, 1, -1000));
    EXPECT(store_check(s) == NULL);
    buf_deinit(&b);
    store_close(s);
}

/* Append items [n] to record "a" of holder 1, and check its body and log. */
static void expect_append(struct store *s, const char *items, size_t n, const char *new_log,
                          const char *body, size_t n_body, const char *log)
{
    struct buf b = {0}, l = {0}, got = {0}, got_log = {0};
    struct err e = {0};
    buf_add(&b, items, n);
    buf_add_text(&l, new_log ? new_log : "");
    EXPECT_INT(store_append(s, 1, "a", &b, new_log ? &l : NULL, &e), 0);
    EXPECT_INT(store_get(s, 1, "a", &(struct store_texts){.body = &got, .log = &got_log}, &e), 0);
    EXPECT_INT(got.n, n_body);
    EXPECT(got.n == n_body && memcmp(got.n ? got.data : "", body, n_body) == 0);
    EXPECT(got_log.n == strlen(log) && memcmp(got_log.n ? got_log.data : "", log, got_log.n) == 0);
    EXPECT(store_check(s) == NULL);
    buf_deinit(&b), buf_deinit(&l), buf_deinit(&got), buf_deinit(&got_log);
}

/* Goal: items are appended as bytes after a comma, also to the body of an earlier record. */
TEST(store_appends_items_and_replaces_the_log)
{
    struct store *s = open_store(&(struct store_options){.bytes_max = 1 << 20});
    struct buf text = {0};
    struct err e = {0};
    NEED(s);
    EXPECT_INT(store_put(s, 1, "a", &(struct store_texts){.head = &text}, &e), 0);
    expect_append(s, "", 0, "log", "", 0, "log");
    expect_append(s, "x", 1, NULL, "x", 1, "log");
    expect_append(s, "\0\xff", 2, "", "x,\0\xff", 4, "");
    expect_append(s, "", 0, "longer log", "x,\0\xff", 4, "longer log");
    buf_add(&text, "1", 1);
    EXPECT_INT(store_put(s, 1, "b", &(struct store_texts){.body = &text}, &e), 0);
    EXPECT_INT(store_put(s, 1, "a", &(struct store_texts){.body = &text, .previous = "b"}, &e), 0);
    expect_append(s, "2", 1, NULL, "1,2", 3, "");
    buf_deinit(&text);
    store_close(s);
}

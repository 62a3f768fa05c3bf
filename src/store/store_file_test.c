/* Goal: records that continue other records take memory only for their new parts. Each chunk exists
 * once. Records in a folder remain after a kill of the process. */
#include "store_impl.h"

#include "base/os.h"
#include "base/rng.h"

#include "../../tests/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct store *open_in(const char *dir, int64_t bytes_max)
{
    struct store *s;
    struct err e = {0};
    if (store_open(&s, &(struct store_options){.dir = dir, .bytes_max = bytes_max}, &e) != 0)
        test_fail(__FILE__, __LINE__, "%s", e.text);
    return s;
}

static int put(struct store *s, const char *id, const char *body, const char *previous)
{
    struct buf head = {0}, b = {0};
    struct err e = {0};
    buf_addf(&head, "head of %s", id);
    buf_add_text(&b, body);
    const int rc = store_put(
        s, 1, id, &(struct store_texts){.head = &head, .body = &b, .previous = previous}, &e);
    buf_deinit(&head);
    buf_deinit(&b);
    return rc;
}

/* Expect a record with this body; NULL: no record. */
static void expect(struct store *s, const char *id, const char *body)
{
    struct buf b = {0};
    struct err e = {0};
    const int rc = store_get(s, 1, id, &(struct store_texts){.body = &b}, &e);
    EXPECT_INT(rc, body ? 0 : ERR_MISSING);
    if (body) EXPECT_TEXT(b.data ? b.data : "", body);
    buf_deinit(&b);
}

/* Goal: n turns that each repeat all earlier turns take the memory of n turns. */
TEST(store_keeps_only_the_new_part_of_a_body)
{
    enum { TURNS = 200, TURN_BYTES = 100 };
    struct store *s = open_in(NULL, 1 << 20);
    struct buf body = {0};
    char id[16], previous[16] = "";
    NEED(s);
    for (int i = 0; i < TURNS; i++) {
        for (int k = 0; k < TURN_BYTES; k++) buf_add_char(&body, (char)('a' + (i + k) % 26));
        snprintf(id, sizeof id, "r%d", i);
        EXPECT_INT(put(s, id, body.data, i ? previous : NULL), 0);
        memcpy(previous, id, sizeof id);
    }
    EXPECT(store_stats(s).n_byte < TURNS * (TURN_BYTES + RECORD_BYTES + 20));
    expect(s, id, body.data);
    EXPECT(store_check(s) == NULL);
    /* a deleted record is not found, but later records keep their bodies */
    for (int i = 0; i < TURNS - 1; i += 2) {
        struct err e = {0};
        snprintf(id, sizeof id, "r%d", i);
        EXPECT_INT(store_delete(s, 1, id, &e), 0);
        expect(s, id, NULL);
    }
    EXPECT_INT(store_stats(s).n_record, TURNS / 2);
    expect(s, previous, body.data);
    EXPECT(store_check(s) == NULL);
    /* the last record continues all earlier records */
    for (int i = 1; i < TURNS; i += 2) {
        struct err e = {0};
        snprintf(id, sizeof id, "r%d", i);
        EXPECT_INT(store_delete(s, 1, id, &e), 0);
    }
    EXPECT_INT(store_stats(s).n_byte, 0);
    EXPECT(store_check(s) == NULL);
    buf_deinit(&body);
    store_close(s);
}

TEST(store_bodies_that_do_not_continue_are_whole)
{
    struct store *s = open_in(NULL, 4000);
    NEED(s);
    EXPECT_INT(put(s, "a", "one", NULL), 0);
    EXPECT_INT(put(s, "b", "two,three", "a"), 0);
    EXPECT_INT(put(s, "c", "on", "a"), 0);
    EXPECT_INT(put(s, "d", "one,four", "none"), 0);
    EXPECT_INT(put(s, "e", "one,five", "a"), 0);
    expect(s, "b", "two,three");
    expect(s, "c", "on");
    expect(s, "d", "one,four");
    expect(s, "e", "one,five");
    /* a new body of a record may continue the earlier record or not */
    struct err e = {0};
    struct buf more = {0};
    buf_add_text(&more, "six");
    EXPECT_INT(store_append(s, 1, "e", &more, NULL, &e), 0);
    expect(s, "e", "one,five,six");
    EXPECT_INT(store_delete(s, 1, "a", &e), 0);
    EXPECT(store_check(s) == NULL);
    int64_t version;
    EXPECT_INT(store_get(s, 1, "e", &(struct store_texts){.version = &version}, &e), 0);
    EXPECT_INT(store_replace(s, 1, "e", version, &(struct store_texts){.body = &more}, &e), 0);
    expect(s, "e", "six");
    EXPECT(store_check(s) == NULL);
    EXPECT_INT(store_stats(s).n_record, 4);
    buf_deinit(&more);
    store_close(s);
}

/* Goal: random chains within a small limit keep every body, or lose the whole body. */
TEST(store_chains_are_evicted_from_their_ends)
{
    struct store *s = open_in(NULL, 20000);
    uint64_t rng = 5;
    NEED(s);
    for (int i = 0; i < 3000; i++) {
        char id[16], from[16], body[400];
        struct buf b = {0};
        struct err e = {0};
        snprintf(id, sizeof id, "r%d", (int)rng_below(&rng, 30));
        snprintf(from, sizeof from, "r%d", (int)rng_below(&rng, 30));
        const bool continues =
            store_get(s, 1, from, &(struct store_texts){.body = &b}, &e) == 0 && b.n < 300;
        if (!continues) buf_clear(&b);
        buf_addf(&b, "%d,", i);
        snprintf(body, sizeof body, "%s", b.data);
        if (rng_below(&rng, 5) == 0)
            (void)store_delete(s, 1, id, &e);
        else {
            EXPECT_INT(put(s, id, body, continues ? from : NULL), 0);
            expect(s, id, body);
        }
        const char *why = store_check(s);
        if (why) test_fail(__FILE__, __LINE__, "operation %d: %s", i, why);
        buf_deinit(&b);
    }
    store_close(s);
}

static int add(struct store *s, const char *id, int part, int64_t n, const char *text)
{
    struct buf b = {0};
    struct err e = {0};
    buf_add_text(&b, text);
    const int rc = store_add_chunk(s, 1, id, part, n, &b, &e);
    buf_deinit(&b);
    return rc;
}

TEST(store_chunks_exist_once_and_move)
{
    struct store *s = open_in(NULL, 4000);
    struct err e = {0};
    struct buf b = {0};
    int64_t n = 0, n_byte;
    NEED(s);
    EXPECT_INT(put(s, "x", "", NULL), 0);
    EXPECT_INT(put(s, "y", "", NULL), 0);
    EXPECT_INT(add(s, "none", 0, 1, "a"), ERR_MISSING);
    EXPECT_INT(add(s, "x", 0, 7, "seven"), 0);
    EXPECT_INT(add(s, "x", 1, 3, "three"), 0);
    EXPECT_INT(add(s, "x", 0, 5, "five"), 0);
    EXPECT_INT(add(s, "x", 1, 5, "again"), ERR_ARG);
    EXPECT(store_has_chunk(s, 1, "x", 3) && !store_has_chunk(s, 1, "x", 4));
    EXPECT(!store_has_chunk(s, 2, "x", 3));
    EXPECT_INT(store_count_chunks(s, 1, "x", 0, &n, &n_byte, &e), 0);
    EXPECT_INT(n, 2);
    EXPECT_INT(n_byte, 9);
    EXPECT_INT(store_move_chunks(s, 1, "x", 0, "y", &e), 0);
    n = 0;
    EXPECT_INT(store_read_chunk(s, 1, "y", 0, &n, &b, &e), 0);
    EXPECT_INT(n, 5);
    n++;
    EXPECT_INT(store_read_chunk(s, 1, "y", 0, &n, &b, &e), 0);
    EXPECT_INT(n, 7);
    EXPECT_TEXT(b.data, "fiveseven");
    n++;
    EXPECT_INT(store_read_chunk(s, 1, "y", 0, &n, &b, &e), 0);
    EXPECT_INT(n, -1);
    EXPECT_INT(store_read_chunk(s, 2, "y", 0, &n, &b, &e), ERR_MISSING);
    EXPECT(store_check(s) == NULL);
    /* a chunk that does not fit changes nothing */
    char large[4000];
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = 0;
    EXPECT_INT(add(s, "y", 0, 9, large), ERR_LIMIT);
    EXPECT(store_check(s) == NULL);
    EXPECT_INT(store_delete(s, 1, "y", &e), 0);
    EXPECT_INT(store_delete(s, 1, "x", &e), 0);
    EXPECT_INT(store_stats(s).n_byte, 0);
    buf_deinit(&b);
    store_close(s);
}

TEST(store_changes_take_effect_together)
{
    struct store *s = open_in(NULL, 4000);
    struct err e = {0};
    NEED(s);
    EXPECT_INT(put(s, "a", "1", NULL), 0);
    store_begin(s);
    EXPECT_INT(put(s, "b", "2", NULL), 0);
    EXPECT_INT(add(s, "b", 0, 1, "chunk"), 0);
    EXPECT_INT(store_end(s, ERR_ARG, &e), ERR_ARG);
    expect(s, "b", NULL);
    store_begin(s);
    EXPECT_INT(store_delete(s, 1, "a", &e), 0);
    EXPECT_INT(add(s, "none", 0, 1, "chunk"), ERR_MISSING);
    EXPECT(store_end(s, 0, &e) != 0); /* the failure of one change undoes all changes */
    expect(s, "a", "1");
    store_begin(s);
    EXPECT_INT(put(s, "b", "2", NULL), 0);
    EXPECT_INT(store_delete(s, 1, "a", &e), 0);
    EXPECT_INT(store_end(s, 0, &e), 0);
    expect(s, "a", NULL);
    expect(s, "b", "2");
    EXPECT(store_check(s) == NULL);
    store_close(s);
}

/* Goal: pinned records are not evicted, but end at their time. */
TEST(store_pinned_records_stay_until_their_end)
{
    struct store *s = open_in(NULL, 2000);
    struct buf b = {0};
    struct err e = {0};
    NEED(s);
    for (int i = 0; i < 700; i++) buf_add_char(&b, 'x');
    const struct store_texts pinned = {.head = &b, .pinned = true},
                             brief = {
                                 .head = &b, .pinned = true, .ends_us = time_wall_us() + 50000};
    EXPECT_INT(store_put(s, 1, "file-a", &pinned, &e), 0);
    EXPECT_INT(store_put(s, 1, "file-b", &brief, &e), 0);
    EXPECT_INT(put(s, "c", "", NULL), ERR_LIMIT);
    usleep(80000);
    EXPECT_INT(put(s, "c", "", NULL), 0);
    expect(s, "file-a", "");
    expect(s, "file-b", NULL);
    EXPECT(store_check(s) == NULL);
    buf_deinit(&b);
    store_close(s);
}

/* ---- a folder ---- */

static bool make_folder(char path[static 64])
{
    snprintf(path, 64, "/tmp/quoth-store-XXXXXX");
    return mkdtemp(path) != NULL;
}

static void remove_folder(const char *dir)
{
    static const char *const name[] = {"quoth.db", "quoth.db-wal", "quoth.db-shm",
                                       "quoth.db-journal", "quoth.lock"};
    char path[100];
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, name[i]);
        (void)unlink(path);
    }
    (void)rmdir(dir);
}

TEST(store_in_a_folder_belongs_to_one_process)
{
    char dir[64], path[100];
    struct store *s, *other;
    struct err e = {0};
    NEED(make_folder(dir));
    NEED((s = open_in(dir, 1 << 20)));
    EXPECT_INT(put(s, "a", "1", NULL), 0);
    const struct store_options o = {.dir = dir, .bytes_max = 1 << 20};
    EXPECT_INT(store_open(&other, &o, &e), ERR_BUSY);
    EXPECT(other == NULL);
    store_close(s);
    NEED((s = open_in(dir, 1 << 20)));
    expect(s, "a", "1");
    EXPECT_INT(store_stats(s).n_record, 1);
    store_close(s);
    snprintf(path, sizeof path, "%s/quoth.db", dir);
    EXPECT_INT(file_write(path, "This is no database, but a text of some length. ........", 56, &e),
               0);
    EXPECT_INT(store_open(&other, &o, &e), ERR_FORMAT);
    remove_folder(dir);
    EXPECT_INT(file_write(dir, "x", 1, &e), 0);
    EXPECT_INT(store_open(&other, &o, &e), ERR_IO);
    (void)unlink(dir);
}

/* Put records and chunks until the process is killed. Report each acknowledged number. */
static void put_until_killed(const char *dir, int fd, int from)
{
    struct store *s;
    struct err e = {0};
    if (store_open(&s, &(struct store_options){.dir = dir, .bytes_max = 64 << 20}, &e) != 0)
        _exit(1);
    struct buf b = {0};
    buf_add_text(&b, "text");
    if (from == 0 && store_put(s, 1, "batch", &(struct store_texts){.head = &b}, &e) != 0) _exit(1);
    for (int i = from;; i++) {
        char id[24];
        snprintf(id, sizeof id, "r%d", i);
        if (store_put(s, 1, id, &(struct store_texts){.head = &b}, &e) != 0) _exit(1);
        if (store_add_chunk(s, 1, "batch", 0, i, &b, &e) != 0) _exit(1);
        if (write(fd, &i, sizeof i) != sizeof i) _exit(1);
    }
}

/* Return the size of a file of the store in `dir`; 0 if there is none. */
static int64_t file_bytes(const char *dir, const char *name)
{
    char path[700];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

/* Goal: the log is copied into the file while the store is open, steady changes do not let the log
 * grow without a limit, and no change is lost. */
TEST(store_copies_its_log_in_a_thread)
{
    enum { N = 300, BODY_BYTES = 1 << 20, LOG_BYTES_MAX = 72 << 20 };
    char dir[64], id[16];
    struct store *s;
    char *body = malloc(BODY_BYTES);
    int64_t log_max = 0;
    NEED(body);
    NEED(make_folder(dir));
    s = open_in(dir, 1ll << 30);
    NEED(s);
    memset(body, 'b', BODY_BYTES - 1);
    body[BODY_BYTES - 1] = 0;
    for (int i = 0; i < N; i++) {
        snprintf(id, sizeof id, "r%d", i);
        memcpy(body, id, strlen(id));
        EXPECT_INT(put(s, id, body, NULL), 0);
        const int64_t n = file_bytes(dir, "quoth.db-wal");
        if (n > log_max) log_max = n;
    }
    EXPECT(log_max > 0 && log_max <= LOG_BYTES_MAX);
    for (int k = 0; k < 2000 && file_bytes(dir, "quoth.db") < (N - 80) * BODY_BYTES; k++)
        usleep(10000);
    EXPECT(file_bytes(dir, "quoth.db") >= (int64_t)(N - 80) * BODY_BYTES);
    store_close(s);
    EXPECT_INT(file_bytes(dir, "quoth.db-wal"), 0);
    s = open_in(dir, 1ll << 30);
    NEED(s);
    for (int i = 0; i < N; i++) {
        snprintf(id, sizeof id, "r%d", i);
        memset(body, 'b', 8);
        memcpy(body, id, strlen(id));
        if (i % 37 == 0) expect(s, id, body);
    }
    EXPECT_INT(store_stats(s).n_record, N);
    store_close(s);
    remove_folder(dir);
    free(body);
}

/* Goal: records that were acknowledged before a kill exist after the kill, and the store is
 * valid. */
TEST(store_survives_kills)
{
    const int n_kill = test_long() ? 100 : 4;
    char dir[64];
    int next = 0;
    uint64_t rng = 9;
    NEED(make_folder(dir));
    for (int i = 0; i < n_kill; i++) {
        int pipes[2], last = next - 1, got;
        NEED(pipe(pipes) == 0);
        const pid_t pid = fork();
        if (pid == 0) put_until_killed(dir, pipes[1], next);
        close(pipes[1]);
        /* the first number comes before the kill, so each process adds a record */
        if (read(pipes[0], &got, sizeof got) == sizeof got) last = got;
        usleep((useconds_t)rng_below(&rng, 30000));
        kill(pid, SIGKILL);
        while (read(pipes[0], &got, sizeof got) == sizeof got) last = got;
        waitpid(pid, NULL, 0);
        close(pipes[0]);
        EXPECT(last >= next);
        struct store *s = open_in(dir, 64 << 20);
        NEED(s);
        EXPECT(store_check(s) == NULL);
        for (int k = 0; k <= last; k++) {
            char id[24];
            snprintf(id, sizeof id, "r%d", k);
            expect(s, id, "");
            EXPECT(store_has_chunk(s, 1, "batch", k));
        }
        /* the last record may exist without its acknowledgement */
        next = last + 1;
        while (store_has_chunk(s, 1, "batch", next)) next++;
        store_close(s);
    }
    remove_folder(dir);
}

/* Goal: a failed allocation, store or load of a model delays a batch, and never loses the batch.
 * Every line is answered once. Method: run batches on the bundled model without sockets. Some
 * allocations of all other threads fail. */
#include "batches.h"

#include "files.h"
#include "rig_test.h"

#include "base/os.h"
#include "base/rng.h"

#include "../../tests/alloc.h"

#include <sqlite3.h>
#include <unistd.h>

enum { OWNER = 7, N_LINE = 3 };
#define FILE_ID  "file-1"
#define SHORT_ID "file-2" /* a file of one line */

/* Statements of the store that fail in other threads: those that begin with `begins`, except the
 * first n_skip, n_fail times. */
static struct step_failure {
    const char *_Atomic begins; /* NULL: no statement fails */
    _Atomic int n_skip, n_fail;
} step;
static _Thread_local bool is_client;

int __real_sqlite3_step(sqlite3_stmt *q);
int __wrap_sqlite3_step(sqlite3_stmt *q);
int __wrap_sqlite3_step(sqlite3_stmt *q)
{
    const char *begins = step.begins;
    if (!begins || is_client || strncmp(sqlite3_sql(q), begins, strlen(begins)) != 0)
        return __real_sqlite3_step(q);
    if (step.n_skip-- > 0) return __real_sqlite3_step(q);
    return step.n_fail-- > 0 ? SQLITE_IOERR : __real_sqlite3_step(q);
}

/* Let n statements fail. */
static void fail_steps(const char *begins, int n_skip, int n)
{
    is_client = true;
    step.n_skip = n_skip;
    step.n_fail = n;
    step.begins = begins;
}

/* Wait until all failures have occurred. The thread of batches has a low priority, so this may take
 * seconds next to other programs. */
static void wait_failures(void)
{
    for (int i = 0; i < 60000 && step.n_fail > 0; i++) usleep(1000);
    EXPECT(step.n_fail <= 0);
    step.begins = NULL;
}

static struct store *store;
static struct models *models;
static struct server server;

/* Store a file of n requests. */
static int put_file(const char *id, int n, struct err *e)
{
    struct buf head = {0}, lines = {0};
    buf_addf(&head, "{\"id\":\"%s\",\"purpose\":\"batch\"}", id);
    for (int i = 0; i < n; i++)
        buf_addf(&lines,
                 "{\"custom_id\":\"r%d\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{"
                 "\"prompt\":\"Once\",\"max_tokens\":3}}\n",
                 i);
    int rc = store_put(store, OWNER, id, &(struct store_texts){.head = &head, .pinned = true}, e);
    if (rc == 0) rc = store_add_chunk(store, OWNER, id, 0, 0, &lines, e);
    buf_deinit(&head);
    buf_deinit(&lines);
    return rc;
}

/* A loader of the rig's model. The first n_fail loads fail for lack of memory. */
static struct loads {
    _Atomic int n, n_fail;
} loads;

static int measure_rig(void *ctx, int i, int attempt, int64_t *n_byte, struct err *e)
{
    (void)ctx, (void)i, (void)attempt, (void)e;
    *n_byte = 1;
    return 0;
}

static int load_rig(void *ctx, int i, int64_t n_byte, struct api *out, struct err *e)
{
    struct loads *l = ctx;
    (void)i;
    l->n++;
    if (l->n_fail > 0) {
        l->n_fail--;
        return err_memory(e, "the model", (uint64_t)n_byte);
    }
    *out = rig.api;
    return 0;
}

static void unload_rig(void *ctx, int i)
{
    (void)ctx, (void)i;
}

/* Open the server. on_demand: load the model if a request needs it. */
static bool open_server(bool on_demand)
{
    static const char *name = "tiny";
    static struct served_spec spec;
    struct err e = {0};
    spec = (struct served_spec){.name = &name, .n_name = 1};
    if (!rig_open_context(&rig, 256)) return false;
    int rc = store_open(&store, &(struct store_options){.bytes_max = 1 << 20}, &e);
    if (rc == 0) rc = put_file(FILE_ID, N_LINE, &e);
    if (rc == 0) rc = put_file(SHORT_ID, 1, &e);
    if (rc == 0)
        rc = models_open(&models,
                         &(struct models_options){.spec = &spec,
                                                  .n = 1,
                                                  .only = on_demand ? NULL : &rig.api,
                                                  .loader = {.measure = measure_rig,
                                                             .load = load_rig,
                                                             .unload = unload_rig,
                                                             .ctx = &loads},
                                                  .bytes_max = 1,
                                                  .idle_us = -1},
                         &e);
    server.o.store = store;
    server.models = models;
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    return rc == 0;
}

static void close_server(void)
{
    EXPECT(!store_check(store));
    models_close(models);
    store_close(store);
    rig_close(&rig);
}

/* Store a new batch of a file. */
static void put_batch(const char *id, const char *file)
{
    struct err e = {0};
    struct batch_state b = {.owner = OWNER, .expires_at = time_wall_us() / 1000000 + 3600};
    snprintf(b.id, sizeof b.id, "%s", id);
    snprintf(b.input, sizeof b.input, "%s", file);
    snprintf(b.window, sizeof b.window, "1h");
    NEED_OK(batch_store(&b, store, true, &e), &e);
    batch_deinit(&b);
}

/* Wait for the end of a batch. Return its final state in *b, which the caller frees. */
static void wait_end(struct batch_state *b, const char *id)
{
    struct err e = {0};
    for (int i = 0; i < 60000; i++) {
        NEED_OK(batch_load(b, store, OWNER, id, &e), &e);
        if (batch_ended(b)) return;
        batch_deinit(b);
        usleep(1000);
    }
    test_fail(__FILE__, __LINE__, "%s has not ended", id);
}

TEST(batch_run_survives_failed_allocations)
{
    struct batch_runner *r;
    struct err e = {0};
    uint64_t rng = 5;
    int n_completed = 0, n_failed = 0;
    const int n_case = test_long() ? 2000 : 60;
    NEED(open_server(false));
    NEED_OK(batches_open(&r, &server, &e), &e);
    alloc_spare(true);
    for (int i = 0; i < n_case; i++) {
        char id[STORE_ID_BYTES];
        struct batch_state b;
        snprintf(id, sizeof id, BATCH_PREFIX "%d", i);
        put_batch(id, FILE_ID);
        /* a step has more attempts than there are failures */
        alloc_fail(rng_below(&rng, 1000), 1 + rng_below(&rng, 3));
        batches_add(r, OWNER, id);
        wait_end(&b, id);
        alloc_fail_end();
        n_completed += b.status == BATCH_completed;
        n_failed += b.status == BATCH_failed;
        if (b.status != BATCH_completed || b.n[BATCH_OK] != N_LINE)
            test_fail(__FILE__, __LINE__, "case %d: status %d, %d answers: %s", i, (int)b.status,
                      (int)b.n[BATCH_OK], b.errors.data ? b.errors.data : "");
        if (b.output[0]) (void)store_delete(store, OWNER, b.output, &e);
        if (b.error[0]) (void)store_delete(store, OWNER, b.error, &e);
        (void)store_delete(store, OWNER, id, &e);
        batch_deinit(&b);
    }
    alloc_spare(false);
    test_note("%d batches completed, %d failed", n_completed, n_failed);
    batches_close(r);
    close_server();
}

/* Answer a batch of one line whose model fails to load n_fail times. Return true if the line has an
 * answer of the model. */
static bool answered(struct batch_runner *r, const char *id, int n_fail)
{
    struct batch_state b;
    loads.n = 0;
    loads.n_fail = n_fail;
    put_batch(id, SHORT_ID);
    batches_add(r, OWNER, id);
    wait_end(&b, id);
    EXPECT_INT(b.status, BATCH_completed);
    EXPECT_INT(b.n[BATCH_OK] + b.n[BATCH_ERROR], 1);
    const bool ok = b.n[BATCH_OK] == 1;
    batch_deinit(&b);
    return ok;
}

TEST(batch_run_loads_a_model_again_a_limited_number_of_times)
{
    enum { TRIES_MAX = 20 };
    struct batch_runner *r;
    struct err e = {0};
    NEED(open_server(true));
    NEED_OK(batches_open(&r, &server, &e), &e);
    EXPECT(!answered(r, BATCH_PREFIX "1", 1000));
    EXPECT_INT(loads.n, TRIES_MAX);
    EXPECT(answered(r, BATCH_PREFIX "2", 2));
    EXPECT_INT(loads.n, 3);
    batches_close(r);
    close_server();
}

TEST(batch_run_waits_while_the_models_sleep)
{
    struct batch_runner *r;
    struct batch_state b;
    struct err e = {0};
    loads.n = loads.n_fail = 0;
    NEED(open_server(true));
    NEED_OK(batches_open(&r, &server, &e), &e);
    NEED_OK(models_sleep(models, true, &e), &e);
    put_batch(BATCH_PREFIX "1", SHORT_ID);
    batches_add(r, OWNER, BATCH_PREFIX "1");
    usleep(300000);
    NEED_OK(batch_load(&b, store, OWNER, BATCH_PREFIX "1", &e), &e);
    EXPECT_INT(b.status, BATCH_in_progress);
    EXPECT_INT(loads.n, 0);
    batch_deinit(&b);
    NEED_OK(models_sleep(models, false, &e), &e);
    wait_end(&b, BATCH_PREFIX "1");
    EXPECT_INT(b.n[BATCH_OK], 1);
    batch_deinit(&b);
    batches_close(r);
    close_server();
}

TEST(batch_run_keeps_a_batch_that_the_store_cannot_read)
{
    struct batch_runner *r;
    struct batch_state b;
    struct err e = {0};
    NEED(open_server(false));
    NEED_OK(batches_open(&r, &server, &e), &e);
    EXPECT(answered(r, BATCH_PREFIX "0", 0)); /* the first scan of the store is over */
    put_batch(BATCH_PREFIX "1", SHORT_ID);
    fail_steps("", 0, 1);
    batches_add(r, OWNER, BATCH_PREFIX "1");
    wait_failures();
    batches_wake(r); /* do not wait for the next attempt */
    wait_end(&b, BATCH_PREFIX "1");
    EXPECT_INT(b.n[BATCH_OK], 1);
    batch_deinit(&b);
    batches_close(r);
    close_server();
}

TEST(batch_run_stores_the_final_state_again)
{
    struct batch_runner *r;
    struct batch_state b;
    struct err e = {0};
    NEED(open_server(false));
    NEED_OK(batches_open(&r, &server, &e), &e);
    put_batch(BATCH_PREFIX "1", SHORT_ID);
    /* after the begin of the batch, both forms of the final state fail */
    fail_steps("UPDATE record SET n_byte = ?2, version", 1, 2);
    batches_add(r, OWNER, BATCH_PREFIX "1");
    wait_failures();
    usleep(100000);
    NEED_OK(batch_load(&b, store, OWNER, BATCH_PREFIX "1", &e), &e);
    EXPECT_INT(b.status, BATCH_in_progress);
    batch_deinit(&b);
    batches_wake(r);
    wait_end(&b, BATCH_PREFIX "1");
    EXPECT_INT(b.status, BATCH_failed);
    EXPECT_INT(b.n[BATCH_OK], 1);
    batch_deinit(&b);
    batches_close(r);
    close_server();
}

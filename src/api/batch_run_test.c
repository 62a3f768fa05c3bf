/* Goal: a failed allocation delays a batch, and never loses the batch. Every line is answered once.
 * Method: run batches on the bundled model without sockets. Some allocations of all other threads
 * fail. */
#include "batches.h"

#include "files.h"
#include "rig_test.h"

#include "base/os.h"
#include "base/rng.h"

#include "../../tests/alloc.h"

#include <unistd.h>

enum { OWNER = 7, N_LINE = 3 };
#define FILE_ID "file-1"

static struct store *store;
static struct models *models;
static struct server server;

/* Store a file of N_LINE requests. */
static int put_file(struct err *e)
{
    struct buf head = {0}, lines = {0};
    buf_addf(&head, "{\"id\":\"%s\",\"purpose\":\"batch\"}", FILE_ID);
    for (int i = 0; i < N_LINE; i++)
        buf_addf(&lines,
                 "{\"custom_id\":\"r%d\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{"
                 "\"prompt\":\"Once\",\"max_tokens\":3}}\n",
                 i);
    int rc =
        store_put(store, OWNER, FILE_ID, &(struct store_texts){.head = &head, .pinned = true}, e);
    if (rc == 0) rc = store_add_chunk(store, OWNER, FILE_ID, 0, 0, &lines, e);
    buf_deinit(&head);
    buf_deinit(&lines);
    return rc;
}

static bool open_server(void)
{
    static const char *name = "tiny";
    static struct served_spec spec;
    struct err e = {0};
    spec = (struct served_spec){.name = &name, .n_name = 1};
    if (!rig_open_context(&rig, 256)) return false;
    int rc = store_open(&store, &(struct store_options){.bytes_max = 1 << 20}, &e);
    if (rc == 0) rc = put_file(&e);
    if (rc == 0)
        rc = models_open(
            &models,
            &(struct models_options){.spec = &spec, .n = 1, .only = &rig.api, .idle_us = -1}, &e);
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

/* Store a new batch of the file. */
static void put_batch(const char *id)
{
    struct err e = {0};
    struct batch_state b = {.owner = OWNER, .expires_at = time_wall_us() / 1000000 + 3600};
    snprintf(b.id, sizeof b.id, "%s", id);
    snprintf(b.input, sizeof b.input, FILE_ID);
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
    NEED(open_server());
    NEED_OK(batches_open(&r, &server, &e), &e);
    alloc_spare(true);
    for (int i = 0; i < n_case; i++) {
        char id[STORE_ID_BYTES];
        struct batch_state b;
        snprintf(id, sizeof id, BATCH_PREFIX "%d", i);
        put_batch(id);
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
        batch_deinit(&b);
        (void)store_delete(store, OWNER, id, &e);
    }
    alloc_spare(false);
    test_note("%d batches completed, %d failed", n_completed, n_failed);
    batches_close(r);
    close_server();
}

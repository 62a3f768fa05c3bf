/* Goal: a failed allocation in a job of the hub is an error or a disconnect. A stream has all lines
 * if its last line is "success". Method: a server with one route runs a job that writes lines. Each
 * allocation of a request fails once, alone and with all later allocations. */
#include "hub_jobs.h"
#include "ollama.h"

#include "../../tests/alloc.h"
#include "../../tests/memory/host.h"
#include "../../tests/unit.h"

#include "base/log.h"

#include <stdlib.h>

static struct hub_jobs *jobs;

static int write_lines(struct hub_job *j, struct err *e)
{
    (void)e;
    ollama_status(j, "one");
    ollama_status(j, "two");
    ollama_status(j, "three");
    return 0;
}

static void handle(struct exchange *x, void *stream)
{
    struct err e = {0};
    struct hub_job *j = ollama_job(write_lines, &e);
    if (!j) {
        server_fail(x, ERR_MEMORY, &e);
        return;
    }
    j->stream = *(const bool *)stream;
    hub_jobs_start(jobs, x, j);
}

static bool is_same(const struct response *a, const struct response *b)
{
    return a->status == b->status && a->text.n == b->text.n &&
           memcmp(a->text.data, b->text.data, a->text.n) == 0;
}

/* Let allocations [n, n + count) fail in a request, for each n. */
static void sweep(const struct host *h, uint64_t count)
{
    static const struct request_case q = {"job", "POST", "/job", "{}"};
    struct response want = {0}, got = {0};
    int n_same = 0, n_other = 0;
    host_post(h, &q, &want);
    host_post(h, &q, &want);
    EXPECT_INT(want.status, 200);
    NEED(want.text.data);
    bool hit = true; /* an allocation failed */
    for (uint64_t n = 0; hit; n++) {
        alloc_fail(n, count);
        host_post(h, &q, &got);
        hit = alloc_fail_end() > n;
        const bool same = is_same(&got, &want);
        n_same += same;
        n_other += !same;
        if (!same && got.status != -1 && got.status != 500 && got.status != 503)
            test_fail(__FILE__, __LINE__, "allocation %d: status %d: %s", (int)n, got.status,
                      got.text.data ? got.text.data : "");
        host_post(h, &q, &got);
        EXPECT(is_same(&got, &want));
    }
    test_note("%d the same, %d errors or cut off", n_same, n_other);
    EXPECT(n_other > 0);
    buf_deinit(&want.text);
    buf_deinit(&got.text);
}

static int measure(void *ctx, int i, int attempt, int64_t *n_byte, struct err *e)
{
    (void)ctx, (void)i, (void)attempt, (void)n_byte;
    return err_set(e, ERR_MISSING, "no model");
}

TEST(hub_jobs_survive_failed_allocations)
{
    bool stream = true;
    struct err e = {0};
    const struct net_route route = {"POST", "/job", handle, ROUTE_OPEN, &ollama_errors.net};
    struct server s = {.models = NULL};
    struct host h = {.server = &s};
    setenv("HF_HUB_CACHE", temp_path("hub"), 1);
    setenv("OLLAMA_MODELS", temp_path("ollama"), 1);
    log_silent = true; /* each failed list of the models is a warning */
    alloc_spare(true);
    NEED_OK(
        models_open(&h.models,
                    &(struct models_options){
                        .n_max = 1, .loader = {.measure = measure}, .bytes_max = 1, .idle_us = -1},
                    &e),
        &e);
    NEED_OK(hub_jobs_open(&jobs, h.models, &e), &e);
    NEED_OK(net_open(&s.net,
                     &(struct net_options){
                         .route = &route, .n_route = 1, .ctx = &stream, .n_handler = 1},
                     &e),
            &e);
    for (int i = 0; i < 2; i++, stream = !stream) {
        sweep(&h, 1);
        sweep(&h, ALLOC_ALL);
    }
    EXPECT(host_idle(&h));
    hub_jobs_stop(jobs);
    net_close(s.net);
    hub_jobs_close(jobs);
    models_close(h.models);
    alloc_spare(false);
    log_silent = false;
}

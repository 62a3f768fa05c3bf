/* export.c - the exporter thread: it takes batches of spans from the queue and posts each to the
 * collector, as OTLP over HTTP in protobuf.
 *
 *   queue --take--> BATCH --post--> 2xx: sent
 *                     ^       '--> no answer, 429, 502, 503, 504: wait, at most until export_ms
 *                     |       |                      |             '--> dropped
 *                     |       |                      '--> post again
 *                     '-------'--> another status: dropped
 *
 * A wait is Retry-After, or 1 s, 2 s, 4 s and so on, of which half is random. Clients of a
 * collector therefore do not return together. During the waits the queue fills, and span_end drops
 * further spans. After span_queue_stop each batch has one request, until stop_us. */
#include "telemetry_impl.h"

#include "base/log.h"
#include "base/os.h"
#include "base/rng.h"
#include "fetch/fetch.h"

#include <quoth.h>
#include <stdio.h>
#include <string.h>

/* POLL_US: time after which a request in flight checks for the end of the exporter. BODY_MAX:
 * maximum length of an answer; its content is not used. */
enum { POLL_US = 200 * 1000, FIRST_WAIT_US = 1000 * 1000, WAIT_MAX_US = 16 * 1000 * 1000 };
enum { BODY_MAX = 64 << 10 };

/* What the client's callbacks report about one post. The status decides whether the
 * post is repeated. */
struct outcome {
    bool done;
    int status; /* status of the answer; 0 if none */
    int64_t retry_after_s;
    size_t n_body;
    char error[200]; /* reason of a failure; "" if there is a complete answer */
};

/* Count the bytes of an answer. A longer answer than BODY_MAX fails the request. */
static bool on_body(void *ctx, int status, const char *data, size_t n)
{
    struct outcome *r = ctx;
    (void)status, (void)data;
    r->n_body += n;
    return r->n_body <= BODY_MAX;
}

static void on_done(void *ctx, const struct fetch_result *result)
{
    struct outcome *r = ctx;
    r->done = true;
    r->status = result->status;
    r->retry_after_s = result->retry_after_s;
    if (result->error) snprintf(r->error, sizeof r->error, "%s", result->error);
}

/* Return true if the collector accepted the spans. Only the status counts, because a collector may
 * lose the connection after it has the spans. */
static bool is_sent(const struct outcome *r)
{
    return r->status >= 200 && r->status < 300;
}

/* Return true for the failures that OTLP's specification calls temporary. */
static bool is_temporary(const struct outcome *r)
{
    return r->status == 0 || r->status == 429 || r->status == 502 || r->status == 503 ||
           r->status == 504;
}

/* Post a body once. The request ends at until_us, or with the exporter. The end of the exporter
 * closes the client, so no further request begins. */
static void post(struct telemetry *t, const struct buf *body, int64_t until_us, struct outcome *r)
{
    const int64_t begin_us = time_us(), left_ms = (until_us - begin_us) / 1000;
    struct err e = {0};
    const struct fetch_request request = {
        .url = t->o.url,
        .header = (const char *const *)t->o.header.v,
        .n_header = t->o.header.n,
        .body = body->data,
        .n_body = body->n,
        .type = "application/x-protobuf",
        .total_ms = left_ms < 1                 ? 1
                    : left_ms < t->o.timeout_ms ? left_ms
                                                : t->o.timeout_ms,
        .ctx = r,
        .on_body = on_body,
        .on_done = on_done,
    };
    *r = (struct outcome){0};
    if (!t->fetch || fetch_start(t->fetch, &request, &e) != 0) {
        snprintf(r->error, sizeof r->error, "%.190s", e.text);
        return;
    }
    while (!r->done) {
        const int64_t stop_us = span_queue_stop_us(&t->queue), now = time_us();
        if (stop_us && now >= stop_us) break;
        fetch_wait(t->fetch, stop_us && stop_us < now + POLL_US ? stop_us : now + POLL_US);
    }
    if (r->done) return;
    fetch_close(t->fetch); /* the request in flight borrows r and the body */
    t->fetch = NULL;
    snprintf(r->error, sizeof r->error, "the server ends");
}

/* Log the first failure after a success, and the first success after a failure. */
static void report(struct telemetry *t, const struct outcome *r)
{
    char status[40];
    const bool sent = is_sent(r);
    snprintf(status, sizeof status, "status %d", r->status);
    if (!sent && !t->fails)
        log_warn("the collector of traces does not accept spans: %s; /metrics counts them",
                 r->status ? status : r->error);
    if (sent && t->fails) log_info("the collector of traces accepts spans again");
    t->fails = !sent;
}

/* Return the wait before request number i + 1, at least half of its nominal time. */
static int64_t wait_us(const struct outcome *r, int i)
{
    uint64_t state = os_random();
    const int64_t doubled = i < 4 ? (int64_t)FIRST_WAIT_US << i : WAIT_MAX_US;
    if (r->retry_after_s > 0) return r->retry_after_s * 1000 * 1000;
    return doubled / 2 + (int64_t)(rng_next(&state) % (uint64_t)(doubled / 2));
}

/* Post a batch until the collector accepts it. Return false if it is dropped. */
static bool send_batch(struct telemetry *t, const struct buf *body)
{
    const int64_t end_us = time_us() + 1000 * t->o.export_ms;
    for (int i = 0;; i++) {
        struct outcome r;
        const int64_t stop_us = span_queue_stop_us(&t->queue);
        const bool stops = stop_us != 0;
        post(t, body, stops && stop_us < end_us ? stop_us : end_us, &r);
        report(t, &r);
        if (is_sent(&r)) return true;
        atomic_fetch_add(&t->n_failed, 1);
        const int64_t wait = wait_us(&r, i);
        if (stops || !is_temporary(&r) || wait > end_us - time_us()) return false;
        span_queue_rest(&t->queue, wait);
    }
}

void *exporter_run(void *telemetry)
{
    struct telemetry *t = telemetry;
    const size_t n_max = (size_t)t->o.batch_max;
    size_t n;
    os_thread_background();
    while ((n = span_queue_take(&t->queue, t->batch, n_max, 1000 * t->o.delay_ms)) > 0) {
        const int64_t stop_us = span_queue_stop_us(&t->queue);
        struct buf body = {0};
        put_export(&body, &t->o.resource, QUOTH_VERSION, t->batch, n);
        for (size_t i = 0; i < n; i++) buf_deinit(&t->batch[i]);
        const bool in_time = !stop_us || time_us() < stop_us;
        const bool sent = in_time && !body.failed && send_batch(t, &body);
        atomic_fetch_add(sent ? &t->n_sent : &t->n_dropped, (int64_t)n);
        buf_deinit(&body);
    }
    return NULL;
}

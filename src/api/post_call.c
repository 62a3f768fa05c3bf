/* post_call.c - POST to a path of dialects.def. A body becomes requests of the engine. The engine's
 * events become the answer, whole or in pieces.
 *
 *   OPEN --submitted--> RUNNING --every event has arrived--> answered, freed
 *     \__rejected___________  \__client disconnected, server stops, or failed: cancelled__/
 *
 * A call in the background (`background` of the Responses API) leaves its exchange after its
 * submission (responses_background.c).
 *
 * The engine's events ring a bell, which wakes the exchange. `advance` then reads the events.
 * The events of a client that does not read its stream remain in the queue. The engine then
 * computes no rows for its sequence. A call is freed after the engine's last event, so no thread of
 * the server waits for the engine. A handler thread writes long whole answers, so that other
 * streams continue during this time. */
#include "server_impl.h"

#include "responses_background.h"

#include "base/hash.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* maximum size of a whole answer that the stream thread writes, which takes some
     * milliseconds */
    ANSWER_BYTES_MAX = 4096,
};

struct posted {
    const struct server *server; /* borrowed */
    struct exchange *x;          /* borrowed */
    struct api_call *call;       /* call of the body, owned */
    struct queue *bell;          /* queue that receives a byte for each event, owned */
    bool cancelled, streaming;
    bool has_error; /* true if the stream has the error */
    /* code of a failed submission after earlier requests, reported after their end */
    int rc;
    struct err e;
};

/* Free a call, which may be half-open. */
static void posted_close(struct posted *p)
{
    api_call_close(p->call);
    queue_close(p->bell);
    free(p);
}

/* Wake the exchange (queue_listen). The engine's thread calls this function, so it must be
 * short. */
static void wake(void *x, const void *byte)
{
    (void)byte;
    exchange_wake(x);
}

/* Cancel the call once. `advance` frees the call after the call's last event. */
static void cancel(struct posted *p)
{
    if (!p->cancelled) api_call_cancel(p->call);
    p->cancelled = true;
}

/* Send an error in the stream, once. */
static void put_stream_error(struct posted *p)
{
    struct buf b = {0};
    if (p->has_error) return;
    call_put_error(p->call, &b, p->rc, &p->e);
    if (!b.failed) exchange_push(p->x, b.data, b.n);
    exchange_set_status(p->x, api_status(p->rc));
    buf_deinit(&b);
    p->has_error = true;
}

/* Answer a complete call if the client is still connected. Free the call and its memory. */
static void finish_call(struct posted *p)
{
    struct exchange *x = p->x;
    struct buf b = {0};
    const bool gone = exchange_disconnected(x), whole = !p->streaming && !gone;
    if (whole && p->rc == 0) p->rc = api_call_put(p->call, &b, &p->e);
    p->call->status = gone ? CLIENT_CLOSED : p->rc ? api_status(p->rc) : 0;
    if (p->streaming && p->rc != 0 && !gone) put_stream_error(p);
    if (!whole) {
        exchange_end(x);
    } else {
        orca_put(x, p->server);
        if (p->rc == 0)
            server_reply(x, &b);
        else
            server_fail(x, p->rc, &p->e);
    }
    buf_deinit(&b);
    posted_close(p);
}

/* Send the unsent part of the answer, which is the last part if `done` is true. Send the prepared
 * error if memory runs out, because a client could not detect a gap. */
static void put_pieces(struct posted *p, bool done)
{
    const struct dialect *d = p->call->dialect;
    struct buf b = {0};
    api_call_stream(p->call, &b);
    if (b.failed) {
        char own[NO_MEMORY_BYTES];
        const char *last = d->write_no_memory ? own : d->no_memory;
        if (d->write_no_memory) d->write_no_memory(p->call, own);
        exchange_push(p->x, last, strlen(last));
        cancel(p);
    } else if (b.n) {
        (done ? exchange_push_last : exchange_push)(p->x, b.data, b.n);
    }
    buf_deinit(&b);
}

/* Send the status of a stream together with its first piece, because a queued request may still be
 * rejected. The status is sent alone after some seconds (early.c). */
static void begin_stream(struct posted *p, bool done)
{
    const int ping_s = p->call->ping_s;
    if (p->streaming || p->cancelled || !api_call_streams(p->call)) return;
    const bool has_output = api_call_has_output(p->call),
               late = !done && early_is_due(p->server, p->x, ping_s);
    if (!late && !has_output) return;
    early_begin(p->server, p->x, p->call->dialect, ping_s, !has_output);
    p->streaming = true;
}

/* End an answer with an error because the server stops. The error is in the stream if the stream
 * has begun. */
static void end_stopped(struct posted *p)
{
    p->rc =
        err_set(&p->e, ERR_UNAVAILABLE, "the server is shutting down: the answer is incomplete");
    cancel(p);
    if (p->streaming) put_stream_error(p);
}

/* Continue the call (net_wake). The bell is emptied before the events are read, so the engine
 * signals later events. The events of a stream stay in the queue if its ring is full, until the
 * ring wakes the exchange. */
static void advance(struct exchange *x, void *posted)
{
    struct posted *p = posted;
    char byte;
    if (exchange_disconnected(x)) cancel(p);
    if (exchange_cut(x) && !p->cancelled) end_stopped(p);
    (void)queue_pop(p->bell, &byte, 0);
    if (p->streaming && !exchange_room(x)) return;
    bool done = api_call_poll(p->call);
    begin_stream(p, done);
    if (p->streaming && !p->cancelled) put_pieces(p, done);
    if (!done) return;
    bool moves = !p->streaming && api_call_size(p->call) > ANSWER_BYTES_MAX && exchange_move(x);
    if (!moves) finish_call(p);
}

/* Set the holder. All requests of a key, or of an address if there are no keys, have one holder.
 * The salt of cached prefixes is made from the key's secret if keys have separate caches. A salt
 * made from a key's name would be insecure, because a client could guess the name. */
static void set_holder(const struct server *s, struct api_call *c, const struct exchange *x)
{
    const struct net_key *key = exchange_key(x);
    uint64_t salt =
        key && s->o.separate_caches ? hash_bytes(key->secret, strlen(key->secret), 1) : 0;
    api_call_set_holder(c, exchange_holder(x), exchange_holder_weight(x), salt);
}

/* Read the body into a call, which owns the reference to its model. Set the call's data from the
 * connection. */
static int open_call(struct posted *p, const struct server *s, const struct api *take_api,
                     const struct json *body, struct err *e)
{
    p->bell = queue_open(1, 1);
    if (!p->bell) {
        served_drop(take_api);
        return err_memory(e, "a queue", 1);
    }
    queue_listen(p->bell, wake, p->x);
    const struct net_key *key = exchange_key(p->x);
    const struct dialect *dialect = dialect_of(exchange_path(p->x), body);
    if (!dialect) {
        served_drop(take_api);
        return err_set(e, ERR_MISSING, "endpoint \"%.100s\" not found", exchange_path(p->x));
    }
    const struct call_origin from = {.holder = exchange_holder(p->x),
                                     .owner = server_owner(p->x),
                                     .arrival_us = exchange_arrival_us(p->x),
                                     .keeps_model = !key || key->admin};
    int rc = call_open(&p->call, take_api, dialect, body, from, p->bell, e);
    if (rc == 0)
        p->call->holds = true;
    else
        served_drop(take_api);
    if (rc == 0) set_holder(s, p->call, p->x);
    if (rc == 0) api_call_name(p->call, exchange_id(p->x));
    if (rc == 0 && api_call_streams(p->call)) early_wait(s, p->x, p->call->ping_s);
    /* a body whose stream began during the load has a call that streams (dialect.streams) */
    if (rc == 0 && p->streaming && !api_call_streams(p->call))
        rc = err_field(e, ERR_UNSUPPORTED, "stream", ": must not change the form of the answer");
    return rc;
}

/* Submit the call. exchange_keep precedes the submission, because events may arrive before the
 * handler returns. */
static void run(struct posted *p)
{
    exchange_keep(p->x, advance, p);
    p->rc = api_call_submit(p->call, &p->e);
    if (p->rc != 0) {
        cancel(p);
        exchange_wake(p->x); /* no event arrives if no request was submitted */
    }
}

/* Count the time before this handler, which began at begin_us. */
static void count_early(const struct api *a, const struct exchange *x, int64_t begin_us)
{
    struct stats *st = engine_stats(a->session->engine);
    stats_time(st, TIMES_body, exchange_arrival_us(x) - exchange_start_us(x));
    stats_time(st, TIMES_handler, begin_us - exchange_arrival_us(x));
}

/* Submit a call in the background, and answer with the response's events or present state. */
static int run_in_background(struct posted *p, struct err *e)
{
    struct api_call *call = p->call;
    struct exchange *x = p->x;
    const bool streams = api_call_streams(call);
    const struct dialect *dialect = call->dialect;
    const int ping_s = call->ping_s;
    struct job *job;
    p->call = NULL;
    int rc = jobs_start(p->server->jobs, call, &job, e);
    if (rc != 0) return rc;
    if (streams) {
        if (!exchange_begun(x)) early_begin(p->server, x, dialect, ping_s, false);
        server_read_job(x, job, true, -1);
    } else {
        struct buf b = {0};
        orca_put(x, p->server);
        (void)job_response(job, &b);
        job_drop(job);
        server_reply(x, &b);
    }
    posted_close(p);
    return 0;
}

struct span *server_begin_span(const struct server *s, struct exchange *x)
{
    char text[TRACE_PARENT_BYTES];
    struct span *span = wait_detach_span(x);
    if (span) return span;
    span = span_begin(s->o.telemetry, exchange_only_header(x, "traceparent"),
                      exchange_only_header(x, "tracestate"), exchange_arrival_us(x));
    if (!span) return NULL;
    span_parent_put(span, text);
    exchange_add_header(x, "traceparent", text);
    span_put_text(span, "url.path", exchange_path(x));
    span_put_text(span, "quoth.request_id", exchange_id(x));
    return span;
}

/* Open the call of a body, and run it. *span is NULL after the call has taken it. */
static int post_body(const struct server *s, struct exchange *x, const struct api *take_api,
                     struct json *take_body, struct span **span, struct err *e)
{
    struct posted *p = calloc(1, sizeof *p);
    if (!p) {
        served_drop(take_api);
        json_drop(take_body);
        return err_memory(e, "a request", sizeof *p);
    }
    *p = (struct posted){.server = s, .x = x, .streaming = exchange_begun(x)};
    int rc = open_call(p, s, take_api, take_body, e);
    json_drop(take_body); /* it is much larger than the call */
    if (rc != 0) {
        posted_close(p);
        return rc;
    }
    call_take_span(p->call, *span);
    *span = NULL;
    if (!p->call->background) {
        run(p);
        return 0;
    }
    rc = run_in_background(p, e);
    if (rc != 0) posted_close(p);
    return rc;
}

void post_call(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct err e = {0};
    const int64_t begin_us = time_us();
    const struct api *api = NULL;
    struct json *body;
    int rc = server_read(s, x, &body, &api, &e);
    if (rc == 0 && !body) return; /* the handler runs again after the model's load */
    struct span *span = server_begin_span(s, x);
    if (rc == 0) {
        count_early(api, x, begin_us);
        rc = post_body(s, x, api, body, &span, &e);
    }
    if (rc == 0) return;
    orca_put(x, s);
    server_fail(x, rc, &e);
    span_end_status(span, api_status(rc));
}

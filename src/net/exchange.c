/* exchange.c - an exchange as handlers see it: the request to read, the answer to write, and waking
 * up again. What is written here goes to the loop thread through `out` (the head, and a whole
 * answer's body), which is its own from STAGE_BEGUN on, and the ring.
 *
 * One thread at a time runs a handler or its callback:
 *
 *            exchange_wake             the callback begins
 *   IDLE ------------------> QUEUED ----------------------> RUN --exchange_wake--> RUN_AGAIN
 *     ^                         ^                            |                        |
 *     +-------------------------|----- the callback ends ----+                        |
 *                               +-------------------------------- the callback ends --+
 *
 * The first run is the route's handler, on a handler thread; the others are on the stream thread, or, from exchange_move on,
 * on handler threads again. */
#include "net_impl.h"

#include "base/date.h"
#include "base/json.h"
#include "base/os.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Frames that the client has not taken: from here on a producer is asked to wait. */
enum { ROOM_BYTES = RING_BYTES / 2 };

/* ---- life ---- */

struct exchange *exchange_new(struct net *n)
{
    struct exchange *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    x->net = n;
    x->n_ref = 2; /* the loop, and the side that answers */
    x->task = TASK_RUN;
    x->start_us = time_us();
    atomic_fetch_add(&n->n_exchange, 1);
    return x;
}

void exchange_ref(struct exchange *x)
{
    atomic_fetch_add(&x->n_ref, 1);
}

void exchange_drop(struct exchange *x)
{
    struct net *n = x->net;
    if (atomic_fetch_sub(&x->n_ref, 1) > 1) return;
    atomic_fetch_sub(&n->n_body_held, x->body.n);
    head_deinit(&x->head);
    buf_deinit(&x->body);
    buf_deinit(&x->header);
    buf_deinit(&x->out);
    buf_deinit(&x->spill);
    ring_close(&x->ring);
    free(x->param);
    free(x);
    if (atomic_fetch_sub(&n->n_exchange, 1) == 1 && atomic_load(&n->draining)) net_ring(n);
}

/* Tell the loop that there is something to write. It keeps a reference until it has looked. */
static void ring_loop(struct exchange *x)
{
    if (atomic_exchange(&x->in_inbox, true)) return;
    exchange_ref(x);
    queue_push(x->net->inbox, &x); /* has room for every exchange */
    net_ring(x->net);
}

/* ---- the request ---- */

const char *exchange_method(const struct exchange *x)
{
    return x->head.method;
}

const char *exchange_path(const struct exchange *x)
{
    return x->head.path;
}

const char *exchange_param(const struct exchange *x)
{
    return x->param;
}

bool exchange_query(const struct exchange *x, const char *name, struct buf *out)
{
    return query_value(x->head.query, name, out);
}

const char *exchange_header(const struct exchange *x, const char *name)
{
    char lower[64];
    size_t n = strlen(name);
    if (n >= sizeof lower) return NULL;
    for (size_t i = 0; i <= n; i++)
        lower[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] | 32) : name[i];
    return head_header(&x->head, lower);
}

const char *exchange_body(const struct exchange *x, size_t *n)
{
    *n = x->body.n;
    return x->body.n ? x->body.data : "";
}

const char *exchange_peer(const struct exchange *x)
{
    return x->peer;
}

const char *exchange_id(const struct exchange *x)
{
    return x->id;
}

const struct net_key *exchange_key(const struct exchange *x)
{
    return x->key;
}

/* ---- the head of an answer ---- */

static const char *reason_of(int status)
{
    static const struct {
        int status;
        const char *text;
    } reason[] = {
        {200, "OK"},
        {204, "No Content"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {413, "Content Too Large"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
    };
    for (size_t i = 0; i < sizeof reason / sizeof *reason; i++)
        if (reason[i].status == status) return reason[i].text;
    return "Other";
}

void exchange_add_header(struct exchange *x, const char *name, const char *value)
{
    buf_addf(&x->header, "%s: ", name);
    for (; *value; value++)
        if ((unsigned char)*value >= ' ' && *value != 127) buf_add_char(&x->header, *value);
    buf_add_text(&x->header, "\r\n");
}

/* Everything up to the body. n_body < 0: its end is told by chunks, or by the connection's end. */
static void put_head(struct exchange *x, int status, const char *type, int64_t n_body)
{
    struct buf *b = &x->out;
    bool stream = n_body < 0;
    x->status = status;
    x->chunked = stream && x->head.minor == 1;
    x->said_close = x->close || (stream && !x->chunked) || atomic_load(&x->net->draining);
    buf_addf(b, "HTTP/1.1 %d %s\r\n", status, reason_of(status));
    buf_add_text(b, "Date: ");
    date_put_http(b, time_wall_us());
    buf_add_text(b, "\r\n");
    if (x->id[0]) buf_addf(b, "X-Request-Id: %s\r\n", x->id);
    if (type) buf_addf(b, "Content-Type: %s\r\n", type);
    if (x->header.n) buf_add(b, x->header.data, x->header.n);
    if (x->chunked) buf_add_text(b, "Transfer-Encoding: chunked\r\n");
    if (!stream && status != 204) buf_addf(b, "Content-Length: %lld\r\n", (long long)n_body);
    if (x->said_close)
        buf_add_text(b, "Connection: close\r\n");
    else if (x->head.minor == 0)
        buf_add_text(b, "Connection: keep-alive\r\n");
    buf_add_text(b, "\r\n");
}

static bool wants_body(const struct exchange *x)
{
    return !x->head.method || strcmp(x->head.method, "HEAD") != 0;
}

/* The handler's side has done with it. */
static void finish(struct exchange *x)
{
    x->over = true;
    if (x->out.failed || x->spill.failed) x->said_close = true; /* cut off: memory ran out */
    atomic_store(&x->stage, STAGE_COMPLETE);
    ring_loop(x);
    exchange_drop(x);
}

/* ---- whole answers ---- */

void exchange_reply(struct exchange *x, int status, const char *type, const void *body, size_t n)
{
    put_head(x, status, type, (int64_t)n);
    if (wants_body(x)) buf_add(&x->out, body, n);
    finish(x);
}

static const char *type_of(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    case 503:
        return "service_unavailable_error";
    }
    return status >= 500 ? "server_error" : "invalid_request_error";
}

static const char *code_of(int status)
{
    switch (status) {
    case 401:
        return "invalid_api_key";
    case 404:
        return "not_found";
    case 405:
        return "method_not_allowed";
    case 408:
        return "request_timeout";
    case 413:
        return "request_too_large";
    case 429:
        return "rate_limit_exceeded";
    case 431:
        return "headers_too_large";
    case 503:
        return "overloaded";
    }
    return NULL;
}

static void put_field(struct buf *out, const char *name, const char *text)
{
    buf_addf(out, ",\"%s\":", name);
    if (text)
        json_put_text(out, text, strlen(text));
    else
        buf_add_text(out, "null");
}

void net_error_put(struct buf *out, const struct net_error *how, const char *text)
{
    buf_add_text(out, "{\"error\":{\"message\":");
    json_put_text(out, text, strlen(text));
    put_field(out, "type", how->type ? how->type : type_of(how->status));
    put_field(out, "param", how->param);
    put_field(out, "code", how->code ? how->code : code_of(how->status));
    buf_add_text(out, "}}");
}

void exchange_error(struct exchange *x, const struct net_error *how, const char *fmt, ...)
{
    char text[1024], seconds[16];
    struct buf body = {0};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    net_error_put(&body, how, text);
    if (how->retry_after) {
        snprintf(seconds, sizeof seconds, "%d", how->retry_after);
        exchange_add_header(x, "Retry-After", seconds);
    }
    if (how->status == 401) exchange_add_header(x, "WWW-Authenticate", "Bearer");
    exchange_reply(x, how->status, "application/json", body.data ? body.data : "", body.n);
    buf_deinit(&body);
}

/* ---- answers in pieces ---- */

void exchange_begin(struct exchange *x, int status, const char *type)
{
    x->sse = strcmp(type, "text/event-stream") == 0;
    if (x->sse) exchange_add_header(x, "Cache-Control", "no-cache");
    if (x->sse) exchange_add_header(x, "X-Accel-Buffering", "no"); /* proxies pass it on at once */
    put_head(x, status, type, -1);
    if (!ring_open(&x->ring)) x->out.failed = true;
    atomic_store(&x->stage, STAGE_BEGUN);
    ring_loop(x);
}

/* As much of the spill as fits goes to the ring. */
static void spill_flush(struct exchange *x)
{
    if (!x->ring.data || x->spill_at == x->spill.n) return;
    x->spill_at += ring_put(&x->ring, x->spill.data + x->spill_at, x->spill.n - x->spill_at);
    if (x->spill_at == x->spill.n) {
        buf_clear(&x->spill);
        x->spill_at = 0;
    }
    ring_loop(x);
}

static void push_bytes(struct exchange *x, const void *data, size_t n)
{
    size_t put = x->ring.data && x->spill.n == 0 ? ring_put(&x->ring, data, n) : 0;
    if (put < n) buf_add(&x->spill, (const char *)data + put, n - put);
}

void exchange_push(struct exchange *x, const void *data, size_t n)
{
    char size[24];
    if (n == 0 || !wants_body(x) || atomic_load(&x->gone)) return;
    spill_flush(x);
    if (x->chunked) push_bytes(x, size, (size_t)snprintf(size, sizeof size, "%zx\r\n", n));
    push_bytes(x, data, n);
    if (x->chunked) push_bytes(x, "\r\n", 2);
    if (x->spill.n > 0) atomic_store(&x->starved, true); /* the loop says when there is room */
    ring_loop(x);
}

static bool has_room(const struct exchange *x)
{
    return x->spill.n == 0 && ring_used(&x->ring) < ROOM_BYTES;
}

bool exchange_room(const struct exchange *cx)
{
    struct exchange *x = (struct exchange *)cx;
    if (has_room(x) || atomic_load(&x->gone)) return true;
    atomic_store(&x->starved,
                 true); /* first this, then look again: the loop does it the other way */
    spill_flush(x);
    return has_room(x);
}

void exchange_end(struct exchange *x)
{
    if (atomic_load(&x->stage) == STAGE_NONE) {
        exchange_error(x, &(struct net_error){.status = 500}, "there is no answer");
        return;
    }
    if (x->chunked && wants_body(x) && !atomic_load(&x->gone)) push_bytes(x, "0\r\n\r\n", 5);
    finish(x);
}

/* ---- running, and running again ---- */

bool exchange_gone(const struct exchange *x)
{
    return atomic_load(&x->gone);
}

void exchange_keep(struct exchange *x, net_wake *wake, void *ctx)
{
    x->wake = wake;
    x->wake_ctx = ctx;
}

static void enqueue(struct exchange *x)
{
    exchange_ref(x);
    queue_push(x->moved ? x->net->fresh : x->net->woken, &x); /* have room for every exchange */
}

void exchange_wake(struct exchange *x)
{
    enum task was = atomic_load(&x->task);
    for (;;) {
        if (was == TASK_QUEUED || was == TASK_RUN_AGAIN) return;
        enum task next = was == TASK_IDLE ? TASK_QUEUED : TASK_RUN_AGAIN;
        if (!atomic_compare_exchange_weak(&x->task, &was, next)) continue;
        if (next == TASK_QUEUED) enqueue(x);
        return;
    }
}

bool exchange_move(struct exchange *x)
{
    if (x->moved) return false;
    x->moved = true;
    exchange_wake(x);
    return true;
}

static void run_ends(struct exchange *x)
{
    enum task was = TASK_RUN;
    if (atomic_compare_exchange_strong(&x->task, &was, TASK_IDLE)) return;
    atomic_store(&x->task, TASK_QUEUED);
    enqueue(x);
}

void exchange_run(struct exchange *x)
{
    if (x->moved) {
        exchange_rerun(x);
        return;
    }
    exchange_ref(x);
    if (!exchange_gone(x)) x->route->handle(x, x->net->o.ctx); /* else: gone while it waited */
    if (!x->over && !x->wake) exchange_end(x);
    run_ends(x);
    exchange_drop(x);
}

static void push_ping(struct exchange *x)
{
    static const char comment[] = ":\n\n";
    bool due = atomic_exchange(&x->ping, false);
    if (due && x->sse && x->spill.n == 0) exchange_push(x, comment, sizeof comment - 1);
}

void exchange_rerun(struct exchange *x)
{
    atomic_store(&x->task, TASK_RUN);
    if (!x->over) {
        spill_flush(x);
        if (x->spill.n > 0) atomic_store(&x->starved, true);
        push_ping(x);
        x->wake(x, x->wake_ctx);
    }
    run_ends(x);
    exchange_drop(x);
}

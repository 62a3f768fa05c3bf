/* exchange.c - an exchange for handlers: read the request, write the answer, wake up. Output is
 * passed to the loop thread through `out` and the ring. `out` contains the head, and the body of a
 * complete answer. The loop owns `out` from STAGE_BEGUN on.
 *
 * One thread at a time runs a handler or its callback:
 *
 *            exchange_wake             the callback begins
 *   IDLE ------------------> QUEUED ----------------------> RUN --exchange_wake--> RUN_AGAIN
 *     ^                         ^                            |                        |
 *     +-------------------------|----- the callback ends ----+                        |
 *                               +-------------------------------- the callback ends --+
 *
 * The first run is the route's handler, on a handler thread. Later runs are on the stream thread,
 * or on handler threads after exchange_move. After exchange_defer, the next run replaces the first
 * run. */
#include "net_impl.h"

#include "base/cancel.h"
#include "base/check.h"
#include "base/date.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>

/* ROOM_BYTES: number of unread bytes of the client from which exchange_room returns false */
enum { ROOM_BYTES = RING_BYTES / 2 };

/* ---- life ---- */

/* `task` is TASK_RUN from the start. A wake during the handler then becomes RUN_AGAIN, and the
 * stream thread cannot run the exchange before the handler has returned. */
struct exchange *exchange_open(struct net *n)
{
    struct exchange *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    x->net = n;
    x->n_ref = 2; /* references of the loop and the handler side */
    x->task = TASK_RUN;
    x->start_us = time_us();
    atomic_fetch_add(&n->n_exchange, 1);
    return x;
}

void exchange_ref(struct exchange *x)
{
    atomic_fetch_add(&x->n_ref, 1);
}

/* The thread with the last reference cannot free the exchange, because its holder and its body
 * belong to the loop. The thread with the last reference queues the exchange for exchange_reap. The
 * loop is woken only during net_drain. Otherwise the loop frees the exchange in its next round. */
void exchange_drop(struct exchange *x)
{
    struct net *n = x->net;
    int n_ref = atomic_fetch_sub(&x->n_ref, 1);
    CHECK(n_ref > 0, "%d references", n_ref);
    if (n_ref > 1) return;
    bool fits = queue_push(n->ended, &x);
    CHECK(fits, "no room for %d exchanges", atomic_load(&n->n_exchange));
    if (atomic_load(&n->draining)) net_ring(n);
}

void exchange_count(struct exchange *x)
{
    if (x->route->how & ROUTE_QUICK) return;
    x->counted = true;
    atomic_fetch_add(&x->net->n_answer, 1);
}

void exchange_answered(struct exchange *x)
{
    if (x->answered) return;
    x->answered = true;
    if (x->counted) atomic_fetch_sub(&x->net->n_answer, 1);
    if (x->holder) x->holder->n_exchange--;
}

/* Free an exchange without references. Loop thread. */
static void exchange_free(struct exchange *x)
{
    struct net *n = x->net;
    if (x->holder) body_release(x);
    exchange_answered(x);
    holder_drop(n, x->holder);
    head_deinit(&x->head);
    buf_deinit(&x->body);
    buf_deinit(&x->header);
    buf_deinit(&x->out);
    buf_deinit(&x->spill);
    ring_close(&x->ring);
    free(x->param);
    free(x);
    atomic_fetch_sub(&n->n_exchange, 1);
}

void exchange_reap(struct net *n)
{
    struct exchange *x;
    while (queue_pop(n->ended, &x, 0)) exchange_free(x);
}

/* Notify the loop that there are bytes to write. The entry in the loop's queue has a reference. The
 * flag in_inbox prevents a second entry of the exchange. The loop clears in_inbox before it reads
 * the exchange, so a later change causes a new entry. */
static void ring_loop(struct exchange *x)
{
    if (atomic_exchange(&x->in_inbox, true)) return;
    exchange_ref(x);
    bool fits = queue_push(x->net->inbox, &x);
    CHECK(fits, "no room for %d exchanges", atomic_load(&x->net->n_exchange));
    net_ring(x->net);
}

/* ---- the request ---- */

const char *exchange_path(const struct exchange *x)
{
    return x->head.path;
}

const char *exchange_param(const struct exchange *x)
{
    return x->param;
}

int exchange_query(const struct exchange *x, const char *name, struct buf *out)
{
    return query_value(x->head.query, name, out);
}

/* Names of headers are stored in lower case. A name of 64 bytes or more is absent. */
const char *exchange_header(const struct exchange *x, const char *name)
{
    char lower[64];
    size_t n = strlen(name);
    if (n >= sizeof lower) return NULL;
    for (size_t i = 0; i <= n; i++)
        lower[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] | 32) : name[i];
    return head_header(&x->head, lower);
}

const char *exchange_only_header(const struct exchange *x, const char *lower_name)
{
    return head_count(&x->head, lower_name) == 1 ? head_header(&x->head, lower_name) : NULL;
}

const char *exchange_body(const struct exchange *x, size_t *n)
{
    *n = x->body.n;
    return x->body.n ? x->body.data : "";
}

const char *exchange_id(const struct exchange *x)
{
    return x->id;
}

const struct net_key *exchange_key(const struct exchange *x)
{
    return x->key;
}

uint64_t exchange_holder(const struct exchange *x)
{
    return x->holder_id;
}

double exchange_holder_weight(const struct exchange *x)
{
    return x->key ? x->key->share : 1;
}

int64_t exchange_start_us(const struct exchange *x)
{
    return x->start_us;
}

int64_t exchange_arrival_us(const struct exchange *x)
{
    return x->arrival_us;
}

/* ---- the head of an answer ---- */

const char *status_reason(int status)
{
    static const struct {
        int status;
        const char *text; /* static */
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
        {415, "Unsupported Media Type"},
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

/* A control character in the value could begin a new header line, so it is dropped. */
void exchange_add_header(struct exchange *x, const char *name, const char *value)
{
    if (exchange_begun(x)) return;
    buf_addf(&x->header, "%s: ", name);
    for (; *value; value++)
        if ((unsigned char)*value >= ' ' && *value != 127) buf_add_char(&x->header, *value);
    buf_add_text(&x->header, "\r\n");
}

/* Append the status line and all headers. n_body < 0: the length is unknown, so chunks or the
 * connection's end delimit the body. */
static void put_head(struct exchange *x, int status, const char *type, int64_t n_body)
{
    struct buf *b = &x->out;
    bool stream = n_body < 0;
    CHECK(atomic_load(&x->stage) == STAGE_NONE, "the answer has status %d already", x->status);
    x->status = status;
    b->failed = x->header.failed;
    x->chunked = stream && x->head.minor == 1;
    x->close_after = x->close_wanted || (stream && !x->chunked) || atomic_load(&x->net->draining);
    buf_addf(b, "HTTP/1.1 %d %s\r\n", status, status_reason(status));
    buf_add_text(b, "Date: ");
    date_put_http(b, time_wall_us());
    buf_add_text(b, "\r\n");
    const char *other = exchange_errors(x)->id_header;
    if (x->id[0]) buf_addf(b, "X-Request-Id: %s\r\n", x->id);
    if (x->id[0] && other) buf_addf(b, "%s: %s\r\n", other, x->id);
    if (type) buf_addf(b, "Content-Type: %s\r\n", type);
    if (x->header.n) buf_add(b, x->header.data, x->header.n);
    if (x->chunked) buf_add_text(b, "Transfer-Encoding: chunked\r\n");
    if (!stream && status != 204) buf_addf(b, "Content-Length: %lld\r\n", (long long)n_body);
    if (x->close_after)
        buf_add_text(b, "Connection: close\r\n");
    else if (x->head.minor == 0)
        buf_add_text(b, "Connection: keep-alive\r\n");
    buf_add_text(b, "\r\n");
}

/* Return false for HEAD, whose answer ends after the headers. A head that was not parsed has no
 * method, and its error has a body. */
static bool has_body(const struct exchange *x)
{
    return !x->head.method || strcmp(x->head.method, "HEAD") != 0;
}

/* Answer without an allocation. The client does not receive later bytes. */
static void set_no_memory(struct exchange *x)
{
    x->status = 503;
    x->close_after = true;
    x->chunked = false;
    x->fixed = fixed_no_memory(x, has_body(x));
    atomic_store(&x->lost, true);
}

/* End the handler's part of the exchange. */
static void finish(struct exchange *x)
{
    CHECK(!x->ended, "the answer %d is over", x->status);
    x->ended = true;
    if (atomic_load(&x->lost)) x->close_after = true;
    atomic_store(&x->stage, STAGE_COMPLETE);
    ring_loop(x);
    exchange_drop(x);
}

/* ---- whole answers ---- */

void exchange_reply(struct exchange *x, int status, const char *type, const void *body, size_t n)
{
    put_head(x, status, type, (int64_t)n);
    if (has_body(x)) buf_add(&x->out, body, n);
    if (x->out.failed) set_no_memory(x);
    finish(x);
}

void exchange_no_memory(struct exchange *x)
{
    set_no_memory(x);
    finish(x);
}

/* ---- answers in pieces ---- */

bool exchange_begun(const struct exchange *x)
{
    return atomic_load(&x->stage) != STAGE_NONE;
}

/* Return a ping in a stream of a type, static; NULL if it has none. */
static const char *ping_of(const struct exchange *x, const char *type)
{
    const char *own = exchange_errors(x)->ping;
    if (strcmp(type, "application/x-ndjson") == 0) return " ";
    if (strcmp(type, "text/event-stream") == 0) return own ? own : ":\n\n";
    return NULL;
}

void exchange_begin(struct exchange *x, int status, const char *type)
{
    const bool sse = strcmp(type, "text/event-stream") == 0;
    x->ping_text = ping_of(x, type);
    if (sse) exchange_add_header(x, "Cache-Control", "no-cache");
    /* disable the buffering of proxies */
    if (sse) exchange_add_header(x, "X-Accel-Buffering", "no");
    put_head(x, status, type, -1);
    if (x->out.failed || !ring_open(&x->ring)) set_no_memory(x);
    atomic_store(&x->stage, STAGE_BEGUN);
    ring_loop(x);
}

/* Move as many bytes of the spill to the ring as fit. */
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

/* Append to the ring, or to the spill if the ring is full. Bytes after the first spilled byte also
 * go to the spill, to keep the order. The last bytes always go to the spill. The loop reads the
 * spill and `last` at STAGE_COMPLETE only. Therefore the loop sends no last byte before it counts
 * the answer as ended. */
static void push_bytes(struct exchange *x, const void *data, size_t n)
{
    /* do not send bytes after a gap, because the client cannot detect the gap */
    if (atomic_load(&x->lost)) return;
    bool to_ring = x->ring.data && x->spill.n == 0 && !x->pushes_last;
    size_t put = to_ring ? ring_put(&x->ring, data, n) : 0;
    if (put < n) buf_add(&x->spill, (const char *)data + put, n - put);
    if (x->spill.failed) atomic_store(&x->lost, true);
}

void exchange_push(struct exchange *x, const void *data, size_t n)
{
    char size[24];
    CHECK(atomic_load(&x->stage) != STAGE_NONE && !x->ended, "status %d", x->status);
    if (n == 0 || !has_body(x) || atomic_load(&x->disconnected)) return;
    spill_flush(x);
    if (x->chunked) push_bytes(x, size, (size_t)snprintf(size, sizeof size, "%zx\r\n", n));
    push_bytes(x, data, n);
    if (x->chunked) push_bytes(x, "\r\n", 2);
    /* the loop wakes the exchange if the ring has room again */
    if (x->spill.n > 0 && !x->pushes_last) atomic_store(&x->starved, true);
    ring_loop(x);
}

void exchange_push_last(struct exchange *x, const void *data, size_t n)
{
    x->pushes_last = true;
    exchange_push(x, data, n);
}

static bool has_room(const struct exchange *x)
{
    return x->spill.n == 0 && ring_used(&x->ring) < ROOM_BYTES;
}

bool exchange_room(struct exchange *x)
{
    if (has_room(x) || atomic_load(&x->disconnected)) return true;
    /* set starved before the second check, because the loop takes bytes first, then reads
     * `starved` */
    atomic_store(&x->starved, true);
    spill_flush(x);
    return has_room(x);
}

void exchange_end(struct exchange *x)
{
    if (atomic_load(&x->stage) == STAGE_NONE) {
        exchange_error(x, &(struct net_error){.status = 500}, "the handler returned no answer");
        return;
    }
    x->sends_last_chunk = x->chunked && has_body(x) && !exchange_disconnected(x);
    finish(x);
}

void exchange_abort(struct exchange *x)
{
    atomic_store(&x->lost, true);
    exchange_end(x);
}

/* ---- runs of a handler ---- */

bool exchange_disconnected(const struct exchange *x)
{
    return atomic_load(&x->disconnected) || atomic_load(&x->lost);
}

bool exchange_cut(const struct exchange *x)
{
    return atomic_load(&x->net->cut);
}

void exchange_set_status(struct exchange *x, int status)
{
    x->status = status;
}

void exchange_set_ping(struct exchange *x, int64_t ms)
{
    atomic_store(&x->ping_every_us, ms * 1000);
}

void exchange_keep(struct exchange *x, net_wake *wake, void *ctx)
{
    x->wake = wake;
    x->wake_ctx = ctx;
}

/* Queue x for the thread that runs `wake`: the stream thread, or through the loop a handler thread.
 * Only the loop may change a lane. The queue's entry is a reference. */
static void enqueue(struct exchange *x)
{
    exchange_ref(x);
    if (x->moved || x->deferred) {
        atomic_store(&x->needs_lane, true);
        ring_loop(x);
    } else {
        bool fits = queue_push(x->net->woken, &x);
        CHECK(fits, "no room for %d exchanges", atomic_load(&x->net->n_exchange));
    }
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

/* End a run. The state is TASK_RUN_AGAIN instead of TASK_RUN after a wake during the run. */
static void run_ends(struct exchange *x)
{
    enum task was = TASK_RUN;
    if (atomic_compare_exchange_strong(&x->task, &was, TASK_IDLE)) return;
    atomic_store(&x->task, TASK_QUEUED);
    enqueue(x);
}

void exchange_defer(struct exchange *x, net_wake *again, void *ctx)
{
    exchange_keep(x, again, ctx);
    x->deferred = true;
}

void exchange_handle(struct exchange *x)
{
    x->route->handle(x, x->net->o.ctx);
}

void *exchange_deferred(const struct exchange *x)
{
    return x->again_ctx;
}

void exchange_ping(struct exchange *x)
{
    if (x->ping_text && x->spill.n == 0) exchange_push(x, x->ping_text, strlen(x->ping_text));
}

/* Push the spill, and a ping if its time has come. The ping follows all older bytes. A ping between
 * two parts of an event would damage the event. */
static void push_waiting(struct exchange *x)
{
    spill_flush(x);
    if (x->spill.n > 0) atomic_store(&x->starved, true);
    if (atomic_exchange(&x->ping, false)) exchange_ping(x);
}

/* Run `again` of a postponed handler. `again` may postpone the handler once more. */
static void run_again(struct exchange *x)
{
    net_wake *again = x->wake;
    x->again_ctx = x->wake_ctx;
    x->wake = NULL;
    x->deferred = false;
    atomic_store(&x->task, TASK_RUN);
    push_waiting(x);
    again(x, x->again_ctx);
    x->again_ctx = NULL;
}

/* A postponed exchange was queued with a reference, which is dropped at the end. Another thread may
 * run the exchange as soon as run_ends returns. */
bool exchange_run(struct exchange *x)
{
    if (x->moved) {
        exchange_rerun(x);
        return false;
    }
    if (!x->deferred) exchange_ref(x);
    cancel_flag = &x->disconnected;
    if (x->deferred)
        run_again(x);
    else if (!exchange_disconnected(x)) /* the client may have disconnected meanwhile */
        exchange_handle(x);
    cancel_flag = NULL;
    if (!x->ended && !x->wake) exchange_end(x);
    const bool keeps_body = x->deferred;
    if (!keeps_body) buf_deinit(&x->body);
    run_ends(x);
    exchange_drop(x);
    return keeps_body;
}

void exchange_rerun(struct exchange *x)
{
    atomic_store(&x->task, TASK_RUN);
    if (!x->ended) {
        push_waiting(x);
        x->wake(x, x->wake_ctx);
    }
    run_ends(x);
    exchange_drop(x);
}

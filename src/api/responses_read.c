/* responses_read.c - answer exchanges that read responses in the background: send events from any
 * number on, or the response after its end. The events of a complete response are in the store.
 *
 *   jobs_find or store_get --> reader --exchange_keep--> advance ... exchange_end */
#include "server_impl.h"

#include "responses_background.h"

#include <stdlib.h>

/* EVENT_BYTES: bytes of events that are copied in one call */
enum { EVENT_BYTES = 16 << 10 };

/* An exchange that reads a response. */
struct reader {
    struct exchange *x;       /* borrowed */
    struct job *job;          /* owned reference; NULL: the events are in `log` */
    struct buf log;           /* events of a complete response */
    struct event_cursor next; /* place of the first unsent event in the log */
    bool events;              /* true: events are sent; false: the response after its end */
    struct job_listener listener;
};

/* Wake the exchange (job_listener). */
static void wake(void *x)
{
    exchange_wake(x);
}

static void reader_close(struct reader *r)
{
    if (r->job) job_unlisten(r->job, &r->listener);
    job_drop(r->job);
    buf_deinit(&r->log);
    free(r);
}

/* Send the next events. Return true after the last event. */
static bool put_events(struct reader *r)
{
    bool end = false;
    while (!end && exchange_room(r->x)) {
        struct buf b = {0};
        if (r->job) {
            end = job_events(r->job, &r->next, EVENT_BYTES, &b);
        } else {
            events_read(r->log.data, r->log.n, &r->next, EVENT_BYTES, &b);
            end = r->next.at == r->log.n;
        }
        const bool none = b.n == 0;
        end |= b.failed; /* the client resumes after the last event */
        if (!b.failed && b.n) (end ? exchange_push_last : exchange_push)(r->x, b.data, b.n);
        buf_deinit(&b);
        if (none && !end) return false;
    }
    return end;
}

/* Continue the exchange (net_wake). */
static void advance(struct exchange *x, void *reader)
{
    struct reader *r = reader;
    struct buf b = {0};
    const bool gone = exchange_disconnected(x) || exchange_cut(x);
    if (!gone && r->events && !put_events(r)) return;
    if (!gone && !r->events && !job_response(r->job, &b)) {
        buf_deinit(&b);
        return;
    }
    const bool events = r->events;
    reader_close(r); /* the job no longer wakes the exchange, which may now end */
    if (events || gone)
        exchange_end(x);
    else
        server_reply(x, &b);
    buf_deinit(&b);
}

/* Begin to read. The exchange owns the reader. */
static void begin(struct reader *r)
{
    struct exchange *x = r->x;
    if (r->events && !exchange_begun(x)) exchange_begin(x, 200, "text/event-stream");
    exchange_keep(x, advance, r);
    r->listener = (struct job_listener){.changed = wake, .arg = x};
    if (r->job) job_listen(r->job, &r->listener);
    exchange_wake(x);
}

void server_read_job(struct exchange *x, struct job *take_job, bool events, int64_t after)
{
    struct err e;
    struct reader *r = calloc(1, sizeof *r);
    if (!r) {
        job_drop(take_job);
        server_fail(x, err_memory(&e, "a response", sizeof *r), &e);
        return;
    }
    *r = (struct reader){.x = x, .job = take_job, .events = events, .next = {.skip = after + 1}};
    begin(r);
}

void server_read_log(struct exchange *x, struct buf *take_log, int64_t after)
{
    struct err e;
    struct reader *r = calloc(1, sizeof *r);
    if (!r) {
        buf_deinit(take_log);
        server_fail(x, err_memory(&e, "a response", sizeof *r), &e);
        return;
    }
    *r = (struct reader){.x = x, .log = *take_log, .events = true, .next = {.skip = after + 1}};
    *take_log = (struct buf){0};
    begin(r);
}

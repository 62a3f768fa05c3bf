/* post_call.c - POST to a path of dialects.def: a body becomes requests of the engine, and the
 * engine's events become the answer, whole or in pieces.
 *
 *   OPEN --submitted--> RUNNING --every event has come--> answered, freed
 *     \__rejected___________  \__client disconnected, or failed: cancelled__/
 *
 * The engine's events ring a bell, which wakes the exchange; `advance` then takes the events. If a
 * client does not read its stream, events stay in their queue and the engine gives the sequence no
 * rows. A call is freed after the engine's last event, so no thread waits for it here. A handler
 * thread writes long whole answers, so that other streams continue meanwhile. */
#include "dialect.h"
#include "server_impl.h"

#include "base/hash.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* maximum size of a whole answer that the stream thread writes, in some milliseconds */
    SIZE_MOST = 4096,
    BEGIN_US = 10 * 1000 * 1000,
};

struct posted {
    const struct server *server;
    struct exchange *x;
    struct api_call *call; /* owned */
    struct queue *bell;    /* owned */
    bool cancelled, streaming;
    int rc; /* result of a submission that failed halfway: reported after the rest has ended */
    struct err e;
};

static void posted_close(struct posted *p)
{
    api_call_close(p->call);
    queue_close(p->bell);
    free(p);
}

static void wake(void *x, const void *byte)
{
    (void)byte;
    exchange_wake(x);
}

static void cancel(struct posted *p)
{
    if (!p->cancelled) api_call_cancel(p->call);
    p->cancelled = true;
}

/* Answer a complete call, if the client is still connected, and free everything. */
static void finish(struct posted *p)
{
    struct exchange *x = p->x;
    struct buf b = {0};
    if (p->streaming || exchange_disconnected(x)) {
        exchange_end(x);
    } else {
        if (p->rc == 0) p->rc = api_call_put(p->call, &b, &p->e);
        orca_put(x, p->server);
        if (p->rc == 0)
            server_reply(x, &b);
        else
            server_fail(x, p->rc, &p->e);
    }
    buf_deinit(&b);
    posted_close(p);
}

static void put_pieces(struct posted *p)
{
    const char *no_memory = p->call->dialect->no_memory;
    struct buf b = {0};
    api_call_stream(p->call, &b);
    if (b.failed) {
        exchange_push(p->x, no_memory, strlen(no_memory));
        cancel(p);
    } else if (b.n) {
        exchange_push(p->x, b.data, b.n);
    }
    buf_deinit(&b);
}

/* Send the status of a stream with its first piece, because a queued request may still be rejected;
 * or after BEGIN_US, for proxies and clients that time out without a head. */
static void begin_stream(struct posted *p, bool done)
{
    bool late = !done && time_us() - exchange_arrival_us(p->x) >= BEGIN_US;
    if (p->streaming || p->cancelled || !api_call_streams(p->call)) return;
    if (!late && !api_call_has_output(p->call)) return;
    orca_put(p->x, p->server);
    exchange_begin(p->x, 200, p->call->dialect->stream_type);
    p->streaming = true;
}

static void advance(struct exchange *x, void *posted)
{
    struct posted *p = posted;
    char byte;
    if (exchange_disconnected(x)) cancel(p);
    (void)queue_pop(p->bell, &byte, 0);
    if (p->streaming && !exchange_room(x)) return;
    bool done = api_call_poll(p->call);
    begin_stream(p, done);
    if (p->streaming && !p->cancelled) put_pieces(p);
    if (!done) return;
    bool moves = !p->streaming && api_call_size(p->call) > SIZE_MOST && exchange_move(x);
    if (!moves) finish(p);
}

/* Set the account: all requests of a key, or of a client's address if there are no keys, have one
 * holder. With separate caches, the salt of cached prefixes is made of the key's secret: a client
 * that guesses a key's name could otherwise construct its cache_salt. */
static void share(const struct server *s, struct api_call *c, const struct exchange *x)
{
    const struct net_key *key = exchange_key(x);
    uint64_t salt =
        key && s->o.separate_caches ? hash_bytes(key->secret, strlen(key->secret), 1) : 0;
    api_call_share(c, exchange_share_id(x), exchange_share_weight(x), salt);
}

static int open_call(struct posted *p, const struct server *s, const struct json *body,
                     struct err *e)
{
    p->bell = queue_open(1, 1);
    if (!p->bell) return err_memory(e, "a queue", 1);
    queue_listen(p->bell, wake, p->x);
    int rc = call_open(&p->call, s->api, dialect_of(exchange_path(p->x), body), body, p->bell, e);
    if (rc == 0) share(s, p->call, p->x);
    if (rc == 0) api_call_name(p->call, exchange_id(p->x));
    if (rc == 0) api_call_arrived(p->call, exchange_arrival_us(p->x));
    return rc;
}

static void run(struct posted *p)
{
    exchange_keep(p->x, advance, p);
    p->rc = api_call_submit(p->call, &p->e);
    if (p->rc != 0) {
        cancel(p);
        exchange_wake(p->x); /* maybe nothing was submitted, so that no event would come */
    }
}

/* Account for the time before this handler. */
static void count_early(const struct server *s, const struct exchange *x)
{
    struct stats *st = engine_stats(s->api->session->engine);
    stats_time(st, TIMES_body, exchange_arrival_us(x) - exchange_start_us(x));
    count_time(s->api, TIMES_handler, exchange_arrival_us(x));
}

void post_call(struct exchange *x, void *server)
{
    const struct server *s = server;
    struct err e = {0};
    count_early(s, x);
    struct json *body = server_body(s, x);
    if (!body) return;
    struct posted *p = calloc(1, sizeof *p);
    int rc = p ? 0 : err_memory(&e, "a request", sizeof *p);
    if (p) *p = (struct posted){.server = s, .x = x};
    if (rc == 0) rc = open_call(p, s, body, &e);
    json_drop(body);
    if (rc == 0) {
        run(p);
        return;
    }
    orca_put(x, s);
    server_fail(x, rc, &e);
    if (p) posted_close(p);
}

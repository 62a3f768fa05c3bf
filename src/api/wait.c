/* wait.c - requests that wait for the load of their model.
 *
 * The request leaves its handler thread and returns later, so that slow loads do not occupy all
 * handlers:
 *
 *   handler --wait_take--> loaded: continue
 *              '-begin_wait--> exchange_defer == wake ==> end_wait --exchange_handle--> handler
 *
 * The second run of the handler parses the body again. The parsed body is not kept during the wait,
 * because it is much larger than its text. The wait keeps what the beginning of a stream requires:
 * the dialect, the interval of pings and the span. A stream begins during a long wait (early.c). */
#include "server_impl.h"

#include "base/os.h"

#include <stdlib.h>
#include <string.h>

/* A request that waits until its model is loaded. The handler runs again after the wait. */
struct wait {
    const struct server *server; /* borrowed */
    struct served_waiter waiter;
    const struct dialect *dialect; /* dialect of the requested stream, static; NULL: no stream */
    int ping_s;                    /* interval of pings, as in api_call */
    struct span *span;             /* span of a stream that has begun, owned; NULL if none */
};

/* Wake the exchange (served_waiter.wake). */
static void wake(void *x)
{
    exchange_wake(x);
}

/* End the span of a call that ends during its wait. Other requests have no span. */
static void end_span(const struct wait *w, struct exchange *x, int status)
{
    const char *path = exchange_path(x);
    const struct net_options *o = &w->server->o.net;
    for (int i = 0; i < o->n_route; i++)
        if (o->route[i].handle == post_call && strcmp(o->route[i].path, path) == 0) {
            span_end_status(server_begin_span(w->server, x), status);
            return;
        }
}

/* Begin the answer of a stream. Its head has the span's id, so the span begins now. */
static void begin_answer(struct wait *w, struct exchange *x)
{
    if (!w->span) w->span = server_begin_span(w->server, x);
    early_begin(w->server, x, w->dialect, w->ping_s, true);
}

struct span *wait_detach_span(struct exchange *x)
{
    struct wait *w = exchange_deferred(x);
    struct span *span = w ? w->span : NULL;
    if (w) w->span = NULL;
    return span;
}

/* Continue a request after its wait. End the request if its client disconnects or the server stops.
 * The handler owns the reference to the model after it has acquired the reference. */
static void end_wait(struct exchange *x, void *wait)
{
    struct wait *w = wait;
    struct err e = {0};
    if (exchange_disconnected(x)) {
        end_span(w, x, CLIENT_CLOSED);
        exchange_end(x);
    } else if (exchange_cut(x)) {
        end_span(w, x, api_status(ERR_UNAVAILABLE));
        server_fail(x, err_set(&e, ERR_UNAVAILABLE, "the server is shutting down"), &e);
    } else if (served_waits(&w->waiter)) {
        if (w->dialect && !exchange_begun(x) && early_is_due(w->server, x, w->ping_s))
            begin_answer(w, x);
        exchange_defer(x, end_wait, w);
        return;
    } else {
        exchange_handle(x);
    }
    served_leave(&w->waiter);
    free(w);
}

/* Set the wait's data of a stream by the body. body NULL: no stream. */
static void read_stream(struct wait *w, struct exchange *x, const struct json *body)
{
    const struct dialect *d = body ? dialect_of(exchange_path(x), body) : NULL;
    if (!d || !dialect_streams(d, body)) return;
    w->dialect = d;
    w->ping_s = early_ping_s(body);
    w->span = wait_detach_span(x); /* that of an earlier wait */
    early_wait(w->server, x, w->ping_s);
}

/* Begin a wait of the exchange for a model that is not loaded. Set *out if the model was loaded in
 * the meantime. */
static int begin_wait(const struct server *s, struct exchange *x, struct served *m,
                      const struct json *body, const struct api **out, struct err *e)
{
    struct wait *w = calloc(1, sizeof *w);
    if (!w) return err_memory(e, "a request", sizeof *w);
    w->server = s;
    w->waiter.wake = wake;
    w->waiter.arg = x;
    /* the places of waits are divided by holder and weight, like those of the queue */
    w->waiter.holder = exchange_holder(x);
    w->waiter.weight = exchange_holder_weight(x);
    int rc = served_take(m, &w->waiter, out, e);
    if (rc != 0 || *out) {
        free(w);
        return rc;
    }
    read_stream(w, x, body);
    exchange_defer(x, end_wait, w);
    return 0;
}

/* Answer a body that does nothing but unload its model, which is not loaded. Cancel a load in
 * progress, unless the model is pinned. Return false for other bodies and clients. */
static bool unload(const struct server *s, struct exchange *x, struct served *m,
                   const struct json *body)
{
    const struct dialect *d = body ? dialect_of(exchange_path(x), body) : NULL;
    const struct net_key *key = exchange_key(x);
    struct buf b = {0};
    struct err e = {0};
    const bool does = d && d->unloads && (!key || key->admin) && d->unloads(body, &b) &&
                      (served_pinned(m) || served_unload(m, &e) == 0);
    if (does) {
        struct span *span = server_begin_span(s, x);
        orca_put(x, s);
        server_reply(x, &b);
        span_end_status(span, 200);
    }
    buf_deinit(&b);
    return does;
}

int wait_take(const struct server *s, struct exchange *x, const char *name, const struct json *body,
              const struct api **out, struct err *e)
{
    struct served *m;
    struct wait *waited = exchange_deferred(x);
    *out = NULL;
    int rc = server_model(s, name, &m, e);
    /* models come and go, so the name may select another model after the wait */
    if (rc == 0 && waited && waited->waiter.model == m) rc = served_taken(&waited->waiter, out, e);
    if (rc == 0 && !*out) rc = served_take(m, NULL, out, e);
    if (rc == 0 && !*out && unload(s, x, m, body)) return 0;
    if (rc == 0 && !*out) rc = begin_wait(s, x, m, body, out, e);
    return rc;
}

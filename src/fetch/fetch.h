/* fetch.h - an HTTP/1.1 client: many concurrent requests on one thread, bodies delivered as they
 * arrive.
 *
 *   fetch_open --> fetch_start ... fetch_start --> fetch_wait, again and again --> fetch_close
 *                                                     |
 *                            on_body, on_body, ... on_done of each request, inside fetch_wait
 *
 * Uses libcurl (fetch_curl.c): TLS, keep-alive, chunked bodies, proxies from the environment (never
 * for this machine's own names). If built without it (fetch_none.c), every call fails and names the
 * package to install. It prints nothing, raises no signal and follows no redirect.
 *
 * A struct fetch belongs to one thread at a time; several are independent. */
#ifndef QUOTH_FETCH_FETCH_H
#define QUOTH_FETCH_FETCH_H

#include "scrape.h"

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

/* ---- one alone ---- */

/* Options of a client. Texts are borrowed during the call that takes them. */
struct fetch_options {
    const char
        *unix_socket;    /* connect to this socket instead of the URL's host; NULL: to the host */
    const char *ca_file; /* trusted certificates, PEM; NULL: the system's                  */
    bool insecure;       /* accept any certificate                                         */
    int64_t connect_ms;  /* timeout of connecting; 0: 10 s                                 */
    int64_t total_ms;    /* timeout of a request; 0: none                                  */
    int64_t idle_s;      /* timeout without any data, seconds; 0: none                     */
    size_t n_byte_max;   /* maximum body of fetch_get and fetch_perform; 0: 64 MiB             */
};

/* GET `url` ("http://127.0.0.1:8000/metrics") and append the body to `body`, whatever the status
 *   is. header  "Name: value" each [n_header], borrowed; NULL and 0: none
 *   o       NULL: all zero
 *   status  of the answer, 200 to 599; NULL: not wanted
 * ERR_IO: no complete answer (refused, timed out, disconnected ...); ERR_LIMIT: the body is too
 * long; ERR_ARG: not a URL; ERR_UNSUPPORTED: built without libcurl. Blocks; any thread. */
int fetch_get(const char *url, const char *const *header, size_t n_header,
              const struct fetch_options *o, struct buf *body, int *status, struct err *e);

/* ---- many at once ---- */

struct fetch;
/* Open a client. o NULL: all zero. */
int fetch_open(struct fetch **out, const struct fetch_options *o, struct err *e);
void fetch_close(struct fetch *f); /* ends requests in flight without on_done; f may be NULL */

/* How a request ended. */
struct fetch_result {
    int status;         /* 200 to 599; 0: no response head was received             */
    const char *error;  /* NULL: the answer is complete; else the reason. Valid until return */
    int64_t connect_us; /* time spent on a new connection; 0: one was reused        */
};

struct fetch_request {
    const char *method; /* NULL: POST if there is a body, else GET            */
    const char *url;
    const char *const *header; /* "Name: value" each [n_header] */
    size_t n_header;
    /* [n_body], borrowed until the request is done; all else until fetch_start returns */
    const char *body;
    size_t n_body;
    int64_t total_ms; /* timeout; 0: as the client's options */
    void *ctx;
    /* Called with bytes of the body as they arrive; the status is known. Return false to end the
     * request; the result's error is then that the body was not wanted. NULL: discard. Must not
     * use `f`. */
    bool (*on_body)(void *ctx, int status, const char *data, size_t n);
    /* The last call for this request; NULL: none. It may start other requests. */
    void (*on_done)(void *ctx, const struct fetch_result *r);
};

/* Begin a request; the first fetch_wait sends it. on_body and on_done are called from fetch_wait,
 * never from here. If the result is not 0, neither will be called. */
int fetch_start(struct fetch *f, const struct fetch_request *r, struct err *e);

/* Process what is ready; if nothing is, sleep until something is, or until time_us() reaches
 * until_us. Callbacks are called from here. */
void fetch_wait(struct fetch *f, int64_t until_us);

size_t fetch_under_way(const struct fetch *f); /* requests in flight               */
size_t fetch_body_max(const struct fetch *f);  /* maximum body of fetch_perform         */

/* Send a request and wait for the complete answer: as fetch_get, with r's method, body and headers,
 * over f's connections; r's callbacks are not used. Other requests of `f` continue. Not from a
 * callback. */
int fetch_perform(struct fetch *f, const struct fetch_request *r, struct buf *body, int *status,
                  struct err *e);

/* ---- sse.c: a body of text/event-stream in pieces -> events ---- */

/* State of a stream; zeroed at its beginning. */
struct sse {
    struct buf line, data; /* owned: the incomplete line; data of the incomplete event */
    bool after_cr;
};
enum { SSE_EVENT_MAX = 16 << 20 }; /* maximum bytes of one event */
void sse_deinit(struct sse *s);

/* Parse the next n bytes. fn gets the data of each complete event (lines joined by newlines,
 * NUL-terminated); events without data, comments and other fields are skipped. Returns false if an
 * event is too long or fn returned false: the rest is not read. */
typedef bool sse_fn(void *ctx, const char *data, size_t n);
bool sse_feed(struct sse *s, const char *bytes, size_t n, sse_fn *fn, void *ctx);

#endif

/* fetch.h - an HTTP/1.1 client: many concurrent requests on one thread, bodies delivered as they
 * arrive.
 *
 *   fetch_open --> fetch_start ... fetch_start --> fetch_wait, repeatedly --> fetch_close
 *                                                     |
 *                            on_body, on_body, ... on_done of each request, inside fetch_wait
 *
 * The client uses libcurl (fetch_curl.c) for TLS, keep-alive, chunked bodies, and proxies from the
 * environment. Proxies are never used for names of this machine. Every call fails if quoth was
 * built without libcurl (fetch_none.c). The error contains the name of the package to install. The
 * client prints nothing, raises no signal and follows no redirect. The caller may follow
 * fetch_result.redirect, and decides which headers the other server receives.
 *
 * A struct fetch is a client. A client belongs to one thread at a time. Clients are independent of
 * each other. */
#ifndef QUOTH_FETCH_FETCH_H
#define QUOTH_FETCH_FETCH_H

#include "scrape.h"

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

/* ---- a single request ---- */

/* Options of a client. Texts are borrowed until the call with these options returns. */
struct fetch_options {
    const char *unix_socket; /* path of a socket that replaces the URL's host; NULL if none */
    const char *ca_file; /* file of trusted certificates, PEM; NULL: the system's certificates */
    bool insecure;       /* true: accept any certificate */
    int64_t connect_ms;  /* timeout of connecting, milliseconds; 0: 10 s */
    int64_t total_ms;    /* timeout of a request, milliseconds; 0: no timeout */
    int64_t idle_s;      /* timeout without any data, seconds; 0: no timeout */
    size_t bytes_max;    /* maximum body of fetch_get and fetch_perform, bytes; 0: 64 MiB */
    size_t piece_bytes;  /* maximum bytes of a call of on_body, at most 512 KiB; 0: 16 KiB */
};

/* Send a GET request to `url` ("http://127.0.0.1:8000/metrics"). Append the body of the answer to
 * `body`, for any status.
 *   header  "Name: value" each [n_header], borrowed; NULL and 0 if none
 *   o       options of the client; NULL: all zero
 *   status  status of the answer, [200, 599]; NULL: not needed
 * ERR_IO: the answer is incomplete, because the server rejected the connection, timed out or
 * disconnected. ERR_LIMIT: the body is too long. ERR_ARG: the URL is invalid. ERR_UNSUPPORTED:
 * built without libcurl. ERR_MEMORY. Blocks. Any thread. */
int fetch_get(const char *url, const char *const *header, size_t n_header,
              const struct fetch_options *o, struct buf *body, int *status, struct err *e);

/* ---- concurrent requests ---- */

struct fetch;
/* Open a client with options o (NULL: all zero). The caller owns *out, which is NULL after an
 * error. ERR_MEMORY, ERR_UNSUPPORTED if built without libcurl. */
int fetch_open(struct fetch **out, const struct fetch_options *o, struct err *e);
/* End requests in flight without on_done, and free f; NULL is allowed. */
void fetch_close(struct fetch *f);

/* Result of a request. */
struct fetch_result {
    int status; /* status of the answer, [200, 599]; 0 if no head of a response was received */
    /* reason of a failure, borrowed until on_done returns; NULL if the answer is complete */
    const char *error;
    /* duration of opening a connection, microseconds; 0 if a connection was reused */
    int64_t connect_us;
    const char *redirect;  /* absolute URL of a redirect, borrowed like error; NULL if none */
    int64_t retry_after_s; /* value of Retry-After, seconds; 0 if none */
};

/* Head of an answer; opaque. */
struct fetch_head;
/* Return the value of a header, ignoring the case of its name; NULL if absent. The value is
 * borrowed until on_head returns. */
const char *fetch_header(const struct fetch_head *h, const char *name);

/* A request. `body` and `ctx` are borrowed until on_done returns, or until fetch_close. The other
 * pointers are borrowed until fetch_start returns. */
struct fetch_request {
    const char *method; /* HTTP method; NULL: POST if there is a body, otherwise GET */
    const char *url;
    const char *const *header; /* headers, each "Name: value" [n_header] */
    size_t n_header;
    const char *body; /* [n_body] */
    size_t n_body;
    const char *type; /* media type of the body; NULL: application/json */
    int64_t total_ms; /* timeout of the request, milliseconds; 0: total_ms of the client */
    void *ctx;        /* argument of the callbacks */
    /* Callback for the head of an answer, called before on_body; NULL if none. The request fails if
     * the callback returns false. The callback must not use the client. */
    bool (*on_head)(void *ctx, int status, const struct fetch_head *h);
    /* Callback for bytes of the body as they arrive; NULL: bytes are discarded. The request fails
     * if the callback returns false. The result's error then reports that the body was rejected.
     * The callback must not use the client. */
    bool (*on_body)(void *ctx, int status, const char *data, size_t n);
    /* The request's last callback; NULL if none. The callback may start other requests. */
    void (*on_done)(void *ctx, const struct fetch_result *r);
};

/* Begin a request. The next fetch_wait sends the request. Only fetch_wait calls on_body and
 * on_done. No callback is called if fetch_start fails. ERR_ARG for an invalid URL, ERR_MEMORY,
 * ERR_UNSUPPORTED if built without libcurl. */
int fetch_start(struct fetch *f, const struct fetch_request *r, struct err *e);

/* Process all ready events and call the callbacks. Sleep first if no event is ready, until an event
 * arrives or time_us() reaches until_us. */
void fetch_wait(struct fetch *f, int64_t until_us);

size_t fetch_n_in_flight(const struct fetch *f); /* return the number of requests in flight */
size_t fetch_body_max(const struct fetch *f); /* return the maximum body of fetch_perform, bytes */

/* Send r over f's connections and wait for the complete answer. Results and errors are those of
 * fetch_get. Callbacks of r are ignored. Other requests of f continue. A callback must not call
 * fetch_perform. */
int fetch_perform(struct fetch *f, const struct fetch_request *r, struct buf *body, int *status,
                  struct err *e);

/* ---- sse.c: parse a body of text/event-stream in pieces ---- */

/* State of a stream; zeroed at its beginning. */
struct sse {
    struct buf line, data; /* incomplete line, and data of the incomplete event; owned */
    bool after_cr;
};
enum { SSE_EVENT_MAX = 16 << 20 }; /* maximum length of an event, bytes */
/* Free the buffers of s. A zeroed struct is allowed. */
void sse_deinit(struct sse *s);

typedef bool sse_fn(void *ctx, const char *data, size_t n);
/* Parse the next n bytes of a stream. fn receives the data of each complete event, NUL-terminated,
 * with its lines joined by newlines. Events without data, comments and other fields are skipped.
 * Return false if an event is too long or fn returns false. The remaining bytes are then not
 * parsed. */
bool sse_feed(struct sse *s, const char *bytes, size_t n, sse_fn *fn, void *ctx);

#endif

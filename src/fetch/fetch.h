/* fetch.h - an HTTP/1.1 client: many requests at once on one thread, their bodies as they come.
 *
 *   fetch_open --> fetch_start ... fetch_start --> fetch_wait, again and again --> fetch_close
 *                                                     |
 *                            on_body, on_body, ... on_done of each request, inside fetch_wait
 *
 * Over libcurl (fetch_curl.c): TLS, keep-alive, chunked bodies, proxies from the environment (never for
 * this machine's own names). Built without it (fetch_none.c) every call fails and says what to install.
 * Nothing is written to a terminal, no signal is raised, redirects are not followed.
 *
 * A struct fetch belongs to one thread at a time; several are independent. */
#ifndef QUOTH_FETCH_FETCH_H
#define QUOTH_FETCH_FETCH_H

#include "scrape.h"

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

/* ---- one alone ---- */

/* How, and through what. Texts are borrowed during the call that takes them. */
struct fetch_options {
    const char *unix_socket; /* connect there, whatever the URL's host is; NULL: to that host   */
    const char *ca_file;     /* certificates to trust, PEM; NULL: the system's                 */
    bool insecure;           /* any certificate will do                                        */
    int64_t connect_ms;      /* 0: 10 s                                                        */
    int64_t total_ms;        /* give up when a request takes longer; 0: never                  */
    int64_t idle_s;          /* give up when nothing came for so many seconds; 0: never        */
    size_t n_byte_max;       /* of a body that fetch_get or fetch_ask collects; 0: 64 MiB      */
};

/* GET `url` ("http://127.0.0.1:8000/metrics") and append the body to `body`, whatever the status is.
 *   header  "Name: value" each [n_header], borrowed; NULL and 0: none
 *   o       NULL: all zero
 *   status  of the answer, 200 to 599; NULL: not wanted
 * ERR_IO: no whole answer came (refused, timed out, cut off ...); ERR_LIMIT: too long a body; ERR_ARG: no URL;
 * ERR_UNSUPPORTED: built without libcurl. Blocks; any thread. */
int fetch_get(const char *url, const char *const *header, size_t n_header,
              const struct fetch_options *o, struct buf *body, int *status, struct err *e);

/* ---- many at once ---- */

struct fetch;
int fetch_open(struct fetch **out, const struct fetch_options *o,
               struct err *e);     /* o NULL: all zero */
void fetch_close(struct fetch *f); /* requests under way end without a word; NULL is fine */

/* How a request ended. */
struct fetch_result {
    int status;         /* 200 to 599; 0: no head of an answer came                 */
    const char *error;  /* NULL: the whole answer came; else why not. Until return  */
    int64_t connect_us; /* spent on a new connection; 0: one was used again         */
};

struct fetch_request {
    const char *method; /* NULL: POST where there is a body, else GET         */
    const char *url;
    const char *const *header; /* "Name: value" each [n_header] */
    size_t n_header;
    const char *
        body; /* [n_body], borrowed until the request is over; all else until fetch_start returns */
    size_t n_body;
    int64_t total_ms; /* 0: as the client's options say */
    void *ctx;
    /* Bytes of the body as they come; the status is known. false: no more of it is wanted, and the result's
     * error says so. NULL: thrown away. It leaves `f` alone. */
    bool (*on_body)(void *ctx, int status, const char *data, size_t n);
    /* The last call for this request; NULL: nobody cares. It may start others. */
    void (*on_done)(void *ctx, const struct fetch_result *r);
};

/* Begin; the first fetch_wait sends it. on_body and on_done are called from fetch_wait, never from here. Not 0:
 * nothing was begun, and neither is called. */
int fetch_start(struct fetch *f, const struct fetch_request *r, struct err *e);

/* Do what can be done now; where that is nothing, sleep until something can, or until time_us() reaches
 * until_us. Callbacks come from here. */
void fetch_wait(struct fetch *f, int64_t until_us);

size_t fetch_under_way(const struct fetch *f); /* requests begun and not done      */
size_t fetch_body_max(const struct fetch *f);  /* what fetch_ask collects at most   */

/* Ask and wait for the whole answer: as fetch_get, with r's method, body and headers, over f's connections;
 * r's callbacks are not used. Other requests of `f` go on meanwhile. Not from a callback. */
int fetch_ask(struct fetch *f, const struct fetch_request *r, struct buf *body, int *status,
              struct err *e);

/* ---- sse.c: a body of text/event-stream in pieces -> events ---- */

/* Zeroed: at the beginning of a stream. */
struct sse {
    struct buf line, data; /* owned: the part of a line that came; of an event that is not over */
    bool after_cr;
};
enum { SSE_EVENT_MAX = 16 << 20 }; /* bytes of one event */
void sse_deinit(struct sse *s);

/* Hand over the next n bytes; fn gets the data of each event that they complete (lines joined by newlines,
 * NUL-terminated), and events without data, comments and other fields are passed over. false: an event is
 * too long, or fn said so: the rest is not read. */
typedef bool sse_fn(void *ctx, const char *data, size_t n);
bool sse_feed(struct sse *s, const char *bytes, size_t n, sse_fn *fn, void *ctx);

#endif

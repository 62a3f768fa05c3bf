/* net.h - the HTTP/1.1 server: sockets, TLS, keys, limits, event streams. It knows no model.
 *
 *   one loop thread      every socket (epoll): accepts, reads, checks, writes, notices who hung up
 *   handler threads      a route's handler, once per request that is complete and allowed; one more
 *                        thread has those of ROUTE_QUICK, which wait for no others
 *   one stream thread    wake callbacks: more of an answer that takes its time
 *
 * A request and its answer are an exchange. It is the loop's until the handler is called, then the
 * handler's until exchange_reply, exchange_error or exchange_end, which every exchange must reach,
 * also one whose client has gone. In between, handler and callbacks never run at the same time. The
 * threads share queues and one ring of bytes per stream, so a reader that is slow fills its own ring
 * and holds up nobody else. */
#ifndef QUOTH_NET_H
#define QUOTH_NET_H

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

struct net;      /* a server, opaque */
struct exchange; /* a request and its answer, opaque */

/* ---- who may ask ---- */

struct net_key {
    const char *name, *secret; /* owned by the list; name is what logs show */
    double per_minute;         /* requests; 0: no limit                     */
    double share;              /* weight among keys, 0.001 .. 1e6; 1 unless given */
    bool admin;                /* may also ask for routes of ROUTE_ADMIN     */
    double token;              /* loop thread: of the bucket that per_minute fills */
    int64_t token_us;
};
struct net_keys {
    struct net_key *v; /* owned */
    size_t n, cap;
};

/* Add a key; ERR_ARG for one that is empty, too long (256 bytes) or there already. */
int net_keys_add(struct net_keys *k, const char *secret, const char *name, struct err *e);
/* Add a file's: a line is SECRET [name=TEXT] [rate=N] [share=X] [role=admin], rate in requests per
 * minute; `#` begins a comment. The error names file and line. A file that every user can read is warned about. */
int net_keys_parse(struct net_keys *k, const char *text, size_t n, const char *path, struct err *e);
int net_keys_read(struct net_keys *k, const char *path, struct err *e);
void net_keys_deinit(struct net_keys *k);
/* The key with that secret, or NULL; the time does not depend on which bytes differ. */
struct net_key *net_keys_find(const struct net_keys *k, const char *secret, size_t n);

/* ---- what is there ---- */

/* ctx is net_options.ctx. A handler may answer at once, or call exchange_keep and return. */
typedef void net_handler(struct exchange *x, void *ctx);

struct net_route {
    const char *method; /* "GET" also answers HEAD */
    const char *path; /* "/v1/models/{id}": {} stands for a segment, at the end for all the rest */
    net_handler *handle;
    unsigned how; /* ROUTE_* */
};
enum {
    ROUTE_OPEN = 1,  /* needs no key                                                         */
    ROUTE_QUICK = 2, /* its handler is short: it is called however long others take          */
    ROUTE_ADMIN = 4, /* where there are keys: for those of administrators; others' get a 403 */
};

struct net_options {
    const char *host; /* NULL: 127.0.0.1                                              */
    int port;         /* 0: any that is free, net_port tells                          */
    const char *uds;  /* a unix socket's path instead of host and port; NULL: none    */
    const char *tls_cert,
        *tls_key; /* PEM files; NULL: no TLS                                     */
    const struct net_route
        *route; /* [n_route], borrowed                                          */
    int n_route;
    void *ctx;             /* for the handlers                                             */
    struct net_keys *keys; /* borrowed; NULL or empty: everybody may ask                   */
    const char *const
        *origins; /* CORS: [n_origin] web origins beside loopback's own; "*": all     */
    int n_origin;
    const char *const *hosts; /* [n_host] names beside loopback's that Host may have there        */
    int n_host;
    const char *access_log;  /* a file to append to, "-": standard error; NULL: none          */
    int n_handler;           /* threads; 0: 2                                                 */
    int n_conn_max;          /* 0: 1024; above it 503                                         */
    size_t n_head_max;       /* bytes of request line and headers; 0: 32 KiB; above it 431    */
    size_t n_body_max;       /* bytes; 0: 32 MiB; above it 413                                */
    size_t n_body_total_max; /* of all bodies that are held; 0: 256 MiB; above it 503         */
    int head_ms;             /* for a whole head; 0: 15 s; then 408                           */
    int body_ms;             /* that a body may fall behind 4 KiB a second; 0: 30 s; then 408 */
    int idle_ms;             /* between requests; 0: 75 s                                     */
    int write_ms;            /* that a reader may take nothing; 0: 30 s; then it is cut off   */
    int ping_ms;             /* an SSE comment into a stream that is silent; 0: 15 s          */
};

/* Open the sockets and start the threads. Uses sockets that systemd passed (LISTEN_FDS) instead of
 * host, port and uds. Raises the process's limit of open files to what n_conn_max needs. SIGPIPE is not needed and never raised. */
int net_open(struct net **out, const struct net_options *o, struct err *e);
int net_port(const struct net *n); /* 0: a unix socket */
/* "http://127.0.0.1:8000", "https://...", "unix:/path"; borrowed */
const char *net_url(const struct net *n);
bool net_public(const struct net *n); /* other machines can reach it */
/* No new connections; what is being answered gets wait_ms to end, then it is cut off. Returns when
 * all connections are gone. */
void net_drain(struct net *n, int wait_ms);
void net_close(struct net *n); /* as net_drain of 0 ms, and everything freed; NULL is fine */

/* Counters since net_open, any thread. */
struct net_stats {
    int n_conn, n_exchange;                  /* now                                 */
    int64_t n_accepted, n_request, n_hangup; /* connections, answers, clients gone  */
    int64_t n_status[6];                     /* answers by hundreds of their status */
    int64_t loop_us, handler_us, stream_us;  /* CPU time of the threads             */
};
struct net_stats net_stats(const struct net *n);

/* What route i answered (i = n_route: what no route did, and refusals before one was found). Answers by
 * hundreds of their status, 499 for a client that left before its end; bytes of bodies that came and of
 * answers that went; microseconds from a request's head to the answer's last byte, their sum and how
 * many lie in (net_time_bound[k - 1], net_time_bound[k]], the last: above all. Any thread. */
enum { NET_TIMES = 21 };
extern const int64_t net_time_bound[NET_TIMES];
struct net_answers {
    int64_t n_status[6], n_byte_in, n_byte_out, time_us, n_time[NET_TIMES + 1];
};
void net_answers(const struct net *n, int i, struct net_answers *out);

/* systemd's readiness protocol: "READY=1", "STOPPING=1". Does nothing without NOTIFY_SOCKET. */
void net_notify(const char *state);

/* ---- an exchange: the request ---- */

const char *exchange_method(const struct exchange *x);
const char *exchange_path(const struct exchange *x);  /* decoded */
const char *exchange_param(const struct exchange *x); /* what {} stands for, decoded; NULL: none */
/* The first value of a query parameter, decoded; false: not there. Appends to *out. */
bool exchange_query(const struct exchange *x, const char *name, struct buf *out);
const char *exchange_header(const struct exchange *x, const char *name); /* NULL: not there */
const char *exchange_body(const struct exchange *x, size_t *n); /* NUL-terminated, never NULL */
const char *exchange_peer(const struct exchange *x);            /* "127.0.0.1:54321", "unix"      */
const char *
exchange_id(const struct exchange *x); /* the client's X-Request-Id or one made for it */
const struct net_key *exchange_key(const struct exchange *x); /* NULL: none was needed */

/* ---- the answer: by the handler or a callback, nobody else ---- */

/* A header of the answer, before it begins. The value's control characters are dropped. */
void exchange_add_header(struct exchange *x, const char *name, const char *value);

/* The whole answer; the exchange is over. Body n bytes, copied. */
void exchange_reply(struct exchange *x, int status, const char *type, const void *body, size_t n);

/* OpenAI's error object; the exchange is over. Zero fields get what fits the status. */
struct net_error {
    int status;
    const char *type, *param, *code; /* NULL: by status; null; by status */
    int retry_after;                 /* seconds; 0: no such header       */
};
void exchange_error(struct exchange *x, const struct net_error *how, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The object alone, for errors inside a stream. */
void net_error_put(struct buf *out, const struct net_error *how, const char *text);

/* An answer in pieces: begin, push ..., end. type "text/event-stream" gets pings. Pushes are kept
 * whole however much it is; exchange_room says whether the client keeps up: while it is false a
 * producer should stop and wait for wake, which is called when there is room again. */
void exchange_begin(struct exchange *x, int status, const char *type);
void exchange_push(struct exchange *x, const void *data, size_t n);
bool exchange_room(const struct exchange *x);
void exchange_end(struct exchange *x); /* the exchange is over; also where nothing was begun */

/* ---- answers that take their time ---- */

/* Stream thread (exchange_move: a handler's): after each exchange_wake (several may become one call), when there is room again,
 * and within milliseconds of the client's hang-up, which exchange_gone tells. */
typedef void net_wake(struct exchange *x, void *ctx);

/* In the handler, which then returns without an answer: the exchange goes on in `wake`, which is
 * never called before the handler has returned. */
void exchange_keep(struct exchange *x, net_wake *wake, void *ctx);
void exchange_wake(
    struct exchange *x); /* any thread; short, allocates nothing, touches no socket */
/* In `wake`, before work that would hold up the streams. true: it is called again, from now on by handler threads; false: it is on
 * one already. */
bool exchange_move(struct exchange *x);
/* The client has hung up (a half-closed connection is not that). Any thread. */
bool exchange_gone(const struct exchange *x);

#endif

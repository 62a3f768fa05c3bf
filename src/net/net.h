/* net.h - the HTTP/1.1 server: sockets, TLS, keys, limits, event streams. Independent of models.
 *
 *   one loop thread      all sockets (epoll): accept, read, check, write, detect hang-ups
 *   handler threads      call a route's handler once per complete, permitted request; one more
 *                        thread runs the handlers of ROUTE_QUICK, which wait for no others
 *   one stream thread    wake callbacks: continue answers that take their time
 *
 * A request and its answer are an exchange. It belongs to the loop until the handler is called,
 * then to the handler until exchange_reply, exchange_error or exchange_end. Every exchange must
 * reach one of them, even if its client has disconnected. A handler and its callbacks never run at
 * the same time. The threads share queues and one byte ring per stream, so a slow client fills its
 * own ring and delays no other. */
#ifndef QUOTH_NET_H
#define QUOTH_NET_H

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

struct net;      /* a server, opaque */
struct exchange; /* a request and its answer, opaque */

/* ---- keys ---- */

struct net_key {
    const char *name, *secret; /* owned by the list; name is shown in logs */
    double per_minute;         /* maximum rate of requests; 0: no limit */
    double share;              /* fair-share weight, [0.001, 1e6]; 1 by default */
    bool admin;                /* may also use routes of ROUTE_ADMIN */
    double token;              /* loop thread: level of the bucket that per_minute fills */
    int64_t token_us;
};
struct net_keys {
    struct net_key *v; /* owned */
    size_t n, cap;
};

/* Validate values of flags (form_fn, base/names.h): a key, without printing it; networks of
 * proxies; the Origin of pages. */
int net_key_form(const char *secret, struct err *e);
int net_proxies_form(const char *text, struct err *e);
int net_origin_form(const char *text, struct err *e);

/* Add a key. ERR_ARG if it is empty, longer than 256 bytes or a duplicate. */
int net_keys_add(struct net_keys *k, const char *secret, const char *name, struct err *e);
/* Add the keys of a file. A line is SECRET [name=TEXT] [rate=N] [share=X] [role=admin], rate in
 * requests per minute; `#` begins a comment. The error gives file and line. Warns if every user can
 * read the file. */
int net_keys_parse(struct net_keys *k, const char *text, size_t n, const char *path, struct err *e);
int net_keys_read(struct net_keys *k, const char *path, struct err *e);
void net_keys_deinit(struct net_keys *k);
/* Return the key with that secret, NULL if none. The time does not depend on which bytes differ. */
struct net_key *net_keys_find(const struct net_keys *k, const char *secret, size_t n);

/* ---- routes and options ---- */

/* A rejection or failure, as given by the server or a handler. */
struct net_error {
    int status;
    const char *code; /* borrowed: error code for programs, in addition to the status; NULL: none */
    int retry_after;  /* seconds; 0: no such header */
    const char *text; /* message for people; set by exchange_error */
};
/* Format of error bodies, given by the caller because APIs differ in it. */
struct net_errors {
    const char *type;                                        /* "application/json" */
    void (*put)(struct buf *out, const struct net_error *e); /* append the body; any thread */
};

/* ctx is net_options.ctx. A handler answers at once, or calls exchange_keep and returns. While it
 * runs, its thread's cancel_flag (base/cancel.h) is set if the client disconnects. */
typedef void net_handler(struct exchange *x, void *ctx);

struct net_route {
    const char *method; /* "GET" also answers HEAD */
    const char *path;   /* "/v1/models/{id}": {} matches one segment, at the end all the rest */
    net_handler *handle;
    unsigned how;                    /* ROUTE_* */
    const struct net_errors *errors; /* borrowed; NULL: net_options.errors */
};
enum {
    ROUTE_OPEN = 1,  /* needs no key */
    ROUTE_QUICK = 2, /* its handler is short: called without waiting for other handlers */
    ROUTE_ADMIN = 4, /* if there are keys: administrators' keys only; 403 for others */
};

struct net_options {
    const char *host; /* NULL: 127.0.0.1                                              */
    int port;         /* 0: any free port, see net_port */
    const char *uds;  /* path of a unix socket instead of host and port; NULL: none */
    const char *tls_cert,
        *tls_key; /* PEM files; NULL: no TLS                                     */
    /* [n_route], borrowed */
    const struct net_route *route;
    int n_route;
    /* borrowed: error format of routes without one and of unrouted requests; NULL: plain text */
    const struct net_errors *errors;
    void *ctx;             /* argument of the handlers */
    struct net_keys *keys; /* borrowed; NULL or empty: no key is required */
    /* CORS: [n_origin] allowed web origins in addition to loopback's; "*": all */
    const char *const *origins;
    int n_origin;
    /* [n_host] names allowed in Host in addition to loopback's, if only loopback is served */
    const char *const *hosts;
    int n_host;
    /* proxies whose X-Forwarded-For names the client: "10.0.0.0/8,unix"; "*": any; NULL: none */
    const char *proxies;
    const char *access_log; /* file to append to, "-": standard error; NULL: none */
    int n_handler;          /* handler threads; 0: 2 */
    int n_conn_max;         /* maximum of connections, then 503; 0: 1024 */
    size_t n_head_max;      /* maximum bytes of request line and headers, then 431; 0: 32 KiB */
    size_t n_body_max;      /* maximum bytes of a body, then 413; 0: 32 MiB */
    /* maximum bytes of all bodies beyond 64 KiB each, then 503; 0: 256 MiB */
    size_t n_body_total_max;
    /* time for a connection's first byte before it may be closed for another; 0: 100 ms */
    int grace_ms;
    int head_ms;  /* time for a complete head, then 408; 0: 15 s */
    int body_ms;  /* maximum delay of a body behind a rate of 4 KiB/s, then 408; 0: 30 s */
    int idle_ms;  /* maximum time between requests; 0: 75 s */
    int write_ms; /* time without progress in sending before disconnecting; 0: 30 s */
    int ping_ms;  /* idle time of an event stream before a comment is sent; 0: 15 s */
};

/* Open the sockets and start the threads. Uses sockets passed by systemd (LISTEN_FDS) instead of
 * host, port and uds. Raises the process's limit of open files as n_conn_max requires. Never raises
 * SIGPIPE. */
int net_open(struct net **out, const struct net_options *o, struct err *e);
int net_port(const struct net *n); /* 0 for a unix socket */
/* "http://127.0.0.1:8000", "https://...", "unix:/path"; borrowed */
const char *net_url(const struct net *n);
bool net_public(const struct net *n); /* true if other machines can reach it */
/* Refuse new connections, let answers in progress end within wait_ms, then disconnect. Returns when
 * all connections are closed. */
void net_drain(struct net *n, int wait_ms);
void net_close(struct net *n); /* net_drain with 0 ms, then free; NULL is allowed */

/* Counters since net_open. Any thread. */
struct net_stats {
    int n_conn, n_exchange; /* current numbers */
    /* connections accepted, answers, disconnects before the end of an answer */
    int64_t n_accepted, n_request, n_hangup;
    int64_t n_status[6];                    /* answers by status / 100 */
    int64_t loop_us, handler_us, stream_us; /* CPU time of the threads             */
    int64_t n_log_lost;                     /* lost lines of the access log */
};
struct net_stats net_stats(const struct net *n);

/* Read the counters of route i; i = n_route: unrouted requests and rejections before routing.
 * n_status: answers by status / 100, 499 if the client disconnected before the end. Bytes of bodies
 * received and answers sent. Microseconds from a request's head to the answer's last byte: their
 * sum, and counts in (net_time_bound[k - 1], net_time_bound[k]], the last: above all. Any
 * thread. */
enum { NET_TIMES = 21 };
extern const int64_t net_time_bound[NET_TIMES];
struct net_answers {
    int64_t n_status[6], n_byte_in, n_byte_out, time_us, n_time[NET_TIMES + 1];
};
void net_answers(const struct net *n, int i, struct net_answers *out);

/* Send a state to systemd: "READY=1", "STOPPING=1". Does nothing without NOTIFY_SOCKET. */
void net_notify(const char *state);

/* ---- an exchange: the request ---- */

const char *exchange_path(const struct exchange *x);  /* decoded */
const char *exchange_param(const struct exchange *x); /* what {} matched, decoded; NULL if none */
/* Append the first value of a query parameter, decoded, to *out. Returns 1, 0 if absent, -1 if it
 * is not percent-encoded UTF-8 or memory ran out (out->failed). */
int exchange_query(const struct exchange *x, const char *name, struct buf *out);
const char *exchange_header(const struct exchange *x, const char *name); /* NULL if absent */
/* Return the body: NUL-terminated, never NULL, valid until the handler returns, even if it keeps
 * the exchange. */
const char *exchange_body(const struct exchange *x, size_t *n);
/* Return the client's X-Request-Id or a generated one. */
const char *exchange_id(const struct exchange *x);
const struct net_key *exchange_key(const struct exchange *x); /* NULL if none was required */
/* Return the number of the client by which limits are shared: of its key, else of its address (see
 * net_options.proxies; an IPv6 /64 is one client). Never 0. */
uint64_t exchange_share_id(const struct exchange *x);
double exchange_share_weight(const struct exchange *x); /* weight of its key, else 1 */
/* Return when the head was complete (start) and when the body was (arrival), as time_us
 * (base/os.h). Latencies count from the arrival. */
int64_t exchange_start_us(const struct exchange *x);
int64_t exchange_arrival_us(const struct exchange *x);

/* ---- the answer: by the handler or a callback only ---- */

/* Add a header to the answer, before it begins. Control characters in the value are dropped. */
void exchange_add_header(struct exchange *x, const char *name, const char *value);

/* Send a complete answer and end the exchange. The body (n bytes) is copied. */
void exchange_reply(struct exchange *x, int status, const char *type, const void *body, size_t n);

/* Send an error in the route's format and end the exchange. fmt is the message; how->text is
 * ignored. */
void exchange_error(struct exchange *x, const struct net_error *how, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Send a 503 for lack of memory, prepared by net_open, and end the exchange. Before the answer
 * begins. */
void exchange_no_memory(struct exchange *x);

/* Send an answer in pieces: begin, push ..., end. type "text/event-stream" gets pings. Pushes of
 * any size are buffered completely. exchange_room is the backpressure: while it returns false the
 * producer should stop; wake is called when there is room again. */
void exchange_begin(struct exchange *x, int status, const char *type);
void exchange_push(struct exchange *x, const void *data, size_t n);
bool exchange_room(const struct exchange *x);
void exchange_end(struct exchange *x); /* end the exchange, also if nothing was begun */

/* ---- answers that take their time ---- */

/* Continue an answer. Called after exchange_wake (several may become one call), when there is room
 * again, and within milliseconds of the client's hang-up (see exchange_disconnected). Stream thread; after
 * exchange_move, a handler thread. */
typedef void net_wake(struct exchange *x, void *ctx);

/* Continue the exchange in `wake` after the handler returns without an answer. `wake` is never
 * called before it has returned. In the handler only. */
void exchange_keep(struct exchange *x, net_wake *wake, void *ctx);
/* Schedule a call of `wake`. Any thread; short, does not allocate, uses no socket. */
void exchange_wake(struct exchange *x);
/* Move the exchange to handler threads, before work that would delay other streams. In `wake` only.
 * Returns true if `wake` is called again, from now on by handler threads; false if it already runs
 * on one. */
bool exchange_move(struct exchange *x);
/* Return true if nothing more reaches the client: it hung up (a half-closed connection does not
 * count), or memory ran out for the answer. Any thread. */
bool exchange_disconnected(const struct exchange *x);

#endif

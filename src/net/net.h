/* net.h - the HTTP/1.1 server: sockets, TLS, keys, limits, event streams. Independent of models.
 *
 *   one loop thread      all sockets (epoll): accept, read, check, write, detect hang-ups
 *   handler threads      call a route's handler once per complete, permitted request; one more
 *                        thread runs the handlers of ROUTE_QUICK independently of other handlers
 *   one stream thread    wake callbacks: continue long answers
 *
 * A request and its answer are an exchange. The loop owns an exchange until the handler is called.
 * The handler then owns the exchange until exchange_reply, exchange_error or exchange_end. Every
 * exchange must be ended by one of these calls, even if its client has disconnected. A handler and
 * its callbacks never run at the same time. Only the threads of a handler and its callbacks call
 * the functions of their exchange, unless a comment gives another thread. One thread opens, drains
 * and closes a server. The threads share queues and one byte ring per stream. A slow client fills
 * only its ring and delays no other client. */
#ifndef QUOTH_NET_H
#define QUOTH_NET_H

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

struct net;      /* a server, opaque */
struct exchange; /* a request and its answer, opaque */

/* ---- keys ---- */

struct net_key {
    const char *name, *secret; /* owned by the list; logs contain the name */
    double per_minute;         /* maximum rate of requests; 0: no limit */
    double share;              /* weight of the key's fair share, [0.001, 1e6] (default 1) */
    bool admin;                /* true if the client may also use routes of ROUTE_ADMIN */
    double token;              /* loop thread: level of the bucket that per_minute fills */
    int64_t token_us;          /* loop thread: time of `token`, as time_us */
};
struct net_keys {
    struct net_key *v; /* keys, owned */
    size_t n, cap;
};

/* Check an API key. ERR_ARG; its sentence does not contain the key. The function is a form_fn
 * (base/names.h). Any thread. */
int net_key_form(const char *secret, struct err *e);
/* Check a list of networks of trusted proxies (a form_fn). ERR_ARG with the malformed item,
 * ERR_MEMORY. Any thread. */
int net_proxies_form(const char *text, struct err *e);
/* Check an allowed origin: SCHEME://HOST[:PORT], "null" or "*" (a form_fn). ERR_ARG for another
 * form. Any thread. */
int net_origin_form(const char *text, struct err *e);

/* Add a key. Copy both texts; name NULL: "key1", "key2" ... ERR_ARG if the secret is a duplicate or
 * net_key_form rejects it. ERR_MEMORY. The list is unchanged after an error. */
int net_keys_add(struct net_keys *k, const char *secret, const char *name, struct err *e);
/* Add the keys of a file. A line is SECRET [name=TEXT] [rate=N] [share=X] [role=admin], with the
 * rate in requests per minute. `#` begins a comment. net_keys_read logs a warning if every user can
 * read the file. Errors contain file and line: ERR_FORMAT for a malformed field or a NUL, ERR_ARG
 * as in net_keys_add, ERR_MEMORY. net_keys_read also returns ERR_IO and ERR_LIMIT. The keys before
 * a malformed line remain in the list. */
int net_keys_parse(struct net_keys *k, const char *text, size_t n, const char *path, struct err *e);
/* Add the keys of the file `path`. Log a warning if every user can read the file. ERR_IO,
 * ERR_LIMIT, or an error of net_keys_parse. */
int net_keys_read(struct net_keys *k, const char *path, struct err *e);
void net_keys_deinit(struct net_keys *k); /* free the memory; a zeroed list is allowed */
/* Return the key with that secret (n bytes), borrowed from the list; NULL if none. The time does
 * not depend on the bytes that differ. */
struct net_key *net_keys_find(const struct net_keys *k, const char *secret, size_t n);

/* ---- routes and options ---- */

/* A rejection or failure, from the server or a handler. */
struct net_error {
    int status;
    /* error code for programs, in addition to the status, borrowed; NULL if none */
    const char *code;
    int retry_after;  /* value of Retry-After, seconds; 0: no header */
    const char *text; /* message for people, borrowed for `put`; set by exchange_error */
    /* id of the exchange, borrowed for `put`; set by exchange_error; NULL if none */
    const char *id;
};
/* Format of error bodies, and of other parts that the server adds to answers. Each API has its own
 * format. All pointers are static. */
struct net_errors {
    const char *type;                                        /* "application/json" */
    void (*put)(struct buf *out, const struct net_error *e); /* append the body; any thread */
    const char *id_header; /* one more header with the id of the exchange; NULL if none */
    const char *ping;      /* a ping in a stream of events; NULL: a comment */
    /* header name in lower case, and beginning of a path such as "/api/". A format in a list
     * `others` is selected for requests with this header or path. NULL if none */
    const char *header, *path;
    /* list of formats that take precedence over this format, in order; ends with NULL; NULL:
     * none */
    const struct net_errors *const *others;
};

/* Handle a request. ctx is net_options.ctx. A handler answers before it returns, or calls
 * exchange_keep. The server sets the cancel_flag (base/cancel.h) of the handler's thread if the
 * client disconnects. */
typedef void net_handler(struct exchange *x, void *ctx);

/* A route. The route's pointers are borrowed until net_close. */
struct net_route {
    const char *method; /* "GET" also matches HEAD */
    /* path, such as "/v1/models/{id}". {} matches one segment; at the end, all remaining
     * segments */
    const char *path;
    net_handler *handle;
    unsigned how; /* ROUTE_* */
    /* error format of the route, borrowed; NULL: net_options.errors */
    const struct net_errors *errors;
};
enum {
    ROUTE_OPEN = 1,  /* the route requires no key */
    ROUTE_QUICK = 2, /* the handler is short, and its calls do not wait for other handlers */
    ROUTE_ADMIN = 4, /* only for administrators' keys if there are keys; 403 for others */
    /* if there are no keys: only for clients on this machine that connect without a proxy; 403 for
     * others */
    ROUTE_LOCAL = 8,
    ROUTE_FORM = 16, /* bodies may be multipart/form-data; 415 on other routes */
};

/* Options of net_open. Zero means the default. All pointers are borrowed until net_close. */
struct net_options {
    const char *host; /* host or address to listen on; NULL: 127.0.0.1 */
    int port;         /* port; 0: any free port, see net_port */
    const char *uds;  /* path of a unix socket instead of host and port; NULL if none */
    const char *tls_cert,
        *tls_key; /* PEM files; NULL: no TLS                                     */
    /* [n_route], borrowed */
    const struct net_route *route;
    int n_route;
    /* error format of routes without `errors` and of requests without a route, borrowed; NULL:
     * plain text */
    const struct net_errors *errors;
    void *ctx;             /* argument of the handlers */
    struct net_keys *keys; /* accepted keys, borrowed; NULL or empty: no key is required */
    /* web origins that CORS allows in addition to loopback's, [n_origin]; "*": all */
    const char *const *origins;
    int n_origin;
    /* names allowed in Host in addition to loopback's, [n_host]; for servers on loopback only */
    const char *const *hosts;
    int n_host;
    /* proxies whose X-Forwarded-For names the client, such as "10.0.0.0/8,unix", or "*" for any;
     * NULL if none */
    const char *proxies;
    const char *access_log; /* file of the access log, "-": standard error; NULL: no log */
    int n_handler;          /* handler threads; 0: 2 */
    int conn_max;           /* maximum number of connections, then 503; 0: 1024 */
    size_t head_max;        /* maximum bytes of request line and headers, then 431; 0: 32 KiB */
    size_t body_max;        /* maximum bytes of a body, then 413; 0: 32 MiB */
    /* maximum bytes of all bodies beyond 64 KiB each, then 503; 0: 256 MiB */
    size_t body_total_max;
    /* time without a first byte after which a connection may be closed for a new connection; 0: 100
     * ms */
    int grace_ms;
    int head_ms;  /* time for a complete head, then 408; 0: 15 s */
    int body_ms;  /* maximum delay of a body behind a rate of 4 KiB/s, then 408; 0: 30 s */
    int idle_ms;  /* maximum time between requests; 0: 75 s */
    int write_ms; /* maximum time without progress in sending, then a disconnect; 0: 30 s */
    int ping_ms;  /* idle time of a stream before a ping; < 0: no pings; 0: 15 s */
};

/* Open the sockets and start the threads. Sockets from systemd (LISTEN_FDS) replace host, port and
 * uds. The process's limit of open files is raised as conn_max requires. The server never raises
 * SIGPIPE. The caller owns *out, which is NULL after an error. Errors:
 *   ERR_ARG     malformed `proxies`, unknown host, too long uds, unusable certificate or key,
 *               only one of tls_cert and tls_key
 *   ERR_IO      the socket, the access log or epoll cannot be opened
 *   ERR_MEMORY  also if a thread cannot start */
int net_open(struct net **out, const struct net_options *o, struct err *e);
/* Check that the host can be resolved (unless uds replaces it), and that certificate and key can be
 * used. Errors: ERR_ARG, ERR_MEMORY. */
int net_check(const struct net_options *o, struct err *e);
int net_port(const struct net *n); /* return the port; 0 for a unix socket */
/* Return "http://127.0.0.1:8000", "https://..." or "unix:/path"; borrowed until net_close. */
const char *net_url(const struct net *n);
bool net_public(const struct net *n); /* return true if other machines can connect */
/* Refuse new connections and complete answers for at most wait_ms. Then truncate the remaining
 * answers (exchange_cut) and disconnect. Return after all connections are closed. */
void net_drain(struct net *n, int wait_ms);
void net_close(struct net *n); /* call net_drain with 0 ms, then free n; NULL is allowed */

/* Counters since net_open. Any thread. */
struct net_stats {
    int n_conn, n_exchange; /* current numbers of connections and exchanges */
    /* current number of answers, except those of ROUTE_QUICK. An answer counts from the end of the
     * request's body to the answer's last byte, or to the handler's end if the client
     * disconnected */
    int n_answer;
    /* accepted connections, answers, disconnects before the end of an answer */
    int64_t n_accepted, n_request, n_hangup;
    int64_t n_status[6];                    /* answers by status / 100 */
    int64_t loop_us, handler_us, stream_us; /* CPU time of the threads             */
    int64_t n_log_lost;                     /* number of lost lines of the access log */
};
/* Return the server's counters. Any thread. */
struct net_stats net_stats(const struct net *n);

/* Read the counters of route i. i = n_route: requests without a route, and rejections before
 * routing. Any thread.
 *   n_status              answers by status / 100, 499 if the client disconnected before the end
 *   n_byte_in, n_byte_out bytes of bodies received and answers sent
 *   time_us               sum of the times from a request's head to the answer's last byte
 *   n_time                number of times in (net_time_bound[k - 1], net_time_bound[k]]; the last
 *                         number: above all bounds */
enum { NET_TIMES = 21 };
extern const int64_t net_time_bound[NET_TIMES];
struct net_answers {
    int64_t n_status[6], n_byte_in, n_byte_out, time_us, n_time[NET_TIMES + 1];
};
void net_answers(const struct net *n, int i, struct net_answers *out); /* set *out */

/* Send a state to systemd: "READY=1" or "STOPPING=1". Do nothing without NOTIFY_SOCKET. */
void net_notify(const char *state);

/* ---- an exchange: the request. For the handler or a callback. Returned pointers are borrowed
 * until the exchange ends, if no other time is given. ---- */

const char *exchange_path(const struct exchange *x); /* return the decoded path */
/* Return the text matched by {}, decoded; NULL if the route has no {}. */
const char *exchange_param(const struct exchange *x);
/* Append the first value of a query parameter, decoded, to *out. Return 1, or 0 if the name is
 * absent. Return -1 if the text is not percent-encoded UTF-8 or memory is exhausted
 * (out->failed). */
int exchange_query(const struct exchange *x, const char *name, struct buf *out);
/* Return the value of a header; NULL if absent. */
const char *exchange_header(const struct exchange *x, const char *name);
/* Return the value of a header; NULL if the header is absent or repeated. */
const char *exchange_only_header(const struct exchange *x, const char *lower_name);
/* Return the body: NUL-terminated, never NULL. The text is valid until the handler returns, also
 * after exchange_keep. */
const char *exchange_body(const struct exchange *x, size_t *n);
/* Return the client's X-Request-Id or a generated id. */
const char *exchange_id(const struct exchange *x);
/* Return the format of errors for the route and the headers of the request. Any thread. */
const struct net_errors *exchange_errors(const struct exchange *x);
/* Return the key of the request, borrowed from net_options.keys; NULL if the route requires no
 * key. */
const struct net_key *exchange_key(const struct exchange *x);
/* Return the client's number, which is never 0. Limits are shared by this number. The number
 * identifies the key, or the address if there is no key (see net_options.proxies). An IPv6 /64 is
 * one client. */
uint64_t exchange_holder(const struct exchange *x);
/* return the weight of the exchange's key; 1 if there is no key */
double exchange_holder_weight(const struct exchange *x);
/* Return the time (time_us) at which the head was complete. */
int64_t exchange_start_us(const struct exchange *x);
/* Return the time (time_us) at which the body was complete. Latencies are measured from this
 * time. */
int64_t exchange_arrival_us(const struct exchange *x);

/* ---- the answer; for the handler or a callback only ---- */

/* Add a header to the answer, before it begins. Both texts are copied. Control characters in the
 * value are dropped. The answer becomes the answer of exchange_no_memory if memory runs out. No
 * effect after exchange_begin. */
void exchange_add_header(struct exchange *x, const char *name, const char *value);

/* Send a complete answer and end the exchange. type (NULL if none) and the body (n bytes) are
 * copied. The answer becomes the answer of exchange_no_memory if memory runs out. */
void exchange_reply(struct exchange *x, int status, const char *type, const void *body, size_t n);

/* Send an error in the route's format and end the exchange. fmt is the message; how->text is
 * ignored. *how is borrowed for the call. */
void exchange_error(struct exchange *x, const struct net_error *how, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Send the out-of-memory 503 that net_open prepared, and end the exchange. Call it only before the
 * answer begins. */
void exchange_no_memory(struct exchange *x);

/* Begin an answer in pieces, which exchange_push and exchange_end continue. The server sends pings
 * in a stream of type "text/event-stream". In a stream of type "application/x-ndjson" a ping is a
 * space, because a line of JSON may begin with spaces. The caller pushes whole events or lines.
 * Pushes of any size are copied and buffered completely. The client is disconnected if memory runs
 * out (exchange_disconnected). exchange_room provides backpressure: the producer should stop if
 * exchange_room returns false. `wake` is called after the ring has space again. */
void exchange_begin(struct exchange *x, int status, const char *type);
/* Return true after exchange_begin. For the handler or a callback only. */
bool exchange_begun(const struct exchange *x);
/* Send a ping now if a stream of this type has pings. Call it after exchange_begin. */
void exchange_ping(struct exchange *x);
/* Append n bytes to the answer. The bytes are copied. The client is disconnected if memory runs
 * out. */
void exchange_push(struct exchange *x, const void *data, size_t n);
/* Push the last bytes of an answer. The bytes are sent after exchange_end, which must follow.
 * Therefore the answer of a client that has all bytes does not count as in progress. */
void exchange_push_last(struct exchange *x, const void *data, size_t n);
/* Return true if exchange_push has room. After false, `wake` runs once there is room. */
bool exchange_room(struct exchange *x);
void exchange_end(struct exchange *x); /* end the exchange, also before exchange_begin */
/* End an answer that has begun, without its last bytes. Disconnect the client, so that it detects
 * that the answer is incomplete. */
void exchange_abort(struct exchange *x);

/* ---- long answers ---- */

/* Continue an answer. The server calls `wake` after exchange_wake, after the ring has space again,
 * and within milliseconds of a hang-up (see exchange_disconnected). One call of `wake` may serve
 * several calls of exchange_wake. Stream thread; after exchange_move, a handler thread. */
typedef void net_wake(struct exchange *x, void *ctx);

/* Continue the exchange in `wake` after the handler returns without an answer. The server never
 * calls `wake` before the handler has returned. ctx is borrowed until the exchange ends. For
 * handlers only. */
void exchange_keep(struct exchange *x, net_wake *wake, void *ctx);
/* Postpone the handler: keep the request with its body, and call `again` on a handler thread after
 * exchange_wake or a disconnect. `again` may call exchange_handle, and must call it, end the
 * exchange, or postpone once more. ctx is borrowed until `again` is called. For the handler and
 * `again` only, as their last action on the exchange. */
void exchange_defer(struct exchange *x, net_wake *again, void *ctx);
/* Run the handler of the route. For `again` of exchange_defer only. */
void exchange_handle(struct exchange *x);
/* Return the ctx of exchange_defer while `again` runs; NULL at other times. */
void *exchange_deferred(const struct exchange *x);
/* Schedule a call of `wake`. Any thread. The call is short. It does not allocate or use a
 * socket. */
void exchange_wake(struct exchange *x);
/* Move the exchange to handler threads, before work that would delay other streams. For `wake`
 * only. Return true if a handler thread will call `wake` again. Return false if `wake` already runs
 * on a handler thread. */
bool exchange_move(struct exchange *x);
/* Return true if the client gets no more bytes, because the client disconnected or memory for the
 * answer ran out. A half-closed connection is not a hang-up. Any thread. */
bool exchange_disconnected(const struct exchange *x);
/* Return true if the time of net_drain is over. The handler must then end the answer with an error.
 * The server disconnects the client a second later. `wake` is called after the result becomes true.
 * Any thread. */
bool exchange_cut(const struct exchange *x);
/* Set the idle time before a ping in this stream, in milliseconds; < 0: no pings. It is also the
 * time before a wake of a handler whose stream has not begun. For the handler or `wake` only. */
void exchange_set_ping(struct exchange *x, int64_t ms);
/* Log and count the answer with a status that differs from the sent status, for a stream that fails
 * after its head. Call before exchange_end, in the handler or `wake` only. */
void exchange_set_status(struct exchange *x, int status);

#endif

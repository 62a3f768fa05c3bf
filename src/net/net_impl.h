/* net_impl.h - private to net: the server, a connection, an exchange, and the owner of each part.
 *
 *   loop thread     struct conn, the sockets, fields of an exchange marked "loop"
 *   handler side    fields marked "handler". The owner is the handler thread until the handler
 *                   returns. Afterwards it is the stream thread, or a handler thread after
 *                   exchange_move.
 *                   `task` ensures one owner at a time.
 *   both            atomics, queues, and the ring */
#ifndef QUOTH_NET_IMPL_H
#define QUOTH_NET_IMPL_H

#include "head.h"
#include "net.h"

#include "base/queue.h"
#include "base/share.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/types.h>

/* ---- ring.c: bytes from one thread to another ---- */

/* memory of a stream whose client reads slowly; the writer waits if it is full */
enum { RING_BYTES = 64 * 1024 };
struct ring {
    char *data;                  /* owned, [RING_BYTES]; NULL before the stream begins */
    _Atomic uint64_t head, tail; /* number of bytes written, and number of bytes read */
};
/* Allocate the bytes. Return false if memory is exhausted. */
bool ring_open(struct ring *r);
/* Free the bytes. Neither reader nor writer may use r afterwards. */
void ring_close(struct ring *r);
/* Write s. Return the number of bytes written. For the writer. */
size_t ring_put(struct ring *r, const char *s, size_t n);
/* Set *s to the next unread bytes, borrowed until ring_take. Return the number of contiguous bytes.
 * For the reader. */
size_t ring_span(const struct ring *r, const char **s);
/* Remove n bytes, at most the number of bytes that ring_span returned. For the reader. */
void ring_take(struct ring *r, size_t n);
/* Return the number of unread bytes. For both sides. */
size_t ring_used(const struct ring *r);

/* ---- holder.c ---- */

enum lane_kind { LANE_QUICK, LANE_SHORT, LANE_LONG, N_LANE };
/* number of lists of holders; the lists are short for up to some thousand holders */
enum { HOLDER_BUCKETS = 1024 };
struct holder_queue {                 /* a holder's queue in a lane */
    struct exchange *first, *last;    /* borrowed: exchanges that wait; NULL if none */
    int n_busy;                       /* number of handler threads that the holder uses */
    double due;                       /* due time of the holder's turn, in the lane's clock */
    struct holder_queue *prev, *next; /* borrowed: neighbours in the ring of turns; NULL if none */
};
struct conn_list {
    struct conn *first, *last; /* borrowed; NULL if empty */
};
struct holder {
    uint64_t id;
    double weight;                               /* weight (share=) of its key; 1 for an address */
    struct holder *next_in_bucket, *prev, *next; /* borrowed: neighbours in the net's lists */
    int n_ref; /* number of connections and exchanges that refer to the holder */
    /* numbers of connections and unanswered exchanges of its key or address. A connection belongs
     * to its address before its first request with a key. */
    int n_conn, n_exchange;
    /* connections without a complete head, oldest first. Connections in `idle` have sent bytes.
     * Connections in `silent` have not sent any bytes. */
    struct conn_list idle, silent;
    struct holder_queue line[N_LANE];
    struct exchange *body_newest; /* borrowed: newest unfinished body that has acquired memory */
};
/* Return a reference; NULL if memory is exhausted. */
struct holder *holder_get(struct net *n, uint64_t id);
/* Return the holder of id; NULL if none. */
struct holder *holder_find(const struct net *n, uint64_t id);
void holder_drop(struct net *n, struct holder *h); /* release a reference; NULL is allowed */
/* Add c to its holder's lists of connections that may be closed for a new connection. */
void holder_link(struct conn *c, bool oldest);
void holder_received(struct conn *c); /* record that bytes arrived on c */
/* Remove c from its holder's lists. No effect if c is in no list. Loop thread. */
void holder_unlink(struct conn *c);
void holder_claim(struct conn *c, struct holder *h); /* transfer c to h */
/* Return the connection to close for a new connection; NULL if none. The connection's holder has
 * most connections relative to the holder's weight. Only holders with a closable connection are
 * compared if `any` is true. A connection that was accepted before `silent_us` and has sent no byte
 * is closed first. */
struct conn *holder_victim(const struct net *n, bool any, int64_t silent_us);

/* ---- body.c ---- */

/* BODY_SMALL_BYTES: maximum size of a small body. Larger bodies use shared memory and the lane for
 * long bodies. */
enum { BODY_SMALL_BYTES = 64 * 1024 };
/* Return true if body_acquire would succeed now for a body of n bytes. */
bool body_fits(const struct exchange *x, int64_t n);
/* Acquire memory for the bytes received so far. Return false if no memory is left. */
bool body_acquire(struct exchange *x);
void body_settle(struct exchange *x); /* mark the body as complete */
/* Release the memory of the body, in any state. Loop thread. */
void body_release(struct exchange *x);

/* ---- lane.c ---- */

struct lane {
    struct queue *queue;  /* owned: queue of struct exchange * to its threads; NULL ends a thread */
    int n_thread, n_each; /* number of threads, and maximum number per holder */
    int n_busy;
    atomic_int n_waiting;
    struct holder_queue *turn; /* borrowed: next turn; NULL if no exchange waits */
    double now;                /* due time of the latest turn */
};
struct finished {
    struct exchange *x; /* owned: a reference, which lane_reap drops */
    enum lane_kind lane;
    bool keeps_body; /* true if the handler is postponed and needs the body later */
};
/* Open all lanes. ERR_MEMORY. Call lane_close also after a failure. */
int lane_open(struct net *n);
/* Free all lanes. The handler threads must have ended. */
void lane_close(struct net *n);
void lane_add(struct net *n, struct exchange *x); /* queue x for a handler thread */
/* Remove x from its lane. Return true if no handler has begun or will begin with x. */
bool lane_remove(struct net *n, struct exchange *x);
void lane_reap(struct net *n); /* process handlers that have returned */
/* Check the invariants of lane.c for all lanes. Return NULL, or a description of the violation. */
const char *lane_check(const struct net *n);
/* Report that the handler has returned. keeps_body is true if the handler is postponed. Drop a
 * reference. Handler thread. */
void lane_finished(struct exchange *x, enum lane_kind lane, bool keeps_body);

/* ---- error.c: answers for lack of memory or room, prepared at the start ---- */

struct fixed {
    /* owned. head: answer without body and Content-Length. whole: answer with body and
     * Content-Length. */
    char *head, *whole;
};
/* Prepare the answers. n->o must be set. ERR_MEMORY. Call fixed_close also after a failure. */
int fixed_open(struct net *n, struct err *e);
void fixed_close(struct net *n); /* free the memory; a zeroed net is allowed */
/* Return the prepared out-of-memory answer, in the format of the exchange's route. Borrowed from
 * the exchange's net. */
const char *fixed_no_memory(const struct exchange *x, bool body);

/* ---- an exchange ---- */

enum answer_stage {
    STAGE_NONE,     /* the answer has no bytes yet                              */
    STAGE_BEGUN,    /* `out` is valid; the ring may be valid */
    STAGE_COMPLETE, /* no bytes will be added; the loop owns `spill` too */
};
enum task { TASK_IDLE, TASK_QUEUED, TASK_RUN, TASK_RUN_AGAIN };

/* Invariants of an exchange. The names in parentheses are the functions that enforce them.
 *
 * (1) An exchange x belongs to at most one connection, and conn->x is x. conn is NULL after the
 *     connection is closed. (conn_check)
 * (2) `waits` is true if and only if the exchange is in the line of its holder and lane.
 *     (lane_check)
 * (3) n_ref counts the loop, the handler side, and each queue that contains the exchange. Only the
 *     loop frees the exchange, after the last reference. (CHECK in exchange_drop)
 * (4) The stages of an exchange are NONE, BEGUN, COMPLETE in this order, and an answer begins once.
 *     (CHECK in put_head)
 * (5) The handler side ends the exchange exactly once: `ended` is then true, and `stage` is
 *     COMPLETE. (CHECK in finish)
 * (6) At most one thread runs the handler or `wake` of an exchange: the thread that set `task` to
 *     RUN. (the transitions in exchange.c)
 * (7) An exchange is in the queue `inbox` at most once (in_inbox), and in `woken` or a lane's queue
 *     at most once (QUEUED). Therefore a queue with room for all exchanges is never full. (CHECK in
 *     ring_loop) */
struct exchange {
    struct net *net; /* borrowed */
    /* references: of loop, handler side, and each queue that contains the exchange */
    atomic_int n_ref;

    /* written by the loop before the handler is called, then read-only */
    struct head head;              /* owned */
    struct buf body;               /* owned; released after the handler has returned */
    const struct net_route *route; /* borrowed from net_options; NULL before it is found */
    char *param;                   /* text matched by {}, owned; NULL if none */
    struct net_key *key;           /* borrowed from net_options.keys; NULL: no key */
    char id[132], peer[80];
    /* number of the key, or of the client's address if there is no key; never 0 */
    uint64_t holder_id;
    int64_t start_us, arrival_us; /* times at which its head and its body were complete */
    bool close_wanted;            /* true: close the connection after this answer */
    /* true if `wake` runs on handler threads; the handler side writes `moved` before it sends a
     * message */
    bool moved;

    /* fields of the handler side */
    /* true if `wake` is `again` of exchange_defer; written before a message, like `moved` */
    bool deferred;
    void *again_ctx;       /* borrowed: ctx of `again` while `again` runs; NULL otherwise */
    struct buf header;     /* lines added to the answer's head */
    net_wake *wake;        /* static; NULL before exchange_keep */
    void *wake_ctx;        /* borrowed: argument of wake; the handler frees it before the end */
    bool ended, chunked;   /* ended: the handler side has ended the answer */
    const char *ping_text; /* a ping in this answer, static; NULL: no pings */
    bool pushes_last;      /* true if the bytes pushed now are the answer's last bytes */
    /* true if the loop sends the chunk that ends the answer; for STAGE_COMPLETE */
    bool sends_last_chunk;
    int status;
    struct buf out, spill; /* spill: pushed bytes that wait for space in the ring */
    size_t spill_at;
    /* answer that replaces out and all later bytes, borrowed from the net; NULL if none */
    const char *fixed;
    /* true after memory is exhausted. Later pushes are dropped, and the client is disconnected. */
    atomic_bool lost;

    /* fields of both sides */
    struct ring ring;
    _Atomic enum answer_stage stage;
    _Atomic enum task task;
    atomic_bool disconnected, ping, starved, in_inbox, needs_lane;
    /* true if the answer's head has "Connection: close"; valid since STAGE_BEGUN */
    bool close_after;

    /* fields of the loop */
    struct conn *conn; /* borrowed: connection of the client; NULL if it is closed */
    /* reference to the holder of holder_id, owned; NULL for an exchange rejected without a
     * holder */
    struct holder *holder;
    enum lane_kind lane;
    bool waits; /* true if the exchange waits for a thread of its lane */
    /* counted: true if net.n_answer includes the exchange until it is answered */
    bool counted, answered;
    /* unfinished: true if its body is in the list of its holder. settled: true if its body is
     * complete. */
    bool unfinished, settled;
    int64_t n_acquired; /* bytes of shared memory that the exchange has acquired */
    struct exchange *body_newer, *body_older; /* borrowed: neighbours in its holder's bodies */
    /* borrowed: neighbours in the list of its holder and lane, oldest first */
    struct exchange *wait_prev, *wait_next;
    size_t out_at, last_at;
    uint64_t n_sent;
    uint64_t n_body;
    /* time of the last byte sent, of the last ping, or of the arrival; 0 if none */
    int64_t idle_us;
    /* idle time before a ping, microseconds; < 0: no pings; 0: that of the server */
    _Atomic int64_t ping_every_us;
};

const char *status_reason(int status); /* return the reason phrase of a status, static */
void exchange_reap(struct net *n);     /* free finished exchanges; loop thread */
/* Count x as an answer in progress, if its route is not quick. Loop thread. */
void exchange_count(struct exchange *x);
/* Count x as answered in the server and in its holder, even if the handler still runs. Loop
 * thread. */
void exchange_answered(struct exchange *x);
/* Return a new exchange with references of the loop and the handler side; NULL if memory is
 * exhausted. Loop thread. */
struct exchange *exchange_open(struct net *n);
/* Add a reference. Any thread that has a reference. */
void exchange_ref(struct exchange *x);
/* Drop a reference. The loop thread frees x after the last reference. Any thread. */
void exchange_drop(struct exchange *x);
/* Run the route's handler, `again` of exchange_defer, or exchange_rerun after exchange_move. Return
 * true if the handler is postponed and needs the body later. Handler thread. */
bool exchange_run(struct exchange *x);
/* Flush the spill, send a ping if its time has come, and call wake. Drop a reference. */
void exchange_rerun(struct exchange *x);

/* ---- address.c ---- */

struct sockaddr_storage;
struct address {
    uint8_t byte[16]; /* IPv6; IPv4 as ::ffff:a.b.c.d */
    bool known;       /* true if the address is known; false for a unix socket */
};
struct network {
    struct address address;
    int n_bit; /* prefix length, [0, 128] */
};
struct client_networks { /* networks of trusted proxies */
    struct network *v;   /* networks, owned */
    size_t n;
    bool all, local; /* true if the list contains "*", and true for "unix" */
};
/* Set *a to the address of a peer. A UNIX socket has no known address. */
void address_of(struct address *a, const struct sockaddr_storage *from);
/* Return the number that identifies a client without a key; never 0. An IPv6 /64 has one number. */
uint64_t address_id(const struct address *a);
/* Return true for an address of this machine's loopback. */
bool address_is_loopback(const struct address *a);
/* Write the address as text, NUL-terminated, at most n bytes. */
void address_put(char *out, size_t n, const struct address *a);
/* Parse "10.0.0.0/8, ::1, unix" or "*"; text NULL: no networks. Call client_networks_deinit also
 * after an error. ERR_ARG with the malformed item, ERR_MEMORY. */
int client_networks_parse(struct client_networks *w, const char *text, struct err *e);
/* Free the networks; accepts a zeroed or half-parsed w. */
void client_networks_deinit(struct client_networks *w);
/* Replace *a, the sender of the head, by the client that the trusted proxies report. Return false
 * if the sender itself is the client. */
bool client_forwarded(struct address *a, const struct client_networks *w, const struct head *h);

/* ---- guard.c ---- */

struct guard {
    bool loopback; /* true if the server listens on loopback only */
    /* borrowed from net_options: accepted origins and hosts [n_origin], [n_host] */
    const char *const *origin, *const *host;
    int n_origin, n_host;
};
/* Return true if a Host header is allowed; host NULL: the header is absent, which is allowed. */
bool guard_host(const struct guard *g, const char *host);
/* Return true if a page of that Origin may send requests to that Host, or if origin is NULL. */
bool guard_origin(const struct guard *g, const char *origin, const char *host);
bool name_is_loopback(const char *host); /* return true for a Host or address of loopback */

/* ---- route.c ---- */

/* Return the route for method and decoded path, borrowed from r. Set *param to the text matched by
 * {}, owned by the caller. NULL if no route matches: *allow then lists the methods of the path (""
 * if no route has the path). */
const struct net_route *route_find(const struct net_route *r, int n, const char *method,
                                   const char *path, char **param, struct buf *allow);

/* ---- keys.c ---- */

int key_wait_s(struct net_key *key, int64_t now_us); /* return 0, or the seconds to wait */

/* ---- sock.c ---- */

struct sock {
    int fd;
    bool fin; /* true if the client sends no more bytes; the client may still read */
    /* drained: true if the last read left no byte. eof: true at the end of the input */
    bool drained, eof;
};
/* Results of reads and writes; other results are numbers of bytes. Only a handshake returns
 * IO_PLAIN: the client sent HTTP without TLS. */
enum { IO_AGAIN = 0, IO_EOF = -1, IO_FAIL = -2, IO_PLAIN = -3 };
/* Read at most n bytes. Return the number of read bytes, or IO_*. Loop thread. */
ssize_t sock_read(struct sock *s, char *to, size_t n);
/* Write at most n bytes. Return the number of written bytes, IO_AGAIN or IO_FAIL. Loop thread. */
ssize_t sock_write(struct sock *s, const char *from, size_t n);
void sock_event(struct sock *s, unsigned events); /* process epoll events, before any read */

/* ---- tls.c ---- */

struct tls_server;
struct tls;
/* Open a server's TLS from two PEM files. The caller owns *t, and calls tls_server_close also after
 * an error. ERR_ARG if a file cannot be used or the key does not match the certificate,
 * ERR_MEMORY. */
int tls_server_open(struct tls_server **t, const char *cert, const char *key, struct err *e);
/* Free the keys of a server; NULL is allowed. */
void tls_server_close(struct tls_server *t);
/* Return a TLS connection over s, which is borrowed until tls_close; NULL if memory is
 * exhausted. */
struct tls *tls_accept(struct tls_server *t, struct sock *s);
/* Free the connection, without a message to the peer. The socket remains open. */
void tls_close(struct tls *t);
/* Advance the handshake. Return 1 if it is complete; otherwise IO_AGAIN, IO_FAIL or IO_PLAIN. */
int tls_handshake(struct tls *t);
/* Read at most n decrypted bytes. Return the number of bytes, or IO_*. */
ssize_t tls_read(struct tls *t, char *s, size_t n);
/* Write at most n bytes. Return their number, IO_AGAIN or IO_FAIL. */
ssize_t tls_write(struct tls *t, const char *s, size_t n);
/* Send close_notify without waiting for the close_notify of the peer. */
void tls_goodbye(struct tls *t);

/* ---- listen.c, systemd.c ---- */

struct listener {
    int fd, port; /* port 0: a unix socket */
    bool loopback;
    /* path: path of the unix socket that listen_close removes; "" if none was created */
    char url[160], path[112];
};
/* Open the socket: from systemd, for o->uds, or for o->host and o->port. Call listen_close also
 * after an error. ERR_ARG for an unknown host or a too long path, ERR_IO if the address is in use
 * or forbidden, ERR_MEMORY. */
int listen_open(struct listener *l, const struct net_options *o, struct err *e);
/* Check that the host can be resolved. ERR_ARG for a host without an address. */
int listen_check(const char *host, int port, struct err *e);
int listen_passed(void); /* return the first socket from systemd, or -1 */
/* Close the socket and remove the path of its UNIX socket. */
void listen_close(struct listener *l);

/* ---- conn.c ---- */

enum conn_state {
    CONN_HANDSHAKE, /* TLS handshake */
    CONN_HEAD,      /* the connection waits for a head or receives it */
    CONN_BODY,      /* the connection receives the body */
    CONN_ANSWER,    /* the handler runs, or the answer is written */
    /* socket that is shut down for writing; input is discarded. The system resets a connection that
     * is closed with unread input. The client then loses the answer's end. */
    CONN_LINGER,
};
struct conn {
    struct net *net;          /* borrowed */
    struct conn *prev, *next; /* borrowed: neighbours in net.conns, or next in net.dead */
    struct conn *next_hot; /* borrowed: next connection with more to read than its turn allowed */
    struct sock sock;
    struct tls *tls; /* TLS over sock, owned; NULL if none */
    enum conn_state state;
    bool local;  /* true for a unix socket */
    bool refuse; /* true if the connection is above the limit and is rejected with 503 */
    bool probed, hot, dead, idle;
    bool has_received;                  /* true after its first byte: a key may follow soon */
    struct holder *holder;              /* owned: a reference, until the connection ends */
    struct conn *idle_prev, *idle_next; /* borrowed: neighbours in its holder's list, if idle */
    struct buf in;                      /* owned: bytes read, but not yet processed */
    struct chunks chunks;
    /* owned: a reference to the exchange in progress; NULL except in CONN_BODY and CONN_ANSWER */
    struct exchange *x;
    int64_t accepted_us, deadline_us; /* time of acceptance; deadline (0 if none) */
    struct address address;
    char peer[80];
};
/* Open a connection for an accepted socket. Close fd after a failure. Loop thread. */
void conn_open(struct net *n, int fd, const char *peer, const struct address *address);
void conn_pump(struct conn *c); /* advance the state machine without blocking */
/* Process epoll events of c, then advance c. Loop thread. */
void conn_event(struct conn *c, unsigned events);
void conn_sweep(struct conn *c, int64_t now_us); /* check deadlines, send pings */
/* Reject the body with 503 because another holder needs the memory. */
void conn_refuse_body(struct conn *c);
void conn_kill(struct conn *c); /* disconnect; c is freed at the end of the round */
/* Check the invariants of conn.c for all connections. Return NULL, or a description of the
 * violation. */
const char *conn_check(const struct net *n);

/* ---- check.c: checks before a request is handled ---- */

/* Set route, key and headers of an exchange with a complete head. Return false if the exchange was
 * rejected and answered. Loop thread. */
bool check_head(struct conn *c, struct exchange *x);
extern const char body_full[]; /* message of a 503 if memory for bodies is exhausted */

/* ---- access.c, count.c: record finished answers. Loop thread ---- */

/* Append a line of an answer to the access log, if any. */
void access_line(struct net *n, const struct exchange *x, int status);
void access_flush(struct net *n); /* write pending lines, at access_due_us */
struct answer_count;              /* [n_route + 1] */
/* Allocate the counters of all routes. Return false if memory is exhausted. */
bool count_open(struct net *n);
/* Count an answer by its route and status. */
void count_answer(struct net *n, const struct exchange *x, int status);
void count_refused(struct net *n); /* count a 503 without an exchange */

/* ---- the server ---- */

struct net {
    struct net_options o; /* options with defaults set; their pointers are the caller's */
    struct listener listener;
    struct guard guard;
    struct client_networks proxies;
    struct tls_server *tls; /* TLS of the server, owned; NULL: no TLS */
    int epoll, event, access_fd;
    pthread_t loop_thread, stream_thread;
    struct handler *handler; /* handler threads, owned [n_handler] */
    int n_handler, n_handler_open;
    /* atomic, because the loop may immediately call handlers that read the field */
    atomic_bool loop_open;
    bool stream_open;
    /* owned queues of references, struct exchange *. The loop reads inbox and ended, the stream
     * thread reads woken. */
    struct queue *inbox, *woken, *ended;
    struct queue *finished; /* owned queue of struct finished, from handlers to the loop */
    size_t exchange_max;
    /* owned; no_memory: [n_route + 1]; the last item is for requests without a route */
    struct fixed no_room, no_tls, *no_memory;

    /* fields of the loop thread */
    /* owned: open and dead connections. hot and hot_last are the oldest and the newest open
     * connection with more input. */
    struct conn *conns, *hot, *hot_last, *dead;
    /* owned: holders, as a list and by number; freed with their last reference */
    struct holder *holders, *holder_bucket[HOLDER_BUCKETS];
    struct lane lane[N_LANE];
    struct share *bodies; /* owned; shared memory of bodies, in bytes */
    char *scratch;        /* owned: buffer of one read [READ_BYTES] */
    /* access_to: writer of the access log, borrowed; NULL if none. access_own: the same writer,
     * owned; NULL if it is the program log's writer. */
    struct writer *access_to, *access_own;
    struct buf access;     /* pending lines of the access log */
    int64_t access_due_us; /* time at which the pending lines are written */
    /* time at which free memory is returned if no request is in flight; 0 if none */
    int64_t trim_us;
    bool access_at_once; /* true if the log is a terminal, which gets each line immediately */
    bool paused;         /* true if accepting is paused, because no descriptors are left */
    bool listening;

    atomic_bool rung, draining, cut;
    _Atomic int64_t drain_until_us;
    atomic_int n_conn, n_exchange, n_answer;
    _Atomic int64_t n_accepted, n_request, n_hangup, n_status[6];
    struct answer_count *count; /* counters of each route, owned */
};
void net_ring(struct net *n); /* wake the loop thread; any thread */
/* Run the loop until the server ends. The argument is a struct net. Returns NULL. */
void *loop_run(void *net);
/* maximum delay of lines of the access log, so that many answers share one write */
enum { ACCESS_MS = 100 };
/* default of net_options.ping_ms */
enum { PING_MS = 15000 };
/* Maximum numbers of connections beyond conn_max. REFUSED_MAX: connections of holders below their
 * share. FRESH_MAX: further connections without a received byte. */
enum { REFUSED_MAX = 128, FRESH_MAX = 1024 };
/* time limit of handlers for the end of the answers that net_drain truncates */
enum { CUT_MS = 1000 };
/* READ_BYTES: size of one read; the limit keeps a long body from delaying other connections.
 * LINGER_MS: time in which a client may read a rejection before the close. LINGER_DRAIN_MS: time in
 * place of LINGER_MS while the server drains. */
enum { READ_BYTES = 64 * 1024, LINGER_MS = 2000, LINGER_DRAIN_MS = 200 };

#endif

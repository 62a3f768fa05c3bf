/* net_impl.h - private to net: the server, a connection, an exchange, and which thread owns what.
 *
 *   loop thread     struct conn, the sockets, fields of an exchange marked "loop"
 *   handler side    fields marked "handler": the handler thread until the handler returns, then
 *                   the stream thread, or a handler thread after exchange_move; `task`: one at
 *                   a time
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

enum { RING_BYTES = 64 * 1024 };
struct ring {
    char *data;                  /* owned, [RING_BYTES]; NULL before the stream begins */
    _Atomic uint64_t head, tail; /* bytes written, bytes read so far */
};
bool ring_open(struct ring *r);
void ring_close(struct ring *r);
/* writer: returns how many bytes fitted */
size_t ring_put(struct ring *r, const char *s, size_t n);
size_t ring_span(const struct ring *r, const char **s); /* reader: contiguous bytes */
void ring_take(struct ring *r, size_t n);
size_t ring_used(const struct ring *r);

/* ---- holder.c ---- */

enum lane_kind { LANE_QUICK, LANE_SHORT, LANE_LONG, N_LANE };
enum { HOLDER_BUCKETS = 1024 };
struct line {                      /* a holder's queue in a lane */
    struct exchange *first, *last; /* exchanges that wait */
    int n_busy;                    /* threads that it uses */
    double due;                    /* time of its turn, in the lane's clock */
    struct line *prev, *next;      /* in the ring of turns, if one waits */
};
struct conn_list {
    struct conn *first, *last;
};
struct holder {
    uint64_t id;
    double weight; /* share= of its key; 1 for an address */
    struct holder *next_in_bucket, *prev, *next;
    int n_ref; /* connections and exchanges that refer to it */
    /* numbers of its key or address; a connection counts for its address before its first request
     * with a key */
    int n_conn, n_exchange;
    /* connections without a complete head, oldest first: that have sent bytes; that have not */
    struct conn_list idle, silent;
    struct line line[N_LANE];
    struct exchange *body_newest; /* newest of the unfinished ones that have acquired memory */
};
/* returns a reference; NULL if memory ran out */
struct holder *holder_get(struct net *n, uint64_t id);
struct holder *holder_find(const struct net *n, uint64_t id); /* NULL if none */
void holder_drop(struct net *n, struct holder *h);            /* NULL is allowed */
void idle_add(struct conn *c, bool oldest); /* c may be closed for another; listed in c->holder */
void idle_received(struct conn *c);         /* bytes arrived on c */
void idle_drop(struct conn *c);
void conn_claim(struct conn *c, struct holder *h); /* transfer c to h */
/* Return an idle connection of the holder with most connections for its weight, among those that
 * have an idle one if `any`. One that has sent nothing goes first, but only if it was accepted
 * before `silent_us`. NULL if that holder has none that may be closed. */
struct conn *idle_victim(const struct net *n, bool any, int64_t silent_us);

/* ---- body.c ---- */

/* larger ones use shared memory and the lane for long bodies */
enum { BODY_SMALL_BYTES = 64 * 1024 };
/* Return true if a body of n bytes would get its memory now. */
bool body_fits(const struct exchange *x, int64_t n);
/* acquire memory for the bytes so far; false if there is none */
bool body_acquire(struct exchange *x);
void body_settle(struct exchange *x); /* mark the body as complete */
void body_release(struct exchange *x);

/* ---- lane.c ---- */

struct lane {
    struct queue *queue;  /* owned: struct exchange *, to its threads; NULL ends a thread */
    int n_thread, n_each; /* threads; maximum for one holder */
    int n_busy;
    atomic_int n_waiting;
    struct line *turn; /* next turn; NULL if none waits */
    double now;        /* due time of the latest turn */
};
struct finished {
    struct exchange *x; /* a reference */
    enum lane_kind lane;
};
int lane_open(struct net *n); /* call lane_close in any case */
void lane_close(struct net *n);
void lane_add(struct net *n, struct exchange *x); /* queue x for a handler thread */
/* Remove x from its lane. Returns true if no handler has begun x; none will then. */
bool lane_remove(struct net *n, struct exchange *x);
void lane_reap(struct net *n); /* process handlers that have returned */
/* Report that the handler has returned; consumes a reference. Handler thread. */
void lane_finished(struct exchange *x, enum lane_kind lane);

/* ---- error.c: answers for lack of memory or room, prepared at the start ---- */

struct fixed {
    char *head, *whole; /* owned: without body and Content-Length, and with them */
};
int fixed_open(struct net *n, struct err *e); /* requires n->o */
void fixed_close(struct net *n);              /* safe on a zeroed net */
/* Return the answer for lack of memory, in the format of the exchange's route; borrowed from its
 * net. */
const char *fixed_no_memory(const struct exchange *x, bool body);

/* ---- an exchange ---- */

enum stage {
    STAGE_NONE,     /* nothing to send yet                              */
    STAGE_BEGUN,    /* `out` is valid, the ring may be */
    STAGE_COMPLETE, /* and nothing will be added: the loop owns `spill` too */
};
enum task { TASK_IDLE, TASK_QUEUED, TASK_RUN, TASK_RUN_AGAIN };

struct exchange {
    struct net *net;
    atomic_int n_ref; /* references: loop, handler side, one per queue that contains it */

    /* written by the loop before the handler is called, then read-only */
    struct head head;
    struct buf body;
    const struct net_route *route;
    char *param; /* owned */
    struct net_key *key;
    char id[132], peer[80];
    uint64_t share_id;            /* of the key, else of the client's address; never 0 */
    int64_t start_us, arrival_us; /* when its head and its body were complete */
    bool close;                   /* close the connection after this answer */
    /* true: its wake runs on handler threads; set by the handler side before a message */
    bool moved;

    /* handler */
    struct buf header; /* lines added to the answer's head */
    net_wake *wake;
    void *wake_ctx;
    bool over, chunked, sse;
    int status;
    struct buf out, spill; /* spill: pushed bytes that wait for space in the ring */
    size_t spill_at;
    /* borrowed from the net: answer that replaces out and all that follows; NULL: none */
    const char *fixed;
    atomic_bool lost; /* memory ran out: later pushes are dropped, the client is disconnected */

    /* between both */
    struct ring ring;
    _Atomic enum stage stage;
    _Atomic enum task task;
    atomic_bool disconnected, ping, starved, in_inbox, needs_lane;
    bool closes; /* the answer's head has "Connection: close"; valid from STAGE_BEGUN on */

    /* loop */
    struct conn *conn;     /* NULL if the connection is closed */
    struct holder *holder; /* of share_id; NULL if rejected before it had one */
    enum lane_kind lane;
    bool waits;               /* waits for a thread of its lane */
    bool unfinished, settled; /* body: is in its holder's list; is complete */
    int64_t n_acquired;       /* bytes of shared memory acquired */
    struct exchange *body_newer, *body_older;
    struct exchange *wait_prev, *wait_next; /* list of its holder and lane, oldest first */
    size_t out_at;
    uint64_t n_sent;
    uint64_t n_body;
    int64_t ping_us; /* when the next ping is due; 0: none */
};

void exchange_reap(struct net *n); /* free finished exchanges; loop thread */
struct exchange *exchange_new(struct net *n);
void exchange_ref(struct exchange *x);
void exchange_drop(struct exchange *x);
/* Run the route's handler, or exchange_rerun after exchange_move. Handler thread. */
void exchange_run(struct exchange *x);
/* Flush the spill, ping, call wake; drops a reference. */
void exchange_rerun(struct exchange *x);

/* ---- address.c ---- */

struct sockaddr_storage;
struct address {
    uint8_t byte[16]; /* IPv6; IPv4 as ::ffff:a.b.c.d */
    bool known;       /* false: a unix socket         */
};
struct network {
    struct address address;
    int n_bit; /* prefix length, [0, 128] */
};
struct client_networks { /* networks of trusted proxies */
    struct network *v;   /* owned */
    size_t n;
    bool all, local; /* "*", "unix" */
};
void address_of(struct address *a, const struct sockaddr_storage *from);
/* Return the number that identifies a client without a key; never 0. All of an IPv6 /64 has one
 * number. */
uint64_t address_id(const struct address *a);
void address_put(char *out, size_t n, const struct address *a);
/* Parse "10.0.0.0/8, ::1, unix" or "*"; text NULL: none. Call client_networks_deinit in any
 * case. */
int client_networks_parse(struct client_networks *w, const char *text, struct err *e);
void client_networks_deinit(struct client_networks *w);
/* Replace *a, the sender of the head, by the client that trusted proxies name. Returns false if the
 * sender is the client. */
bool client_forwarded(struct address *a, const struct client_networks *w, const struct head *h);

/* ---- guard.c ---- */

struct guard {
    bool loopback; /* the server listens on loopback only */
    const char *const *origin, *const *host;
    int n_origin, n_host;
};
bool guard_host(const struct guard *g, const char *host);
bool guard_origin(const struct guard *g, const char *origin, const char *host);
bool name_is_loopback(const char *host); /* host: of a Host header, or an address */

/* ---- route.c ---- */

/* Return the route for method and decoded path, and in *param what {} matched (allocated). NULL if
 * none: *allow then lists the methods of the path ("" if no route has it). */
const struct net_route *route_find(const struct net_route *r, int n, const char *method,
                                   const char *path, char **param, struct buf *allow);

/* ---- keys.c ---- */

int key_wait_s(struct net_key *key, int64_t now_us); /* return 0, or the seconds to wait */

/* ---- sock.c ---- */

struct sock {
    int fd;
    bool fin;          /* the client sends no more; it may still read */
    bool drained, eof; /* result of the last read */
};
enum { IO_AGAIN = 0, IO_EOF = -1, IO_FAIL = -2 }; /* otherwise a number of bytes */
ssize_t sock_read(struct sock *s, char *to, size_t n);
ssize_t sock_write(struct sock *s, const char *from, size_t n);
void sock_event(struct sock *s, unsigned events); /* process epoll events, before any read */

/* ---- tls.c ---- */

struct tls_server;
struct tls;
int tls_server_open(struct tls_server **t, const char *cert, const char *key, struct err *e);
void tls_server_close(struct tls_server *t);
/* borrows s; NULL if memory ran out */
struct tls *tls_accept(struct tls_server *t, struct sock *s);
void tls_close(struct tls *t);
int tls_handshake(struct tls *t); /* 1: done, IO_AGAIN, IO_FAIL */
ssize_t tls_read(struct tls *t, char *s, size_t n);
ssize_t tls_write(struct tls *t, const char *s, size_t n);
void tls_goodbye(struct tls *t);

/* ---- listen.c, systemd.c ---- */

struct listener {
    int fd, port; /* port 0: a unix socket */
    bool loopback;
    char url[160], path[112]; /* path: of a unix socket created here, to be removed */
};
int listen_open(struct listener *l, const struct net_options *o, struct err *e);
int listen_passed(void); /* the first socket from systemd, or -1 */
void listen_close(struct listener *l);

/* ---- conn.c ---- */

enum conn_state {
    CONN_HANDSHAKE, /* TLS handshake */
    CONN_HEAD,      /* waiting for a head, or receiving it */
    CONN_BODY,      /* receiving the body */
    CONN_ANSWER,    /* the handler runs, or the answer is being written */
    /* our side is shut down; input is discarded, because the system resets a connection that is
     * closed with unread input, and the client loses the answer's end */
    CONN_LINGER,
};
struct conn {
    struct net *net;
    struct conn *prev, *next;
    struct conn *next_hot; /* has more to read than its turn allowed */
    struct sock sock;
    struct tls *tls; /* over sock; NULL if none */
    enum conn_state state;
    bool local;  /* a unix socket        */
    bool refuse; /* above the connection limit: 503 */
    bool probed, hot, dead, idle;
    bool has_received; /* true after its first byte: a key may follow soon */
    struct holder *holder;
    struct conn *idle_prev, *idle_next;
    struct buf in; /* read, not yet processed */
    struct chunks chunks;
    struct exchange *x;               /* CONN_BODY, CONN_ANSWER */
    int64_t accepted_us, deadline_us; /* deadline 0: none */
    struct address address;
    char peer[80];
};
void conn_open(struct net *n, int fd, const char *peer, const struct address *address);
void conn_pump(struct conn *c); /* advance the state machine without blocking */
void conn_event(struct conn *c, unsigned events);
void conn_sweep(struct conn *c, int64_t now_us); /* check deadlines, send pings */
void conn_refuse_body(struct conn *c); /* reject with 503: another holder needs the memory */
void conn_kill(struct conn *c);        /* disconnect; freed at the end of the round */

/* ---- check.c: checks before a request is handled ---- */

/* Set route, key and headers of an exchange whose head is complete. Returns false if it was
 * rejected and answered. Loop thread. */
bool check_head(struct conn *c, struct exchange *x);
extern const char body_full[]; /* message of a 503 */

/* ---- access.c, count.c: record finished answers. Loop thread ---- */

void access_line(struct net *n, const struct exchange *x, int status);
void access_flush(struct net *n); /* at access_due_us */
struct answer_count;              /* [n_route + 1] */
bool count_open(struct net *n);
void count_answer(struct net *n, const struct exchange *x, int status);
void count_refused(struct net *n); /* 503 without an exchange */

/* ---- the server ---- */

struct net {
    struct net_options o; /* with defaults set */
    struct listener listener;
    struct guard guard;
    struct client_networks proxies;
    struct tls_server *tls; /* NULL: none */
    int epoll, event, access_fd;
    pthread_t loop_thread, stream_thread;
    struct handler *handler; /* owned [n_handler] */
    int n_handler, n_handler_open;
    atomic_bool loop_open; /* read by handlers, which the loop may call immediately */
    bool stream_open;
    /* of struct exchange *: to loop, to stream thread, to loop */
    struct queue *inbox, *woken, *ended;
    struct queue *finished; /* of struct finished: from handlers to loop */
    size_t n_exchange_max;
    struct fixed no_room, *no_memory; /* owned; no_memory: [n_route + 1], the last for no route */

    /* loop thread */
    struct conn *conns, *hot, *hot_last, *dead; /* hot: oldest first */
    struct holder *holders, *holder_bucket[HOLDER_BUCKETS];
    struct lane lane[N_LANE];
    struct share *bodies; /* owned: bytes */
    char *scratch;        /* buffer of one read */
    /* writer of the access log, NULL if none; access_own: owned, NULL if it is the program log's */
    struct writer *access_to, *access_own;
    struct buf access;     /* access log lines not yet written */
    int64_t access_due_us; /* when to write them */
    bool access_at_once;   /* the log is a terminal: write at once */
    bool paused;           /* no descriptors left: does not accept */
    bool listening;

    atomic_bool rung, draining;
    _Atomic int64_t drain_until_us;
    atomic_int n_conn, n_exchange;
    _Atomic int64_t n_accepted, n_request, n_hangup, n_status[6];
    struct answer_count *count; /* owned */
};
void net_ring(struct net *n); /* wake the loop thread; any thread */
void *loop_run(void *net);
enum { ACCESS_MS = 100 };
/* Connections beyond n_conn_max: N_REFUSED_MAX for holders below their share, N_FRESH_MAX more that
 * have sent nothing yet. */
enum { N_REFUSED_MAX = 128, N_FRESH_MAX = 1024 };
enum { READ_BYTES = 64 * 1024, LINGER_MS = 2000, LINGER_DRAIN_MS = 200 };

#endif

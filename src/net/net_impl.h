/* net_impl.h - private to net: the server, a connection, an exchange, and who may touch what.
 *
 *   loop thread     struct conn, the sockets; of an exchange what is marked loop
 *   whoever runs    what is marked handler: the handler thread until it has returned, then the
 *   an exchange     stream thread, or a handler thread where it moved; one at a time (`task`)
 *   between them    atomics, queues, and the ring */
#ifndef QUOTH_NET_IMPL_H
#define QUOTH_NET_IMPL_H

#include "head.h"
#include "net.h"

#include "base/queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/types.h>

/* ---- ring.c: bytes from one thread to another ---- */

enum { RING_BYTES = 64 * 1024 };
struct ring {
    char *data;                  /* owned, [RING_BYTES]; NULL before the stream begins */
    _Atomic uint64_t head, tail; /* written, read so far                              */
};
bool ring_open(struct ring *r);
void ring_close(struct ring *r);
size_t ring_put(struct ring *r, const char *s, size_t n); /* the writer; how many fitted */
size_t ring_span(const struct ring *r, const char **s);   /* the reader: bytes that lie together */
void ring_take(struct ring *r, size_t n);
size_t ring_used(const struct ring *r);

/* ---- an exchange ---- */

enum stage {
    STAGE_NONE,     /* nothing to send yet                              */
    STAGE_BEGUN,    /* `out` is there, the ring may be                  */
    STAGE_COMPLETE, /* and nothing will be added any more: `spill` too is the loop's */
};
enum task { TASK_IDLE, TASK_QUEUED, TASK_RUN, TASK_RUN_AGAIN };

struct exchange {
    struct net *net;
    atomic_int n_ref; /* loop, handler's side, and one for each queue it is in */

    /* Written by the loop before a handler sees it, then only read. */
    struct head head;
    struct buf body;
    const struct net_route *route;
    char *param; /* owned */
    struct net_key *key;
    char id[132], peer[80];
    int64_t start_us;
    bool close; /* the connection ends with this answer */

    /* handler */
    struct buf header; /* lines added to the answer's head */
    net_wake *wake;
    void *wake_ctx;
    bool over, chunked, sse, moved;
    int status;
    struct buf out, spill; /* spill: pushed bytes that wait for the ring */
    size_t spill_at;

    /* between both */
    struct ring ring;
    _Atomic enum stage stage;
    _Atomic enum task task;
    atomic_bool gone, ping, starved, in_inbox;
    bool said_close; /* in the head of the answer; valid from STAGE_BEGUN on */

    /* loop */
    struct conn *conn; /* NULL: the connection has gone */
    size_t out_at;
    uint64_t n_sent;
    int64_t ping_us; /* when the next comment is due; 0: none */
};

struct exchange *exchange_new(struct net *n);
void exchange_ref(struct exchange *x);
void exchange_drop(struct exchange *x);
void exchange_run(struct exchange *x);   /* handler thread: the route's handler; of one that moved, rerun */
void exchange_rerun(struct exchange *x); /* spill, ping, wake; drops a reference                          */

/* ---- guard.c ---- */

struct guard {
    bool loopback; /* the server listens there alone */
    const char *const *origin, *const *host;
    int n_origin, n_host;
};
bool guard_host(const struct guard *g, const char *host);
bool guard_origin(const struct guard *g, const char *origin, const char *host);
bool name_is_loopback(const char *host); /* of a Host header, or an address */

/* ---- route.c ---- */

/* The route for method and decoded path, and in *param what {} stands for (allocated). NULL: none,
 * and *allow lists the methods that the path has ("" for a path that is not there). */
const struct net_route *route_find(const struct net_route *r, int n, const char *method,
                                   const char *path, char **param, struct buf *allow);

/* ---- keys.c ---- */

int key_wait_s(struct net_key *key, int64_t now_us); /* 0: go on; else seconds to wait */

/* ---- sock.c ---- */

struct sock {
    int fd;
    bool fin;          /* the client will send no more; may still listen */
    bool drained, eof; /* what the last read found                       */
};
enum { IO_AGAIN = 0, IO_EOF = -1, IO_FAIL = -2 }; /* else bytes */
ssize_t sock_read(struct sock *s, char *to, size_t n);
ssize_t sock_write(struct sock *s, const char *from, size_t n);
void sock_event(struct sock *s, unsigned events); /* what epoll says of it, before any read */

/* ---- tls.c ---- */

struct tls_server;
struct tls;
int tls_server_open(struct tls_server **t, const char *cert, const char *key, struct err *e);
void tls_server_close(struct tls_server *t);
struct tls *tls_accept(struct tls_server *t, struct sock *s); /* borrows s; NULL: no memory */
void tls_close(struct tls *t);
int tls_handshake(struct tls *t); /* 1: done, IO_AGAIN, IO_FAIL */
ssize_t tls_read(struct tls *t, char *s, size_t n);
ssize_t tls_write(struct tls *t, const char *s, size_t n);
void tls_goodbye(struct tls *t);

/* ---- listen.c, systemd.c ---- */

struct listener {
    int fd, port; /* port 0: a unix socket */
    bool loopback;
    char url[160], path[112]; /* path: of a unix socket that we made, to be removed */
};
int listen_open(struct listener *l, const struct net_options *o, struct err *e);
int listen_passed(void); /* the first socket from systemd, or -1 */
void listen_close(struct listener *l);

/* ---- conn.c ---- */

enum conn_state {
    CONN_HANDSHAKE, /* of TLS                                                          */
    CONN_HEAD,      /* a head is awaited, or arriving                                   */
    CONN_BODY,      /* the body is arriving                                            */
    CONN_ANSWER,    /* the handler's, and the answer is written as it comes            */
    CONN_LINGER,    /* our side is shut; what the client still sends is thrown away, so that
                     * the system does not reset the connection under our last words    */
};
struct conn {
    struct net *net;
    struct conn *prev, *next;
    struct conn *next_hot; /* has more to read than was its turn */
    struct sock sock;
    struct tls *tls; /* over sock; NULL: none */
    enum conn_state state;
    bool local;  /* a unix socket        */
    bool refuse; /* above the limit: 503 */
    bool probed, hot, dead;
    struct buf in; /* read, not used yet */
    struct chunks chunks;
    struct exchange *x;  /* CONN_BODY, CONN_ANSWER */
    int64_t deadline_us; /* 0: none */
    char peer[80];
};
void conn_open(struct net *n, int fd, const char *peer, bool local);
void conn_pump(struct conn *c); /* do what can be done without waiting */
void conn_event(struct conn *c, unsigned events);
void conn_sweep(struct conn *c, int64_t now_us); /* deadlines, pings */
void conn_kill(struct conn *c);                  /* cut off; freed at the end of the round */

/* ---- check.c: may this request be answered? ---- */

/* Fill in route, key and headers of an exchange whose head is there. true: go on; false: it has
 * been answered with a refusal. Loop thread. */
bool check_head(struct conn *c, struct exchange *x);

/* ---- access.c, count.c: an answer is over. Loop thread ---- */

void access_line(struct net *n, const struct exchange *x, int status);
void access_flush(struct net *n); /* at access_due_us */
struct answer_count;              /* [n_route + 1] */
bool count_open(struct net *n);
void count_answer(struct net *n, const struct exchange *x, int status);

/* ---- the server ---- */

struct net {
    struct net_options o; /* with defaults filled in */
    struct listener listener;
    struct guard guard;
    struct tls_server *tls; /* NULL: none */
    int epoll, event, access_fd;
    pthread_t loop_thread, stream_thread,
        *handler_thread; /* [n_handler + 1]: the last, of quick ones */
    int n_handler_open;
    atomic_bool loop_open; /* read by handlers, whom the loop may call at once */
    bool stream_open;
    struct queue *inbox, *fresh, *quick,
        *woken; /* of struct exchange *: to loop, handlers, the quick one, stream thread */
    size_t n_exchange_max;

    /* loop thread */
    struct conn *conns, *hot, *dead;
    char *scratch;         /* one read */
    struct buf access;     /* lines of the access log that are not written yet */
    int64_t access_due_us; /* when they are     */
    bool access_at_once;   /* to a terminal     */
    bool paused;           /* no descriptors left: not accepting */
    bool listening;

    atomic_bool rung, draining;
    _Atomic int64_t drain_until_us;
    atomic_size_t n_body_held;
    atomic_int n_conn, n_exchange;
    _Atomic int64_t n_accepted, n_request, n_hangup, n_status[6];
    struct answer_count *count; /* owned */
};
void net_ring(struct net *n); /* wake the loop thread; any thread */
void *loop_run(void *net);
enum { ACCESS_MS = 100 };
enum { READ_BYTES = 64 * 1024, N_REFUSED_MAX = 128, LINGER_MS = 2000, LINGER_DRAIN_MS = 200 };

#endif

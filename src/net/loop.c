/* loop.c - the loop thread. It waits for sockets, messages of other threads, and deadlines.
 *
 * A round has these parts, in this order:
 *   events of sockets
 *   new connections: after the input of older connections, because make_place compares their
 *   holders exchanges with new bytes of their answers
 *   connections with more input than their turn allowed
 *   deadlines: four times a second while there are connections
 *   the access log
 *   free memory, which is returned to the system if no request was in flight for a second
 *   closed connections: freed last, because earlier events may refer to them
 *
 * Other threads wake the loop by writing to an eventfd. Each write causes an event (EPOLLET), so
 * the loop need not read the counter. */
#include "net_impl.h"

#include "base/check.h"
#include "base/log.h"
#include "base/os.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* SWEEP_MS: resolution of deadlines. ACCEPTS_MAX: maximum of new connections per round, so that
 * many new connections do not delay answers. ROUND_EVENTS: maximum of events of one epoll_wait; the
 * next round processes the rest. TRIM_MS: time without a request after which free memory is
 * returned to the system. */
enum { SWEEP_MS = 250, ROUND_EVENTS = 256, ACCEPTS_MAX = 64, TRIM_MS = 1000 };
/* maximum number of hot connections per round, which takes a few milliseconds */
enum { HOT_MAX = 16 };

void net_ring(struct net *n)
{
    uint64_t one = 1;
    if (atomic_exchange(&n->rung, true)) return;
    ssize_t put = write(n->event, &one, sizeof one);
    /* the write cannot fail: the counter overflows only after 2^64 rings */
    (void)put;
}

/* Process the messages of other threads. `rung` is cleared before the queue is read. The sender of
 * a later message signals again, so no message is missed. */
static void take_ring(struct net *n)
{
    struct exchange *x;
    lane_reap(n);
    if (!atomic_exchange(&n->rung, false)) return;
    while (queue_pop(n->inbox, &x, 0)) {
        atomic_store(&x->in_inbox, false);
        /* queue a moved exchange in its lane, because only the loop may change lanes */
        if (atomic_exchange(&x->needs_lane, false)) lane_add(n, x);
        if (x->conn) conn_pump(x->conn);
        exchange_drop(x);
    }
}

/* ---- accepting ---- */

static void describe_peer(char *out, size_t n, const struct sockaddr_storage *a)
{
    char ip[INET6_ADDRSTRLEN];
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
    if (a->ss_family == AF_INET && inet_ntop(AF_INET, &v4->sin_addr, ip, sizeof ip))
        snprintf(out, n, "%s:%d", ip, ntohs(v4->sin_port));
    else if (a->ss_family == AF_INET6 && inet_ntop(AF_INET6, &v6->sin6_addr, ip, sizeof ip))
        snprintf(out, n, "[%s]:%d", ip, ntohs(v6->sin6_port));
    else
        snprintf(out, n, "unix");
}

/* Add or remove the listening socket in epoll. The socket's events are level-triggered, so
 * connections beyond ACCEPTS_MAX cause an event in the next round. */
static void listen_on(struct net *n, bool on)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &n->listener};
    if (on == n->listening) return;
    epoll_ctl(n->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, n->listener.fd, &ev);
    n->listening = on;
}

/* Accept at most ACCEPTS_MAX connections, so that many new connections do not delay open
 * connections. Pause the listener while all file descriptors are in use, because its
 * level-triggered events would keep the loop busy. */
static void accept_some(struct net *n)
{
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        struct sockaddr_storage a = {0};
        socklen_t n_a = sizeof a;
        char peer[80];
        int fd = accept4(n->listener.fd, (struct sockaddr *)&a, &n_a, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            if (!n->paused) log_warn("all file descriptors are in use: new connections wait");
            n->paused = true; /* the loop accepts again after the next sweep */
            listen_on(n, false);
        }
        if (fd < 0) return;
        describe_peer(peer, sizeof peer, &a);
        struct address from;
        address_of(&from, &a);
        conn_open(n, fd, peer, &from);
    }
}

/* ---- time ---- */

/* Wake the handlers of all answers in flight, because the server stops. */
static void cut_answers(struct net *n)
{
    atomic_store(&n->cut, true);
    for (struct conn *c = n->conns; c; c = c->next)
        if (c->x && c->state == CONN_ANSWER) exchange_wake(c->x);
}

/* Close connections of a server that drains, and stop accepting. Close idle connections immediately
 * and other connections at the end. Close connections with an answer in flight CUT_MS later. */
static void sweep_draining(struct net *n, int64_t now)
{
    if (n->listener.fd >= 0) {
        listen_on(n, false);
        listen_close(&n->listener);
    }
    int64_t over_us = now - atomic_load(&n->drain_until_us);
    if (over_us >= 0 && !atomic_load(&n->cut)) cut_answers(n);
    bool late = over_us >= CUT_MS * 1000;
    for (struct conn *c = n->conns, *next; c; c = next) {
        next = c->next;
        if (c->state == CONN_LINGER && c->deadline_us > now + LINGER_DRAIN_MS * 1000)
            c->deadline_us = now + LINGER_DRAIN_MS * 1000;
        bool idle = c->state == CONN_HANDSHAKE || c->state == CONN_HEAD || c->state == CONN_BODY;
        if (late || idle) conn_kill(c);
    }
}

static void sweep(struct net *n, int64_t now)
{
    if (n->paused) {
        n->paused = false;
        listen_on(n, n->listener.fd >= 0);
    }
    for (struct conn *c = n->conns, *next; c; c = next) {
        next = c->next;
        conn_sweep(c, now);
    }
}

/* Return the memory that is free after many requests to the system. Each thread that parsed a
 * request has a separate arena, whose free pages malloc keeps. */
static void trim(struct net *n, bool events, int64_t now)
{
    if (atomic_load(&n->n_exchange) > 0 || (events && !n->trim_us))
        n->trim_us = now + TRIM_MS * 1000;
    if (!n->trim_us || now < n->trim_us) return;
    n->trim_us = 0;
    os_trim_memory();
}

/* ---- the loop ---- */

static void pump_hot(struct net *n)
{
    for (int i = 0; n->hot && i < HOT_MAX; i++) {
        struct conn *c = n->hot;
        n->hot = c->next_hot;
        c->hot = false;
        conn_pump(c);
    }
}

/* Free closed connections. Connections on the hot list wait for the next round. */
static void free_dead(struct net *n)
{
    struct conn *c = n->dead;
    n->dead = NULL;
    for (struct conn *next; c; c = next) {
        next = c->next;
        if (c->hot)
            c->next = n->dead, n->dead = c;
        else
            free(c);
    }
}

/* Process n_ev events. The data of an event is its connection, the listener, or n for a ring.
 * Events of rings are ignored, because take_ring runs in every round. */
static void dispatch(struct net *n, const struct epoll_event *ev, int n_ev)
{
    bool arrivals = false;
    for (int i = 0; i < n_ev; i++)
        if (ev[i].data.ptr == &n->listener)
            arrivals = true;
        else if (ev[i].data.ptr != n)
            conn_event(ev[i].data.ptr, ev[i].events);
    if (arrivals) accept_some(n);
}

/* Return the maximum time to wait for an event; -1: no limit. An idle server without connections
 * never wakes up. */
static int wait_ms(const struct net *n)
{
    if (n->hot) return 0;
    if (n->access.n > 0) return ACCESS_MS;
    return n->conns || n->paused || n->trim_us || atomic_load(&n->n_exchange) > 0 ||
                   atomic_load(&n->draining)
               ? SWEEP_MS
               : -1;
}

/* Check the invariants of connections, lanes and shares after a round. For debug builds. A check
 * visits all connections, so fewer rounds are checked if there are many connections. */
static void check_round(const struct net *n, int *n_unchecked)
{
    enum { CHECKED_CONNS = 64 };
    if (!check_steps || ++*n_unchecked < 1 + atomic_load(&n->n_conn) / CHECKED_CONNS) return;
    *n_unchecked = 0;
    const char *wrong = conn_check(n);
    if (!wrong) wrong = lane_check(n);
    if (!wrong) wrong = share_check(n->bodies);
    CHECK(!wrong, "%s", wrong);
}

void *loop_run(void *net)
{
    struct net *n = net;
    struct epoll_event ev[ROUND_EVENTS];
    int64_t swept = 0;
    int n_unchecked = 0;
    listen_on(n, true);
    /* handlers may run without a connection, so the loop ends after their exchanges */
    while (!atomic_load(&n->draining) || n->conns || atomic_load(&n->n_exchange) > 0 ||
           n->listener.fd >= 0) {
        int n_ev = epoll_wait(n->epoll, ev, ROUND_EVENTS, wait_ms(n));
        dispatch(n, ev, n_ev);
        take_ring(n);
        pump_hot(n);
        int64_t now = time_us();
        if (now - swept >= SWEEP_MS * 1000) sweep(n, now), swept = now;
        if (atomic_load(&n->draining)) sweep_draining(n, now);
        if (n->access.n > 0 && now >= n->access_due_us) access_flush(n);
        exchange_reap(n);
        free_dead(n);
        trim(n, n_ev > 0, now);
        check_round(n, &n_unchecked);
    }
    while (n->hot) pump_hot(n); /* all connections are closed, so the calls only empty the list */
    free_dead(n);
    access_flush(n);
    return NULL;
}

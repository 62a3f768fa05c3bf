/* loop.c - the loop thread: waits for sockets, messages of other threads, and deadlines.
 *
 * A round: events of sockets; new connections, after the input of older ones, so that the holders
 * of these are known if the table is full; exchanges whose answer grew; connections with more to
 * read than their turn allowed; deadlines, four times a second while there are connections; the
 * access log. Closed connections are freed at the end of the round, because events may still refer
 * to them.
 *
 * The other threads ring by writing to an eventfd. Each write is an edge (EPOLLET), so it need not
 * be read. */
#include "net_impl.h"

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

enum { SWEEP_MS = 250, ROUND_EVENTS = 256, ACCEPT_MOST = 64 };
enum { HOT_MOST = 16 }; /* hot connections per round: a few milliseconds */

void net_ring(struct net *n)
{
    uint64_t one = 1;
    if (atomic_exchange(&n->rung, true)) return;
    ssize_t put = write(n->event, &one, sizeof one);
    (void)put; /* cannot fail: the counter, which is never read, overflows after 2^64 rings */
}

static void take_ring(struct net *n)
{
    struct exchange *x;
    lane_reap(n);
    if (!atomic_exchange(&n->rung, false)) return;
    while (queue_pop(n->inbox, &x, 0)) {
        atomic_store(&x->in_inbox, false);
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

static void listen_on(struct net *n, bool on)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &n->listener};
    if (on == n->listening) return;
    epoll_ctl(n->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, n->listener.fd, &ev);
    n->listening = on;
}

static void accept_some(struct net *n)
{
    for (int i = 0; i < ACCEPT_MOST; i++) {
        struct sockaddr_storage a = {0};
        socklen_t n_a = sizeof a;
        char peer[80];
        int fd = accept4(n->listener.fd, (struct sockaddr *)&a, &n_a, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            if (!n->paused) log_warn("no file descriptors left: new connections wait");
            n->paused = true; /* until the next sweep */
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

/* Close connections while the server drains: idle ones at once, all others at the end. Accept
 * none. */
static void sweep_draining(struct net *n, int64_t now)
{
    if (n->listener.fd >= 0) {
        listen_on(n, false);
        listen_close(&n->listener);
    }
    bool late = now >= atomic_load(&n->drain_until_us);
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

/* ---- the loop ---- */

static void pump_hot(struct net *n)
{
    for (int i = 0; n->hot && i < HOT_MOST; i++) {
        struct conn *c = n->hot;
        n->hot = c->next_hot;
        c->hot = false;
        conn_pump(c);
    }
}

/* Free closed connections. One that is still on the hot list waits for the next round. */
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

static int wait_ms(const struct net *n)
{
    if (n->hot) return 0;
    if (n->access.n > 0) return ACCESS_MS;
    return n->conns || n->paused || atomic_load(&n->n_exchange) > 0 || atomic_load(&n->draining)
               ? SWEEP_MS
               : -1;
}

void *loop_run(void *net)
{
    struct net *n = net;
    struct epoll_event ev[ROUND_EVENTS];
    int64_t swept = 0;
    listen_on(n, true);
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
    }
    while (n->hot) pump_hot(n); /* all are closed: only removed from the list */
    free_dead(n);
    access_flush(n);
    return NULL;
}

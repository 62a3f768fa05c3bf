/* net.c - open and close the server, and run its handler threads.
 *
 *    net_open    prepared answers, memory of bodies, log, TLS, queues, socket, then threads
 *    net_drain   the loop thread ends after its last connection
 *    net_close   other threads, then everything that they used
 *
 * Each step of net_open may fail. net_close also releases a half-built server, so every part
 * accepts a zeroed state. */
#include "net_impl.h"

#include "base/check.h"
#include "base/log.h"
#include "base/os.h"
#include "base/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Return a copy of the options in which defaults replace zeros. */
static struct net_options with_defaults(const struct net_options *o)
{
    struct net_options d = *o;
    if (!d.host) d.host = "127.0.0.1";
    if (!d.n_handler) d.n_handler = 2;
    if (!d.conn_max) d.conn_max = 1024;
    if (!d.head_max) d.head_max = 32 * 1024;
    if (!d.body_max) d.body_max = 32 << 20;
    if (!d.body_total_max) d.body_total_max = 256 << 20;
    if (!d.grace_ms) d.grace_ms = 100;
    if (!d.head_ms) d.head_ms = 15000;
    if (!d.body_ms) d.body_ms = 30000;
    if (!d.idle_ms) d.idle_ms = 75000;
    if (!d.write_ms) d.write_ms = 30000;
    if (!d.ping_ms) d.ping_ms = PING_MS;
    return d;
}

/* ---- the threads of handlers ---- */

/* A handler thread and its lane. The array is allocated once, because threads keep pointers to
 * items. */
struct handler {
    struct net *net; /* borrowed */
    enum lane_kind lane;
    pthread_t thread;
};

/* LONG_NICE: threads of long bodies yield the CPU to other work. On Linux each thread has its own
 * priority. */
enum { LONG_NICE = 5 };

static void *handler_run(void *handler)
{
    const struct handler *h = handler;
    struct exchange *x;
    if (h->lane == LANE_LONG) setpriority(PRIO_PROCESS, (id_t)gettid(), LONG_NICE);
    while (queue_pop(h->net->lane[h->lane].queue, &x, -1) && x) {
        exchange_ref(x);
        const bool keeps_body = exchange_run(x);
        lane_finished(x, h->lane, keeps_body);
    }
    return NULL;
}

/* Run wake callbacks until the NULL of stop_threads. exchange_rerun drops the reference of the
 * queue's entry. */
static void *stream_run(void *net)
{
    struct net *n = net;
    struct exchange *x;
    while (queue_pop(n->woken, &x, -1) && x) exchange_rerun(x);
    return NULL;
}

/* Start the threads of all lanes. Return false with errno after a failure. n_handler_open counts
 * the threads that have started, so stop_threads can end them. */
static bool start_handlers(struct net *n)
{
    for (int i = 0; i < N_LANE; i++)
        for (int k = 0; k < n->lane[i].n_thread; k++) {
            struct handler *h = &n->handler[n->n_handler_open];
            *h = (struct handler){.net = n, .lane = (enum lane_kind)i};
            if (!os_thread_start(&h->thread, handler_run, h)) return false;
            n->n_handler_open++;
        }
    return true;
}

/* Start the threads. The threads block all signals, also SIGPIPE, which a write to a closed socket
 * would raise. */
static int start_threads(struct net *n, struct err *e)
{
    n->stream_open = os_thread_start(&n->stream_thread, stream_run, n);
    /* the loop is started last, because its requests need the other threads */
    if (n->stream_open && start_handlers(n))
        n->loop_open = os_thread_start(&n->loop_thread, loop_run, n);
    if (n->loop_open) return 0;
    return os_thread_error("the server's threads", e);
}

/* Stop the handler threads. The loop thread has ended, so no thread adds work after the NULL
 * items. */
static void stop_threads(struct net *n)
{
    struct exchange *none = NULL;
    bool fits = !n->stream_open || queue_push(n->woken, &none);
    CHECK(fits, "no room for the end of %zu exchanges", n->exchange_max);
    if (n->stream_open) pthread_join(n->stream_thread, NULL);
    for (int i = 0; i < n->n_handler_open; i++)
        fits &= queue_push(n->lane[n->handler[i].lane].queue, &none);
    CHECK(fits, "no room for the ends of %d threads", n->n_handler_open);
    for (int i = 0; i < n->n_handler_open; i++) pthread_join(n->handler[i].thread, NULL);
    n->stream_open = false;
    n->n_handler_open = 0;
}

/* ---- opening ---- */

/* LOG_BYTES: lines that wait for a slow reader of the access log. LOG_END_MS: maximum time for
 * writing them at the end. */
enum { LOG_BYTES = 1 << 20, LOG_END_MS = 1000 };

/* Open the access log, "-" for standard error. A terminal gets each line immediately. */
static int open_access_log(struct net *n, struct err *e)
{
    const char *path = n->o.access_log;
    n->access_fd = -1;
    if (!path) return 0;
    n->access_fd = strcmp(path, "-") == 0
                       ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)
                       : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (n->access_fd < 0)
        return err_set(e, ERR_IO, "access log %s: cannot open: %s", path, strerror(errno));
    n->access_at_once = isatty(n->access_fd);
    /* use the log's writer, so that lines of the two logs do not mix */
    n->access_to = strcmp(path, "-") == 0 ? log_writer() : NULL;
    if (n->access_to) return 0;
    int rc = writer_open(&n->access_own, n->access_fd, LOG_BYTES, e);
    n->access_to = n->access_own;
    return rc;
}

/* Open the queues and lists. Each queue has room for every exchange once, and for the NULL that
 * ends its thread. Therefore a push never fails. */
static int open_parts(struct net *n, struct err *e)
{
    size_t n_queue = n->exchange_max + REFUSED_MAX + 1;
    n->inbox = queue_open(n_queue, sizeof(struct exchange *));
    n->ended = queue_open(n_queue, sizeof(struct exchange *));
    n->woken = queue_open(n_queue, sizeof(struct exchange *));
    n->scratch = malloc(READ_BYTES);
    bool lanes = lane_open(n) == 0, counts = count_open(n);
    n->handler = calloc((size_t)n->n_handler, sizeof *n->handler);
    if (!n->inbox || !n->ended || !n->woken || !n->scratch || !lanes || !n->handler || !counts)
        return err_memory(e, "the server's queues", n_queue);
    n->epoll = epoll_create1(EPOLL_CLOEXEC);
    n->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.ptr = n};
    if (n->epoll < 0 || n->event < 0 || epoll_ctl(n->epoll, EPOLL_CTL_ADD, n->event, &ev) != 0)
        return err_set(e, ERR_IO, "cannot create an epoll descriptor: %s", strerror(errno));
    return 0;
}

/* Raise the limit of open files: one per connection, and some for other parts of the program. */
static void make_room(const struct net *n)
{
    int64_t want = (int64_t)n->o.conn_max + REFUSED_MAX + FRESH_MAX + 128,
            may = os_open_files(want);
    if (may < want)
        log_warn("the limit of %lld open files (ulimit -n) allows fewer than %d connections",
                 (long long)may, n->o.conn_max);
}

static int open_tls(struct net *n, struct err *e)
{
    const char *cert = n->o.tls_cert, *key = n->o.tls_key;
    if (!cert && !key) return 0;
    if (!cert || !key)
        return err_set(e, ERR_ARG, "TLS needs a certificate and its key; give %s too",
                       cert ? "the key" : "the certificate");
    return tls_server_open(&n->tls, cert, key, e);
}

int net_check(const struct net_options *o, struct err *e)
{
    struct tls_server *tls = NULL;
    int rc = o->uds || !o->host ? 0 : listen_check(o->host, o->port, e);
    if (rc == 0 && o->tls_cert) rc = tls_server_open(&tls, o->tls_cert, o->tls_key, e);
    tls_server_close(tls);
    return rc;
}

int net_open(struct net **out, const struct net_options *o, struct err *e)
{
    struct net *n = calloc(1, sizeof *n);
    *out = n;
    if (!n) return err_memory(e, "a server", sizeof *n);
    n->o = with_defaults(o);
    n->listener.fd = n->epoll = n->event = n->access_fd = -1;
    make_room(n);
    /* exchanges of disconnected clients may end late */
    n->exchange_max = 2 * (size_t)n->o.conn_max + REFUSED_MAX;
    int rc = fixed_open(n, e);
    if (rc == 0)
        rc = share_open(&n->bodies,
                        &(struct share_options){.limit = (int64_t)n->o.body_total_max,
                                                .reserve = (int64_t)n->o.body_total_max / 8,
                                                .holder_max = (int)n->exchange_max + REFUSED_MAX},
                        e);
    if (rc == 0) rc = client_networks_parse(&n->proxies, o->proxies, e);
    if (rc != 0 && n->bodies) err_prefix(e, rc, "--forwarded-allow-ips");
    if (rc == 0) rc = open_access_log(n, e);
    if (rc == 0) rc = open_tls(n, e);
    if (rc == 0) rc = open_parts(n, e);
    if (rc == 0) rc = listen_open(&n->listener, &n->o, e);
    n->guard = (struct guard){.loopback = n->listener.loopback,
                              .origin = o->origins,
                              .n_origin = o->n_origin,
                              .host = o->hosts,
                              .n_host = o->n_host};
    if (rc == 0) rc = start_threads(n, e);
    if (rc != 0) net_close(n), *out = NULL;
    return rc;
}

int net_port(const struct net *n)
{
    return n->listener.port;
}

const char *net_url(const struct net *n)
{
    return n->listener.url;
}

bool net_public(const struct net *n)
{
    return n->listener.port != 0 && !n->listener.loopback;
}

/* ---- closing ---- */

/* drain_until_us is set before `draining`, because the loop reads it only after `draining`. A
 * second call returns immediately. */
void net_drain(struct net *n, int wait_ms)
{
    if (!n->loop_open) return;
    atomic_store(&n->drain_until_us, time_us() + (int64_t)wait_ms * 1000);
    atomic_store(&n->draining, true);
    net_ring(n);
    pthread_join(n->loop_thread, NULL);
    n->loop_open = false;
}

void net_close(struct net *n)
{
    if (!n) return;
    net_drain(n, 0);
    stop_threads(n);
    listen_close(&n->listener);
    tls_server_close(n->tls);
    if (n->epoll >= 0) close(n->epoll);
    if (n->event >= 0) close(n->event);
    writer_close(n->access_own, LOG_END_MS);
    if (n->access_fd >= 0) close(n->access_fd);
    queue_close(n->inbox);
    queue_close(n->ended);
    queue_close(n->woken);
    lane_close(n);
    fixed_close(n);
    free(n->scratch);
    free(n->handler);
    free(n->count);
    share_close(n->bodies);
    client_networks_deinit(&n->proxies);
    buf_deinit(&n->access);
    free(n);
}

/* ---- figures ---- */

/* Return the CPU time of a thread in microseconds; 0 if the system does not report it. */
static int64_t cpu_us(pthread_t t)
{
    clockid_t clock;
    struct timespec s;
    if (pthread_getcpuclockid(t, &clock) != 0 || clock_gettime(clock, &s) != 0) return 0;
    return (int64_t)s.tv_sec * 1000000 + s.tv_nsec / 1000;
}

struct net_stats net_stats(const struct net *n)
{
    struct net_stats s = {.n_conn = atomic_load(&n->n_conn),
                          .n_exchange = atomic_load(&n->n_exchange),
                          .n_answer = atomic_load(&n->n_answer),
                          .n_accepted = atomic_load(&n->n_accepted),
                          .n_request = atomic_load(&n->n_request),
                          .n_hangup = atomic_load(&n->n_hangup),
                          .n_log_lost = n->access_to ? writer_n_lost(n->access_to) : 0};
    for (int i = 0; i < 6; i++) s.n_status[i] = atomic_load(&n->n_status[i]);
    s.loop_us = n->loop_open ? cpu_us(n->loop_thread) : 0;
    s.stream_us = n->stream_open ? cpu_us(n->stream_thread) : 0;
    for (int i = 0; i < n->n_handler_open; i++) s.handler_us += cpu_us(n->handler[i].thread);
    return s;
}

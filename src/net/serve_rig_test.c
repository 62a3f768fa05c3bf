/* serve_rig_test.c - the server and the client of serve_test.h. */
#include "serve_test.h"

#include "base/json_out.h"
#include "base/os.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct rig rig;
static const char *uds;
static SSL_CTX *tls;

/* ---- routes ---- */

static void hello(struct exchange *x, void *ctx)
{
    (void)ctx;
    exchange_reply(x, 200, "text/plain", "hello", 5);
}

static void echo(struct exchange *x, void *ctx)
{
    (void)ctx;
    size_t n;
    const char *body = exchange_body(x, &n);
    exchange_reply(x, 200, "application/octet-stream", body, n);
}

static void echo_id(struct exchange *x, void *ctx)
{
    (void)ctx;
    exchange_reply(x, 200, "text/plain", exchange_param(x), strlen(exchange_param(x)));
}

static void query(struct exchange *x, void *ctx)
{
    (void)ctx;
    struct buf b = {0};
    if (exchange_query(x, "q", &b) > 0)
        exchange_reply(x, 200, "text/plain", b.data, b.n);
    else if (b.failed)
        exchange_no_memory(x);
    else
        exchange_error(x, &(struct net_error){.status = 400}, "q is not there");
    buf_deinit(&b);
}

static void slow(struct exchange *x, void *ctx)
{
    usleep(100000);
    hello(x, ctx);
}

static void block(struct exchange *x, void *ctx)
{
    atomic_fetch_add(&rig.n_blocked, 1);
    while (!atomic_load(&rig.release)) usleep(1000);
    hello(x, ctx);
}

static void late(struct exchange *x, void *ctx)
{
    hello(x, ctx);
    atomic_fetch_add(&rig.n_blocked, 1);
    while (!atomic_load(&rig.release)) usleep(1000);
}

static void note_waiting(struct exchange *x)
{
    rig.waiting[atomic_fetch_add(&rig.n_slot, 1) % 256] = x;
    atomic_fetch_add(&rig.n_waiting, 1);
}

static void wait_wake(struct exchange *x, void *ctx)
{
    (void)ctx;
    if (exchange_disconnected(x)) {
        atomic_fetch_add(&rig.n_disconnected, 1);
        exchange_end(x);
    } else if (atomic_load(&rig.release)) {
        exchange_reply(x, 200, "text/plain", "at last", 7);
    }
}

static void wait_route(struct exchange *x, void *ctx)
{
    exchange_keep(x, wait_wake, ctx);
    note_waiting(x);
}

static void later_again(struct exchange *x, void *ctx)
{
    if (exchange_disconnected(x) || exchange_cut(x)) {
        atomic_fetch_add(&rig.n_disconnected, 1);
        exchange_end(x);
    } else if (atomic_load(&rig.release)) {
        exchange_handle(x);
    } else {
        exchange_defer(x, later_again, ctx);
    }
}

/* Postpone the first run. */
static void later(struct exchange *x, void *ctx)
{
    if (exchange_deferred(x)) {
        echo(x, ctx);
        return;
    }
    exchange_defer(x, later_again, x);
    note_waiting(x);
}

static void move_wake(struct exchange *x, void *ctx)
{
    if (!exchange_move(x)) block(x, ctx);
}

static void move(struct exchange *x, void *ctx)
{
    exchange_keep(x, move_wake, ctx);
    exchange_wake(x);
}

struct stream {
    int left, n_byte;
    char *frame;
};

/* Push frames while the ring has room. Wait for the next wake if the ring is full. */
static void stream_wake(struct exchange *x, void *ctx)
{
    struct stream *s = ctx;
    while (s->left > 0 && exchange_room(x) && !exchange_disconnected(x)) {
        exchange_push(x, s->frame, (size_t)s->n_byte);
        s->left--;
    }
    if (s->left > 0 && !exchange_disconnected(x)) return;
    if (exchange_disconnected(x)) atomic_fetch_add(&rig.n_disconnected, 1);
    atomic_fetch_add(&rig.n_ended, 1);
    free(s->frame);
    free(s);
    exchange_end(x);
}

static int number(struct exchange *x, const char *name)
{
    struct buf b = {0};
    int v = exchange_query(x, name, &b) > 0 ? (int)strtol(b.data, NULL, 10) : -1;
    buf_deinit(&b);
    return v;
}

/* Answer a request for n frames of a given size. */
static void stream(struct exchange *x, void *ctx)
{
    (void)ctx;
    struct stream *s = calloc(1, sizeof *s);
    int left = number(x, "n"), n_byte = number(x, "bytes");
    char *frame = s && left >= 0 && n_byte >= 0 ? malloc((size_t)n_byte + 1) : NULL;
    if (!frame) {
        free(s);
        exchange_no_memory(x);
        return;
    }
    *s = (struct stream){.left = left, .n_byte = n_byte, .frame = frame};
    memset(s->frame, 'x', (size_t)s->n_byte);
    exchange_begin(x, 200, "text/event-stream");
    exchange_keep(x, stream_wake, s);
    atomic_fetch_add(&rig.n_streaming, 1);
    exchange_wake(x);
}

/* Push one frame, of the size of a usual token, at each wake. */
static void tick_wake(struct exchange *x, void *ctx)
{
    (void)ctx;
    static const char frame[] =
        "data: {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion."
        "chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"}}]}\n\n";
    if (atomic_load(&rig.stop) || exchange_disconnected(x)) {
        exchange_end(x);
        return;
    }
    exchange_push(x, frame, sizeof frame - 1);
    atomic_fetch_add(&rig.n_tick, 1);
}

/* Push a frame at each wake. every: interval of pings in milliseconds; 0: no pings. */
static void tick(struct exchange *x, void *ctx)
{
    const int every = number(x, "every");
    if (every >= 0) exchange_set_ping(x, every ? every : -1);
    exchange_begin(x, 200, "text/event-stream");
    exchange_keep(x, tick_wake, ctx);
    note_waiting(x);
}

/* ---- errors in the server's format and in a route's format ---- */

static void put_error(struct buf *b, const struct net_error *e)
{
    struct json_out o = {.b = b};
    out_object(&o, NULL);
    out_object(&o, "error");
    out_int(&o, "status", e->status);
    out_word(&o, "code", e->code);
    out_word(&o, "message", e->text);
    out_end(&o);
    out_end(&o);
}

static void put_own(struct buf *b, const struct net_error *e)
{
    buf_addf(b, "own %d %s, id %s", e->status, e->text, e->id ? e->id : "none");
}

static const struct net_errors own_form = {.type = "text/x-own",
                                           .put = put_own,
                                           .id_header = "request-id",
                                           .ping = "event: ping\n\n",
                                           .header = "x-own"};
static const struct net_errors *const other_forms[] = {&own_form, NULL};
static const struct net_errors errors = {
    .type = "application/json", .put = put_error, .others = other_forms};

static const struct net_route routes[] = {
    {.method = "GET", .path = "/hello", .handle = hello, .how = ROUTE_OPEN | ROUTE_QUICK},
    {.method = "POST", .path = "/echo", .handle = echo},
    {.method = "GET", .path = "/who/{id}", .handle = echo_id},
    {.method = "GET", .path = "/query", .handle = query, .errors = &own_form},
    {.method = "GET", .path = "/slow", .handle = slow},
    {.method = "GET", .path = "/block", .handle = block},
    {.method = "GET", .path = "/late", .handle = late},
    {.method = "POST", .path = "/chew", .handle = block},
    {.method = "GET", .path = "/move", .handle = move},
    {.method = "POST", .path = "/forget", .handle = hello, .how = ROUTE_ADMIN},
    {.method = "POST", .path = "/change", .handle = hello, .how = ROUTE_ADMIN | ROUTE_LOCAL},
    {.method = "POST", .path = "/form", .handle = hello, .how = ROUTE_FORM},
    {.method = "GET", .path = "/wait", .handle = wait_route},
    {.method = "POST", .path = "/later", .handle = later},
    {.method = "GET", .path = "/stream", .handle = stream},
    {.method = "GET", .path = "/tick", .handle = tick},
};

/* ---- the server ---- */

bool rig_open(const struct net_options *o)
{
    struct net_options with = *o;
    struct err e = {0};
    rig = (struct rig){0};
    with.route = routes;
    with.errors = o->errors ? o->errors : &errors;
    with.n_route = sizeof routes / sizeof *routes;
    uds = o->uds;
    /* for the client only, because the server's threads block SIGPIPE */
    signal(SIGPIPE, SIG_IGN);
    tls = o->tls_cert ? SSL_CTX_new(TLS_client_method()) : NULL;
    if (net_open(&rig.net, &with, &e) == 0) return true;
    test_fail(__FILE__, __LINE__, "%s", e.text);
    return false;
}

void rig_close(void)
{
    net_close(rig.net);
    SSL_CTX_free(tls);
    rig.net = NULL;
}

void rig_release(void)
{
    atomic_store(&rig.release, true);
    for (int i = 0; i < atomic_load(&rig.n_waiting); i++) exchange_wake(rig.waiting[i]);
}

void rig_tick(void)
{
    for (int i = 0; i < atomic_load(&rig.n_waiting); i++) exchange_wake(rig.waiting[i]);
}

bool rig_until(atomic_int *n, int value, int ms)
{
    int64_t until = time_us() + (int64_t)ms * 1000;
    while (atomic_load(n) < value && time_us() < until) usleep(200);
    return atomic_load(n) >= value;
}

/* ---- the client ---- */

static int dial(const char *from)
{
    struct sockaddr_in own = {.sin_family = AF_INET};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)net_port(rig.net))};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (uds) memcpy(un.sun_path, uds, strlen(uds));
    int fd = socket(uds ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (!uds) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (from && (inet_pton(AF_INET, from, &own.sin_addr) != 1 ||
                 bind(fd, (struct sockaddr *)&own, sizeof own) != 0))
        return close(fd), -1;
    const struct sockaddr *a = uds ? (struct sockaddr *)&un : (struct sockaddr *)&in;
    if (connect(fd, a, uds ? sizeof un : sizeof in) == 0) return fd;
    close(fd);
    return -1;
}

bool client_open(struct client *c)
{
    return client_open_from(c, NULL);
}

bool client_open_plain(struct client *c)
{
    *c = (struct client){.fd = dial(NULL)};
    return c->fd >= 0;
}

bool client_open_from(struct client *c, const char *address)
{
    *c = (struct client){.fd = dial(address)};
    if (c->fd < 0 || !tls) return c->fd >= 0;
    SSL *s = SSL_new(tls);
    SSL_set_fd(s, c->fd);
    c->tls = s;
    return SSL_connect(s) == 1;
}

void client_close(struct client *c)
{
    SSL_free(c->tls);
    if (c->fd >= 0) close(c->fd);
    buf_deinit(&c->in);
    *c = (struct client){.fd = -1};
}

bool client_send(struct client *c, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t put = c->tls ? SSL_write(c->tls, text, (int)n) : send(c->fd, text, n, MSG_NOSIGNAL);
        if (put <= 0) return false;
        text += put;
        n -= (size_t)put;
    }
    return true;
}

/* Read once. Return 1 if bytes were read, 0 if no byte arrived in time, -1 at the end. */
static int read_some(struct client *c, int64_t until)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    int64_t left = until - time_us();
    if (!(c->tls && SSL_pending(c->tls)) && poll(&p, 1, left > 0 ? (int)(left / 1000) + 1 : 0) <= 0)
        return 0;
    char piece[16384];
    ssize_t n =
        c->tls ? SSL_read(c->tls, piece, sizeof piece) : recv(c->fd, piece, sizeof piece, 0);
    if (n > 0) buf_add(&c->in, piece, (size_t)n);
    return n > 0 ? 1 : -1;
}

bool client_reads(struct client *c, const char *end, int ms)
{
    int64_t until = time_us() + (int64_t)ms * 1000;
    for (;;) {
        if (c->in.n && memmem(c->in.data, c->in.n, end, strlen(end))) return true;
        int got = read_some(c, until);
        if (got < 0 || (got == 0 && time_us() >= until)) return false;
    }
}

bool client_ends(struct client *c, int ms)
{
    int64_t until = time_us() + (int64_t)ms * 1000;
    int got;
    while ((got = read_some(c, until)) > 0 || (got == 0 && time_us() < until)) continue;
    return got < 0;
}

void client_clear(struct client *c)
{
    buf_clear(&c->in);
}

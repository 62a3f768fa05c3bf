/* Goal: deadlines and ends of answers are exact even if the loop runs late. Method: the test
 * replaces the loop. Each connection is one end of a socket pair. */
#include "net_impl.h"
#include "serve_test.h"

#include "base/os.h"

#include <openssl/ssl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_MS = 60000 };

/* Open the parts of a server for connections without an exchange. */
static void loop_begin(struct net *n)
{
    *n = (struct net){.o = {.conn_max = 4, .head_max = 1000, .head_ms = HEAD_MS}};
    n->epoll = epoll_create1(EPOLL_CLOEXEC);
    n->event = -1;
    n->scratch = malloc(READ_BYTES);
    n->inbox = queue_open(8, sizeof(struct exchange *));
    n->ended = queue_open(8, sizeof(struct exchange *));
    NEED(n->epoll >= 0 && n->scratch && n->inbox && n->ended && count_open(n));
}

/* Close all connections and free the net, as the end of the loop does. */
static void loop_end(struct net *n)
{
    struct exchange *x;
    while (n->conns) conn_kill(n->conns);
    while (queue_pop(n->inbox, &x, 0)) exchange_drop(x);
    exchange_reap(n);
    for (struct conn *c = n->dead, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    tls_server_close(n->tls);
    close(n->epoll);
    queue_close(n->inbox);
    queue_close(n->ended);
    free(n->scratch);
    free(n->count);
}

/* Return a new connection of n; NULL on failure. *fd receives the client's end. */
static struct conn *join(struct net *n, int *fd)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0) return NULL;
    *fd = pair[1];
    conn_open(n, pair[0], "test", &(struct address){0});
    return n->conns;
}

TEST(conn_reads_before_it_times_out)
{
    /* Goal: bytes that arrived during a late round of the loop meet a deadline. A silent connection
     * is closed. */
    struct net n;
    int fd[2];
    loop_begin(&n);
    struct conn *sends = join(&n, &fd[0]), *silent = join(&n, &fd[1]);
    NEED(sends && silent);
    conn_pump(sends); /* after this call, the socket is empty */
    EXPECT(write(fd[0], "G", 1) == 1);
    sends->deadline_us = silent->deadline_us = 1;
    int64_t now_us = time_us();
    conn_sweep(sends, now_us);
    conn_sweep(silent, now_us);
    EXPECT(!sends->dead && sends->in.n == 1 && sends->deadline_us > now_us);
    EXPECT(silent->dead);
    close(fd[0]), close(fd[1]);
    loop_end(&n);
}

TEST(conn_gives_a_head_its_time_after_the_handshake)
{
    char cert[256], key[256];
    struct net n;
    struct err e = {0};
    int fd, done = 0;
    snprintf(cert, sizeof cert, "%s", temp_path("cert.pem"));
    snprintf(key, sizeof key, "%s", temp_path("key.pem"));
    NEED(make_certificate(cert, key));
    loop_begin(&n);
    NEED_OK(tls_server_open(&n.tls, cert, key, &e), &e);
    struct conn *c = join(&n, &fd);
    NEED(c);
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *client = SSL_new(context);
    SSL_set_fd(client, fd);
    c->deadline_us = time_us() + 1000;
    int64_t until_us = c->deadline_us;
    for (int i = 0; i < 10 && done != 1; i++) {
        done = SSL_connect(client);
        conn_event(c, EPOLLIN);
    }
    NEED(done == 1 && !c->dead && c->state == CONN_HEAD);
    EXPECT(c->deadline_us > until_us + (int64_t)HEAD_MS * 1000 / 2);
    SSL_free(client);
    SSL_CTX_free(context);
    close(fd);
    loop_end(&n);
}

/* Expect that the client's end has received these bytes, and no other bytes, since the last
 * call. */
static void check_received(int fd, const char *want, int line)
{
    char got[4096] = "";
    ssize_t n = recv(fd, got, sizeof got - 1, 0);
    if ((n < 0 ? 0 : (size_t)n) != strlen(want) || strcmp(got, want) != 0)
        test_fail(__FILE__, line, "\"%s\", not \"%s\"", got, want);
}

TEST(conn_sends_the_end_of_an_ended_answer)
{
    /* Goal: a client receives the last bytes of a stream only after the loop has counted the answer
     * as ended. The loop may run between any two calls of the handler. */
    struct net n;
    int fd;
    loop_begin(&n);
    struct conn *c = join(&n, &fd);
    struct exchange *x = exchange_open(&n);
    NEED(c && x);
    holder_unlink(c);
    c->state = CONN_ANSWER;
    c->deadline_us = 0;
    c->x = x;
    x->conn = c;
    x->head.minor = 1;
    exchange_begin(x, 200, "text/plain");
    conn_pump(c);
    char head[4096];
    EXPECT(recv(fd, head, sizeof head, 0) > 0);
    exchange_push(x, "first", 5);
    conn_pump(c);
    check_received(fd, "5\r\nfirst\r\n", __LINE__);
    exchange_push_last(x, "last", 4);
    conn_pump(c);
    check_received(fd, "", __LINE__);
    exchange_end(x);
    EXPECT_INT(ring_used(&x->ring), 0); /* the loop could have sent these bytes before the end */
    conn_pump(c);
    check_received(fd, "4\r\nlast\r\n0\r\n\r\n", __LINE__);
    EXPECT(c->state == CONN_HEAD && !c->x);
    EXPECT_INT(atomic_load(&n.n_request), 1);
    close(fd);
    loop_end(&n);
}

/* Give c an exchange of a holder with an unfinished body of n bytes in shared memory. */
static bool begin_body(struct conn *c, uint64_t holder_id, size_t n)
{
    struct exchange *x = exchange_open(c->net);
    struct holder *h = x ? holder_get(c->net, holder_id) : NULL;
    if (!h) return false;
    holder_unlink(c);
    c->state = CONN_BODY;
    c->x = x;
    x->conn = c;
    x->holder = h;
    x->holder_id = holder_id;
    h->n_exchange++;
    x->body.n = n;
    return body_acquire(x);
}

TEST(conn_closed_in_a_body_frees_its_memory_at_once)
{
    /* Goal: a body is in no list after its connection is closed, although its exchange remains
     * until the end of the round. An eviction in the same round would need the connection. */
    enum { TOTAL = 1 << 20, BYTES = 900 << 10 };
    struct net n;
    struct err e = {0};
    int fd[2];
    loop_begin(&n);
    struct share_options o = {.limit = TOTAL, .reserve = TOTAL / 8, .holder_max = 8};
    NEED_OK(share_open(&n.bodies, &o, &e), &e);
    struct conn *leaves = join(&n, &fd[0]), *other = join(&n, &fd[1]);
    NEED(leaves && other);
    NEED(begin_body(leaves, 7, BYTES));
    conn_kill(leaves);
    EXPECT(!holder_find(&n, 7) || !holder_find(&n, 7)->body_newest);
    EXPECT(begin_body(other, 8, BYTES));
    close(fd[0]), close(fd[1]);
    loop_end(&n);
    share_close(n.bodies);
}

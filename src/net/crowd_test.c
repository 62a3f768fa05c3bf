/* Goal: no requests of one client can block other clients. Method: clients of 127.0.0.1 flood, and
 * a client of 127.0.0.2 sends requests. Each test exhausts one resource: connections, exchanges,
 * handler threads, memory of bodies. */
#include "net_impl.h"
#include "serve_test.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SOON = 3000 }; /* timeout in milliseconds of a failing test */
static const char hello[] = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n",
                  get_id[] = "GET /who/me HTTP/1.1\r\nHost: localhost\r\n\r\n",
                  block[] = "GET /block HTTP/1.1\r\nHost: localhost\r\n\r\n";

/* Expect `want` in the answer to a request from the address. */
static void check_from(const char *address, const char *request, const char *want, int line)
{
    struct client c;
    NEED(client_open_from(&c, address));
    client_send_text(&c, request);
    if (!client_reads(&c, want, SOON))
        test_fail(__FILE__, line, "%s got %.*s, not %s", address, (int)c.in.n,
                  c.in.data ? c.in.data : "nothing", want);
    client_close(&c);
}
#define CHECK_FROM(address, request, want) check_from(address, request, want, __LINE__)

static void open_all(struct client *c, int n, const char *request)
{
    for (int i = 0; i < n; i++) {
        NEED(client_open_from(&c[i], "127.0.0.1"));
        client_send_text(&c[i], request);
    }
}

static void close_all(struct client *c, int n)
{
    for (int i = 0; i < n; i++) client_close(&c[i]);
}

static void until_exchanges(int n)
{
    for (int i = 0; i < SOON && net_stats(rig.net).n_exchange > n; i++) usleep(1000);
    EXPECT(net_stats(rig.net).n_exchange <= n);
}

TEST(net_crowd_of_silent_connections)
{
    /* Goal: the largest client's oldest connection without a complete head is closed if the table
     * is full. */
    enum { N = 16 };
    NEED(rig_open(&(struct net_options){.conn_max = N}));
    struct client c[N], kept;
    NEED(client_open_from(&kept, "127.0.0.2"));
    client_send_text(&kept, hello);
    EXPECT(client_reads(&kept, "hello", SOON));
    for (int i = 0; i < 3; i++) { /* fill the table three times */
        open_all(c, N, "G");
        CHECK_FROM("127.0.0.2", get_id, "\r\n\r\nme");
        CHECK_FROM("127.0.0.1", get_id, "\r\n\r\nme");
        EXPECT(client_ends(&c[0], SOON));
        close_all(c, N);
    }
    client_clear(&kept);
    client_send_text(&kept, hello);
    EXPECT(client_reads(&kept, "hello", SOON));
    client_close(&kept);
    rig_close();
}

/* ---- connections without a byte: the holder is unknown before the first request ---- */

TEST(net_crowd_keeps_new_connections)
{
    /* Goal: no connection is closed before its client has time to send a key, even if one address
     * has all connections. */
    enum { N = 16, CROWD = 200 };
    NEED(rig_open(&(struct net_options){.conn_max = N, .grace_ms = 60000}));
    struct client kept, first, c[CROWD];
    NEED(client_open_from(&kept, "127.0.0.2"));
    client_send_text(&kept, hello);
    EXPECT(client_reads(&kept, "\r\n\r\nhello", SOON));
    NEED(client_open_from(&first, "127.0.0.1"));
    open_all(c, CROWD, "");
    CHECK_FROM("127.0.0.1", hello, "\r\n\r\nhello");
    client_send_text(&first, get_id);
    EXPECT(client_reads(&first, "\r\n\r\nme", SOON));
    client_clear(&kept);
    client_send_text(&kept, get_id);
    EXPECT(client_reads(&kept, "\r\n\r\nme", SOON));
    close_all(c, CROWD), client_close(&first), client_close(&kept);
    rig_close();
}

TEST(net_crowd_keeps_none_for_long)
{
    /* Goal: a connection that has sent no byte for grace_ms is closed before connections with
     * bytes. */
    enum { N = 16 };
    NEED(rig_open(&(struct net_options){.conn_max = N, .grace_ms = 1}));
    struct client begun, c[N];
    NEED(client_open_from(&begun, "127.0.0.1"));
    client_send_text(&begun, "G");
    open_all(c, N - 1, "");
    usleep(20000);
    CHECK_FROM("127.0.0.1", get_id, "\r\n\r\nme");
    EXPECT(client_ends(&c[0], SOON));
    client_send_text(&begun, get_id + 1);
    EXPECT(client_reads(&begun, "\r\n\r\nme", SOON));
    close_all(c, N - 1), client_close(&begun);
    rig_close();
}

TEST(net_crowd_spares_unread_requests)
{
    /* Goal: a connection whose bytes the loop has not read yet is not closed as a silent
     * connection. */
    struct net n = {0};
    struct holder h = {.n_conn = 2, .weight = 1};
    struct conn c[2] = {{.net = &n, .holder = &h}, {.net = &n, .holder = &h}};
    int pair[2][2];
    n.holders = &h;
    for (int i = 0; i < 2; i++) {
        NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair[i]) == 0);
        c[i].sock.fd = pair[i][0];
        holder_link(&c[i], false);
    }
    EXPECT(holder_victim(&n, false, INT64_MAX) == &c[0]);
    EXPECT(write(pair[0][1], "G", 1) == 1);
    EXPECT(holder_victim(&n, false, INT64_MAX) == &c[1]);
    EXPECT(write(pair[1][1], "G", 1) == 1);
    EXPECT(!holder_victim(&n, false, INT64_MAX));
    for (int i = 0; i < 2; i++) close(pair[i][0]), close(pair[i][1]);
}

TEST(net_crowd_spares_a_thousand)
{
    /* Goal: the oldest connection without a byte is closed if there are more than 1,024. */
    enum { N = 16, MANY = 1200 };
    struct rlimit files = {0};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_max < 3 * MANY) return;
    struct client *c = calloc(MANY, sizeof *c);
    NEED(c && rig_open(&(struct net_options){.conn_max = N, .grace_ms = 60000}));
    open_all(c, MANY, "");
    CHECK_FROM("127.0.0.1", hello, "\r\n\r\nhello");
    EXPECT(client_ends(&c[0], SOON));
    close_all(c, MANY);
    rig_close();
    free(c);
}

TEST(net_crowd_waits_to_be_accepted)
{
    /* Goal: short connections during a blocked loop do not fill the system's queue. A client would
     * retry only a second later if the queue were full. */
    enum { WANT = 4096 };
    struct listener l;
    struct err e;
    struct tcp_info info = {0};
    socklen_t n = sizeof info;
    int most = 0;
    FILE *f = fopen("/proc/sys/net/core/somaxconn", "re");
    NEED(f && fscanf(f, "%d", &most) == 1);
    fclose(f);
    NEED_OK(listen_open(&l, &(struct net_options){.host = "127.0.0.1"}, &e), &e);
    EXPECT(getsockopt(l.fd, IPPROTO_TCP, TCP_INFO, &info, &n) == 0);
    /* length of the queue, if the socket is a listener */
    EXPECT_INT(info.tcpi_sacked, most < WANT ? most : WANT);
    listen_close(&l);
}

TEST(net_crowd_of_long_answers)
{
    /* Goal: another client and quick routes have a reserve if all connections have answers in
     * progress. */
    enum { N = 8 };
    NEED(rig_open(&(struct net_options){.conn_max = N}));
    struct client c[N], silent[200];
    open_all(c, N, "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT(rig_until(&rig.n_waiting, N, SOON));
    CHECK_FROM("127.0.0.1", get_id, "HTTP/1.1 503");
    CHECK_FROM("127.0.0.1", hello, "\r\n\r\nhello");
    CHECK_FROM("127.0.0.2", get_id, "\r\n\r\nme");
    open_all(silent, 200, "G"); /* more than the reserve */
    CHECK_FROM("127.0.0.1", hello, "\r\n\r\nhello");
    CHECK_FROM("127.0.0.2", get_id, "\r\n\r\nme");
    close_all(silent, 200);
    rig_release();
    for (int i = 0; i < N; i++) EXPECT(client_reads(&c[i], "at last", SOON));
    close_all(c, N);
    rig_close();
}

TEST(net_crowd_counts_no_written_answer)
{
    /* an answer ends with its last byte, even if its handler still runs */
    NEED(rig_open(&(struct net_options){.n_handler = 2}));
    struct client c, wait;
    open_all(&wait, 1, "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT(rig_until(&rig.n_waiting, 1, SOON));
    EXPECT_INT(net_stats(rig.net).n_answer, 1);
    open_all(&c, 1, "GET /late HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT(client_reads(&c, "hello", SOON) && rig_until(&rig.n_blocked, 1, SOON));
    CHECK_FROM("127.0.0.1", hello, "hello"); /* the loop has seen the end of the answer before */
    EXPECT_INT(net_stats(rig.net).n_answer, 1);
    EXPECT(net_stats(rig.net).n_exchange >= 2);
    rig_release();
    EXPECT(client_reads(&wait, "at last", SOON));
    close_all(&c, 1), close_all(&wait, 1);
    rig_close();
}

TEST(net_crowd_that_leaves)
{
    /* Goal: waiting requests of disconnected clients occupy no place. */
    enum { BUSY = 4, N = 16 };
    NEED(rig_open(&(struct net_options){.conn_max = N, .n_handler = 2}));
    struct client busy[BUSY], c;
    open_all(busy, BUSY, block);
    EXPECT(rig_until(&rig.n_blocked, 2, SOON));
    for (int i = 0; i < 20 * N; i++) {
        NEED(client_open_from(&c, "127.0.0.1"));
        client_send_text(&c, block);
        usleep(200);
        client_close(&c);
    }
    until_exchanges(BUSY);
    CHECK_FROM("127.0.0.1", hello, "\r\n\r\nhello");
    CHECK_FROM("127.0.0.2", get_id, "\r\n\r\nme");
    EXPECT_INT(atomic_load(&rig.n_blocked), 2);
    atomic_store(&rig.release, true);
    for (int i = 0; i < BUSY; i++) EXPECT(client_reads(&busy[i], "hello", SOON));
    EXPECT_INT(atomic_load(&rig.n_blocked), BUSY);
    close_all(busy, BUSY);
    rig_close();
}

TEST(net_crowd_of_long_bodies)
{
    /* Goal: long bodies wait for each other. Short bodies of the same client and long bodies of
     * another client do not wait. */
    enum { N = 6, BYTES = 100 << 10 };
    char head[200], *body = malloc(BYTES);
    memset(body, 'x', BYTES);
    snprintf(head, sizeof head,
             "POST /chew HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", BYTES);
    NEED(rig_open(&(struct net_options){.n_handler = 2}));
    struct client c[N], other;
    open_all(c, N, head);
    for (int i = 0; i < N; i++) EXPECT(client_send(&c[i], body, BYTES));
    EXPECT(rig_until(&rig.n_blocked, 1, SOON));
    CHECK_FROM("127.0.0.1", get_id, "\r\n\r\nme");
    NEED(client_open_from(&other, "127.0.0.2"));
    client_send_text(&other, head);
    client_send(&other, body, BYTES);
    EXPECT(rig_until(&rig.n_blocked, 2, SOON));
    CHECK_FROM("127.0.0.1", get_id, "\r\n\r\nme");
    EXPECT_INT(atomic_load(&rig.n_blocked), 2);
    atomic_store(&rig.release, true);
    for (int i = 0; i < N; i++) EXPECT(client_reads(&c[i], "hello", SOON));
    EXPECT(client_reads(&other, "hello", SOON));
    close_all(c, N), client_close(&other);
    free(body);
    rig_close();
}

TEST(net_crowd_takes_turns)
{
    /* Goal: a third client's request is handled next if two clients have many requests that wait
     * for two threads. */
    enum { N = 40 };
    NEED(rig_open(&(struct net_options){.n_handler = 1}));
    struct client c[N], other;
    for (int i = 0; i < N; i++) {
        NEED(client_open_from(&c[i], i % 2 ? "127.0.0.1" : "127.0.0.3"));
        client_send_text(&c[i], "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    usleep(50000);
    int64_t before = net_stats(rig.net).n_request;
    NEED(client_open_from(&other, "127.0.0.2"));
    client_send_text(&other, "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT(client_reads(&other, "hello", SOON));
    int64_t n = net_stats(rig.net).n_request - before;
    if (n > N / 4) test_fail(__FILE__, __LINE__, "%d answers before the other client's", (int)n);
    close_all(c, N), client_close(&other);
    rig_close();
}

/* Begin a body of n bytes. Send all of it except the last byte. */
static void begin_body(struct client *c, const char *address, size_t n, const char *body)
{
    char head[120];
    snprintf(head, sizeof head,
             "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", n);
    NEED(client_open_from(c, address));
    client_send_text(c, head);
    client_send(c, body, n - 1);
}

TEST(net_crowd_of_unfinished_bodies)
{
    /* Goal: the largest client's newest unfinished body is rejected. Small bodies need no shared
     * memory. */
    enum { N = 12, BYTES = 200 << 10 };
    char *body = malloc(BYTES);
    memset(body, 'x', BYTES);
    NEED(rig_open(&(struct net_options){.body_total_max = 1 << 20}));
    struct client c[N], other[3], small;
    int n_refused = 0, n_after = 0;
    for (int i = 0; i < N; i++) begin_body(&c[i], "127.0.0.1", BYTES, body);
    for (int i = 0; i < N; i++) n_refused += client_reads(&c[i], "HTTP/1.1 503", 50);
    EXPECT(n_refused >= 4 && n_refused < N - 3);
    for (int i = 0; i < 3; i++) begin_body(&other[i], "127.0.0.2", BYTES, body);
    begin_body(&small, "127.0.0.1", 60000, body);
    client_send(&small, "x", 1);
    EXPECT(client_reads(&small, "HTTP/1.1 200", SOON));
    for (int i = 0; i < 3; i++) {
        client_send(&other[i], "x", 1);
        EXPECT(client_reads(&other[i], "HTTP/1.1 200", SOON));
    }
    /* Another connection's answer may arrive before the rejection that made room for its body. */
    for (int ms = 0; ms < SOON && n_after <= n_refused; ms++, usleep(1000)) {
        n_after = 0;
        for (int i = 0; i < N; i++) n_after += client_reads(&c[i], "HTTP/1.1 503", 0);
    }
    EXPECT(n_after > n_refused);
    client_send(&c[0], "x", 1); /* the oldest body is kept */
    EXPECT(client_reads(&c[0], "HTTP/1.1 200", SOON));
    close_all(c, N), close_all(other, 3), client_close(&small);
    CHECK_FROM("127.0.0.1",
               "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody", "200");
    rig_close();
    free(body);
}

/* ---- keys with weights ---- */

static const char keyed_waits[] =
    "GET /wait HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n",
                  keyed_slow[] =
                      "GET /slow HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n",
                  keyed_get_id[] =
                      "GET /who/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n";

static void read_keys(struct net_keys *keys)
{
    static const char text[] = "aaaa name=heavy share=3\nbbbb name=light share=1\n";
    struct err e;
    *keys = (struct net_keys){0};
    NEED_OK(net_keys_parse(keys, text, sizeof text - 1, "keys", &e), &e);
}

static void send_as(struct client *c, const char *key, const char *request)
{
    char text[200];
    snprintf(text, sizeof text, request, key);
    NEED(client_open_from(c, "127.0.0.1"));
    client_send_text(c, text);
}

TEST(net_shares_of_keys_weigh_turns)
{
    /* Goal: three of four answers are for the heavy key. Each of two keys has more requests than
     * eight threads can answer during the test. */
    enum { N = 48, COUNTED = 32 };
    struct net_keys keys;
    read_keys(&keys);
    NEED(rig_open(&(struct net_options){.n_handler = 7, .keys = &keys}));
    struct client c[2 * N], busy[8];
    for (int i = 0; i < 8; i++)
        send_as(&busy[i], i % 2 ? "aaaa" : "bbbb",
                "GET /block HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n");
    EXPECT(rig_until(&rig.n_blocked, 8, SOON));
    for (int i = 0; i < 2 * N; i++) send_as(&c[i], i % 2 ? "aaaa" : "bbbb", keyed_slow);
    for (int i = 0; i < SOON && net_stats(rig.net).n_exchange < 2 * N + 8; i++) usleep(1000);
    int64_t before = net_stats(rig.net).n_request;
    int heavy = 0, light = 0;
    atomic_store(&rig.release, true);
    while (net_stats(rig.net).n_request < before + 8 + COUNTED) usleep(1000);
    for (int i = 0; i < 2 * N; i++) *(i % 2 ? &heavy : &light) += client_reads(&c[i], "hello", 0);
    if (heavy < 2 * light || light < COUNTED / 8)
        test_fail(__FILE__, __LINE__, "%d and %d answers", heavy, light);
    close_all(c, 2 * N), close_all(busy, 8);
    rig_close();
    net_keys_deinit(&keys);
}

TEST(net_shares_of_keys_weigh_connections)
{
    /* Goal: the light key's oldest connection is closed, because the key has more connections
     * relative to its weight. */
    enum { HEAVY = 9, LIGHT = 7 };
    struct net_keys keys;
    read_keys(&keys);
    NEED(rig_open(&(struct net_options){.conn_max = HEAVY + LIGHT, .keys = &keys}));
    struct client heavy[HEAVY], light[LIGHT], other;
    for (int i = 0; i < HEAVY; i++) {
        send_as(&heavy[i], "aaaa", keyed_get_id);
        EXPECT(client_reads(&heavy[i], "\r\n\r\nme", SOON));
    }
    for (int i = 0; i < LIGHT; i++) {
        send_as(&light[i], "bbbb", keyed_get_id);
        EXPECT(client_reads(&light[i], "\r\n\r\nme", SOON));
    }
    send_as(&other, "bbbb", keyed_get_id);
    EXPECT(client_reads(&other, "\r\n\r\nme", SOON));
    EXPECT(client_ends(&light[0], SOON));
    client_clear(&heavy[0]);
    client_send_text(&heavy[0], hello);
    EXPECT(client_reads(&heavy[0], "\r\n\r\nhello", SOON));
    close_all(heavy, HEAVY), close_all(light, LIGHT), client_close(&other);
    rig_close();
    net_keys_deinit(&keys);
}

TEST(net_shares_of_keys_weigh_exchanges)
{
    /* Goal: the heavy key receives its share of the reserve if the light key has all places. The
     * share is 3 of 3 + 3 + 1 parts of the places. */
    enum { N = 8, SHARE = 3 };
    struct net_keys keys;
    read_keys(&keys);
    NEED(rig_open(&(struct net_options){.conn_max = N, .keys = &keys}));
    struct client light[N], heavy[SHARE + 1];
    for (int i = 0; i < N; i++) send_as(&light[i], "bbbb", keyed_waits);
    EXPECT(rig_until(&rig.n_waiting, N, SOON));
    for (int i = 0; i < SHARE; i++) send_as(&heavy[i], "aaaa", keyed_waits);
    EXPECT(rig_until(&rig.n_waiting, N + SHARE, SOON));
    send_as(&heavy[SHARE], "aaaa", keyed_waits);
    EXPECT(client_reads(&heavy[SHARE], "HTTP/1.1 503", SOON));
    rig_release();
    for (int i = 0; i < SHARE; i++) EXPECT(client_reads(&heavy[i], "at last", SOON));
    close_all(light, N), close_all(heavy, SHARE + 1);
    rig_close();
    net_keys_deinit(&keys);
}

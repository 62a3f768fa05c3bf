/* Goal: clients of every kind get correct answers. Method: use the server as a client through a
 * real socket. */
#include "serve_test.h"

#include "base/json.h"
#include "base/os.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SOON = 2000 }; /* timeout in milliseconds of a failing test */
static const char wait_request[] = "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n";

/* Send a request on a new connection and expect an answer that contains `want`. */
static void check_answer(const char *request, const char *want)
{
    struct client c;
    NEED(client_open(&c));
    client_send_text(&c, request);
    if (!client_reads(&c, want, SOON))
        test_fail(__FILE__, __LINE__, "to %.60s: %.*s, not %s", request, (int)c.in.n,
                  c.in.data ? c.in.data : "nothing", want);
    client_close(&c);
}

TEST(net_answers)
{
    NEED(rig_open(&(struct net_options){0}));
    check_answer("GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 "Content-Length: 5\r\n\r\nhello");
    check_answer("GET /hello HTTP/1.0\r\n\r\n", "Connection: close\r\n\r\nhello");
    check_answer("GET /hello/ HTTP/1.0\r\n\r\n", "Connection: close\r\n\r\nhello");
    check_answer("GET /hello// HTTP/1.0\r\n\r\n", "404");
    check_answer("GET /hello/x HTTP/1.0\r\n\r\n", "404");
    check_answer("GET /who/org/some%20one HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 "\r\n\r\norg/some one");
    check_answer("GET /query?a=1&q=%C3%A4+b HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 "\r\n\r\n\xC3\xA4 b");
    check_answer("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody",
                 "\r\n\r\nbody");
    check_answer("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                 "2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n",
                 "\r\n\r\nbody");
    check_answer("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nExpect: "
                 "100-continue\r\n\r\n",
                 "HTTP/1.1 100 Continue\r\n\r\n");
    check_answer("GET /hello HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: mine-7\r\n\r\n",
                 "X-Request-Id: mine-7\r\n");
    check_answer("GET /hello HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: b\xC3\xA4\r\n\r\n",
                 "X-Request-Id: req-");
    rig_close();
}

TEST(net_keeps_connections)
{
    /* Goal: a connection serves several requests, also if pipelined. HEAD sends no body that a
     * client could mistake for the next answer. */
    NEED(rig_open(&(struct net_options){0}));
    struct client c;
    NEED(client_open(&c));
    for (int i = 0; i < 3; i++) {
        client_clear(&c);
        client_send_text(&c, "HEAD /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
        EXPECT(client_reads(&c, "Content-Length: 5\r\n\r\n", SOON));
    }
    client_clear(&c);
    client_send_text(&c, "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n"
                         "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nfirst"
                         "GET /who/last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    EXPECT(client_reads(&c, "\r\n\r\nlast", SOON));
    const char *slow = strstr(c.in.data, "\r\n\r\nhello"),
               *echo = strstr(c.in.data, "\r\n\r\nfirst");
    EXPECT(slow && echo && slow < echo);
    EXPECT(client_ends(&c, SOON));
    client_close(&c);
    EXPECT_INT(net_stats(rig.net).n_accepted, 1);
    EXPECT_INT(net_stats(rig.net).n_status[2], 6);
    rig_close();
}

/* Expect an error object with that status line and code. The server still answers afterwards. */
static void check_rejected(const char *request, const char *status, const char *code)
{
    struct client c;
    NEED(client_open(&c));
    client_send_text(&c, request);
    client_reads(&c, "}}", SOON);
    const char *body = c.in.data ? strstr(c.in.data, "\r\n\r\n") : NULL;
    if (!body || strncmp(c.in.data + 9, status, 3) != 0 || !strstr(body, code))
        test_fail(__FILE__, __LINE__, "to %.60s: %s, not %s %s", request,
                  c.in.data ? c.in.data : "nothing", status, code);
    struct json *j = NULL;
    EXPECT(body && json_parse(&j, body + 4, strlen(body + 4), NULL, NULL) == 0);
    EXPECT(json_text(json_field(json_field(j, "error"), "message"), NULL));
    json_drop(j);
    client_close(&c);
}

TEST(net_refuses)
{
    struct net_options o = {.head_max = 1000, .body_max = 100};
    NEED(rig_open(&o));
    char big[1600];
    snprintf(big, sizeof big, "GET /hello HTTP/1.1\r\nHost: localhost\r\nX: %01200d\r\n\r\n", 0);
    check_rejected(big, "431", "null");
    check_rejected("GARBAGE\r\n\r\n", "400", "null");
    check_rejected("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", "404", "null");
    check_rejected("PUT /hello HTTP/1.1\r\nHost: localhost\r\n\r\n", "405", "null");
    check_rejected("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 101\r\n\r\n", "413",
                   "null");
    check_rejected(
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n", "413",
        "null");
    check_rejected(
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400",
        "null");
    check_rejected("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: Multipart/form-data\r\n"
                   "Content-Length: 4\r\n\r\nbody",
                   "415", "null");
    check_rejected("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
                   "415", "null");
    check_rejected("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n"
                   "Content-Length: 4\r\n\r\nbody",
                   "415", "null");
    check_answer("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: identity\r\n"
                 "Content-Length: 4\r\n\r\nbody",
                 "\r\n\r\nbody");
    check_answer("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                 "application/x-www-form-urlencoded\r\n"
                 "Content-Length: 4\r\n\r\nbody",
                 "\r\n\r\nbody");
    check_answer("POST /form HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data\r\n"
                 "Content-Length: 4\r\n\r\nbody",
                 "\r\n\r\nhello");
    check_rejected("POST /form HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data\r\n"
                   "Origin: http://evil.example\r\nContent-Length: 4\r\n\r\nbody",
                   "403", "origin_not_allowed");
    check_rejected("GET /hello HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403", "host_not_allowed");
    check_rejected("GET /hello HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n",
                   "403", "origin_not_allowed");
    check_answer("OPTIONS /echo HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\n"
                 "Access-Control-Request-Method: POST\r\n\r\n",
                 "Access-Control-Allow-Origin: http://localhost:3000\r\n");
#define PREFLIGHT                                                                                  \
    "OPTIONS /echo HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n"                    \
    "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: "
    check_answer(PREFLIGHT "x-a, X-B\r\n\r\n", "Access-Control-Allow-Headers: x-a, X-B\r\n");
    /* the answer repeats no other bytes of the request */
    check_answer(PREFLIGHT "x-a, \xff\r\n\r\n",
                 "Access-Control-Allow-Headers: Authorization, Content-Type\r\n");
    check_answer(PREFLIGHT "x-a: \"b\"\r\n\r\n",
                 "Access-Control-Allow-Headers: Authorization, Content-Type\r\n");
    check_answer("GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n", "hello");
    rig_close();
}

TEST(net_errors_have_the_form_of_a_route)
{
    /* Goal: a route determines the format of its errors, also if no handler was called. Other
     * errors have the server's format. */
    NEED(rig_open(&(struct net_options){.body_max = 100}));
    check_answer("GET /query HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 "\r\n\r\nown 400 q is not there");
    check_answer("GET /query HTTP/1.1\r\nHost: localhost\r\n\r\n", "Content-Type: text/x-own\r\n");
    check_answer("GET /query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 101\r\n\r\n",
                 "\r\n\r\nown 413 ");
    check_rejected("PUT /query HTTP/1.1\r\nHost: localhost\r\n\r\n", "405", "null");
    rig_close();
}

TEST(net_errors_have_the_form_of_a_header)
{
    /* Goal: a header selects another format of errors, on routes, without a route, and for the id
     * of an answer. Other requests keep the server's format. */
    NEED(rig_open(&(struct net_options){.body_max = 100}));
    check_answer("GET /none HTTP/1.1\r\nHost: localhost\r\nX-Own: 1\r\nX-Request-Id: i1\r\n\r\n",
                 ", id i1");
    check_answer("POST /echo HTTP/1.1\r\nHost: localhost\r\nX-Own: 1\r\nContent-Length: "
                 "101\r\n\r\n",
                 "\r\n\r\nown 413 ");
    check_answer("GET /hello HTTP/1.1\r\nHost: localhost\r\nX-Own: 1\r\nX-Request-Id: i2\r\n\r\n",
                 "\r\nrequest-id: i2\r\n");
    check_rejected("GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n", "404", "null");
    rig_close();
}

TEST(net_closes_without_a_reset)
{
    /* Goal: a client that sent more than the server read receives the rejection and an orderly
     * close. The client could lose the rejection after a reset. */
    NEED(rig_open(&(struct net_options){.head_max = 1000}));
    struct client c;
    char more[1 << 18], piece[256];
    memset(more, 'x', sizeof more);
    for (int i = 0; i < 20; i++) {
        NEED(client_open(&c));
        client_send(&c, more, sizeof more);
        shutdown(c.fd, SHUT_WR);
        EXPECT(client_reads(&c, "HTTP/1.1 431", SOON) && client_reads(&c, "}}", SOON));
        EXPECT_INT(recv(c.fd, piece, sizeof piece, 0), 0);
        client_close(&c);
    }
    rig_close();
}

TEST(net_bodies_are_held_within_a_limit)
{
    /* Goal: the first 64 KiB of each body need no shared memory. */
    struct net_options o = {.body_total_max = 100000};
    NEED(rig_open(&o));
    struct client a, b;
    static char part[65536 + 60000];
    memset(part, 'x', sizeof part);
    NEED(client_open(&a) && client_open(&b));
    client_send_text(&a,
                     "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 126536\r\n\r\n");
    client_send(&a, part, sizeof part);
    check_answer("GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 "hello"); /* this answer shows that the server read the body */
    client_send_text(&b,
                     "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 126000\r\n\r\n");
    EXPECT(client_reads(&b, "HTTP/1.1 503", SOON) && client_reads(&b, "Retry-After: 1", SOON));
    client_send(&a, part, 1000);
    EXPECT(client_reads(&a, "HTTP/1.1 200", SOON));
    client_close(&a), client_close(&b);
    check_answer("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody",
                 "\r\n\r\nbody");
    rig_close();
}

TEST(net_requires_keys)
{
    struct net_keys k = {0};
    static const char file[] = "sk-a name=alice\nsk-b rate=2\n";
    NEED(net_keys_parse(&k, file, strlen(file), "f", NULL) == 0);
    NEED(rig_open(&(struct net_options){.keys = &k}));
    check_answer("GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n", "hello");
    check_rejected("GET /who/me HTTP/1.1\r\nHost: localhost\r\n\r\n", "401", "null");
    check_rejected("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", "401", "null");
    check_rejected("GET /who/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk-c\r\n\r\n",
                   "401", "null");
    check_rejected("GET /who/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic sk-a\r\n\r\n",
                   "401", "null");
    for (int i = 0; i < 5; i++)
        check_answer(
            "GET /who/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk-a\r\n\r\n",
            "\r\n\r\nme");
    check_answer("GET /who/me HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: sk-a\r\n\r\n",
                 "\r\n\r\nme");
    check_answer(
        "GET /who/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic sk-a\r\nX-Api-Key: "
        "sk-a\r\n\r\n",
        "\r\n\r\nme");
    check_rejected("GET /who/me HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: sk-c\r\n\r\n", "401",
                   "null");
    check_rejected(
        "GET /who/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk-c\r\nX-Api-Key: "
        "sk-a\r\n\r\n",
        "401", "null");
    for (int i = 0; i < 2; i++)
        check_answer(
            "GET /who/me HTTP/1.1\r\nHost: localhost\r\nauthorization: bearer sk-b\r\n\r\n",
            "\r\n\r\nme");
    check_rejected("GET /who/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk-b\r\n\r\n",
                   "429", "null");
    check_answer("GET /who/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk-b\r\n\r\n",
                 "Retry-After: ");
    rig_close();
    net_keys_deinit(&k);
}

TEST(net_leaves_some_routes_to_administrators)
{
    struct net_keys k = {0};
    static const char file[] = "sk-a name=alice\nsk-b name=bob role=admin\n";
    NEED(net_keys_parse(&k, file, strlen(file), "f", NULL) == 0);
    NEED(rig_open(&(struct net_options){.keys = &k}));
    check_rejected("POST /forget HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk-a\r\n\r\n",
                   "403", "admin_key_needed");
    check_rejected("POST /forget HTTP/1.1\r\nHost: localhost\r\n\r\n", "401", "null");
    check_answer("POST /forget HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk-b\r\n\r\n",
                 "hello");
    rig_close();
    net_keys_deinit(&k);
    NEED(rig_open(&(struct net_options){0}));
    check_answer("POST /forget HTTP/1.1\r\nHost: localhost\r\n\r\n", "hello");
    rig_close();
}

TEST(net_leaves_some_routes_to_this_machine)
{
    /* Goal: without keys, only direct clients on loopback use a ROUTE_LOCAL. */
    static const char *const refused[] = {
        "X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1", "Via: 1.1 proxy",
        "X-Real-IP: 127.0.0.1",       "X-Forwarded-Host: a",      "X-Forwarded-Proto: https"};
    char request[200];
    const struct net_options open[] = {{0}, {.host = "0.0.0.0"}, {.proxies = "127.0.0.1"}};
    for (size_t k = 0; k < 3; k++) {
        NEED(rig_open(&open[k]));
        check_answer("POST /change HTTP/1.1\r\nHost: localhost\r\n\r\n", "hello");
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
            snprintf(request, sizeof request,
                     "POST /change HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", refused[i]);
            check_rejected(request, "403", "admin_key_needed");
        }
        rig_close();
    }
    NEED(rig_open(&open[1]));
    check_rejected("POST /change HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403",
                   "admin_key_needed");
    check_answer("POST /forget HTTP/1.1\r\nHost: evil.example\r\n\r\n", "hello");
    rig_close();
    struct net_keys k = {0};
    static const char file[] = "sk-a name=alice\nsk-b name=bob role=admin\n";
    NEED(net_keys_parse(&k, file, strlen(file), "f", NULL) == 0);
    NEED(rig_open(&(struct net_options){.keys = &k}));
    check_rejected("POST /change HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk-a\r\n\r\n",
                   "403", "admin_key_needed");
    check_answer("POST /change HTTP/1.1\r\nHost: localhost\r\nVia: 1.1 proxy\r\n"
                 "Authorization: Bearer sk-b\r\n\r\n",
                 "hello");
    rig_close();
    net_keys_deinit(&k);
}

TEST(net_answers_some_routes_at_once)
{
    /* Goal: a quick route is not delayed, even if all handlers are busy. */
    NEED(rig_open(&(struct net_options){.n_handler = 2}));
    struct client busy[2];
    for (int i = 0; i < 2; i++) {
        NEED(client_open(&busy[i]));
        client_send_text(&busy[i], "GET /block HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    EXPECT(rig_until(&rig.n_blocked, 2, SOON));
    check_answer("GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n", "hello");
    EXPECT(!client_reads(&busy[0], "hello", 0));
    atomic_store(&rig.release, true);
    for (int i = 0; i < 2; i++) {
        EXPECT(client_reads(&busy[i], "hello", SOON));
        client_close(&busy[i]);
    }
    rig_close();
}

TEST(net_moves_long_work_away_from_streams)
{
    /* Goal: a long write of an answer on a handler thread delays no stream. The write also ends if
     * its client disconnects. */
    NEED(rig_open(&(struct net_options){.n_handler = 3})); /* one client may use 2 of 3 threads */
    struct client busy, early, other;
    NEED(client_open(&busy) && client_open(&early) && client_open(&other));
    client_send_text(&busy, "GET /move HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client_send_text(&early, "GET /move HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT(rig_until(&rig.n_blocked, 2, SOON));
    client_close(&early);
    client_send_text(&other, "GET /stream?n=3&bytes=5 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT(client_reads(&other, "\r\n0\r\n\r\n", SOON));
    EXPECT(!client_reads(&busy, "hello", 0));
    atomic_store(&rig.release, true);
    EXPECT(client_reads(&busy, "hello", SOON));
    client_close(&busy), client_close(&other);
    rig_close();
}

TEST(net_postpones_handlers)
{
    /* Goal: a postponed handler needs no thread, and its body keeps its memory. The handler runs
     * once after each wake. */
    NEED(rig_open(&(struct net_options){.body_total_max = 100000, .n_handler = 1}));
    static char body[100000];
    struct client long_one, other, c[4];
    memset(body, 'y', sizeof body);
    body[sizeof body - 1] = 'z';
    NEED(client_open(&long_one) && client_open(&other));
    client_send_text(&long_one,
                     "POST /later HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n");
    client_send(&long_one, body, sizeof body);
    NEED(rig_until(&rig.n_waiting, 1, SOON));
    for (int i = 0; i < 4; i++) {
        NEED(client_open(&c[i]));
        client_send_text(&c[i], "POST /later HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
                                "\r\nab");
    }
    NEED(rig_until(&rig.n_waiting, 5, SOON));
    for (int i = 0; i < 50; i++) rig_tick(); /* wakes before the release have no effect */
    check_answer("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody",
                 "\r\n\r\nbody");
    client_send_text(&other,
                     "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 136000\r\n\r\n");
    client_send(&other, body, sizeof body);
    client_send(&other, body, 36000);
    EXPECT(client_reads(&other, "HTTP/1.1 503", SOON)); /* the waiting body has its memory */
    rig_release();
    EXPECT(client_reads(&long_one, "yyyyyyyyz", SOON) && long_one.in.n > sizeof body);
    for (int i = 0; i < 4; i++) {
        EXPECT(client_reads(&c[i], "\r\n\r\nab", SOON));
        client_send_text(&c[i], "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
        EXPECT(client_reads(&c[i], "hello", SOON));
        client_close(&c[i]);
    }
    client_close(&long_one), client_close(&other);
    check_answer("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody",
                 "\r\n\r\nbody");
    rig_close();
}

TEST(net_postponed_handlers_end_with_their_clients)
{
    /* Goal: a hang-up and the end of the server call `again`. */
    enum { N = 8 };
    static const char request[] =
        "POST /later HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nab";
    NEED(rig_open(&(struct net_options){0}));
    struct client c[N];
    for (int i = 0; i < N; i++) {
        NEED(client_open(&c[i]));
        client_send_text(&c[i], request);
    }
    NEED(rig_until(&rig.n_waiting, N, SOON));
    for (int i = 0; i < N; i += 2) client_close(&c[i]);
    EXPECT(rig_until(&rig.n_disconnected, N / 2, SOON));
    net_drain(rig.net, 10);
    EXPECT(rig_until(&rig.n_disconnected, N, SOON));
    for (int i = 1; i < N; i += 2) client_close(&c[i]);
    rig_close();
}

TEST_ALONE(net_waits_for_no_client)
{
    /* Goal: an idle connection has a deadline. A partial request also has a deadline, even if its
     * bytes arrive steadily. */
    struct net_options o = {.head_ms = 300, .body_ms = 300, .idle_ms = 300};
    NEED(rig_open(&o));
    struct client head, body, idle;
    NEED(client_open(&head) && client_open(&body) && client_open(&idle));
    client_send_text(&idle, "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client_send_text(&body,
                     "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n");
    int64_t start = time_us();
    bool sent = true;
    for (int i = 0; sent && i < 40; i++) {
        sent = client_send_text(&head, "G") && client_send_text(&body, "x");
        usleep(20000);
        if (client_reads(&head, "408", 0)) break;
    }
    EXPECT(client_reads(&head, "HTTP/1.1 408", SOON) && client_reads(&body, "HTTP/1.1 408", SOON));
    EXPECT(time_us() - start < 1200000);
    EXPECT(client_ends(&idle, SOON));
    client_close(&head), client_close(&body), client_close(&idle);
    rig_close();
}

TEST_ALONE(net_holds_no_body_that_stops)
{
    /* Goal: the deadline of a body is extended at most to a limit. Otherwise a small number of
     * clients could keep all shared memory of bodies. Method: write 40 KiB in one call, which are
     * the bytes of 10 s at 4 KiB/s. */
    NEED(rig_open(&(struct net_options){.body_ms = 300}));
    struct client c;
    char part[40 << 10];
    memset(part, 'x', sizeof part);
    NEED(client_open(&c));
    client_send_text(&c, "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 81920\r\n\r\n");
    client_send(&c, part, sizeof part);
    int64_t start = time_us();
    EXPECT(client_reads(&c, "HTTP/1.1 408", SOON));
    EXPECT(time_us() - start < 2000000);
    client_close(&c);
    rig_close();
}

TEST_ALONE(net_has_room_for_so_many)
{
    struct net_options o = {.conn_max = 4};
    NEED(rig_open(&o));
    struct client c[4], more;
    for (int i = 0; i < 4; i++) {
        NEED(client_open(&c[i]));
        client_send_text(&c[i], wait_request);
        EXPECT(rig_until(&rig.n_waiting, i + 1, SOON));
    }
    NEED(client_open(&more));
    client_send_text(&more, "GET /who/me HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT(client_reads(&more, "HTTP/1.1 503", SOON) && client_reads(&more, "Retry-After", SOON));
    EXPECT(client_reads(&more, "\"status\":503", SOON));
    client_close(&more);
    client_close(&c[0]);
    for (int i = 0; i < 100 && net_stats(rig.net).n_conn > 3; i++) usleep(10000);
    check_answer("GET /who/me HTTP/1.1\r\nHost: localhost\r\n\r\n", "\r\n\r\nme");
    for (int i = 1; i < 4; i++) client_close(&c[i]);
    for (int i = 0; i < 100 && atomic_load(&rig.n_disconnected) < 4; i++) usleep(10000);
    rig_close();
}

/* ---- hang-ups ---- */

/* Expect that the server detects the hang-up of a client in /wait in time, but keeps a half-closed
 * connection. */
static void hang_up(void)
{
    struct client c, half;
    NEED(client_open(&c) && client_open(&half));
    client_send_text(&half, wait_request);
    NEED(rig_until(&rig.n_waiting, 1, SOON));
    shutdown(half.fd, SHUT_WR);
    client_send_text(&c, wait_request);
    NEED(rig_until(&rig.n_waiting, 2, SOON));
    usleep(50000);
    EXPECT_INT(atomic_load(&rig.n_disconnected), 0);
    int64_t start = time_us();
    client_close(&c);
    EXPECT(rig_until(&rig.n_disconnected, 1, SOON));
    test_note("detected after %.2f ms", (double)(time_us() - start) * 1e-3);
    usleep(50000);
    EXPECT_INT(atomic_load(&rig.n_disconnected), 1);
    atomic_store(&rig.release, true);
    exchange_wake(rig.waiting[0]);
    EXPECT(client_reads(&half, "at last", SOON));
    EXPECT(client_ends(&half, SOON));
    client_close(&half);
}

TEST(net_detects_a_hangup)
{
    NEED(rig_open(&(struct net_options){0}));
    hang_up();
    rig_close();
}

TEST(net_over_a_unix_socket)
{
    const char *path = temp_path("socket");
    NEED(rig_open(&(struct net_options){.uds = path}));
    EXPECT_INT(net_port(rig.net), 0);
    check_answer("GET /hello HTTP/1.1\r\nHost: anything\r\n\r\n", "hello");
    hang_up();
    struct net *other;
    struct err e = {0};
    EXPECT(net_open(&other, &(struct net_options){.uds = path}, &e) == ERR_IO);
    rig_close();
    EXPECT(!file_exists(path) && access(path, F_OK) != 0);
}

TEST(net_detects_the_end_of_a_streams_client)
{
    /* Goal: a silent stream ends if its client has closed. */
    NEED(rig_open(&(struct net_options){0}));
    struct client c;
    NEED(client_open(&c));
    client_send_text(&c, "GET /tick HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT(client_reads(&c, "text/event-stream", SOON));
    NEED(rig_until(&rig.n_waiting, 1, SOON));
    client_close(&c);
    for (int i = 0; i < 200 && net_stats(rig.net).n_exchange > 0; i++) usleep(5000);
    EXPECT_INT(net_stats(rig.net).n_exchange, 0);
    EXPECT_INT(net_stats(rig.net).n_hangup, 1);
    rig_close();
}

/* ---- streams ---- */

/* Return the payload bytes of a complete chunked answer. All payload bytes are 'x'. */
static int64_t count_x(const struct buf *b)
{
    int64_t n = 0;
    const char *body = strstr(b->data, "\r\n\r\n");
    for (const char *c = body; c && c < b->data + b->n; c++) n += *c == 'x';
    return n;
}

TEST(net_streams_as_fast_as_it_is_read)
{
    /* Goal: no byte is lost between ring and spill. Method: send a frame larger than the ring, many
     * small frames, and frames to a sleeping client. */
    static const struct {
        int n, bytes;
    } c[] = {{3, 200000}, {20000, 17}, {100, 65536}, {1, 1}, {0, 1}};
    NEED(rig_open(&(struct net_options){0}));
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct client a;
        char request[100];
        NEED(client_open(&a));
        snprintf(request, sizeof request,
                 "GET /stream?n=%d&bytes=%d HTTP/1.1\r\nHost: localhost\r\n\r\n", c[i].n,
                 c[i].bytes);
        client_send_text(&a, request);
        usleep(20000);
        EXPECT(client_reads(&a, "\r\n0\r\n\r\n", 5 * SOON));
        EXPECT_INT(count_x(&a.in), (int64_t)c[i].n * c[i].bytes);
        client_close(&a);
    }
    rig_close();
}

TEST(net_slow_readers_block_no_others)
{
    /* Goal: clients that stop reading are disconnected within write_ms. Their memory is bounded,
     * and other clients are not delayed. */
    enum { N = 8 };
    struct net_options o = {.write_ms = 400};
    NEED(rig_open(&o));
    struct client c[N];
    for (int i = 0; i < N; i++) {
        NEED(client_open(&c[i]));
        client_send_text(&c[i],
                         "GET /stream?n=100000000&bytes=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    NEED(rig_until(&rig.n_streaming, N, SOON));
    for (int i = 0; i < 20; i++)
        check_answer("GET /stream?n=50&bytes=100 HTTP/1.1\r\nHost: localhost\r\n\r\n",
                     "\r\n0\r\n\r\n");
    EXPECT(rig_until(&rig.n_disconnected, N, 3 * SOON));
    for (int i = 0; i < N; i++) client_close(&c[i]);
    rig_close();
}

TEST(net_pings_silent_streams)
{
    struct net_options o = {.ping_ms = 50};
    NEED(rig_open(&o));
    struct client c;
    NEED(client_open(&c));
    client_send_text(&c, "GET /tick HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT(client_reads(&c, "3\r\n:\n\n\r\n", SOON));
    client_close(&c);
    NEED(client_open(&c));
    client_send_text(&c, "GET /tick HTTP/1.1\r\nHost: localhost\r\nX-Own: 1\r\n\r\n");
    EXPECT(client_reads(&c, "d\r\nevent: ping\n\n\r\n", SOON));
    client_close(&c);
    rig_close();
}

TEST(net_streams_have_their_own_interval_of_pings)
{
    struct client c;
    struct net_options o = {.ping_ms = 60000};
    NEED(rig_open(&o));
    NEED(client_open(&c));
    client_send_text(&c, "GET /tick?every=50 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT(client_reads(&c, "3\r\n:\n\n\r\n", SOON));
    client_close(&c);
    rig_close();
    o.ping_ms = 50;
    NEED(rig_open(&o));
    NEED(client_open(&c));
    client_send_text(&c, "GET /tick?every=0 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT(!client_reads(&c, "3\r\n:\n\n\r\n", 300));
    client_close(&c);
    rig_close();
}

/* ---- drain ---- */

static void *drain_soon(void *arg)
{
    (void)arg;
    usleep(50000);
    rig_release();
    return NULL;
}

TEST_ALONE(net_drains)
{
    /* Goal: a stopping server completes answers in progress and closes idle connections. The server
     * rejects new connections and truncates answers that never end. */
    NEED(rig_open(&(struct net_options){0}));
    struct client busy, idle, late;
    NEED(client_open(&busy) && client_open(&idle));
    client_send_text(&idle, "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT(client_reads(&idle, "hello", SOON));
    client_send_text(&busy, wait_request);
    NEED(rig_until(&rig.n_waiting, 1, SOON));
    pthread_t thread;
    NEED(pthread_create(&thread, NULL, drain_soon, NULL) == 0);
    int64_t start = time_us();
    net_drain(rig.net, 3 * SOON);
    EXPECT(time_us() - start < SOON * 1000);
    pthread_join(thread, NULL);
    EXPECT(client_reads(&busy, "Connection: close\r\n\r\nat last", SOON) &&
           client_ends(&busy, SOON));
    EXPECT(client_ends(&idle, SOON));
    EXPECT(!client_open(&late));
    client_close(&busy), client_close(&idle);
    rig_close();
    NEED(rig_open(&(struct net_options){0}) && client_open(&busy));
    client_send_text(&busy, wait_request);
    NEED(rig_until(&rig.n_waiting, 1, SOON));
    net_drain(rig.net, 10);
    EXPECT_INT(atomic_load(&rig.n_disconnected), 1);
    client_close(&busy);
    rig_close();
}

TEST(net_logs_each_answer)
{
    const char *path = temp_path("access");
    NEED(rig_open(&(struct net_options){.access_log = path}));
    check_answer("GET /who/a%22b%0Ac HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: i-1\r\n\r\n",
                 "a\"b\nc");
    check_answer("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", "404");
    check_answer("GET /%C2%9B%E2%80%A8%E2%80%AE%C3%A9 HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: "
                 "\"\\\r\n\r\n",
                 "404");
    rig_close();
    struct buf b = {0};
    NEED(file_read(&b, path, 10000, NULL) == 0);
    EXPECT(strstr(b.data, " - \"GET /who/a\\x22b\\x0ac\" 200 0 ") && strstr(b.data, " i-1\n"));
    EXPECT(strstr(b.data, "\"GET /nothing\" 404 "));
    int n = 0;
    for (size_t i = 0; i < b.n; i++) n += b.data[i] == '\n';
    EXPECT_INT(n, 3);
    EXPECT(strstr(b.data, "/\\xc2\\x9b\\xe2\\x80\\xa8\\xe2\\x80\\xae\xC3\xA9\" 404 "));
    EXPECT(strstr(b.data, "ms \\x22\\x5c\n"));
    buf_deinit(&b);
    unlink(path);
}

/* ---- TLS ---- */

bool make_certificate(const char *cert, const char *key)
{
    EVP_PKEY *k = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    X509_gmtime_adj(X509_getm_notBefore(x), -60);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_set_pubkey(x, k);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                               (const unsigned char *)"localhost", -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(x));
    bool ok = X509_sign(x, k, EVP_sha256()) > 0;
    FILE *f = fopen(cert, "we"), *g = fopen(key, "we");
    ok = ok && f && g && PEM_write_X509(f, x) &&
         PEM_write_PrivateKey(g, k, NULL, NULL, 0, NULL, NULL);
    if (f) fclose(f);
    if (g) fclose(g);
    X509_free(x);
    EVP_PKEY_free(k);
    return ok;
}

/* Expect an answer for a client that sends a TLS close with its request and continues to read. */
static void half_close_tls(void)
{
    struct client c;
    NEED(client_open(&c));
    client_send_text(&c, "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT(SSL_shutdown(c.tls) == 0);
    EXPECT(client_reads(&c, "\r\n\r\nhello", SOON) && client_ends(&c, SOON));
    client_close(&c);
}

/* Expect a readable error for a client that sends HTTP without TLS, also in pieces. */
static void plain_http_at_tls(void)
{
    struct client c;
    for (int i = 0; i < 2; i++) {
        NEED(client_open_plain(&c));
        client_send_text(&c, i ? "GET /hel" : "POST /hello HTTP/1.1\r\nContent-Length: 5\r\n");
        EXPECT(client_reads(&c, "HTTP/1.1 400 Bad Request\r\n", SOON));
        EXPECT(client_reads(&c, "https://", SOON) && client_ends(&c, SOON));
        client_close(&c);
    }
}

TEST(net_serves_tls)
{
    char cert[256], key[256];
    snprintf(cert, sizeof cert, "%s", temp_path("cert.pem"));
    snprintf(key, sizeof key, "%s", temp_path("key.pem"));
    NEED(make_certificate(cert, key));
    struct net_options o = {.tls_cert = cert, .tls_key = key, .head_ms = 500};
    NEED(rig_open(&o));
    check_answer("GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n", "hello");
    check_answer("GET /stream?n=100&bytes=65536 HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 "\r\n0\r\n\r\n");
    check_rejected("GARBAGE\r\n\r\n", "400", "null");
    half_close_tls();
    hang_up();
    plain_http_at_tls();
    rig_close();
    struct net *n;
    struct err e = {0};
    EXPECT(net_open(&n, &(struct net_options){.tls_cert = key, .tls_key = key}, &e) == ERR_ARG);
    EXPECT(strstr(e.text, "certificate"));
    EXPECT(net_open(&n, &(struct net_options){.tls_cert = cert}, &e) == ERR_ARG);
}

/* ---- many connections ---- */

TEST(net_thousand_connections)
{
    /* Goal: no descriptor or connection remains after a thousand idle or slow connections. Healthy
     * connections among them are answered. */
    struct rlimit r;
    int n = 1000;
    getrlimit(RLIMIT_NOFILE, &r);
    if (r.rlim_cur < 2200) r.rlim_cur = r.rlim_max < 2200 ? r.rlim_max : 2200;
    setrlimit(RLIMIT_NOFILE, &r);
    if (r.rlim_cur < 2200) n = (int)(r.rlim_cur - 100) / 2;
    NEED(rig_open(&(struct net_options){0}));
    struct client *c = calloc((size_t)n, sizeof *c);
    for (int i = 0; i < n; i++) {
        EXPECT(client_open(&c[i]));
        if (i % 3 == 1) client_send_text(&c[i], "GET /hello HT");
        if (i % 3 == 2) client_send_text(&c[i], wait_request);
    }
    for (int i = 0; i < 10; i++)
        check_answer("GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n", "hello");
    EXPECT_INT(net_stats(rig.net).n_accepted, n + 10);
    for (int i = 0; i < n; i++) client_close(&c[i]);
    for (int i = 0; i < 400 && net_stats(rig.net).n_conn + net_stats(rig.net).n_exchange > 0; i++)
        usleep(5000);
    EXPECT_INT(net_stats(rig.net).n_conn, 0);
    EXPECT_INT(net_stats(rig.net).n_exchange, 0);
    free(c);
    rig_close();
}

TEST(net_overhead)
{
    /* Goal: the server's own threads use <= 0.2 ms of CPU time per request, and <= 20 us per frame
     * of 64 streams. The test fails only above five times these values on a shared machine. */
    enum { REQUESTS = 500, STREAMS = 64, TICKS = 100 };
    NEED(rig_open(&(struct net_options){0}));
    struct client c[STREAMS];
    NEED(client_open(&c[0]));
    for (int i = 0; i < REQUESTS; i++) {
        client_clear(&c[0]);
        client_send_text(&c[0],
                         "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody");
        NEED(client_reads(&c[0], "\r\n\r\nbody", SOON));
    }
    struct net_stats s = net_stats(rig.net);
    double per_request = (double)(s.loop_us + s.handler_us + s.stream_us) / REQUESTS;
    client_close(&c[0]);
    for (int i = 0; i < STREAMS; i++) {
        NEED(client_open(&c[i]));
        client_send_text(&c[i], "GET /tick HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    NEED(rig_until(&rig.n_waiting, STREAMS, SOON));
    s = net_stats(rig.net);
    int64_t before = s.loop_us + s.handler_us + s.stream_us;
    for (int t = 0; t < TICKS; t++) {
        rig_tick();
        NEED(rig_until(&rig.n_tick, (t + 1) * STREAMS, SOON));
        for (int i = 0; i < STREAMS; i++) client_reads(&c[i], " word", SOON), client_clear(&c[i]);
    }
    s = net_stats(rig.net);
    double per_frame = (double)(s.loop_us + s.handler_us + s.stream_us - before) / STREAMS / TICKS;
    test_note("%.1f us per request, %.2f us per frame at %d streams", per_request, per_frame,
              STREAMS);
    EXPECT(per_request < 1000 && per_frame < 100);
    atomic_store(&rig.stop, true);
    rig_tick();
    for (int i = 0; i < STREAMS; i++) client_close(&c[i]);
    rig_close();
}

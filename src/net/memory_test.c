/* Goal: a failed allocation in a request, plain or over TLS, never gives another answer. The result
 * is the usual answer, a 503, or a connection that ends too early. The next client is answered as
 * usual. Method: use the server of serve_test.h. Each allocation of the process, except allocations
 * of the client, fails once, alone and with all later allocations. A TLS handshake has hundreds of
 * allocations: some of them fail in a normal run, all of them with QUOTH_LONG=1. */
#include "serve_test.h"

#include "../../tests/alloc.h"

#include <stdlib.h>
#include <unistd.h>

#define HEAD " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer good\r\nConnection: close\r\n"
static const char *const questions[] = {
    "GET /who/abc" HEAD "\r\n",
    "GET /query?q=%41bc" HEAD "X-Request-Id: mine\r\n\r\n",
    "HEAD /hello" HEAD "\r\n",
    "GET /nowhere" HEAD "\r\n",
    "PUT /echo" HEAD "\r\n",
    "OPTIONS /echo" HEAD "Origin: http://localhost\r\nAccess-Control-Request-Method: POST\r\n\r\n",
    "POST /echo" HEAD "Content-Length: 5\r\n\r\nHello",
    "POST /echo" HEAD "Transfer-Encoding: chunked\r\n\r\n5\r\nHello\r\n6\r\n world\r\n0\r\n\r\n",
    "GET /stream?n=40&bytes=5000" HEAD "\r\n",
};

/* Append all received bytes, except lines that differ between answers. The client uses memory of
 * the test, so its allocations do not fail. */
static void exchange_all(const char *request, struct buf *out)
{
    struct client c;
    buf_clear(out);
    if (client_open(&c)) {
        client_send_text(&c, request);
        EXPECT(client_ends(&c, 10000));
        static const char *const varies[] = {"Date: ", "X-Request-Id: req-"};
        for (char *line = c.in.data, *end; line && *line; line = end) {
            end = strchr(line, '\n');
            end = end ? end + 1 : line + strlen(line);
            bool skip = false;
            for (int i = 0; i < 2; i++) skip |= strncmp(line, varies[i], strlen(varies[i])) == 0;
            if (!skip) buf_add(out, line, (size_t)(end - line));
        }
    }
    client_close(&c);
    buf_add(out, "", 0);
}

/* Return true for a complete 503, or for a proper prefix of the usual answer. A client detects from
 * the length of a prefix that the connection ended too early. */
static bool is_error(const struct buf *got, const struct buf *want)
{
    static const char head[] = "HTTP/1.1 503 ";
    if (got->n > 13 && memcmp(got->data, head, 13) == 0)
        return strstr(got->data, "\r\n\r\n") != NULL;
    const char *body = want->data ? strstr(want->data, "\r\n\r\n") : NULL;
    size_t n_head = body ? (size_t)(body - want->data) + 4 : 0;
    if (got->n < want->n && memcmp(got->data, want->data, got->n < n_head ? got->n : n_head) == 0)
        return got->n == 0 || got->n > n_head || memcmp(got->data, want->data, got->n) == 0;
    return false;
}

/* Fail each allocation of an exchange in turn. The answer must be the usual answer or an error. */
static void sweep(const char *request, uint64_t count, uint64_t step, int *n_run)
{
    struct buf want = {0}, got = {0};
    for (int i = 0; i < 2; i++) exchange_all(request, &want);
    EXPECT(want.n > 0);
    bool hit = true;
    for (uint64_t i = 0; hit; i += step, ++*n_run) {
        alloc_fail(i, count);
        exchange_all(request, &got);
        hit = alloc_fail_end() > i;
        bool same = got.n == want.n && memcmp(got.data, want.data, want.n) == 0;
        if (!same && !is_error(&got, &want))
            test_fail(__FILE__, __LINE__, "%.20s, %llu: %.300s", request, (unsigned long long)i,
                      got.data);
        exchange_all(request, &got);
        if (got.n != want.n || memcmp(got.data, want.data, want.n) != 0)
            test_fail(__FILE__, __LINE__, "%.20s, after %llu: %.300s", request,
                      (unsigned long long)i, got.data);
    }
    buf_deinit(&want);
    buf_deinit(&got);
}

/* Sweep all requests, with one failing allocation and with all later allocations failing. No
 * exchange may remain. */
static void sweep_all(const struct net_options *o, uint64_t step)
{
    int n_run = 0;
    NEED(rig_open(o));
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        sweep(questions[i], 1, step, &n_run);
        sweep(questions[i], ALLOC_ALL, step, &n_run);
    }
    test_note("%d runs", n_run);
    for (int i = 0; i < 1000 && net_stats(rig.net).n_exchange; i++) usleep(1000);
    EXPECT_INT(net_stats(rig.net).n_exchange, 0);
    rig_close();
}

TEST(net_without_memory)
{
    struct net_keys keys = {0};
    struct err e = {0};
    alloc_spare(true);
    NEED_OK(net_keys_add(&keys, "good", "g", &e), &e);
    sweep_all(&(struct net_options){.keys = &keys, .n_handler = 1, .access_log = "/dev/null"}, 1);
    net_keys_deinit(&keys);
    alloc_spare(false);
}

TEST(net_without_memory_over_tls)
{
    char cert[256], key[256];
    alloc_spare(true);
    snprintf(cert, sizeof cert, "%s", temp_path("cert.pem"));
    snprintf(key, sizeof key, "%s", temp_path("key.pem"));
    NEED(make_certificate(cert, key));
    sweep_all(&(struct net_options){.tls_cert = cert, .tls_key = key, .n_handler = 1},
              test_long() ? 1 : 61);
    alloc_spare(false);
}

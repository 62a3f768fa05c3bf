/* Goal: an answer is complete, or the request fails with a reason. Bytes are delivered as they
 * arrive. Concurrent requests reuse connections. Method: use a server with a thread per connection.
 * The path selects the misbehavior of the server. */
#include "fetch.h"
#include "../../tests/unit.h"

#include "base/os.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* ---- the server ---- */

static struct {
    int fd;
    _Atomic int n_connection;
} server;

static void send_text(int fd, const char *text)
{
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
}

static void rest(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000L * ms}, NULL);
}

static void send_body(int fd, const char *status, const char *body, size_t n)
{
    char head[128];
    snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n", status, n);
    send_text(fd, head);
    (void)!send(fd, body, n, MSG_NOSIGNAL);
}

/* Send an answer. Return false if the connection must be closed. */
static bool answer(int fd, const char *head, const char *body)
{
    if (strstr(head, " /plain "))
        send_body(fd, "200 OK", "plain", 5);
    else if (strstr(head, " /echo "))
        send_body(fd, "200 OK", body, strlen(body));
    else if (strstr(head, " /head "))
        send_body(fd, "200 OK", head, strlen(head));
    else if (strstr(head, " /no "))
        send_body(fd, "404 Not Found", "nothing here", 12);
    else if (strstr(head, " /slow ")) {
        rest(100);
        send_body(fd, "200 OK", "slow", 4);
    } else if (strstr(head, " /pieces ")) {
        send_text(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
        rest(40);
        send_text(fd, "3\r\ntwo\r\n");
        rest(40);
        send_text(fd, "0\r\n\r\n");
    } else if (strstr(head, " /cut ")) {
        send_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
        return false;
    } else if (strstr(head, " /never ")) {
        rest(900);
        rest(900);
        return false;
    } else
        return false;
    return true;
}

/* Read a request's head and body into `text`. Return the beginning of the body; NULL if the client
 * sent no further request. */
static char *read_request(int fd, char *text, size_t n_max)
{
    size_t n = 0;
    for (;;) {
        ssize_t got = recv(fd, text + n, n_max - 1 - n, 0);
        if (got <= 0) return NULL;
        n += (size_t)got;
        text[n] = '\0';
        char *body = strstr(text, "\r\n\r\n"), *length = strstr(text, "Content-Length: ");
        if (!body) continue;
        size_t want = length && length < body ? strtoul(length + 16, NULL, 10) : 0;
        if (n >= (size_t)(body + 4 - text) + want) return body + 4;
    }
}

static void *connection(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char *text = malloc(1 << 16), *body;
    while (text && (body = read_request(fd, text, 1 << 16))) {
        body[-1] = '\0';
        if (!answer(fd, text, body)) break;
    }
    free(text);
    close(fd);
    return NULL;
}

static void *listener(void *arg)
{
    (void)arg;
    for (int fd; (fd = accept(server.fd, NULL, NULL)) >= 0;) {
        pthread_t t;
        server.n_connection++;
        if (pthread_create(&t, NULL, connection, (void *)(intptr_t)fd) == 0)
            pthread_detach(t);
        else
            close(fd);
    }
    return NULL;
}

/* Start a server on a loopback port. Return its URL; NULL after a failure. */
static const char *server_open(pthread_t *t)
{
    static char url[64];
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    server.n_connection = 0;
    server.fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(server.fd, (struct sockaddr *)&a, n) != 0 || listen(server.fd, 64) != 0 ||
        getsockname(server.fd, (struct sockaddr *)&a, &n) != 0 ||
        pthread_create(t, NULL, listener, NULL) != 0)
        return NULL;
    snprintf(url, sizeof url, "http://127.0.0.1:%d", ntohs(a.sin_port));
    return url;
}

static void server_close(pthread_t t)
{
    shutdown(server.fd, SHUT_RDWR);
    pthread_join(t, NULL);
    close(server.fd);
}

static const char *at(const char *base, const char *path)
{
    static char url[4][96];
    static int i;
    i = (i + 1) % 4;
    snprintf(url[i], sizeof url[i], "%s%s", base, path);
    return url[i];
}

static bool is_built(void)
{
    struct fetch *f = NULL;
    struct err e;
    int rc = fetch_open(&f, NULL, &e);
    fetch_close(f);
    return rc == 0;
}

/* ---- a single request ---- */

struct case_of {
    const char *path;
    int rc, status;
    const char *text; /* expected text in the body, or in the error */
};

static void check_get(const char *base, const struct case_of *c)
{
    /* only servers that never answer have a short timeout, because a busy machine may be slow */
    struct fetch_options o = {.total_ms = strstr(c->path, "never") ? 200 : 5000, .bytes_max = 200};
    struct buf body = {0};
    struct err e = {0};
    int status = 0, rc = fetch_get(at(base, c->path), NULL, 0, &o, &body, &status, &e);
    const char *text = rc == 0 ? body.data : e.text;
    if (rc != c->rc || status != c->status || !text || !strstr(text, c->text))
        test_fail(__FILE__, __LINE__, "%s: %d, status %d, \"%s\"", c->path, rc, status,
                  text ? text : "");
    buf_deinit(&body);
}

/* Return a loopback port that refuses connections while *fd is open. The port is bound, so that no
 * other program can use it. */
static int refusing_port(int *fd)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    *fd = socket(AF_INET, SOCK_STREAM, 0);
    bool ok = *fd >= 0 && bind(*fd, (struct sockaddr *)&a, n) == 0 &&
              getsockname(*fd, (struct sockaddr *)&a, &n) == 0;
    return ok ? ntohs(a.sin_port) : 0;
}

TEST(fetch_answers_come_whole_or_with_a_reason)
{
    if (!is_built()) SKIP("built without libcurl");
    static const struct case_of want[] = {
        {"/plain", 0, 200, "plain"},         {"/no", 0, 404, "nothing here"},
        {"/pieces", 0, 200, "onetwo"},       {"/cut", ERR_IO, 200, "/cut: "},
        {"/never", ERR_IO, 0, "timed out"},  {"/closed", ERR_IO, 0, "/closed: "},
        {"/head", 0, 200, "GET /head HTTP"},
    };
    pthread_t t;
    const char *base = server_open(&t);
    NEED(base);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) check_get(base, &want[i]);
    struct fetch_options o = {.bytes_max = 4};
    struct buf body = {0};
    struct err e = {0};
    EXPECT_INT(fetch_get(at(base, "/plain"), NULL, 0, &o, &body, NULL, &e), ERR_LIMIT);
    EXPECT(body.n <= 4 && strstr(e.text, "4 bytes"));
    server_close(t);
    int fd;
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/plain", refusing_port(&fd));
    EXPECT_INT(fetch_get(url, NULL, 0, NULL, &body, NULL, &e), ERR_IO);
    EXPECT(strstr(e.text, "cannot connect: no server listens there (connection refused)"));
    close(fd);
    struct fetch_options gone = {.unix_socket = "/nonexistent/socket"};
    EXPECT_INT(fetch_get("http://localhost/plain", NULL, 0, &gone, &body, NULL, &e), ERR_IO);
    EXPECT(strstr(e.text, "cannot connect to /nonexistent/socket: No such file"));
    EXPECT(fetch_get("file:///etc/hostname", NULL, 0, NULL, &body, NULL, &e) != 0);
    EXPECT(fetch_get("", NULL, 0, NULL, &body, NULL, &e) != 0);
    buf_deinit(&body);
}

TEST(fetch_sends_bodies_and_headers_over_one_connection)
{
    if (!is_built()) SKIP("built without libcurl");
    pthread_t t;
    const char *base = server_open(&t);
    struct fetch *f;
    struct buf body = {0};
    struct err e;
    NEED(base);
    NEED_OK(fetch_open(&f, NULL, &e), &e);
    const char *header[] = {"Authorization: Bearer secret", "X-More: yes"};
    for (int i = 0; i < 3; i++) {
        char text[32];
        int n = snprintf(text, sizeof text, "{\"n\":%d}", i), status;
        struct fetch_request r = {.url = at(base, "/echo"), .body = text, .n_body = (size_t)n};
        buf_clear(&body);
        NEED_OK(fetch_perform(f, &r, &body, &status, &e), &e);
        EXPECT(status == 200 && strcmp(body.data, text) == 0);
        r.url = at(base, "/head");
        r.header = header;
        r.n_header = 2;
        buf_clear(&body);
        NEED_OK(fetch_perform(f, &r, &body, NULL, &e), &e);
        EXPECT(strstr(body.data, "POST /head ") && strstr(body.data, header[0]) &&
               strstr(body.data, header[1]) && strstr(body.data, "application/json"));
        r.type = "application/x-protobuf";
        buf_clear(&body);
        NEED_OK(fetch_perform(f, &r, &body, NULL, &e), &e);
        EXPECT(strstr(body.data, "Content-Type: application/x-protobuf\r\n") &&
               !strstr(body.data, "application/json"));
    }
    EXPECT_INT(server.n_connection, 1);
    fetch_close(f);
    buf_deinit(&body);
    server_close(t);
}

/* ---- concurrent requests ---- */

struct received {
    struct fetch *f;
    const char *next; /* URL to request after this request; NULL if none */
    int n_byte, n_done, n_piece, n_new;
    bool refuse;
    char error[128];
};

static bool on_body(void *ctx, int status, const char *data, size_t n)
{
    struct received *s = ctx;
    (void)data;
    s->n_byte += (int)n;
    s->n_piece++;
    return status == 200 && !s->refuse;
}

static void on_done(void *ctx, const struct fetch_result *r)
{
    struct received *s = ctx;
    s->n_done++;
    s->n_new += r->connect_us > 0;
    if (r->error) snprintf(s->error, sizeof s->error, "%s", r->error);
    if (!s->next) return;
    struct fetch_request again = {.url = s->next, .ctx = s, .on_body = on_body, .on_done = on_done};
    s->next = NULL;
    EXPECT_INT(fetch_start(s->f, &again, NULL), 0);
}

TEST_ALONE(fetch_waits_for_many_at_once)
{
    if (!is_built()) SKIP("built without libcurl");
    enum { N = 24 };
    pthread_t t;
    const char *base = server_open(&t);
    struct fetch *f;
    struct err e;
    struct received received[N] = {{0}};
    NEED(base);
    NEED_OK(fetch_open(&f, NULL, &e), &e);
    int64_t begin = time_us();
    const char *slow = at(base, "/slow"), *plain = at(base, "/plain");
    for (int i = 0; i < N; i++) {
        received[i] = (struct received){.f = f, .next = plain};
        struct fetch_request r = {
            .url = slow, .ctx = &received[i], .on_body = on_body, .on_done = on_done};
        NEED_OK(fetch_start(f, &r, &e), &e);
    }
    EXPECT_INT(fetch_n_in_flight(f), N);
    while (fetch_n_in_flight(f)) fetch_wait(f, time_us() + 1000000);
    for (int i = 0; i < N; i++) {
        EXPECT(received[i].n_done == 2 && received[i].n_byte == 9 && !received[i].error[0]);
        EXPECT_INT(received[i].n_new, 1); /* the second request reused the connection */
    }
    EXPECT_INT(server.n_connection, N);
    EXPECT(time_us() - begin < N * 100000 * 9 / 10);
    fetch_close(f);
    server_close(t);
}

TEST(fetch_hands_pieces_over_as_they_come)
{
    if (!is_built()) SKIP("built without libcurl");
    pthread_t t;
    const char *base = server_open(&t);
    struct fetch *f;
    struct err e;
    NEED(base);
    NEED_OK(fetch_open(&f, NULL, &e), &e);
    struct received refuses = {.f = f, .refuse = true};
    struct fetch_request r = {.url = at(base, "/pieces"), .on_body = on_body, .on_done = on_done};
    bool apart = false;
    /* the two pieces may arrive together on a busy machine */
    for (int turn = 0; turn < 5 && !apart; turn++) {
        struct received received = {.f = f};
        r.ctx = &received;
        NEED_OK(fetch_start(f, &r, &e), &e);
        fetch_wait(f, time_us() - 1); /* process the ready events without waiting */
        EXPECT_INT(received.n_done, 0);
        while (!received.n_done) {
            fetch_wait(f, time_us() + 1000000);
            apart |= received.n_piece == 1 && !received.n_done;
        }
        EXPECT_INT(received.n_piece, 2);
    }
    EXPECT(apart);
    r.ctx = &refuses;
    NEED_OK(fetch_start(f, &r, &e), &e);
    while (!refuses.n_done) fetch_wait(f, time_us() + 1000000);
    EXPECT(refuses.n_piece == 1 && strstr(refuses.error, "not needed"));
    r.url = at(base, "/never");
    r.total_ms = 50;
    refuses.n_done = 0;
    NEED_OK(fetch_start(f, &r, &e), &e);
    while (!refuses.n_done) fetch_wait(f, time_us() + 1000000);
    EXPECT(strstr(refuses.error, "timed out"));
    r.total_ms = 0; /* the request is in flight at the end of the client */
    NEED_OK(fetch_start(f, &r, &e), &e);
    fetch_wait(f, time_us() + 10000);
    fetch_close(f);
    EXPECT_INT(refuses.n_done, 1);
    server_close(t);
}

TEST(fetch_goes_through_a_unix_socket)
{
    if (!is_built()) SKIP("built without libcurl");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct buf body = {0};
    struct err e;
    pthread_t t;
    int n = snprintf(a.sun_path, sizeof a.sun_path, "%s", temp_path("fetch.sock"));
    if (n >= (int)sizeof a.sun_path) SKIP("too long a path for a socket");
    server.fd = socket(AF_UNIX, SOCK_STREAM, 0);
    NEED(bind(server.fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(server.fd, 8) == 0);
    NEED(pthread_create(&t, NULL, listener, NULL) == 0);
    struct fetch_options o = {.unix_socket = a.sun_path};
    NEED_OK(fetch_get("http://whatever/plain", NULL, 0, &o, &body, NULL, &e), &e);
    EXPECT(strcmp(body.data, "plain") == 0);
    buf_deinit(&body);
    server_close(t);
    unlink(a.sun_path);
}

/* Goal: a download gives the exact file, or an error and no file, also from a server that ignores
 * ranges, cuts answers or sends other bytes, and if allocations of both threads fail. A later
 * download continues. Method: a server on a thread of this process, one connection at a time. */
#include "hub_impl.h"

#include "base/os.h"
#include "base/rng.h"

#include "../../tests/alloc.h"
#include "../../tests/unit.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { N_BYTE = 2 * CHUNK_BYTES + 5 };
/* WHOLE: the server ignores ranges. CUT: every other answer ends after its half. WRONG: the bytes
 * differ from those of the hash. */
enum manner { RANGES, WHOLE, CUT, WRONG, N_MANNER };

static char *content; /* [N_BYTE + 1] */
static atomic_int manner;

static void send_all(int fd, const char *data, size_t n)
{
    for (ssize_t k; n > 0 && (k = send(fd, data, n, MSG_NOSIGNAL)) > 0; n -= (size_t)k) data += k;
}

/* Answer one request, and close the connection. */
static void answer(int fd, int number)
{
    char text[4096];
    size_t n = 0, first = 0, last = N_BYTE - 1;
    for (ssize_t k; n < sizeof text - 1 && (k = recv(fd, text + n, sizeof text - 1 - n, 0)) > 0;) {
        n += (size_t)k;
        text[n] = 0;
        if (strstr(text, "\r\n\r\n")) break;
    }
    const char *range = manner == WHOLE ? NULL : strstr(text, "Range: bytes=");
    if (range) (void)sscanf(range, "Range: bytes=%zu-%zu", &first, &last);
    size_t size = last + 1 - first;
    n = (size_t)snprintf(text, sizeof text, "HTTP/1.1 %s\r\nConnection: close\r\n",
                         range ? "206 Partial Content" : "200 OK");
    if (range)
        n += (size_t)snprintf(text + n, sizeof text - n, "Content-Range: bytes %zu-%zu/%d\r\n",
                              first, last, N_BYTE);
    n += (size_t)snprintf(text + n, sizeof text - n, "Content-Length: %zu\r\n\r\n", size);
    if (manner == CUT && number % 2 == 0) size /= 2;
    send_all(fd, text, n);
    send_all(fd, content + first + (manner == WRONG), size);
    close(fd);
}

static void *serve(void *listener)
{
    alloc_spare(true);
    for (int i = 0, fd; (fd = accept(*(int *)listener, NULL, NULL)) >= 0; i++) answer(fd, i);
    return NULL;
}

/* A server and the blob that it has. */
struct site {
    int listener;
    pthread_t thread;
    char origin[64], url[80], hash[HUB_HASH_BYTES], path[HUB_PATH_BYTES], lock[HUB_PATH_BYTES];
    struct blob blob;
};

static bool site_open(struct site *s)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof in;
    struct digest d = {0};
    struct err e = {0};
    uint64_t rng = 9;
    content = malloc(N_BYTE + 1);
    if (!content) return false;
    for (int i = 0; i <= N_BYTE; i++) content[i] = (char)rng_next(&rng);
    memset(s->hash, '0', sizeof s->hash - 1); /* a hash of 64 digits is SHA-256 */
    bool ok = digest_open(&d, s->hash, N_BYTE, &e) == 0 && digest_add(&d, content, N_BYTE) &&
              digest_end(&d, s->hash);
    digest_close(&d);
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ok = ok && bind(s->listener, (struct sockaddr *)&in, n) == 0 && listen(s->listener, 64) == 0 &&
         getsockname(s->listener, (struct sockaddr *)&in, &n) == 0;
    snprintf(s->origin, sizeof s->origin, "http://127.0.0.1:%d", ntohs(in.sin_port));
    snprintf(s->url, sizeof s->url, "%s/blob", s->origin);
    snprintf(s->path, sizeof s->path, "%s", temp_path("blob"));
    snprintf(s->lock, sizeof s->lock, "%s", temp_path("blob.lock"));
    s->blob = (struct blob){.url = s->url,
                            .hash = s->hash,
                            .path = s->path,
                            .lock = s->lock,
                            .title = "blob",
                            .n_byte = N_BYTE,
                            .n_all = N_BYTE};
    return ok && pthread_create(&s->thread, NULL, serve, &s->listener) == 0;
}

static void site_close(struct site *s)
{
    shutdown(s->listener, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->listener);
    free(content);
}

/* Download the blob, with failures of allocations [n, n + count). The file is then complete, or
 * does not exist. Return the code. */
static int get(struct site *s, uint64_t n, uint64_t count)
{
    static const struct hub_pull_options options = {.n_connection = 3};
    const struct hub_name name = {.kind = HUB_HF};
    struct remote c = {0};
    struct buf got = {0};
    struct err e = {0};
    if (count) alloc_fail(n, count);
    int rc = remote_open(&c, s->origin, &name, &options, &e);
    if (rc == 0) rc = download(&c, &s->blob, &e);
    remote_close(&c);
    if (count) (void)alloc_fail_end();
    EXPECT(rc == 0 || e.text[0]);
    EXPECT((rc == 0) == file_exists(s->path));
    if (rc == 0) {
        EXPECT_INT(file_read(&got, s->path, N_BYTE, &e), 0);
        EXPECT(got.n == N_BYTE && memcmp(got.data, content, N_BYTE) == 0);
        unlink(s->path);
    }
    buf_deinit(&got);
    return rc;
}

TEST(hub_downloads_exact_files)
{
    struct site s = {.listener = -1};
    NEED(site_open(&s));
    for (int i = 0; i < N_MANNER; i++) {
        manner = i;
        EXPECT_INT(get(&s, 0, 0), i == WRONG ? ERR_FORMAT : 0);
    }
    site_close(&s);
}

TEST(hub_downloads_survive_failed_allocations)
{
    uint64_t rng = 4;
    struct site s = {.listener = -1};
    int n_error = 0;
    const int n_case = test_long() ? 300 : 12;
    NEED(site_open(&s));
    manner = RANGES;
    for (int i = 0; i < n_case; i++) {
        /* sanitizers count fewer allocations, those of the program only */
        n_error += get(&s, rng_below(&rng, i % 2 ? 8 : 80), i % 2 ? ALLOC_ALL : 1) != 0;
        if (i % 4 == 3) EXPECT_INT(get(&s, 0, 0), 0);
    }
    test_note("%d of %d downloads failed", n_error, n_case);
    EXPECT(n_error > 0);
    site_close(&s);
}

/* health.c - quoth health: check that a server is running and ready. The command is for a
 * container's HEALTHCHECK, probes and scripts. The command has a minimal HTTP client over a socket,
 * and needs no other program. https uses libcurl (fetch.h).
 *
 *    http, unix   connect_url -> send_request -> first line of the answer: "HTTP/1.0 200 OK"
 *    https        health_tls, by libcurl
 *
 * With its own short client, this program can be the probe of a container without curl. */
#include "cli.h"

#include "base/os.h"
#include "fetch/fetch.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { ADDRESS_BYTES_MAX = 512 };

static int64_t timeout_s = 3;
static const char *ca_file;
static bool insecure;

static const struct option options[] = {
    INT_OPTION("timeout", "S", &timeout_s, 1, 3600, "seconds to wait for the answer (default 3)"),
    TEXT_OPTION("ca-cert", "FILE", &ca_file,
                "file of trusted certificates, PEM (default: the system's certificates)"),
    FLAG_OPTION("insecure", &insecure, "accept any certificate", .letter = 'k'),
    OPTIONS_END,
};

/* Return a socket with timeouts for reading, writing and connecting. */
static int blocking_socket(int family)
{
    struct timeval t = {.tv_sec = timeout_s};
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
    }
    return fd;
}

/* Return a connected fd, or -1 with the reason in *why. */
static int connected(int fd, const void *address, socklen_t n, const char **why)
{
    if (fd >= 0 && connect(fd, address, n) == 0) return fd;
    *why = errno == EINPROGRESS ? "no answer" : os_connect_error(errno);
    if (fd >= 0) close(fd);
    return -1;
}

/* Return a connected fd, or -1 with the reason in *why. */
static int connect_unix(const char *path, const char **why)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof a.sun_path) return *why = "too long a path", -1;
    memcpy(a.sun_path, path, strlen(path));
    return connected(blocking_socket(AF_UNIX), &a, sizeof a, why);
}

/* Connect to any address of the host. *why is the reason for the failure of the last address. */
static int connect_tcp(const char *host, const char *port, const char **why)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM}, *list;
    int fd = -1, rc = getaddrinfo(host, port, &want, &list);
    if (rc != 0) return *why = gai_strerror(rc), -1;
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
        fd = connected(blocking_socket(a->ai_family), a->ai_addr, a->ai_addrlen, why);
    freeaddrinfo(list);
    return fd;
}

/* Read HOST and PORT of http://HOST:PORT. *port is not changed if the URL has no port. */
static bool read_host(const char *url, char host[static 256], char port[static 8])
{
    if (sscanf(url, "http://[%255[0-9A-Fa-f:.]]:%7[0-9]", host, port) >= 1) /* check: widths */
        return true;
    return sscanf(url, "http://%255[^][:/]:%7[0-9]", host, port) >= 1; /* check: widths */
}

/* Connect to "http://host:port/...", "http://[::1]:port" or "unix:/path", the forms that `quoth
 * serve` prints. */
static int connect_url(int *fd, const char *url, struct err *e)
{
    char host[256], port[8] = "80";
    const char *why = "";
    if (strncmp(url, "unix:", 5) == 0)
        *fd = connect_unix(url + 5, &why);
    else if (read_host(url, host, port))
        *fd = connect_tcp(host, port, &why);
    else
        return err_set(e, ERR_ARG,
                       "the server: must be HOST:PORT, http://HOST:PORT, https://HOST:PORT or "
                       "unix:PATH, got %s",
                       url);
    return *fd >= 0 ? 0 : err_set(e, ERR_IO, "%s: cannot connect: %s", url, why);
}

/* Read the response's first line into line[n]. */
static int send_request(int fd, const char *url, char *line, size_t n, struct err *e)
{
    /* HTTP/1.0, so that the server closes the connection after the answer */
    static const char request[] = "GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n";
    size_t got = 0;
    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) < 0)
        return err_set(e, ERR_IO, "%s: cannot send: %s", url, strerror(errno));
    while (got < n - 1 && !memchr(line, '\n', got)) {
        ssize_t more = recv(fd, line + got, n - 1 - got, 0);
        if (more < 0 && errno == EINTR) continue;
        if (more < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return err_set(e, ERR_IO, "%s: timed out after %lld s", url, (long long)timeout_s);
        if (more < 0) return err_set(e, ERR_IO, "%s: cannot read: %s", url, strerror(errno));
        if (more == 0) break;
        got += (size_t)more;
    }
    line[got] = 0;
    line[strcspn(line, "\r\n")] = 0;
    return 0;
}

/* Check a server with TLS through libcurl. A program without libcurl returns an error
 * (fetch_none.c). */
static int health_tls(const char *url, struct err *e)
{
    struct buf body = {0};
    const struct fetch_options o = {.ca_file = ca_file,
                                    .insecure = insecure,
                                    .connect_ms = timeout_s * 1000,
                                    .total_ms = timeout_s * 1000};
    char whole[ADDRESS_BYTES_MAX + 16];
    int status = 0;
    snprintf(whole, sizeof whole, "%s/health", url);
    int rc = fetch_get(whole, NULL, 0, &o, &body, &status, e);
    buf_deinit(&body);
    return rc == 0 && status != 200
               ? err_set(e, ERR_IO, "%s: expected status 200, got %d", url, status)
               : rc;
}

/* Return 0 if /health has status 200. ERR_ARG if the URL is malformed. */
static int health(const char *url, struct err *e)
{
    if (strncmp(url, "https://", 8) == 0) return health_tls(url, e);
    char line[128];
    int fd = -1, status = 0;
    int rc = connect_url(&fd, url, e);
    if (rc == 0) rc = send_request(fd, url, line, sizeof line, e);
    if (rc == 0 && sscanf(line, "HTTP/1.%*[01] %9d", &status) != 1) /* check: width */
        rc = err_set(e, ERR_IO, "%s: expected HTTP (https://?), got \"%.40s\"", url, line);
    if (rc == 0 && status != 200) rc = err_set(e, ERR_IO, "%s: %s", url, line);
    if (fd >= 0) close(fd);
    return rc;
}

static int run(int n_arg, char **arg)
{
    struct err e = {0};
    char url[ADDRESS_BYTES_MAX];
    int rc = server_address(url, sizeof url, n_arg ? arg[0] : "127.0.0.1:8000", &e);
    if (rc == 0) rc = health(url, &e);
    if (rc == ERR_ARG) return fprintf(stderr, "quoth health: %s\n", e.text), 2;
    if (rc == 0) printf("%s is ready\n", url);
    return rc ? fail("health", &e) : 0;
}

const struct command command_health = {
    .name = "health",
    .summary = "check that a server is ready (exit status 0)",
    .usage = "[HOST:PORT|http://HOST:PORT|https://HOST:PORT|unix:PATH] [OPTIONS]",
    .detail =
        "Request /health of the server at URL (default http://127.0.0.1:8000), which needs no key. "
        "It is for a container's HEALTHCHECK, probes and scripts.",
    .options = options,
    .arg_max = 1,
    .run = run,
};

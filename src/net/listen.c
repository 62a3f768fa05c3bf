/* listen.c - the listening socket: of a host and port, a unix socket, or one from systemd. */
#include "net_impl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* BACKLOG: maximum number of connections that wait for accept. The number includes connections of
 * disconnected clients. A client above the maximum retries after a second. UNSENT_BYTES: maximum
 * data in the kernel for a client that reads slowly; further data stay in the server, which limits
 * them. */
enum { BACKLOG = 4096, UNSENT_BYTES = 128 * 1024 };

/* Set port, loopback and URL from the socket's address. */
static void describe(struct listener *l, bool tls)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    char host[INET6_ADDRSTRLEN] = "?";
    const char *scheme = tls ? "https" : "http";
    if (getsockname(l->fd, (struct sockaddr *)&a, &n) != 0) a.ss_family = AF_UNIX;
    if (a.ss_family == AF_INET) {
        const struct sockaddr_in *in = (struct sockaddr_in *)&a;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        l->port = ntohs(in->sin_port);
        l->loopback = ntohl(in->sin_addr.s_addr) >> 24 == 127;
        snprintf(l->url, sizeof l->url, "%s://%s:%d", scheme, host, l->port);
    } else if (a.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (struct sockaddr_in6 *)&a;
        inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof host);
        l->port = ntohs(in->sin6_port);
        l->loopback = IN6_IS_ADDR_LOOPBACK(&in->sin6_addr);
        snprintf(l->url, sizeof l->url, "%s://[%s]:%d", scheme, host, l->port);
    } else { /* no browser can use a unix socket, so it needs no guard */
        const struct sockaddr_un *un = (struct sockaddr_un *)&a;
        snprintf(l->url, sizeof l->url, "unix:%s", n > sizeof un->sun_family ? un->sun_path : "");
    }
}

/* Bind a unix socket. connect() detects a running server: ECONNREFUSED means that the file is left
 * over from an earlier run. Only a socket that is left over is removed. */
static int open_unix(struct listener *l, const char *path, struct err *e)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct stat s;
    if (strlen(path) >= sizeof a.sun_path)
        return err_set(e, ERR_ARG, "--uds %s: cannot listen: the path is longer than %zu bytes",
                       path, sizeof a.sun_path - 1);
    memcpy(a.sun_path, path, strlen(path));
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (l->fd < 0) return err_set(e, ERR_IO, "--uds %s: cannot listen: %s", path, strerror(errno));
    /* remove the socket of a server that has ended, but not a socket in use */
    if (connect(l->fd, (struct sockaddr *)&a, sizeof a) == 0)
        return err_set(e, ERR_IO, "--uds %s: cannot listen: another server uses it", path);
    if (errno == ECONNREFUSED && lstat(path, &s) == 0 && S_ISSOCK(s.st_mode)) unlink(path);
    if (bind(l->fd, (struct sockaddr *)&a, sizeof a) != 0)
        return err_set(e, ERR_IO, "--uds %s: cannot listen: %s", path, strerror(errno));
    snprintf(l->path, sizeof l->path, "%s", path);
    return 0;
}

/* Bind one address of the host. Return 0, or an errno. SO_REUSEADDR permits a restart while old
 * connections are in TIME_WAIT. */
static int try_address(struct listener *l, const struct addrinfo *a)
{
    int on = 1;
    l->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (l->fd < 0) return errno;
    setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(l->fd, a->ai_addr, a->ai_addrlen) == 0) return 0;
    int why = errno;
    close(l->fd);
    l->fd = -1;
    return why;
}

/* Set *out to the addresses of a host, which the caller frees. */
static int resolve(struct addrinfo **out, const char *host, int port, struct err *e)
{
    struct addrinfo want = {.ai_family = AF_UNSPEC,
                            .ai_socktype = SOCK_STREAM,
                            .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    int why = getaddrinfo(host, service, &want, out);
    if (why == EAI_MEMORY) return err_memory(e, "the address of --host", 0);
    return why ? err_set(e, ERR_ARG, "--host %.300s: cannot resolve: %s", host, gai_strerror(why))
               : 0;
}

int listen_check(const char *host, int port, struct err *e)
{
    struct addrinfo *list = NULL;
    int rc = resolve(&list, host, port, e);
    if (rc == 0) freeaddrinfo(list);
    return rc;
}

/* Bind the first address that works, in the order of the resolver. Return the error of the last
 * address. */
static int open_tcp(struct listener *l, const char *host, int port, struct err *e)
{
    struct addrinfo *list = NULL;
    int why = 0, rc = resolve(&list, host, port, e);
    if (rc != 0) return rc;
    for (const struct addrinfo *a = list; a; a = a->ai_next)
        if ((why = try_address(l, a)) == 0) break;
    freeaddrinfo(list);
    const char *advice =
        why == EADDRINUSE ? "; another server uses it: try --port N, or --port 0 for any free port"
        : why == EACCES   ? "; ports below 1024 are for root: try --port 8000"
                          : "";
    return why ? err_set(e, ERR_IO, "cannot listen on %s port %d: %s%s", host, port, strerror(why),
                         advice)
               : 0;
}

/* Set options of all connections. Accepted sockets inherit the options (tcp(7)), which saves six
 * calls per connection. */
static void tune(int fd)
{
    int on = 1, idle = 15, interval = 5, count = 3, unsent = UNSENT_BYTES;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    /* limits the system's buffer for a client that does not read; the default is megabytes */
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    /* keepalive detects clients that disappear without a FIN */
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

int listen_open(struct listener *l, const struct net_options *o, struct err *e)
{
    *l = (struct listener){.fd = listen_passed()};
    int rc = l->fd >= 0 ? 0 : o->uds ? open_unix(l, o->uds, e) : open_tcp(l, o->host, o->port, e);
    if (rc == 0 && listen(l->fd, BACKLOG) != 0)
        rc = err_set(e, ERR_IO, "cannot listen: %s", strerror(errno));
    if (rc == 0) describe(l, o->tls_cert != NULL);
    if (rc == 0 && l->port) tune(l->fd);
    return rc;
}

void listen_close(struct listener *l)
{
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
    if (l->path[0]) unlink(l->path);
    l->path[0] = 0;
}

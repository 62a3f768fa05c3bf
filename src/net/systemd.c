/* systemd.c - two protocols of systemd, without its library: passed sockets (LISTEN_FDS,
 * sd_listen_fds(3)) and state notification (sd_notify(3)). */
#include "net_impl.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int listen_passed(void)
{
    const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
    bool ours = pid && n && strtol(pid, NULL, 10) == getpid() && strtol(n, NULL, 10) > 0;
    unsetenv("LISTEN_PID"); /* child processes must not use the sockets */
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    if (!ours || fcntl(3, F_SETFD, FD_CLOEXEC) != 0) return -1;
    return fcntl(3, F_SETFL, fcntl(3, F_GETFL) | O_NONBLOCK) == 0 ? 3 : -1;
}

void net_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = path ? strlen(path) : 0;
    if (n < 2 || n >= sizeof a.sun_path || (path[0] != '/' && path[0] != '@')) return;
    memcpy(a.sun_path, path, n);
    if (path[0] == '@') a.sun_path[0] = 0; /* @ begins an abstract name */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    ssize_t put = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&a,
                         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    (void)put; /* ignore a failure, which means that the manager has ended */
    close(fd);
}

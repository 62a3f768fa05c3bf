/* sock.c - a socket that does not block, read and written with as few calls to the system as will do.
 *
 * Events come at edges (EPOLLET), so a reader goes on until nothing is left. A read that returned less than it
 * asked for has found out already that nothing is (epoll(7)), and the next one, which would say EAGAIN, is not made before
 * an event announces more; every other read was such. Behind a FIN no event will come: then all is read to the end. */
#include "net_impl.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static ssize_t outcome(ssize_t n)
{
    if (n > 0) return n;
    if (n == 0) return IO_EOF;
    return errno == EAGAIN || errno == EINTR ? IO_AGAIN : IO_FAIL;
}

ssize_t sock_read(struct sock *s, char *to, size_t n)
{
    if (s->drained && !s->fin) return IO_AGAIN;
    ssize_t got = outcome(recv(s->fd, to, n, 0));
    s->drained = got < (ssize_t)n;
    s->eof = got == IO_EOF;
    return got;
}

ssize_t sock_write(struct sock *s, const char *from, size_t n)
{
    return outcome(send(s->fd, from, n, MSG_NOSIGNAL));
}

void sock_event(struct sock *s, unsigned events)
{
    if (events & (EPOLLIN | EPOLLRDHUP)) s->drained = false;
    if (events & EPOLLRDHUP) s->fin = true;
}

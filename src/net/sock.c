/* sock.c - a non-blocking socket, read and written with as few system calls as possible.
 *
 * Events are edge-triggered (EPOLLET), so reading continues until no byte is left. A read that
 * returned less than requested has emptied the socket (epoll(7)). The next read would return
 * EAGAIN, so it is skipped until an event reports more bytes. Half of all reads returned EAGAIN
 * before reads were skipped. No event follows a FIN, so the input is read to its end after a
 * FIN. */
#include "net_impl.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* Map the result of a system call to a number of bytes or IO_*. EINTR counts as IO_AGAIN. */
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

/* lock.c - locks between processes, by flock.
 *
 *   .locks/models--ORG--REPO/HASH.lock   a blob of the cache, as in huggingface_hub
 *   .locks/sha256-HASH.lock              a blob of Ollama's store
 *   .locks/quoth.lock                    shared by pulls, exclusive for hub_remove, so that no blob
 *                                        is removed between its download and its reference */
#include "hub_impl.h"

#include "base/cancel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* Wait for the lock. A thread whose work can be cancelled tries again and again. */
static int wait_for_lock(int fd, int how, struct err *e)
{
    enum { TRY_US = 50000 };
    for (;;) {
        if (flock(fd, cancel_flag ? how | LOCK_NB : how) == 0) return 0;
        if (errno != EINTR && errno != EWOULDBLOCK) return ERR_IO;
        if (cancelled()) return err_cancelled(e);
        if (errno == EWOULDBLOCK) usleep(TRY_US);
    }
}

int lock_open(int *fd, const char *path, bool shared, const char *what,
              const struct hub_pull_options *o, struct err *e)
{
    char text[300];
    int rc = parent_make(path, e), how = shared ? LOCK_SH : LOCK_EX;
    *fd = rc ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (rc != 0) return rc;
    if (*fd < 0) return err_set(e, ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    if (flock(*fd, how | LOCK_NB) == 0) return 0;
    snprintf(text, sizeof text, "%.200s: waiting for another process", what);
    if (errno == EWOULDBLOCK && o && o->note) o->note(o->ctx, text);
    rc = wait_for_lock(*fd, how, e);
    if (rc == ERR_IO) err_set(e, rc, "%s: cannot lock: %s", path, strerror(errno));
    if (o && o->note) o->note(o->ctx, NULL);
    if (rc == 0) return 0;
    lock_close(*fd);
    *fd = -1;
    return rc;
}

void lock_close(int fd)
{
    if (fd >= 0) close(fd);
}

/* lock.c - locks between processes, by flock.
 *
 *   .locks/models--ORG--REPO/HASH.lock   a blob of the cache, as in huggingface_hub
 *   .locks/sha256-HASH.lock              a blob of Ollama's store
 *   .locks/quoth.lock                    shared by pulls, exclusive for hub_remove, so that no blob
 *                                        is removed between its download and its reference */
#include "hub_impl.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* Make the folder of a file. */
static int make_parent(const char *path, struct err *e)
{
    char folder[HUB_PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (!slash || slash == folder) return 0;
    *slash = 0;
    return dir_make(folder, e);
}

int lock_open(int *fd, const char *path, bool shared, const char *what,
              const struct hub_pull_options *o, struct err *e)
{
    char text[300];
    int rc = make_parent(path, e), how = shared ? LOCK_SH : LOCK_EX;
    *fd = rc ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (rc != 0) return rc;
    if (*fd < 0) return err_set(e, ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    if (flock(*fd, how | LOCK_NB) == 0) return 0;
    snprintf(text, sizeof text, "%.200s: waiting for another process", what);
    if (errno == EWOULDBLOCK && o && o->note) o->note(o->ctx, text);
    while ((rc = flock(*fd, how)) != 0 && errno == EINTR) continue;
    if (o && o->note) o->note(o->ctx, NULL);
    if (rc == 0) return 0;
    rc = err_set(e, ERR_IO, "%s: cannot lock: %s", path, strerror(errno));
    lock_close(*fd);
    *fd = -1;
    return rc;
}

void lock_close(int fd)
{
    if (fd >= 0) close(fd);
}

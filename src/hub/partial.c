/* partial.c - a blob in progress, and the journal of its chunks.
 *
 *   HASH.quoth.incomplete   the content; chunks arrive in any order, so it may have holes
 *   HASH.quoth.journal      head, then {chunk, XXH3 of its bytes} of each chunk, appended in order
 *
 * The reader of a journal hashes each chunk again. A kill, a power failure or a damaged disk
 * therefore causes a repeated download, but never a wrong file. The names differ from those of
 * huggingface_hub, whose partial files have no holes. */
#include "hub_impl.h"

#include "base/hash.h"
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Entry 0 is the head: a mark, and the size of the blob. */
struct journal_entry {
    uint64_t chunk, hash;
};
static const uint64_t mark = 0x316e6a68746f7571; /* "quothjn1" */

static int fail_write(const struct partial *p, int error, struct err *e)
{
    return err_set(e, ERR_IO, "%s: cannot write: %s", p->temp, strerror(error));
}

/* Read the journal. Ignore entries after a wrong entry. Begin a new journal if the old journal is
 * for another size. */
static int read_journal(struct partial *p, struct err *e)
{
    struct journal_entry head = {0}, x;
    off_t at = sizeof x;
    if (pread(p->journal_fd, &head, sizeof head, 0) == sizeof head && head.chunk == mark &&
        head.hash == p->n_byte) {
        for (; pread(p->journal_fd, &x, sizeof x, at) == sizeof x; at += sizeof x) {
            if (x.chunk >= p->n_chunk || !x.hash) break;
            if (!p->hash[x.chunk]) p->n_known += partial_chunk_bytes(p, (uint32_t)x.chunk);
            p->hash[x.chunk] = x.hash;
        }
    }
    head = (struct journal_entry){mark, p->n_byte};
    p->journal_at = at;
    errno = ENOSPC; /* for a write of a part */
    if (ftruncate(p->journal_fd, at) != 0 ||
        pwrite(p->journal_fd, &head, sizeof head, 0) != sizeof head)
        return fail_write(p, errno, e);
    return 0;
}

/* Reject a blob that is too large for the disk. Holes of the partial file count as missing
 * bytes. */
static int check_room(const struct partial *p, struct err *e)
{
    struct statvfs disk;
    const uint64_t need = p->n_byte - p->n_known;
    if (fstatvfs(p->fd, &disk) != 0) return 0;
    const uint64_t room = (uint64_t)disk.f_bavail * disk.f_frsize;
    if (need <= room) return 0;
    return err_set(e, ERR_IO,
                   "%s: cannot write: %.1f MB are missing, and the disk has %.1f MB free", p->path,
                   (double)need * 1e-6, (double)room * 1e-6);
}

int partial_open(struct partial *p, const char *path, uint64_t n_byte, struct err *e)
{
    *p = (struct partial){.fd = -1, .journal_fd = -1, .n_byte = n_byte};
    int rc = path_put(p->path, e, "%s", path);
    if (rc == 0) rc = path_put(p->temp, e, "%s.quoth.incomplete", path);
    if (rc == 0) rc = path_put(p->journal, e, "%s.quoth.journal", path);
    if (rc != 0) return rc;
    p->n_chunk = (uint32_t)((n_byte + CHUNK_BYTES - 1) / CHUNK_BYTES);
    p->hash = calloc((size_t)p->n_chunk + 1, sizeof *p->hash);
    if (!p->hash) return err_memory(e, "a journal", (size_t)p->n_chunk * sizeof *p->hash);
    p->fd = open(p->temp, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    p->journal_fd = open(p->journal, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (p->fd < 0 || p->journal_fd < 0)
        return err_set(e, ERR_IO, "%s: cannot open: %s", p->temp, strerror(errno));
    rc = read_journal(p, e);
    if (rc == 0) rc = check_room(p, e);
    if (rc == 0 && ftruncate(p->fd, (off_t)n_byte) != 0) rc = fail_write(p, errno, e);
    return rc;
}

size_t partial_chunk_bytes(const struct partial *p, uint32_t chunk)
{
    const uint64_t left = p->n_byte - (uint64_t)chunk * CHUNK_BYTES;
    return left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
}

int partial_write(const struct partial *p, uint64_t at, const void *data, size_t n, struct err *e)
{
    const char *from = data;
    while (n > 0) {
        ssize_t done = pwrite(p->fd, from, n, (off_t)at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return fail_write(p, done < 0 ? errno : ENOSPC, e);
        from += done, at += (uint64_t)done, n -= (size_t)done;
    }
    return 0;
}

int partial_read(const struct partial *p, uint32_t chunk, void *out, struct err *e)
{
    char *to = out;
    size_t n = partial_chunk_bytes(p, chunk);
    uint64_t at = (uint64_t)chunk * CHUNK_BYTES;
    while (n > 0) {
        ssize_t got = pread(p->fd, to, n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            return err_set(e, ERR_IO, "%s: cannot read: %s", p->temp,
                           got < 0 ? strerror(errno) : "the file has become shorter");
        to += got, at += (uint64_t)got, n -= (size_t)got;
    }
    return 0;
}

void partial_note(struct partial *p, uint32_t chunk, uint64_t hash)
{
    const struct journal_entry x = {chunk, hash};
    if (hash && pwrite(p->journal_fd, &x, sizeof x, p->journal_at) == sizeof x)
        p->journal_at += sizeof x;
    const uint64_t at = (uint64_t)chunk * CHUNK_BYTES;
    sync_file_range(p->fd, (off_t)at, (off_t)partial_chunk_bytes(p, chunk), SYNC_FILE_RANGE_WRITE);
}

/* Write the content to the disk before the name, because other programs use each file with a final
 * name. */
int partial_keep(struct partial *p, struct err *e)
{
    if (fdatasync(p->fd) != 0) return fail_write(p, errno, e);
    if (rename(p->temp, p->path) != 0)
        return err_set(e, ERR_IO, "%s: cannot rename: %s", p->temp, strerror(errno));
    unlink(p->journal);
    return 0;
}

void partial_discard(struct partial *p)
{
    unlink(p->journal);
    unlink(p->temp);
}

void partial_close(struct partial *p)
{
    if (p->fd > 0) close(p->fd);
    if (p->journal_fd > 0) close(p->journal_fd);
    free(p->hash);
    *p = (struct partial){.fd = -1, .journal_fd = -1};
}

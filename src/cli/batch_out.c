/* batch_out.c - the output of quoth batch. The output is also the state of a run: requests with a
 * line in this file are complete.
 *
 * (1) A line is appended by one write(2). A killed process leaves complete lines, and at most one
 *     truncated line at the end. The next run removes the truncated line.
 * (2) A line is only written for a request without a line. Every request therefore gets exactly one
 *     answer, even if the process is killed many times.
 * (3) fdatasync runs at most once a second, and at the end. A power failure loses at most the
 *     answers of the last second.
 * (4) A file with other content is rejected before any write, because a wrong name after -o must
 *     not destroy data. */
#include "batch.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SYNC_EVERY_US = 1000000 };

/* ---- the output of an earlier run ---- */

/* Record the request that a line of the output answers. A line without custom_id has its number in
 * error.line. */
static int read_answer(struct batch_out *o, const char *text, size_t n, uint64_t number,
                       struct err *e)
{
    struct json *root = NULL;
    size_t n_id;
    int rc = json_parse(&root, text, n, NULL, e);
    const char *id = json_text(json_field(root, "custom_id"), &n_id);
    int64_t line = json_int(json_field(json_field(root, "error"), "line"), 0);
    if (rc == 0 && !json_field(root, "response")) /* the line of a request also has a custom_id */
        rc = err_set(e, ERR_FORMAT, "expected an answer, got another object");
    if (rc == 0 && !id && line < 1) rc = err_set(e, ERR_FORMAT, "custom_id is missing");
    struct batch_key k = id ? batch_key_id(id, n_id) : batch_key_line((uint64_t)line);
    int64_t status = json_int(json_field(json_field(root, "response"), "status_code"), 0);
    bool no_memory = rc == 0 && !batch_keys_add(&o->found, k);
    if (rc == 0 && status != 200) no_memory |= !batch_keys_add(&o->failed, k);
    json_drop(root);
    if (no_memory) return err_memory(e, "answers found", o->found.n_slot * sizeof k);
    if (rc == ERR_MEMORY) return rc;
    return rc ? err_set(e, ERR_FORMAT,
                        "%s:%llu: expected a line of quoth batch, got another; give another file "
                        "with -o, or remove it",
                        o->path, (unsigned long long)number)
              : 0;
}

/* Remove the text after the last newline if it is a truncated line of quoth batch. ERR_FORMAT for
 * other text. */
static int drop_tail(struct batch_out *o, const char *tail, size_t n, off_t at, struct err *e)
{
    const size_t n_start = strlen(batch_line_start), n_same = n < n_start ? n : n_start;
    if (n == 0) return 0;
    if (memcmp(tail, batch_line_start, n_same) != 0)
        return err_set(e, ERR_FORMAT, "%s: expected a file of quoth batch, got another", o->path);
    if (ftruncate(o->fd, at) != 0)
        return err_set(e, ERR_IO, "%s: cannot write: %s", o->path, strerror(errno));
    return 0;
}

/* Read the answers of earlier runs. The file is mapped, because it may be larger than memory. */
static int read_answers(struct batch_out *o, struct err *e)
{
    struct file_map m;
    uint64_t number = 0;
    size_t at = 0;
    int rc = file_map_fd(&m, o->fd, o->path, e);
    if (rc != 0) return rc;
    const char *text = (const char *)m.data, *end;
    while (rc == 0 && at < m.n_byte && (end = memchr(text + at, '\n', m.n_byte - at))) {
        rc = read_answer(o, text + at, (size_t)(end - text) - at, ++number, e);
        at = (size_t)(end - text) + 1;
    }
    if (rc == 0) rc = drop_tail(o, text + at, m.n_byte - at, (off_t)at, e);
    file_map_close(&m);
    return rc;
}

int batch_out_open(struct batch_out *o, const char *path, struct err *e)
{
    *o = (struct batch_out){.path = path, .synced_us = time_us()};
    o->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (o->fd < 0) return err_set(e, ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    struct stat st;
    int rc = 0;
    if (fstat(o->fd, &st) != 0 || !S_ISREG(st.st_mode))
        rc = err_set(e, ERR_IO, "%s: cannot write: not a regular file", path);
    /* two runs on one file would answer requests twice (invariant 2) */
    if (rc == 0 && flock(o->fd, LOCK_EX | LOCK_NB) != 0)
        rc = err_set(e, ERR_BUSY, "%s: cannot write: another run writes this file", path);
    if (rc == 0) rc = read_answers(o, e);
    if (rc != 0) batch_out_close(o);
    return rc;
}

void batch_out_close(struct batch_out *o)
{
    if (!o->path) return;
    if (o->fd >= 0) close(o->fd);
    batch_keys_deinit(&o->found);
    batch_keys_deinit(&o->failed);
    buf_deinit(&o->line);
    *o = (struct batch_out){.fd = -1};
}

/* ---- writing ---- */

int batch_out_sync(struct batch_out *o, struct err *e)
{
    o->synced_us = time_us();
    return fdatasync(o->fd) == 0
               ? 0
               : err_set(e, ERR_IO, "%s: cannot write: %s", o->path, strerror(errno));
}

/* Append the line, usually by one write. A short write, for example on a full disk, leaves a
 * truncated line, which the next run removes. */
static int append(struct batch_out *o, struct err *e)
{
    size_t done = 0;
    while (done < o->line.n) {
        ssize_t n = write(o->fd, o->line.data + done, o->line.n - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return err_set(e, ERR_IO, "%s: cannot write: %s", o->path, strerror(errno));
        done += (size_t)n;
    }
    return 0;
}

int batch_out_put(struct batch_out *o, const struct batch_answer *a, struct err *e)
{
    struct buf *b = &o->line;
    buf_clear(b);
    batch_answer_put(b, a);
    if (b->failed) return err_memory(e, "a line of answers", b->n);
    int rc = append(o, e);
    if (rc == 0 && time_us() - o->synced_us > SYNC_EVERY_US) rc = batch_out_sync(o, e);
    return rc;
}

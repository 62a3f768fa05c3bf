/* writer.c - see writer.h.
 *
 * Pieces of lines pass through a queue. The thread waits for the descriptor with poll, so that
 * writer_close can end it. The thread writes at most PIPE_BYTES per call, which a ready pipe
 * accepts completely. A write begins with a line feed if the previous write failed within a line.
 * Therefore no line continues a truncated line.
 *
 *   any thread: writer_put --> queue of pieces --> writer's thread: poll, write --> fd
 *
 * A slow reader of the log never delays a request: lines beyond bytes_max are lost and counted. */
#include "writer.h"
#include "check.h"

#include "buf.h"
#include "log.h"
#include "os.h"
#include "queue.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* PIPE_BYTES is PIPE_BUF of Linux: a longer write to a pipe may be divided. POLL_MS is the maximum
 * delay of writer_close while the file accepts no bytes. */
enum { PIECES_MAX = 4096, PIPE_BYTES = 4096, POLL_MS = 50 };

struct written {
    char *data; /* bytes of the piece, owned; NULL: the thread ends */
    size_t n;
};
struct writer {
    int fd;               /* borrowed, never closed here */
    size_t bytes_max;     /* limit of n_held */
    struct queue *queue;  /* owned: struct written */
    atomic_size_t n_held; /* bytes in the queue and in the current write */
    /* number of lost lines, and time at which the thread stops writing (0 if none) */
    _Atomic int64_t n_lost, until_us;
    pthread_t thread;
    bool started;

    /* fields of the writer's thread */
    int64_t n_reported; /* number of reported lost lines */
    bool torn;          /* true if the last written byte is within a line */
};

/* Return the number of line feeds, because lost lines are reported as a number. */
static int64_t count_lines(const char *s, size_t n)
{
    int64_t lines = 0;
    for (const char *end = s + n; s < end && (s = memchr(s, '\n', (size_t)(end - s))); s++) lines++;
    return lines;
}

static void lose(struct writer *w, const char *s, size_t n)
{
    atomic_fetch_add(&w->n_lost, count_lines(s, n));
}

/* ---- the thread ---- */

/* Return true if the deadline of writer_close has passed. until_us is 0 before writer_close. */
static bool given_up(const struct writer *w)
{
    int64_t until = atomic_load(&w->until_us);
    return until && time_us() >= until;
}

/* Wait until fd accepts bytes. Return false if the wait of writer_close ends first. The end of the
 * wait is checked every POLL_MS. */
static bool wait_ready(const struct writer *w)
{
    struct pollfd p = {.fd = w->fd, .events = POLLOUT};
    while (!given_up(w)) {
        int rc = poll(&p, 1, POLL_MS);
        /* also true if the write fails */
        if (rc > 0 || (rc < 0 && errno != EINTR)) return true;
    }
    return false;
}

/* Write s[0, n). Return the number of bytes written. */
static size_t write_bytes(const struct writer *w, const char *s, size_t n)
{
    size_t done = 0;
    while (done < n) {
        size_t m = n - done < PIPE_BYTES ? n - done : PIPE_BYTES;
        if (!wait_ready(w)) break;
        ssize_t put = write(w->fd, s + done, m);
        if (put < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (put <= 0) break;
        done += (size_t)put;
    }
    return done;
}

/* Write a piece, and update `torn`. All lines that were not written completely count as lost. */
static void write_lines(struct writer *w, const char *s, size_t n)
{
    if (w->torn) w->torn = write_bytes(w, "\n", 1) != 1;
    size_t done = w->torn ? 0 : write_bytes(w, s, n);
    if (done > 0) w->torn = s[done - 1] != '\n';
    if (done < n) lose(w, s + done, n - done);
}

/* Report the number of lost lines. Call it after writing has resumed. */
static void report_lost(struct writer *w)
{
    struct buf b = {0};
    char text[80];
    int64_t n = atomic_load(&w->n_lost);
    int len =
        snprintf(text, sizeof text, "%lld lines of this log were lost: it could not be written",
                 (long long)(n - w->n_reported));
    log_put(&b, LOG_WARN, text, (size_t)len);
    w->n_reported = n;
    if (!b.failed) write_lines(w, b.data, b.n);
    buf_deinit(&b);
}

/* Run the thread until the piece without data. The thread reduces n_held after the write, so that
 * writer_flush also waits for the write. */
static void *write_on(void *writer)
{
    struct writer *w = writer;
    struct written p;
    while (queue_pop(w->queue, &p, -1) && p.data) {
        int64_t lost = atomic_load(&w->n_lost);
        write_lines(w, p.data, p.n);
        bool written = atomic_load(&w->n_lost) == lost;
        free(p.data);
        atomic_fetch_sub(&w->n_held, p.n);
        if (written && lost > w->n_reported) report_lost(w);
    }
    return NULL;
}

/* ---- other threads ---- */

static int start(struct writer *w, struct err *e)
{
    w->started = os_thread_start(&w->thread, write_on, w);
    if (w->started) return 0;
    return os_thread_error("the log's thread", e);
}

int writer_open(struct writer **out, int fd, size_t bytes_max, struct err *e)
{
    CHECK(bytes_max > 0, "descriptor %d", fd);
    struct writer *w = *out = calloc(1, sizeof *w);
    if (!w) return err_memory(e, "a log", sizeof *w);
    w->fd = fd;
    w->bytes_max = bytes_max;
    w->queue = queue_open(PIECES_MAX, sizeof(struct written));
    int rc = w->queue ? start(w, e) : err_memory(e, "a log", PIECES_MAX);
    if (rc != 0) writer_close(w, 0), *out = NULL;
    return rc;
}

/* Wait for the thread. Return false if the thread is in a write. pthread_timedjoin_np uses the
 * real-time clock. One more second allows for the last poll. */
static bool join_writer(struct writer *w, int wait_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += wait_ms / 1000 + 1;
    if (pthread_timedjoin_np(w->thread, NULL, &until) == 0) return true;
    pthread_detach(w->thread);
    return false;
}

/* Set until_us before the end piece is queued, so that the thread cannot wait forever for a blocked
 * reader. The memory of a thread that does not end stays allocated on purpose. */
void writer_close(struct writer *w, int wait_ms)
{
    if (!w) return;
    struct written p = {0};
    bool ended = true;
    if (w->started) {
        atomic_store(&w->until_us, time_us() + (int64_t)wait_ms * 1000 + 1);
        for (int i = 0; !queue_push(w->queue, &p) && i < wait_ms + 1000; i++) poll(NULL, 0, 1);
        ended = join_writer(w, wait_ms);
    }
    if (!ended) return; /* the thread still uses the memory of w */
    while (w->queue && queue_pop(w->queue, &p, 0)) free(p.data);
    queue_close(w->queue);
    free(w);
}

/* Add to n_held before the check, so that the sum of parallel calls cannot exceed the limit. */
bool writer_put(struct writer *w, const char *lines, size_t n)
{
    if (n == 0) return true;
    struct written p = {.n = n};
    bool room = atomic_fetch_add(&w->n_held, n) + n <= w->bytes_max;
    if (room) p.data = malloc(n);
    if (p.data) memcpy(p.data, lines, n);
    if (p.data && queue_push(w->queue, &p)) return true;
    free(p.data);
    atomic_fetch_sub(&w->n_held, n);
    lose(w, lines, n);
    return false;
}

void writer_flush(const struct writer *w, int wait_ms)
{
    CHECK(wait_ms >= 0, "%d ms", wait_ms);
    for (int i = 0; atomic_load(&w->n_held) > 0 && i < wait_ms; i++) poll(NULL, 0, 1);
}

int64_t writer_n_lost(const struct writer *w)
{
    return atomic_load(&w->n_lost);
}

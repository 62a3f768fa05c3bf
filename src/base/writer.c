/* writer.c - see writer.h.
 *
 * Pieces of lines pass through a queue. The thread waits for the descriptor with poll, so that
 * writer_close can end it, and writes at most PIPE_BYTES at a time, which a ready pipe accepts
 * completely. After a write that failed within a line, the next one begins with a line feed, so
 * that a truncated line is never continued by another. */
#include "writer.h"
#include "check.h"

#include "buf.h"
#include "log.h"
#include "os.h"
#include "queue.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PIECES_MAX = 4096, PIPE_BYTES = 4096, POLL_MS = 50 };

struct piece {
    char *data; /* owned; NULL: end of the thread */
    size_t n;
};
struct writer {
    int fd;
    size_t n_byte_max;
    struct queue *queue; /* owned: struct piece */
    atomic_size_t n_held;
    _Atomic int64_t n_lost, until_us; /* until_us: time to give up; 0: never */
    pthread_t thread;
    bool started;

    /* its thread */
    int64_t n_reported; /* part of n_lost that is reported */
    bool torn;          /* the last byte written is within a line */
};

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

static bool given_up(const struct writer *w)
{
    int64_t until = atomic_load(&w->until_us);
    return until && time_us() >= until;
}

static bool wait_ready(const struct writer *w)
{
    struct pollfd p = {.fd = w->fd, .events = POLLOUT};
    while (!given_up(w)) {
        int rc = poll(&p, 1, POLL_MS);
        if (rc > 0 || (rc < 0 && errno != EINTR)) return true; /* even if a write will fail */
    }
    return false;
}

/* Write s[0..n). Returns the number of bytes written. */
static size_t write_most(const struct writer *w, const char *s, size_t n)
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

static void write_lines(struct writer *w, const char *s, size_t n)
{
    if (w->torn) w->torn = write_most(w, "\n", 1) != 1;
    size_t done = w->torn ? 0 : write_most(w, s, n);
    if (done > 0) w->torn = s[done - 1] != '\n';
    if (done < n) lose(w, s + done, n - done);
}

/* Report how many lines were lost, once a line has been written again. */
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

static void *write_on(void *writer)
{
    struct writer *w = writer;
    struct piece p;
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
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's threads */
    w->started = pthread_create(&w->thread, NULL, write_on, w) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return w->started ? 0 : err_set(e, ERR_MEMORY, "cannot start the log's thread");
}

int writer_open(struct writer **out, int fd, size_t n_byte_max, struct err *e)
{
    CHECK(n_byte_max > 0, "descriptor %d", fd);
    struct writer *w = *out = calloc(1, sizeof *w);
    if (!w) return err_memory(e, "a log", sizeof *w);
    w->fd = fd;
    w->n_byte_max = n_byte_max;
    w->queue = queue_open(PIECES_MAX, sizeof(struct piece));
    int rc = w->queue ? start(w, e) : err_memory(e, "a log", PIECES_MAX);
    if (rc != 0) writer_close(w, 0), *out = NULL;
    return rc;
}

/* Wait for the thread. Returns false if it is still in a write. */
static bool join(struct writer *w, int wait_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += wait_ms / 1000 + 1;
    if (pthread_timedjoin_np(w->thread, NULL, &until) == 0) return true;
    pthread_detach(w->thread);
    return false;
}

void writer_close(struct writer *w, int wait_ms)
{
    if (!w) return;
    struct piece p = {0};
    bool ended = true;
    if (w->started) {
        atomic_store(&w->until_us, time_us() + (int64_t)wait_ms * 1000 + 1);
        for (int i = 0; !queue_push(w->queue, &p) && i < wait_ms + 1000; i++) poll(NULL, 0, 1);
        ended = join(w, wait_ms);
    }
    if (!ended) return; /* the thread still uses its memory */
    while (w->queue && queue_pop(w->queue, &p, 0)) free(p.data);
    queue_close(w->queue);
    free(w);
}

bool writer_put(struct writer *w, const char *lines, size_t n)
{
    if (n == 0) return true;
    struct piece p = {.n = n};
    bool room = atomic_fetch_add(&w->n_held, n) + n <= w->n_byte_max;
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
    for (int i = 0; atomic_load(&w->n_held) > 0 && i < wait_ms; i++) poll(NULL, 0, 1);
}

int64_t writer_n_lost(const struct writer *w)
{
    return atomic_load(&w->n_lost);
}

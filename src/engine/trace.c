/* trace.c - the ring of events and the thread that writes the events. trace.h describes the
 * interface. */
#include "trace.h"

#include "base/check.h"
#include "base/log.h"
#include "base/os.h"
#include "base/queue.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* RING_EVENTS and PAUSE_US: up to 8192 events per 50 ms, 164,000 per second, are recorded without
 * loss. END_BYTES: bytes that every write leaves for the end of the array, so that a full file is
 * also valid JSON. */
enum { RING_EVENTS = 8192, PAUSE_US = 50 * 1000, END_BYTES = 256 };

struct trace {
    struct trace_event *ring; /* owned [n_ring]; n_ring is a power of two */
    uint64_t n_ring;
    _Atomic uint64_t head, tail; /* numbers of events put and written */
    _Atomic int64_t n_dropped;
    struct queue *quit; /* owned pipe: a byte ends the thread */
    pthread_t thread;
    bool started, paused;
    /* File descriptor; writer thread only. */
    int fd;
    bool failed;               /* true: later writes have no effect */
    int64_t n_byte, bytes_max; /* size of the file, and maximum size; 0: no limit */
    struct trace_text text;
    struct buf out;
};

/* ---- engine thread ---- */

bool trace_put(struct trace *t, const struct trace_event *e)
{
    CHECK(e->kind < TRACE_KINDS, "kind %d", (int)e->kind);
    uint64_t head = atomic_load_explicit(&t->head, memory_order_relaxed);
    if (head - atomic_load_explicit(&t->tail, memory_order_acquire) == t->n_ring) {
        atomic_fetch_add_explicit(&t->n_dropped, 1, memory_order_relaxed);
        return false;
    }
    t->ring[head & (t->n_ring - 1)] = *e;
    atomic_store_explicit(&t->head, head + 1, memory_order_release);
    return true;
}

int64_t trace_n_dropped(const struct trace *t)
{
    return atomic_load_explicit(&t->n_dropped, memory_order_relaxed);
}

/* ---- writer thread ---- */

static bool write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t put = write(fd, p, n);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        p += put;
        n -= (size_t)put;
    }
    return true;
}

/* Remove the bytes of a failed write after the last whole event. Bytes in a pipe cannot be
 * removed. */
static void cut_to_whole_events(const struct trace *t)
{
    if (ftruncate(t->fd, (off_t)t->n_byte) == 0) lseek(t->fd, (off_t)t->n_byte, SEEK_SET);
}

/* Write whole events or nothing, so that the file stays well-formed, also on a full disk. */
static bool put_bytes(struct trace *t)
{
    bool fits = t->bytes_max == 0 || t->n_byte + (int64_t)t->out.n + END_BYTES <= t->bytes_max;
    bool ok = !t->failed && !t->out.failed && fits && write_all(t->fd, t->out.data, t->out.n);
    if (ok)
        t->n_byte += (int64_t)t->out.n;
    else if (!t->failed)
        log_warn("the trace ends here: %s", !fits ? "its file has reached its maximum size"
                                            : t->out.failed ? "out of memory"
                                                            : strerror(errno));
    if (!ok && fits && !t->failed) cut_to_whole_events(t);
    t->failed |= !ok;
    buf_clear(&t->out);
    return ok;
}

static void drain(struct trace *t)
{
    enum { BATCH = 256 }; /* number of events after which the ring has free space again */
    uint64_t tail = atomic_load_explicit(&t->tail, memory_order_relaxed), head;
    while ((head = atomic_load_explicit(&t->head, memory_order_acquire)) != tail) {
        uint64_t n = head - tail < BATCH ? head - tail : BATCH;
        for (uint64_t i = 0; i < n && !t->failed; i++)
            trace_text_event(&t->text, &t->ring[(tail + i) & (t->n_ring - 1)], &t->out);
        if (!put_bytes(t))
            atomic_fetch_add_explicit(&t->n_dropped, (int64_t)n, memory_order_relaxed);
        atomic_store_explicit(&t->tail, tail += n, memory_order_release);
    }
}

static void *write_on(void *arg)
{
    struct trace *t = arg;
    char byte;
    while (!queue_pop(t->quit, &byte, t->paused ? -1 : PAUSE_US)) drain(t);
    drain(t);
    return NULL;
}

/* ---- open and close ---- */

static int start(struct trace *t, struct err *e)
{
    t->started = os_thread_start(&t->thread, write_on, t);
    if (t->started) return 0;
    return os_thread_error("the trace thread", e);
}

int trace_open(struct trace **out, const struct trace_options *o, struct err *e)
{
    struct trace *t = *out = calloc(1, sizeof *t);
    if (!t) return err_memory(e, "a trace", sizeof *t);
    t->paused = o->paused;
    t->bytes_max = o->bytes_max;
    uint64_t want = o->n_event ? (uint64_t)o->n_event : RING_EVENTS;
    for (t->n_ring = 1; t->n_ring < want;) t->n_ring *= 2;
    t->ring = calloc(t->n_ring, sizeof *t->ring);
    t->quit = queue_open(1, 1);
    t->fd = open(o->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    int rc = 0;
    if (t->fd < 0)
        rc = err_set(e, ERR_IO, "--trace-file %s: cannot open: %s", o->path, strerror(errno));
    if (rc == 0 && (!t->ring || !t->quit))
        rc = err_memory(e, "a trace's events", t->n_ring * sizeof *t->ring);
    if (rc == 0) {
        trace_text_begin(&t->text, &t->out);
        if (!put_bytes(t)) rc = err_set(e, ERR_IO, "--trace-file %s: cannot write", o->path);
    }
    if (rc == 0) rc = start(t, e);
    if (rc != 0) trace_close(t), *out = NULL;
    return rc;
}

void trace_close(struct trace *t)
{
    if (!t) return;
    if (t->started) {
        queue_push(t->quit, "");
        pthread_join(t->thread, NULL);
        trace_text_end(&t->text, trace_n_dropped(t), &t->out);
        if (!t->out.failed) (void)!write_all(t->fd, t->out.data, t->out.n);
    }
    if (t->fd >= 0) close(t->fd);
    queue_close(t->quit);
    trace_text_deinit(&t->text);
    buf_deinit(&t->out);
    free(t->ring);
    free(t);
}

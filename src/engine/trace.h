/* trace.h - private to src/engine: a timeline of the engine, as a file for chrome://tracing and
 * ui.perfetto.dev.
 *
 *   engine thread   record.c -> trace_put: an event into a ring; no lock, allocation or system call
 *   trace thread    ring -> trace_text.c -> file, 20 times a second; no other thread
 *                   waits for the disk
 *
 * (1) Events are dropped and counted if the ring or the file is full, or the disk fails. No thread
 *     waits for the trace.
 * (2) Slices of one lane nest and do not overlap otherwise. A sequence has its lane from admission
 *     to preemption or its end.
 * (3) The file is a JSON array without its end until trace_close. Viewers accept an array without
 *     an end, so the file of a killed server can be opened. */
#ifndef QUOTH_ENGINE_TRACE_H
#define QUOTH_ENGINE_TRACE_H

#include "base/buf.h"
#include "base/err.h"

#include <stdatomic.h>
#include <stdint.h>

enum trace_kind {
    TRACE_STEP,    /* sizes and times of a step */
    TRACE_WAIT,    /* a sequence waited, at first or after a preemption */
    TRACE_PREFILL, /* a step computed known tokens of a sequence */
    TRACE_DECODE,  /* a sequence decoded, one token per step, until it stopped or was preempted */
    /* a sequence had its lane; the event encloses its TRACE_PREFILL and TRACE_DECODE */
    TRACE_RUN,
    TRACE_DONE, /* end of a request */
    TRACE_KINDS
};
enum { TRACE_ARGS = 12, TRACE_NAME = 64 };

struct trace_event {
    enum trace_kind kind;
    int lane;   /* TRACE_PREFILL, _DECODE, _RUN */
    int choice; /* index of the sequence in its request */
    uint64_t request_id;
    int64_t begin_us, end_us;
    int32_t arg[TRACE_ARGS]; /* arguments; trace_text.c names them by kind */
    char name[TRACE_NAME];   /* TRACE_RUN, _DONE: client's identifier; "" if none */
    const char *finish;      /* TRACE_DONE: static */
};

struct trace; /* opaque */
struct trace_options {
    const char *path;  /* borrowed; path of the file */
    int64_t bytes_max; /* maximum size of the file; 0: no limit */
    int n_event;       /* number of events in the ring; 0: 8192 */
    bool paused;       /* true: write nothing before trace_close; for tests */
};
/* Create the file and start the writer. The caller owns *out, which is NULL after an error. Return
 * ERR_IO with the path, or ERR_MEMORY. */
int trace_open(struct trace **out, const struct trace_options *o, struct err *e);
void trace_close(struct trace *t); /* write the events in the ring and close t; NULL is allowed */

/* Add an event; one thread only. Return false and count the event as dropped if there is no
 * room. */
bool trace_put(struct trace *t, const struct trace_event *e);
/* Return the number of dropped events. Any thread. */
int64_t trace_n_dropped(const struct trace *t);

/* ---- trace_text.c: events as JSON ---- */

struct trace_text {
    VEC(int64_t) wait_end; /* owned; end of the last slice of each lane of waiting sequences */
    int n_lane;            /* number of lanes that have a name */
    int32_t level[4];      /* last values of the counters */
    bool begun;
};
/* Append the beginning of the array, and the names of its processes. */
void trace_text_begin(struct trace_text *t, struct buf *out);
/* Append e and the curves that e changes. */
void trace_text_event(struct trace_text *t, const struct trace_event *e, struct buf *out);
/* Append the last event and the end of the array. */
void trace_text_end(struct trace_text *t, int64_t n_dropped, struct buf *out);
/* Free the memory of t, which may be zeroed. */
void trace_text_deinit(struct trace_text *t);

#endif

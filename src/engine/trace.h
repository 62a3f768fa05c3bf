/* trace.h - private to src/engine: what the engine did when, as a file for chrome://tracing and ui.perfetto.dev.
 *
 *   engine thread   record.c -> trace_put: an event into a ring; no lock, no memory, no call of the system
 *   writer thread   ring -> trace_text.c -> file, twenty times a second; the only one that waits for a disk
 *
 * (1) A full ring, a full file and a failing disk drop events and count them; nobody waits for them.
 * (2) Slices of one lane never overlap, but for those that lie inside of others: a sequence has its lane from
 *     being admitted to being preempted or done.
 * (3) The file is a JSON array that lacks its end until trace_close, which viewers allow: a killed server's file opens. */
#ifndef QUOTH_ENGINE_TRACE_H
#define QUOTH_ENGINE_TRACE_H

#include "base/buf.h"
#include "base/err.h"

#include <stdatomic.h>
#include <stdint.h>

enum trace_kind {
    TRACE_STEP,    /* one step                                            */
    TRACE_WAIT,    /* a sequence waited, at first or after a preemption   */
    TRACE_PREFILL, /* a step computed known tokens of it                  */
    TRACE_DECODE,  /* it generated, one token a step, until it stopped or lost its place */
    TRACE_RUN,     /* it had its lane: around its TRACE_PREFILL and TRACE_DECODE         */
    TRACE_DONE,    /* a request's end                                     */
    TRACE_KINDS
};
enum { TRACE_ARGS = 12, TRACE_NAME = 64 };

struct trace_event {
    enum trace_kind kind;
    int lane;   /* TRACE_PREFILL, _DECODE, _RUN */
    int choice; /* which sequence of the request */
    uint64_t request_id;
    int64_t begin_us, end_us;
    int32_t arg[TRACE_ARGS]; /* named in trace_text.c, by kind */
    char name[TRACE_NAME];   /* TRACE_RUN, _DONE: what the client knows it by, "" */
    const char *finish;      /* TRACE_DONE: a constant */
};

struct trace; /* opaque */
struct trace_options {
    const char *path;
    int64_t n_byte_max; /* of the file; 0: no limit        */
    int n_event;        /* of the ring; 0: 8192            */
    bool paused;        /* for tests: nothing is written before trace_close */
};
int trace_open(struct trace **out, const struct trace_options *o, struct err *e);
void trace_close(struct trace *t); /* what is in the ring is written; NULL is fine */

/* One thread alone. false: there was no room, and it was counted. */
bool trace_put(struct trace *t, const struct trace_event *e);
int64_t trace_n_dropped(const struct trace *t); /* any thread */

/* ---- trace_text.c: events as JSON ---- */

struct trace_text {
    VEC(int64_t) wait_end; /* of each lane of waiting sequences: when its last slice ended; owned */
    int n_lane;            /* lanes that were named */
    int32_t level[4];      /* what counters showed last */
    bool begun;
};
void trace_text_begin(struct trace_text *t, struct buf *out);
void trace_text_event(struct trace_text *t, const struct trace_event *e, struct buf *out);
void trace_text_end(struct trace_text *t, int64_t n_dropped, struct buf *out);
void trace_text_deinit(struct trace_text *t);

#endif

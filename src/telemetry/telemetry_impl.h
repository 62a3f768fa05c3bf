/* telemetry_impl.h - private to src/telemetry: trace contexts, options, encoding, and the queue. */
#ifndef QUOTH_TELEMETRY_TELEMETRY_IMPL_H
#define QUOTH_TELEMETRY_TELEMETRY_IMPL_H

#include "telemetry.h"

#include "base/buf.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

/* ---- trace_parent.c: W3C Trace Context ---- */

enum { TRACE_ID_BYTES = 16, SPAN_ID_BYTES = 8, TRACE_STATE_MAX = 512 };

/* Identity of a span. */
struct trace_context {
    uint8_t trace[TRACE_ID_BYTES], span[SPAN_ID_BYTES]; /* neither is zero */
    bool sampled;
};
/* Read a header `traceparent`. Return false for a malformed value; *out is then unchanged. */
bool trace_parent_read(struct trace_context *out, const char *text);
/* Write a header `traceparent` of version 00. */
void trace_parent_put(const struct trace_context *c, char out[static TRACE_PARENT_BYTES]);
/* Return true if a header `tracestate` of at most 512 bytes is a list of at most 32 members with
 * different keys. */
bool trace_state_valid(const char *text);

/* ---- protobuf.c: messages of opentelemetry/proto/trace/v1. A failed allocation sets b->failed. */

enum { ATTRIBUTE_OF_RESOURCE = 1, ATTRIBUTE_OF_SPAN = 9 }; /* numbers of the field `attributes` */

/* Append an attribute to a message. field: number of the message's field `attributes`. text: valid
 * UTF-8 of n bytes. */
void put_text_attribute(struct buf *b, int field, const char *key, const char *text, size_t n);
void put_int_attribute(struct buf *b, int field, const char *key, int64_t x);
void put_real_attribute(struct buf *b, int field, const char *key, double x);

/* A span as it is sent. Pointers are borrowed. */
struct span_record {
    const struct trace_context *context;
    const uint8_t *parent;    /* [SPAN_ID_BYTES]; NULL: the span has no parent */
    const char *state;        /* tracestate; NULL if none */
    const char *name;         /* name of the span */
    int64_t begin_us, end_us; /* times since 1970 */
    bool failed;
};
/* Append the fields of a message Span that precede its attributes, without r->end_us and r->failed.
 * Return the place of the end time, for end_span. */
size_t begin_span(struct buf *b, const struct span_record *r);
/* Write the end time to its place, and append the fields after the attributes. */
void end_span(struct buf *b, size_t end_at, const struct span_record *r);
/* Append a message ExportTraceServiceRequest with spans [n], each a message Span. resource: message
 * Resource. version: version of quoth. */
void put_export(struct buf *b, const struct buf *resource, const char *version,
                const struct buf *span, size_t n);

/* ---- options.c ---- */

/* Return the value of a variable of the environment; NULL if it is not set. */
typedef char *env_fn(const char *name);

struct telemetry_options {
    bool silent;   /* true: log no warnings; set by the caller */
    bool wanted;   /* true if traces are requested */
    char *url;     /* URL of the collector, owned */
    char *ca_file; /* file of trusted certificates, PEM, owned; NULL: the system's certificates */
    VEC(char *) header;           /* headers "Name: value", owned */
    int64_t timeout_ms;           /* timeout of a request */
    int64_t export_ms;            /* maximum time of a batch with its repetitions */
    int64_t delay_ms;             /* maximum age of a queued span before it is sent */
    int64_t queue_max, batch_max; /* maximum numbers of queued spans, and per request */
    bool follows_parent;          /* true if a parent decides whether a span is sampled */
    /* A span whose parent does not decide is sampled if the last 8 bytes of its trace's id, as a
     * number, are less than `below`. all: true if every such span is sampled. */
    bool all;
    uint64_t below;
    struct buf resource; /* message Resource */
};
/* Read the options from the flag's URL (NULL if none) and the environment. *o is zeroed, except
 * `silent`. The caller calls telemetry_options_deinit, also after an error. Errors: those of
 * telemetry_check, except for a missing libcurl. */
int telemetry_options_read(struct telemetry_options *o, const char *url, env_fn *env,
                           struct err *e);
void telemetry_options_deinit(struct telemetry_options *o);

/* ---- queue.c: encoded spans on their way to the exporter ---- */

/* Queue of messages Span.
 *
 * (1) head < n_max, n <= n_max. Spans are at the places [head, head + n) modulo n_max, the oldest
 *     one first.
 * (2) `lock` protects all fields after it. */
struct span_queue {
    struct buf *ring; /* owned [n_max] */
    size_t n_max;
    pthread_mutex_t lock;
    pthread_cond_t more; /* the exporter has work, or must stop */
    size_t head, n;
    int64_t first_us; /* time (time_us) since which spans wait; 0 if none */
    int64_t stop_us;  /* time (time_us) at which the exporter ends; 0: it does not stop */
};
/* Set up a zeroed queue of n_max spans. ERR_MEMORY. */
int span_queue_init(struct span_queue *q, size_t n_max, struct err *e);
void span_queue_deinit(struct span_queue *q); /* free all spans; a zeroed queue is allowed */
/* Append a span, whose buffer becomes the queue's. Wake the exporter for the first span and for the
 * n_batch-th. Return false if the queue is full. Any thread. */
bool span_queue_push(struct span_queue *q, struct buf *take_span, size_t n_batch);
/* Wait until n_max spans are queued, a span has waited delay_us, or the exporter stops. Move at
 * most n_max spans to out, whose buffers become the caller's. Return their number. 0: the exporter
 * stops and the queue is empty. Exporter thread. */
size_t span_queue_take(struct span_queue *q, struct buf *out, size_t n_max, int64_t delay_us);
/* Wait until wait_us have passed or the exporter stops. Exporter thread. */
void span_queue_rest(struct span_queue *q, int64_t wait_us);
/* Stop the exporter at a time (time_us). Any thread. */
void span_queue_stop(struct span_queue *q, int64_t stop_us);
/* Return the time at which the exporter ends; 0: it does not stop. Any thread. */
int64_t span_queue_stop_us(struct span_queue *q);

/* ---- span.c, telemetry.c, export.c ---- */

struct telemetry {
    struct telemetry_options o;
    struct span_queue queue;
    uint64_t seed[3]; /* random numbers, from which ids are made */
    _Atomic uint64_t n_span;
    _Atomic int64_t n_sent, n_dropped, n_failed;
    struct fetch *fetch; /* client of the exporter thread, owned; NULL after its end */
    struct buf *batch;   /* spans of a request, owned [o.batch_max]; exporter thread */
    pthread_t thread;    /* exporter */
    bool started;        /* true: `thread` must be joined */
    bool fails;          /* true: the last request failed; exporter thread */
};
/* Send spans until the queue is empty and the exporter stops. telemetry: a struct telemetry. Return
 * NULL. Exporter thread. */
void *exporter_run(void *telemetry);

#endif

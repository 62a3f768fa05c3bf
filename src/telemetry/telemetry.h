/* telemetry.h - traces of requests for a collector of OpenTelemetry: one span per request, sent as
 * OTLP over HTTP in protobuf.
 *
 *   span_begin --> span_put_text, span_put_int ... --> span_end --> queue --exporter thread-->
 *                                                       collector
 *
 * A span never waits for the collector. A full queue drops spans, and telemetry_stats counts them.
 * Any thread may call these functions, except telemetry_open and telemetry_close. One thread at a
 * time uses a span. */
#ifndef QUOTH_TELEMETRY_TELEMETRY_H
#define QUOTH_TELEMETRY_TELEMETRY_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct telemetry; /* opaque */

/* ---- the exporter ---- */

/* Read the options of traces, without warnings, and start the exporter thread. url: URL of the
 * collector, borrowed for the call; NULL: the environment has the URL
 * (OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ...). The caller owns *out. *out is NULL after an error, and
 * if no traces are requested. Errors: those of telemetry_check, ERR_MEMORY. Main thread. */
int telemetry_open(struct telemetry **out, const char *url, struct err *e);
/* Check the options of traces. Log a warning for a value that is ignored, as OpenTelemetry's
 * specification requires. ERR_ARG with the name of a variable whose value cannot be used.
 * ERR_UNSUPPORTED for a protocol other than http/protobuf, and if quoth was built without libcurl.
 * ERR_LIMIT for too many headers. ERR_MEMORY. */
int telemetry_check(const char *url, struct err *e);
/* Check the form of a collector's URL (form_fn of base/names.h). */
int telemetry_url_form(const char *url, struct err *e);
/* Send the queued spans for at most 2 s, drop the others, and free t. NULL is allowed. No span may
 * be open. Main thread. */
void telemetry_close(struct telemetry *t);

/* Counters since telemetry_open. */
struct telemetry_stats {
    int64_t n_sent; /* spans that the collector accepted */
    int64_t
        n_dropped; /* spans that the collector did not accept, or that the queue had no room for */
    int64_t n_failed; /* requests to the collector that failed, including repeated ones */
};
/* Return the counters of t. */
struct telemetry_stats telemetry_stats(const struct telemetry *t);

/* ---- spans. Functions that take a span accept NULL and then do nothing. ---- */

struct span; /* opaque */

/* Begin a span. *t is borrowed until span_end. t NULL: return NULL.
 *   parent    value of the client's header `traceparent`; NULL or malformed: the span has no parent
 *   state     value of the client's header `tracestate`; NULL if none
 *   begin_us  time (time_us) at which the span begins
 * Both texts are borrowed for the call. The caller ends the span with span_end. NULL if memory is
 * exhausted; the span is then counted as dropped. */
struct span *span_begin(struct telemetry *t, const char *parent, const char *state,
                        int64_t begin_us);
enum { TRACE_PARENT_BYTES = 56 }; /* length of a header `traceparent`, with its NUL */
/* Write the value of the header `traceparent` that contains the span's id. The header is for the
 * answer, and for requests that are part of the span. s: not NULL. */
void span_parent_put(const struct span *s, char out[static TRACE_PARENT_BYTES]);
/* Return the seconds since the begin of the span; 0 for NULL. */
double span_seconds(const struct span *s);
/* Add an attribute with a text. key: static. The text is copied, and truncated to 256 bytes. */
void span_put_text(struct span *s, const char *key, const char *text);
/* Add an attribute with an integer. key: static. */
void span_put_int(struct span *s, const char *key, int64_t x);
/* Add an attribute with a number. key: static. */
void span_put_real(struct span *s, const char *key, double x);
/* End the span and queue it if it is sampled. The span is freed. failed: true if the request failed
 * by a fault of the server. */
void span_end(struct span *take_span, bool failed);

#endif

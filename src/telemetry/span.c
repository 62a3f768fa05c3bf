/* span.c - spans from their begin to the queue (telemetry.h). Fields and attributes are encoded at
 * once, so a span is one growing buffer, which becomes the queue's. A span that is not sampled has
 * ids, for the header `traceparent`, but no message. */
#include "telemetry_impl.h"

#include "base/os.h"
#include "base/rng.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* TEXT_MAX: maximum bytes of a text. USUAL_BYTES: first size of a message, which usual spans do not
 * exceed. */
enum { TEXT_MAX = 256, USUAL_BYTES = 1000 };

struct span {
    struct telemetry *telemetry; /* borrowed */
    struct trace_context context;
    struct trace_context parent; /* context of the client's span, if has_parent is true */
    bool has_parent;
    char *state;           /* tracestate, owned; NULL if none */
    int64_t begin_us;      /* time_us */
    int64_t begin_wall_us; /* time since 1970 */
    struct buf message;    /* message Span; empty if the span is not sampled */
    size_t end_at;         /* place of the end time in the message */
};

/* Write 8 bytes of an id: a one-to-one function of the number of the span. Ids of a process are
 * therefore unique, and those of two processes differ by their random seeds. A system call per id
 * would take a microsecond. */
static void write_id(uint8_t *id, uint64_t seed, uint64_t n)
{
    const uint64_t golden = 0x9E3779B97F4A7C15u; /* odd, so n * golden is one-to-one */
    uint64_t state = seed + n * golden, x = rng_next(&state);
    if (x == 0) x = 1;
    memcpy(id, &x, sizeof x);
}

/* Choose the ids of a span. A span with a parent has the parent's trace. */
static void choose_ids(struct telemetry *t, struct span *s)
{
    const uint64_t n = atomic_fetch_add(&t->n_span, 1);
    write_id(s->context.span, t->seed[0], n);
    if (s->has_parent) {
        memcpy(s->context.trace, s->parent.trace, sizeof s->context.trace);
        return;
    }
    write_id(s->context.trace, t->seed[1], n);
    write_id(s->context.trace + 8, t->seed[2], n);
}

/* Return true if the sampler selects the span. Ratios compare the last 8 bytes of the trace's id,
 * so all services with an equal ratio select the same traces. */
static bool selects(const struct telemetry_options *o, const struct span *s)
{
    uint64_t low = 0;
    if (s->has_parent && o->follows_parent) return s->parent.sampled;
    for (int i = TRACE_ID_BYTES - 8; i < TRACE_ID_BYTES; i++) low = low << 8 | s->context.trace[i];
    return o->all || low < o->below;
}

/* Free a span that is not queued. */
static void span_free(struct span *s)
{
    free(s->state);
    buf_deinit(&s->message);
    free(s);
}

static struct span_record record_of(const struct span *s)
{
    return (struct span_record){.context = &s->context,
                                .parent = s->has_parent ? s->parent.span : NULL,
                                .state = s->state,
                                .name = "llm_request",
                                .begin_us = s->begin_wall_us};
}

struct span *span_begin(struct telemetry *t, const char *parent, const char *state,
                        int64_t begin_us)
{
    if (!t) return NULL;
    struct span *s = calloc(1, sizeof *s);
    if (!s) {
        atomic_fetch_add(&t->n_dropped, 1);
        return NULL;
    }
    s->telemetry = t;
    s->begin_us = begin_us;
    s->begin_wall_us = time_wall_us() - (time_us() - begin_us);
    s->has_parent = parent && trace_parent_read(&s->parent, parent);
    choose_ids(t, s);
    s->context.sampled = selects(&t->o, s);
    const bool keeps = s->has_parent && s->context.sampled && state && trace_state_valid(state);
    if (keeps) s->state = strdup(state);
    if (!keeps || s->state) {
        const struct span_record r = record_of(s);
        if (s->context.sampled && buf_room(&s->message, USUAL_BYTES))
            s->end_at = begin_span(&s->message, &r);
        return s;
    }
    atomic_fetch_add(&t->n_dropped, 1);
    span_free(s);
    return NULL;
}

void span_parent_put(const struct span *s, char out[static TRACE_PARENT_BYTES])
{
    trace_parent_put(&s->context, out);
}

double span_seconds(const struct span *s)
{
    return s ? (double)(time_us() - s->begin_us) * 1e-6 : 0;
}

/* ---- attributes ---- */

/* Return the length of a text, truncated to TEXT_MAX bytes at the end of a character. */
static size_t shown_bytes(const char *text)
{
    size_t n = strnlen(text, TEXT_MAX + 1);
    if (n <= TEXT_MAX) return n;
    for (n = TEXT_MAX; n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80;) n--;
    return n;
}

/* Collectors reject a whole request with invalid UTF-8, so its bytes become '?'. */
void span_put_text(struct span *s, const char *key, const char *text)
{
    char copy[TEXT_MAX];
    if (!s || !s->context.sampled) return;
    const size_t n = shown_bytes(text);
    if (utf8_valid(text, n)) {
        put_text_attribute(&s->message, ATTRIBUTE_OF_SPAN, key, text, n);
        return;
    }
    for (size_t i = 0; i < n; i++) copy[i] = (unsigned char)text[i] < 128 ? text[i] : '?';
    put_text_attribute(&s->message, ATTRIBUTE_OF_SPAN, key, copy, n);
}

void span_put_int(struct span *s, const char *key, int64_t x)
{
    if (s && s->context.sampled) put_int_attribute(&s->message, ATTRIBUTE_OF_SPAN, key, x);
}

void span_put_real(struct span *s, const char *key, double x)
{
    if (s && s->context.sampled) put_real_attribute(&s->message, ATTRIBUTE_OF_SPAN, key, x);
}

/* ---- end ---- */

/* The end is the begin and a monotonic duration, because the clock of the system may be set. */
void span_end(struct span *take_span, bool failed)
{
    struct span *s = take_span;
    if (!s) return;
    struct telemetry *t = s->telemetry;
    if (s->context.sampled) {
        struct span_record r = record_of(s);
        r.end_us = s->begin_wall_us + (time_us() - s->begin_us);
        r.failed = failed;
        end_span(&s->message, s->end_at, &r);
        const bool queued =
            !s->message.failed && span_queue_push(&t->queue, &s->message, (size_t)t->o.batch_max);
        if (!queued) atomic_fetch_add(&t->n_dropped, 1);
    }
    span_free(s);
}

struct telemetry_stats telemetry_stats(const struct telemetry *t)
{
    return (struct telemetry_stats){.n_sent = atomic_load(&t->n_sent),
                                    .n_dropped = atomic_load(&t->n_dropped),
                                    .n_failed = atomic_load(&t->n_failed)};
}

/* span.c - spans from their begin to the queue (telemetry.h). Attributes are encoded at once, so a
 * span is one growing buffer. A span that is not sampled has ids, for the header `traceparent`, but
 * no attributes. */
#include "telemetry_impl.h"

#include "base/os.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* TEXT_MAX: maximum bytes of a text. The buffers of usual spans do not grow: USUAL_BYTES for
 * attributes, HEAD_BYTES for the other fields. */
enum { TEXT_MAX = 256, USUAL_BYTES = 960, HEAD_BYTES = 128 };

struct span {
    struct telemetry *telemetry; /* borrowed */
    struct trace_context context;
    struct trace_context parent; /* context of the client's span, if has_parent */
    bool has_parent;
    char *state;           /* tracestate, owned; NULL if none */
    int64_t begin_us;      /* time_us */
    int64_t begin_wall_us; /* time since 1970 */
    struct buf attributes; /* encoded */
};

/* Fill an id with random bytes, which are not all zero. */
static void choose_id(uint8_t *id, size_t n)
{
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
        uint64_t x = os_random();
        if (x == 0) x = 1;
        memcpy(id + i, &x, sizeof x);
    }
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
    buf_deinit(&s->attributes);
    free(s);
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
    if (s->has_parent)
        memcpy(s->context.trace, s->parent.trace, sizeof s->context.trace);
    else
        choose_id(s->context.trace, sizeof s->context.trace);
    choose_id(s->context.span, sizeof s->context.span);
    s->context.sampled = selects(&t->o, s);
    if (s->context.sampled) (void)buf_room(&s->attributes, USUAL_BYTES);
    const bool keeps = s->has_parent && s->context.sampled && state && trace_state_valid(state);
    if (keeps) s->state = strdup(state);
    if (!keeps || s->state) return s;
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
        put_text_attribute(&s->attributes, ATTRIBUTE_OF_SPAN, key, text, n);
        return;
    }
    for (size_t i = 0; i < n; i++) copy[i] = (unsigned char)text[i] < 128 ? text[i] : '?';
    put_text_attribute(&s->attributes, ATTRIBUTE_OF_SPAN, key, copy, n);
}

void span_put_int(struct span *s, const char *key, int64_t x)
{
    if (s && s->context.sampled) put_int_attribute(&s->attributes, ATTRIBUTE_OF_SPAN, key, x);
}

void span_put_real(struct span *s, const char *key, double x)
{
    if (s && s->context.sampled) put_real_attribute(&s->attributes, ATTRIBUTE_OF_SPAN, key, x);
}

/* ---- end ---- */

/* The end is the begin and a monotonic duration, because the clock of the system may be set. */
void span_end(struct span *take_span, bool failed)
{
    struct span *s = take_span;
    struct buf b = {0};
    if (!s) return;
    struct telemetry *t = s->telemetry;
    const struct span_record r = {.context = &s->context,
                                  .parent = s->has_parent ? s->parent.span : NULL,
                                  .state = s->state,
                                  .name = "llm_request",
                                  .begin_us = s->begin_wall_us,
                                  .end_us = s->begin_wall_us + (time_us() - s->begin_us),
                                  .attributes = &s->attributes,
                                  .failed = failed};
    if (s->context.sampled) {
        (void)buf_room(&b, s->attributes.n + HEAD_BYTES);
        put_span(&b, &r);
        bool queued = false;
        if (b.failed)
            buf_deinit(&b);
        else
            queued = span_queue_push(&t->queue, &b, (size_t)t->o.batch_max);
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

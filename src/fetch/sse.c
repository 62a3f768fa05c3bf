/* sse.c - incremental parser of server-sent events, as in browsers (fetch.h). Lines end with CR, LF
 * or CR LF. An empty line ends an event. */
#include "fetch.h"

#include <string.h>

void sse_deinit(struct sse *s)
{
    buf_deinit(&s->line);
    buf_deinit(&s->data);
    *s = (struct sse){0};
}

/* Emit the current event, which is complete. An event without a data field is skipped. */
static bool end_event(struct sse *s, sse_fn *fn, void *ctx)
{
    if (s->data.n == 0) return true;
    s->data.data[s->data.n - 1] = '\0'; /* newline after the event's last line */
    bool more = fn(ctx, s->data.data, s->data.n - 1);
    buf_clear(&s->data);
    return more;
}

/* Add a line to the event if its field is "data". One space after the colon is not part of the
 * value. Other fields, and comments, are ignored. */
static void add_field(struct sse *s)
{
    const char *line = s->line.data;
    size_t n = s->line.n, at = 5;
    if (n < 4 || memcmp(line, "data", 4) != 0 || (n > 4 && line[4] != ':')) return;
    if (n > 5 && line[5] == ' ') at = 6;
    if (n > at) buf_add(&s->data, line + at, n - at);
    buf_add_char(&s->data, '\n');
}

/* Process a complete line. Return false if the receiver stops or memory is exhausted. */
static bool end_line(struct sse *s, sse_fn *fn, void *ctx)
{
    if (s->line.n == 0) return end_event(s, fn, ctx);
    add_field(s);
    buf_clear(&s->line);
    return !s->data.failed;
}

/* after_cr is true after a call that ends with CR, because the next call may begin with the LF of a
 * CR LF. */
bool sse_feed(struct sse *s, const char *bytes, size_t n, sse_fn *fn, void *ctx)
{
    s->line.max = s->data.max = SSE_EVENT_MAX;
    for (const char *end = bytes + n; bytes < end;) {
        size_t part = 0, left = (size_t)(end - bytes);
        if (s->after_cr && *bytes == '\n') part = 1; /* second byte of a CR LF */
        s->after_cr = false;
        if (part) {
            bytes++;
            continue;
        }
        while (part < left && bytes[part] != '\n' && bytes[part] != '\r') part++;
        buf_add(&s->line, bytes, part);
        if (s->line.failed) return false;
        if (part == left) return true;
        s->after_cr = bytes[part] == '\r';
        bytes += part + 1;
        if (!end_line(s, fn, ctx)) return false;
    }
    return true;
}

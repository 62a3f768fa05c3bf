/* sse.c - parses server-sent events from a byte stream, as browsers do: lines end with CR, LF or
 * both; an empty line ends an event; see fetch.h. */
#include "fetch.h"

#include <string.h>

void sse_deinit(struct sse *s)
{
    buf_deinit(&s->line);
    buf_deinit(&s->data);
    *s = (struct sse){0};
}

/* Events without a data field are skipped. */
static bool end_event(struct sse *s, sse_fn *fn, void *ctx)
{
    if (s->data.n == 0) return true;
    s->data.data[s->data.n - 1] = '\0'; /* the newline after its last line */
    bool more = fn(ctx, s->data.data, s->data.n - 1);
    buf_clear(&s->data);
    return more;
}

static void add_field(struct sse *s)
{
    const char *line = s->line.data;
    size_t n = s->line.n, at = 5;
    if (n < 4 || memcmp(line, "data", 4) != 0 || (n > 4 && line[4] != ':')) return;
    if (n > 5 && line[5] == ' ') at = 6;
    if (n > at) buf_add(&s->data, line + at, n - at);
    buf_add_char(&s->data, '\n');
}

static bool end_line(struct sse *s, sse_fn *fn, void *ctx)
{
    if (s->line.n == 0) return end_event(s, fn, ctx);
    add_field(s);
    buf_clear(&s->line);
    return !s->data.failed;
}

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

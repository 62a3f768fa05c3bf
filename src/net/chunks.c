/* chunks.c - a request's body in chunks (RFC 9112, 7.1), as its bytes arrive. Extensions and
 * trailers are read and dropped, within limits. */
#include "head.h"

#include <string.h>

enum { SIZE_LINE_MAX = 256, TRAILER_MAX = 4096 };

/* The number at the beginning of a size line, -1: there is none. At most 15 digits. */
static int64_t size_of(const char *line)
{
    int64_t v = 0;
    size_t n = strspn(line, "0123456789abcdefABCDEF");
    if (n == 0 || n > 15 || !strchr("; \t", line[n])) return -1;
    for (size_t i = 0; i < n; i++) {
        int c = line[i];
        v = v << 4 | (c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return v;
}

/* One byte of a size line; false: malformed. */
static bool push_size(struct chunks *c, char b)
{
    if (b != '\n') {
        if (c->n_line < sizeof c->line - 1) c->line[c->n_line] = b;
        return b != 0 && ++c->n_line <= SIZE_LINE_MAX;
    }
    size_t n = c->n_line < sizeof c->line - 1 ? c->n_line : sizeof c->line - 1;
    c->line[n] = 0;
    if (n == c->n_line && (n == 0 || c->line[n - 1] != '\r')) return false;
    c->line[strcspn(c->line, "\r")] = 0;
    int64_t size = size_of(c->line);
    c->n_line = 0;
    c->n_left = size < 0 ? 0 : (uint64_t)size;
    c->state = size == 0 ? CHUNK_TRAILER : CHUNK_DATA;
    return size >= 0;
}

/* One byte of the CRLF behind a chunk's data. */
static bool push_end(struct chunks *c, char b)
{
    if (b != "\r\n"[c->n_line]) return false;
    if (++c->n_line == 2) c->n_line = 0, c->state = CHUNK_SIZE;
    return true;
}

/* One byte of the trailer: lines up to an empty one. */
static bool push_trailer(struct chunks *c, char b)
{
    if (++c->n_trailer > TRAILER_MAX) return false;
    if (b != '\n') return c->n_line++, c->line[0] = b, true;
    if (c->n_line == 0 || c->line[0] != '\r') return false;
    if (c->n_line == 1) c->state = CHUNK_DONE;
    c->n_line = 0;
    return true;
}

static size_t push_data(struct chunks *c, const char *s, size_t n, struct buf *body)
{
    size_t m = n < c->n_left ? n : (size_t)c->n_left;
    buf_add(body, s, m);
    c->n_left -= m;
    if (c->n_left == 0) c->state = CHUNK_END, c->n_line = 0;
    return m;
}

ptrdiff_t chunks_push(struct chunks *c, const char *s, size_t n, struct buf *body, size_t n_max)
{
    size_t i = 0;
    while (i < n && c->state != CHUNK_DONE) {
        if (c->state == CHUNK_DATA) {
            i += push_data(c, s + i, n - i, body);
            continue;
        }
        char b = s[i++];
        bool ok = c->state == CHUNK_SIZE  ? push_size(c, b)
                  : c->state == CHUNK_END ? push_end(c, b)
                                          : push_trailer(c, b);
        if (!ok) return -1;
        if (c->state == CHUNK_DATA && c->n_left > n_max - body->n) body->failed = true;
        if (body->failed) break;
    }
    return (ptrdiff_t)i;
}

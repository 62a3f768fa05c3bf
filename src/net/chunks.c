/* chunks.c - decode a chunked request body (RFC 9112, 7.1) as its bytes arrive. Extensions and
 * trailers are read and dropped, within limits.
 *
 *    SIZE --"1a;x=y" CR LF--> DATA --0x1a bytes--> END --CR LF--> SIZE
 *      \__"0" CR LF--> TRAILER --empty line--> DONE
 *
 * n_line counts bytes of the current line in SIZE and TRAILER, and bytes of the CRLF in END. n_line
 * is 0 at each change of the state. */
#include "head.h"

#include "base/text.h"

#include <string.h>

enum { SIZE_LINE_MAX = 256, TRAILER_MAX = 4096 };

/* Return true if b is legal here in a line. A CR is legal only before an LF. An LF is legal only
 * after a CR. Two parsers could read different bodies if a line had several possible ends. */
static bool in_line(struct chunks *c, char b)
{
    bool after_cr = c->cr;
    c->cr = b == '\r';
    if (after_cr || b == '\n') return after_cr && b == '\n';
    return b == '\r' || b == '\t' || ((unsigned char)b >= ' ' && b != 127);
}

/* Return the number at the beginning of a size line. The number has at most 15 digits. Return -1 if
 * the number is missing or the text after it is not an extension. The shift cannot overflow,
 * because 15 hexadecimal digits have 60 bits. */
static int64_t size_of(const char *line, bool whole)
{
    int64_t v = 0;
    size_t n = strspn(line, "0123456789abcdefABCDEF");
    const char *rest = line + n + strspn(line + n, " \t");
    if (n == 0 || n > 15 || !(*rest == ';' || (whole && !*rest))) return -1;
    for (size_t i = 0; i < n; i++) v = v << 4 | hex_digit(line[i]);
    return v;
}

/* Process one byte of a size line. Return false if the line is malformed. */
static bool push_size(struct chunks *c, char b)
{
    if (!in_line(c, b)) return false;
    if (b == '\r') return true;
    if (b != '\n') {
        if (c->n_line < sizeof c->line - 1) c->line[c->n_line] = b;
        return ++c->n_line <= SIZE_LINE_MAX;
    }
    /* A line that does not fit is truncated. The number in a truncated line is complete if an
     * extension follows the number. */
    bool whole = c->n_line < sizeof c->line;
    c->line[whole ? c->n_line : sizeof c->line - 1] = 0;
    int64_t size = size_of(c->line, whole);
    if (size < 0) return false;
    c->n_line = 0;
    c->n_left = (uint64_t)size;
    c->state = size == 0 ? CHUNK_TRAILER : CHUNK_DATA;
    return true;
}

/* Process one byte of the CRLF after the data of a chunk. */
static bool push_end(struct chunks *c, char b)
{
    if (b != "\r\n"[c->n_line]) return false;
    if (++c->n_line == 2) c->n_line = 0, c->state = CHUNK_SIZE;
    return true;
}

/* Process one byte of the trailer, which ends with an empty line. */
static bool push_trailer(struct chunks *c, char b)
{
    if (++c->n_trailer > TRAILER_MAX || !in_line(c, b)) return false;
    if (b == '\n') {
        if (c->n_line == 0) c->state = CHUNK_DONE;
        c->n_line = 0;
    } else if (b != '\r') {
        c->n_line++;
    }
    return true;
}

/* Append at most the rest of the current chunk. Return the number of bytes used. */
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
            size_t n_data = push_data(c, s + i, n - i, body);
            i += n_data, c->n_byte += n_data;
            continue;
        }
        char b = s[i++];
        bool ok = c->state == CHUNK_SIZE  ? push_size(c, b)
                  : c->state == CHUNK_END ? push_end(c, b)
                                          : push_trailer(c, b);
        if (!ok) return -1;
        c->n_byte++;
        /* reject a chunk that is too large before its bytes arrive */
        if (c->state == CHUNK_DATA && c->n_left > n_max - body->n)
            body->failed = body->limited = true;
        if (body->failed) break;
    }
    return (ptrdiff_t)i;
}

const char *chunks_expected(const struct chunks *c)
{
    switch (c->state) {
    case CHUNK_SIZE:
        return "a chunk's size in hexadecimal digits and CR LF";
    case CHUNK_DATA:
        return "a chunk's data";
    case CHUNK_END:
        return "CR LF after a chunk";
    case CHUNK_TRAILER:
        return "a trailer of at most 4096 bytes";
    case CHUNK_DONE:
        break;
    }
    return "the end";
}

/* multipart.c - parts of a body of multipart/form-data.
 *
 *   --BOUNDARY CRLF head CRLF CRLF content CRLF --BOUNDARY ... CRLF --BOUNDARY--
 *
 * A content may have any bytes except the delimiter. The reader therefore searches the delimiter,
 * and uses no length. */
#include "multipart.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { HEAD_BYTES_MAX = 8192 };

/* ---- parameters of headers: NAME=VALUE, NAME="VALUE", separated by semicolons ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Copy a value that begins at `at` and ends before `end` to out [n_out]. A quoted value ends at its
 * quote. Set *after to the end. Return false if the value is malformed or too long. */
static bool copy_value(const char *at, const char *end, char *out, size_t n_out, const char **after)
{
    const bool quoted = at < end && *at == '"';
    size_t n = 0;
    if (quoted) at++;
    for (; at < end; at++) {
        if (quoted ? *at == '"' : *at == ';' || is_blank(*at)) break;
        if (quoted && *at == '\\' && at + 1 < end && (at[1] == '"' || at[1] == '\\')) at++;
        if (*at == 0 || *at == '\r' || *at == '\n' || n + 1 >= n_out) return false;
        out[n++] = *at;
    }
    out[n] = 0;
    *after = quoted ? at + 1 : at;
    return !quoted || at < end;
}

/* Find a parameter in the text after a header's first word. Return 1 and the value in out, 0 if it
 * is absent, -1 if the parameters are malformed. */
static int find_parameter(const char *at, const char *end, const char *name, char *out,
                          size_t n_out)
{
    char other[MULTIPART_FILENAME_MAX * 4];
    const size_t n_name = strlen(name);
    while (at < end) {
        while (at < end && (is_blank(*at) || *at == ';')) at++;
        const char *equal = memchr(at, '=', (size_t)(end - at)),
                   *next = memchr(at, ';', (size_t)(end - at));
        if (at == end) break;
        if (!equal || (next && next < equal)) { /* a word without a value */
            at = next ? next : end;
            continue;
        }
        const bool same = (size_t)(equal - at) == n_name && strncasecmp(at, name, n_name) == 0;
        if (!copy_value(equal + 1, end, same ? out : other, same ? n_out : sizeof other, &at))
            return -1;
        if (same) return 1;
    }
    return 0;
}

int multipart_open(struct multipart *m, const char *content_type, const char *text, size_t n,
                   struct err *e)
{
    static const char kind[] = "multipart/form-data";
    char boundary[71];
    *m = (struct multipart){.text = text, .n = n};
    if (!content_type || strncasecmp(content_type, kind, sizeof kind - 1) != 0)
        return err_set(e, ERR_ARG, "Content-Type: must be %s, got \"%.80s\"", kind,
                       content_type ? content_type : "");
    const char *rest = content_type + sizeof kind - 1, *end = rest + strlen(rest);
    if (find_parameter(rest, end, "boundary", boundary, sizeof boundary) != 1 || !*boundary)
        return err_set(e, ERR_ARG, "Content-Type: must have a boundary of 1 to 70 bytes");
    memcpy(m->delimiter, "\r\n--", 4);
    memcpy(m->delimiter + 4, boundary, strlen(boundary) + 1);
    m->n_delimiter = 4 + strlen(boundary);
    /* the first delimiter has no CRLF before it, if nothing precedes it */
    if (n >= m->n_delimiter - 2 && memcmp(text, m->delimiter + 2, m->n_delimiter - 2) == 0) {
        m->at = m->n_delimiter - 2;
        return 0;
    }
    const char *first = n ? memmem(text, n, m->delimiter, m->n_delimiter) : NULL;
    if (!first) return err_set(e, ERR_FORMAT, "the body: boundary \"%.70s\" not found", boundary);
    m->at = (size_t)(first - text) + m->n_delimiter;
    return 0;
}

/* ---- parts ---- */

/* Replace %XX by its byte. %00 is kept, because it would end the text and hide the rest of a
 * name. */
static void decode_percent(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        const int hi = *at == '%' ? hex_digit(at[1]) : -1, lo = hi >= 0 ? hex_digit(at[2]) : -1;
        const bool coded = lo >= 0 && hi * 16 + lo > 0;
        *to++ = coded ? (char)(hi * 16 + lo) : *at;
        if (coded) at += 2;
    }
    *to = 0;
}

/* Read `filename`, or filename*=CHARSET'LANGUAGE'TEXT. */
static int read_filename(const char *at, const char *end, struct multipart_part *p, struct err *e)
{
    char coded[MULTIPART_FILENAME_MAX * 3 + 20];
    p->filename[0] = 0;
    int found = find_parameter(at, end, "filename", p->filename, sizeof p->filename);
    if (found == 0 && (found = find_parameter(at, end, "filename*", coded, sizeof coded)) == 1) {
        const char *text = strchr(coded, '\'');
        text = text ? strchr(text + 1, '\'') : NULL;
        if (text) memmove(coded, text + 1, strlen(text + 1) + 1);
        decode_percent(coded);
        if (!text || strlen(coded) >= sizeof p->filename) found = -1;
        if (found == 1) memcpy(p->filename, coded, strlen(coded) + 1);
    }
    if (found >= 0) return 0;
    return err_set(e, ERR_FORMAT, "part %.64s: filename: must be a text of at most %d bytes",
                   p->name, MULTIPART_FILENAME_MAX);
}

/* Read the head of a part [at, end): its line Content-Disposition. */
static int read_head(const char *at, const char *end, struct multipart_part *p, int number,
                     struct err *e)
{
    static const char header[] = "Content-Disposition:", word[] = "form-data";
    while (at < end) {
        const char *line_end = memmem(at, (size_t)(end - at), "\r\n", 2);
        if (!line_end) line_end = end;
        if ((size_t)(line_end - at) >= sizeof header - 1 &&
            strncasecmp(at, header, sizeof header - 1) == 0) {
            at += sizeof header - 1;
            while (at < line_end && is_blank(*at)) at++;
            if ((size_t)(line_end - at) < sizeof word - 1 ||
                strncasecmp(at, word, sizeof word - 1) != 0)
                break;
            at += sizeof word - 1;
            if (find_parameter(at, line_end, "name", p->name, sizeof p->name) != 1) break;
            return read_filename(at, line_end, p, e);
        }
        at = line_end + (line_end < end ? 2 : 0);
    }
    return err_set(
        e, ERR_FORMAT,
        "part %d: must have Content-Disposition: form-data with a name of at most %d bytes", number,
        MULTIPART_NAME_MAX);
}

/* After a delimiter follow "--" at the end of the body, or CRLF, a head, an empty line and the
 * content. Blanks may follow the delimiter. */
int multipart_next(struct multipart *m, struct multipart_part *p, struct err *e)
{
    *p = (struct multipart_part){0};
    if (m->ended) return 0;
    const char *at = m->text + m->at, *end = m->text + m->n;
    if (end - at >= 2 && memcmp(at, "--", 2) == 0) {
        m->ended = true;
        return 0;
    }
    const int number = ++m->n_part;
    if (number > MULTIPART_PARTS_MAX)
        return err_set(e, ERR_LIMIT, "the body has %d parts, more than %d", number,
                       MULTIPART_PARTS_MAX);
    while (at < end && is_blank(*at)) at++;
    if (end - at < 2 || memcmp(at, "\r\n", 2) != 0)
        return err_set(e, ERR_FORMAT, "part %d: expected the end of a line after the boundary",
                       number);
    /* the line end of the delimiter is a part of an empty head's end */
    const size_t n_left = (size_t)(end - at);
    const char *head_end =
        memmem(at, n_left < HEAD_BYTES_MAX ? n_left : HEAD_BYTES_MAX, "\r\n\r\n", 4);
    if (!head_end) return err_set(e, ERR_FORMAT, "part %d: the end of its head is missing", number);
    int rc = read_head(at + 2 > head_end ? head_end : at + 2, head_end, p, number, e);
    if (rc != 0) return rc;
    p->data = head_end + 4;
    /* an empty content may share its CRLF with the end of the head */
    const char *next =
        memmem(head_end + 2, (size_t)(end - head_end - 2), m->delimiter, m->n_delimiter);
    if (!next) return err_set(e, ERR_FORMAT, "part %.64s: its last boundary is missing", p->name);
    p->n = next > p->data ? (size_t)(next - p->data) : 0;
    m->at = (size_t)(next - m->text) + m->n_delimiter;
    return 1;
}

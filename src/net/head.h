/* head.h - private to net: parsing of HTTP/1.1, without sockets. Any thread; a head or a decoder of
 * chunks belongs to one thread at a time. */
#ifndef QUOTH_NET_HEAD_H
#define QUOTH_NET_HEAD_H

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

enum { HEADER_MAX = 100 };

struct header {
    const char *name, *value; /* borrowed from head.text, NUL-terminated; name in lower case */
};
struct head {
    char *text;                  /* owned: bytes of the head, split into NUL-terminated texts */
    const char *method, *target; /* borrowed from text; NULL before they are parsed */
    char *path;                  /* owned: decoded, without the query; NULL before it is parsed */
    const char *query; /* borrowed from text: part after the ?, not decoded; "" without a ? */
    /* minor version of HTTP/1.x: 0 or 1 */
    int minor;
    bool keep_alive, chunked, expect_continue;
    int64_t n_body; /* value of Content-Length; 0 if the header is absent */
    int n_header;
    struct header header[HEADER_MAX];
};

/* Return the length of the head at s[0, n), including its empty line; 0 if the head is
 * incomplete. */
size_t head_length(const char *s, size_t n);
/* Parse a complete head s[0, n), which is copied, into a zeroed struct. Call head_deinit
 * afterwards, also after a failure. Each member is NULL or a NUL-terminated text that is safe to
 * log, also after a failure. ERR_FORMAT (status 400) for a head that two parsers could read
 * differently. ERR_LIMIT (431) for more than HEADER_MAX headers. ERR_MEMORY (503). */
int head_parse(struct head *h, const char *s, size_t n, struct err *e);
void head_deinit(struct head *h);
/* Return the value of a header, borrowed from h; NULL if absent. */
const char *head_header(const struct head *h, const char *lower_name);
int head_count(const struct head *h, const char *lower_name); /* return the number of occurrences */
/* Return true if text is a comma-separated list of header names (RFC 9110, section 5.6.1). */
bool head_is_name_list(const char *text);

/* Decoder of a chunked body. A zeroed decoder is ready for use. */
struct chunks {
    enum { CHUNK_SIZE, CHUNK_DATA, CHUNK_END, CHUNK_TRAILER, CHUNK_DONE } state;
    uint64_t n_byte; /* number of decoded bytes; after an error, the offset of the wrong byte */
    uint64_t n_left; /* bytes left of the chunk's data */
    size_t n_line;   /* length of the current line */
    size_t n_trailer;
    bool cr;       /* true if the last byte of the line was a CR */
    char line[32]; /* beginning of a size line */
};
/* Decode s[0, n) and append the result to `body`. Return the number of bytes used, or -1 if the
 * body is malformed. Bytes after the body's end (CHUNK_DONE) are not used. Decoding ends and sets
 * body->failed if the body exceeds n_max bytes. */
ptrdiff_t chunks_push(struct chunks *c, const char *s, size_t n, struct buf *body, size_t n_max);
/* Return the name of the part that c expects next or, after an error, expected. */
const char *chunks_expected(const struct chunks *c);

/* Append the decoded value of `name` in a query to *out. Return 1, or 0 if the name is absent.
 * Return -1 if the value is malformed or memory is exhausted (out->failed). */
int query_value(const char *query, const char *name, struct buf *out);

#endif

/* head.h - private to net: parsing of HTTP/1.1, without any socket. */
#ifndef QUOTH_NET_HEAD_H
#define QUOTH_NET_HEAD_H

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

enum { HEADER_MAX = 100 };

struct header {
    const char *name, *value; /* into head.text, NUL-terminated; name in lower case */
};
struct head {
    char *text; /* owned: the bytes of the head, split into NUL-terminated texts */
    const char *method, *target;
    char *path;        /* decoded, without the query                            */
    const char *query; /* after the ?, not decoded; "" if none */
    int minor;         /* HTTP/1.minor: 0 or 1                                  */
    bool keep_alive, chunked, expect_continue;
    int64_t n_body; /* Content-Length; 0 if none */
    int n_header;
    struct header header[HEADER_MAX];
};

/* Return the length of the head at s[0..n), with its empty line; 0 if it is incomplete. */
size_t head_length(const char *s, size_t n);
/* Parse a complete head, strictly: what two parsers could read differently is rejected (ERR_FORMAT
 * with the reason: 400). Fills a zeroed struct; call head_deinit in any case. After a failure each
 * member is NULL or a complete, NUL-terminated text that is safe to log. */
int head_parse(struct head *h, const char *s, size_t n, struct err *e);
void head_deinit(struct head *h);
const char *head_header(const struct head *h, const char *lower_name); /* NULL if absent */

/* Decoder of a chunked body. Zeroed is ready for use. */
struct chunks {
    enum { CHUNK_SIZE, CHUNK_DATA, CHUNK_END, CHUNK_TRAILER, CHUNK_DONE } state;
    uint64_t n_left; /* bytes left of the chunk's data */
    size_t n_line;   /* length of the current line */
    size_t n_trailer;
    bool cr;       /* the last byte of the line was a CR */
    char line[32]; /* beginning of a size line */
};
/* Decode s[0..n) and append it to `body`. Returns the number of bytes used (less than n only in
 * state CHUNK_DONE), or -1 if malformed. A body of more than n_max bytes sets body->failed and
 * ends. */
ptrdiff_t chunks_push(struct chunks *c, const char *s, size_t n, struct buf *body, size_t n_max);

/* Decode %XX in s[0..n) (and + as a space if `plus`) into out[n + 1]. Returns the length, or -1
 * with an empty out for a bad escape, a NUL or invalid UTF-8. */
ptrdiff_t percent_decode(char *out, const char *s, size_t n, bool plus);
/* Append the decoded value of `name` in a query to *out. Returns 1, 0 if absent, -1 if malformed or
 * memory ran out (out->failed). */
int query_value(const char *query, const char *name, struct buf *out);

#endif

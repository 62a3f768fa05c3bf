/* head.h - private to net: what is parsed of HTTP/1.1, without any socket. */
#ifndef QUOTH_NET_HEAD_H
#define QUOTH_NET_HEAD_H

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

enum { HEADER_MAX = 100 };

struct header {
    const char *name, *value; /* into head.text, NUL-terminated; the name in lower case */
};
struct head {
    char *text; /* owned: the bytes of the head, cut into texts */
    const char *method, *target;
    char *path;        /* decoded, without the query                            */
    const char *query; /* behind the ?, not decoded; "" for none                */
    int minor;         /* HTTP/1.minor: 0 or 1                                  */
    bool keep_alive, chunked, expect_continue;
    int64_t n_body; /* Content-Length; 0 where there is none */
    int n_header;
    struct header header[HEADER_MAX];
};

/* How many bytes at s[0..n) are a head, its empty line included; 0: it is not complete. */
size_t head_length(const char *s, size_t n);
/* Parse a complete head, strictly: what two readers could understand differently is refused
 * (ERR_FORMAT with the reason: 400). Fill a zeroed struct; head_deinit frees it in any case. */
int head_parse(struct head *h, const char *s, size_t n, struct err *e);
void head_deinit(struct head *h);
const char *head_header(const struct head *h, const char *lower_name); /* NULL: not there */

/* A body in chunks, piece by piece. Zeroed is ready. */
struct chunks {
    enum { CHUNK_SIZE, CHUNK_DATA, CHUNK_END, CHUNK_TRAILER, CHUNK_DONE } state;
    uint64_t n_left; /* of the chunk's data  */
    size_t n_line;   /* of size line or trailer so far */
    size_t n_trailer;
    bool cr;       /* the last byte of the line was one */
    char line[32]; /* the beginning of a size line */
};
/* Decode s[0..n) onto `body`; how many bytes were used (fewer than n once the state is CHUNK_DONE),
 * or -1: malformed. More than n_max bytes of body set body->failed and end it. */
ptrdiff_t chunks_push(struct chunks *c, const char *s, size_t n, struct buf *body, size_t n_max);

/* Decode %XX in s[0..n) (and + as a space where asked) onto out[n + 1]; its length, or -1: a bad
 * escape, a NUL, or no UTF-8. */
ptrdiff_t percent_decode(char *out, const char *s, size_t n, bool plus);
/* The decoded value of `name` in a query, appended to *out; false: not there, or malformed. */
bool query_value(const char *query, const char *name, struct buf *out);

#endif

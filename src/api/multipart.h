/* multipart.h - private to src/api: parts of a body of multipart/form-data (RFC 7578). The body is
 * in memory, and parts are borrowed from it. Any thread; a struct belongs to one thread at a
 * time. */
#ifndef QUOTH_API_MULTIPART_H
#define QUOTH_API_MULTIPART_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { MULTIPART_NAME_MAX = 64, MULTIPART_FILENAME_MAX = 256, MULTIPART_PARTS_MAX = 32 };

struct multipart {
    const char *text;   /* body [n], borrowed */
    size_t n, at;       /* at: offset after the last delimiter */
    char delimiter[80]; /* CR LF -- boundary; RFC 2046 permits 70 bytes of boundary */
    size_t n_delimiter;
    int n_part; /* number of parts so far */
    bool ended; /* true: the last delimiter was read */
};
struct multipart_part {
    char name[MULTIPART_NAME_MAX + 1];         /* name of the form's field */
    char filename[MULTIPART_FILENAME_MAX + 1]; /* "" if the part has none */
    const char *data;                          /* content [n], borrowed from the body */
    size_t n;
};

/* Begin to read a body of n bytes. content_type: value of the header; NULL: absent. ERR_ARG if it
 * is not multipart/form-data with a boundary, ERR_FORMAT if the body does not begin with it. */
int multipart_open(struct multipart *m, const char *content_type, const char *text, size_t n,
                   struct err *e);
/* Read the next part. Return 1; 0 after the last part. ERR_FORMAT for a body without its last
 * delimiter, or a malformed head of a part. ERR_LIMIT if there are too many parts or a name is too
 * long. */
int multipart_next(struct multipart *m, struct multipart_part *p, struct err *e);

#endif

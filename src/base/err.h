/* err.h - failures that a person must read.
 *
 * Three classes, three means (docs/style.md 1.4): a bug is an assert; an expected outcome is a
 * return value; a failure that someone must read is a negative ERR_* code and a sentence in a
 * struct err, which becomes the log line or the JSON error body. A sentence names the file or
 * field, what was found, what was expected. */
#ifndef QUOTH_BASE_ERR_H
#define QUOTH_BASE_ERR_H

#include <stdarg.h>

enum {
    ERR_IO = -1,          /* the system refused: open, read, map, write                  */
    ERR_FORMAT = -2,      /* bytes from outside are not what their format says           */
    ERR_UNSUPPORTED = -3, /* well-formed, but nothing here can handle it                 */
    ERR_LIMIT = -4,       /* larger than a stated limit                                  */
    ERR_MEMORY = -5,      /* an allocation failed                                        */
    ERR_ARG = -6,         /* the caller (a user, a request) asked for something impossible */
    ERR_BUSY = -7,        /* a bounded queue is full; try again later                    */
    ERR_MISSING = -8,     /* a file, key or tensor that is needed is not there           */
};

struct err {
    char text[480]; /* UTF-8, NUL-terminated, no control characters; "" while nothing failed */
};

/* Write the sentence and hand back `code`, so that `return err_set(e, ERR_FORMAT, ...)` reads well.
 * `e` may be NULL (nobody listens). Cuts at the buffer's end. Any thread. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Put "prefix: " before the sentence already in `e`; hands back `code`. */
int err_prefix(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The usual sentence for a failed allocation of n bytes for `what`. */
int err_memory(struct err *e, const char *what, unsigned long long n);

#endif

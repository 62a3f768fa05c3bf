/* err.h - failures for a person to read.
 *
 * Three classes of errors (docs/style.md, section 4): a bug fails a CHECK; an expected outcome is a
 * return value; a failure for a person is a negative ERR_* code and a sentence in a struct err,
 * which becomes the log line or the JSON error body. A sentence names the file or field, what was
 * found and what was expected. Sentences are for people; programs use the code, the field and the
 * figures. */
#ifndef QUOTH_BASE_ERR_H
#define QUOTH_BASE_ERR_H

#include <stdarg.h>
#include <stddef.h>

enum {
    ERR_IO = -1,          /* a system call failed: open, read, map, write */
    ERR_FORMAT = -2,      /* input violates its format */
    ERR_UNSUPPORTED = -3, /* well-formed, but not supported */
    ERR_LIMIT = -4,       /* above a limit */
    ERR_MEMORY = -5,      /* an allocation failed                                        */
    ERR_ARG = -6,         /* invalid argument of a user or request */
    ERR_BUSY = -7,        /* a bounded queue is full; retry later */
    ERR_MISSING = -8,     /* a required file, key or tensor is missing */
};

struct err {
    /* sentence: UTF-8, NUL-terminated, no control characters; "" if nothing failed */
    char text[1000];
    char field[64];            /* field, flag or parameter at fault; "": none */
    size_t field_at;           /* offset of the field's name in text */
    int code;                  /* ERR_*; 0 if nothing failed */
    long long n_found, n_most; /* of ERR_LIMIT: the value found and the limit; 0, 0: not given */
};

/* Set code and sentence, truncated at the buffer's end. Returns `code`, so that
 * `return err_set(e, ERR_FORMAT, ...)` works. `e` may be NULL. Any thread. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Set code, field (copied) and sentence: the field's name directly followed by fmt, as in
 * err_field(e, ERR_ARG, "stop", "[%d]: must not be empty", i). Clients receive the field separately, so
 * that they need not parse sentences. */
int err_field(struct err *e, int code, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* If the field is `from`, rename it to `to`, in the sentence too: the client uses that name for it.
 * Returns `code`. */
int err_rename(struct err *e, int code, const char *from, const char *to);

/* Prepend "prefix: " to the sentence in `e`. Returns `code`. */
int err_prefix(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Add the figures to the failure in `e`, for clients that read them as numbers. Returns `code`. */
int err_figures(struct err *e, int code, long long n_found, long long n_most);

/* Set the sentence for a failed allocation of n bytes (0: unknown) for `what`. Returns
 * ERR_MEMORY. */
int err_memory(struct err *e, const char *what, unsigned long long n);

#endif

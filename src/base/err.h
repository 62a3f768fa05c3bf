/* err.h - failures for a person to read.
 *
 * There are three classes of errors (docs/style.md, section 4). A bug fails a CHECK. An expected
 * outcome is a return value. A failure for a person is a negative ERR_* code and a sentence in a
 * struct err. The sentence becomes the log line or the JSON error body. The sentence gives the file
 * or field, the actual value and the expected value. Programs use the code, the field and the
 * figures instead of the sentence. Any thread; a struct err belongs to one thread at a time. */
#ifndef QUOTH_BASE_ERR_H
#define QUOTH_BASE_ERR_H

#include <stdarg.h>
#include <stddef.h>

enum {
    ERR_IO = -1,          /* a failed system call: open, read, map, write */
    ERR_FORMAT = -2,      /* input that violates its format */
    ERR_UNSUPPORTED = -3, /* well-formed input that is not supported */
    ERR_LIMIT = -4,       /* a value above a limit */
    ERR_MEMORY = -5,      /* a failed allocation */
    ERR_ARG = -6,         /* invalid argument of a user or request */
    ERR_BUSY = -7,        /* a full bounded queue; retry later */
    ERR_MISSING = -8,     /* a missing file, key or tensor that is required */
    ERR_UNAVAILABLE = -9, /* a server that stops or sleeps; retry later */
};

struct err {
    /* sentence: UTF-8, NUL-terminated, no control characters; "" if nothing failed */
    char text[1000];
    char field[64];           /* field, flag or parameter at fault; "" if none */
    size_t field_at;          /* offset of the field's name in text */
    int code;                 /* ERR_*; 0 if nothing failed */
    long long n_found, n_max; /* value and limit of an ERR_LIMIT; 0, 0 if not given */
};

/* Set code and sentence, truncated at the buffer's end. Return `code`, for `return err_set(e,
 * ERR_FORMAT, ...)`. `e` may be NULL in this function and the following functions. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Set code, field (copied) and sentence. The sentence is the field's name, directly followed by
 * fmt. For example: err_field(e, ERR_ARG, "stop", "[%d]: must not be empty", i). Clients receive
 * the field separately and need not parse the sentence. */
int err_field(struct err *e, int code, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Rename the field `from` to `to`, also in the sentence. Use it for a field with another name in
 * the client's request. Return `code`. */
int err_rename(struct err *e, int code, const char *from, const char *to);

/* Prepend "prefix: " to the sentence in `e`. Return `code`. */
int err_prefix(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Add n_found and n_max to the failure in `e`, for programs. Return `code`. */
int err_figures(struct err *e, int code, long long n_found, long long n_max);

/* Set the sentence of a failed allocation of n bytes (0: unknown) for `what`. Return ERR_MEMORY. */
int err_memory(struct err *e, const char *what, unsigned long long n);

#endif

/* names.h - the legal values of a flag or key: an item of a list, or any text of a form. Any
 * thread. */
#ifndef QUOTH_BASE_NAMES_H
#define QUOTH_BASE_NAMES_H

#include "base/err.h"

#include <stddef.h>

struct text_list { /* array of borrowed texts; owned */
    const char **v;
    size_t n, cap;
};

/* Return the i-th legal value, i = 0, 1, ...; NULL after the last. */
typedef const char *name_fn(int i);

/* Define a static name_fn `id` that returns these values. */
#define NAMES(id, ...)                                                                             \
    static const char *id(int i)                                                                   \
    {                                                                                              \
        static const char *const name[] = {__VA_ARGS__, NULL};                                     \
        return i >= 0 && i < (int)(sizeof name / sizeof name[0]) ? name[i] : NULL;                 \
    }

/* Set *out to the legal value that equals `text`, ignoring case, with `-` equal to `_`. *out is
 * borrowed from `names`. ERR_ARG if no legal value matches. The error's sentence begins with
 * `field` and lists all values. */
int name_choose(const char **out, const char *field, name_fn *names, const char *text,
                struct err *e);

/* Validate the form of a value. Return 0, or ERR_ARG with a sentence that describes the legal
 * form. The error's sentence does not begin with the field's name. */
typedef int form_fn(const char *text, struct err *e);

/* Set "must be WHAT, got TEXT" for a form_fn. Return ERR_ARG. */
int form_wrong(struct err *e, const char *what, const char *text);

#endif

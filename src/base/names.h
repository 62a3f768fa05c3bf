/* names.h - the legal values of a flag or key: one of a list, or any text of a form. */
#ifndef QUOTH_BASE_NAMES_H
#define QUOTH_BASE_NAMES_H

#include "base/err.h"

/* Return the i-th legal value, i = 0, 1, ...; NULL after the last. Any thread. */
typedef const char *name_fn(int i);

/* Define a static name_fn `id` that returns these values. */
#define NAMES(id, ...)                                                                             \
    static const char *id(int i)                                                                   \
    {                                                                                              \
        static const char *const name[] = {__VA_ARGS__, NULL};                                     \
        return i >= 0 && i < (int)(sizeof name / sizeof name[0]) ? name[i] : NULL;                 \
    }

/* Set *out to the legal value that equals `text`, ignoring case, with `-` equal to `_`. ERR_ARG if
 * none matches; the sentence begins with `field` and lists all values. */
int name_choose(const char **out, const char *field, name_fn *names, const char *text,
                struct err *e);

/* Validate the form of a value. Returns 0, or ERR_ARG with a sentence that describes the legal form
 * and begins without the field's name. Any thread. */
typedef int form_fn(const char *text, struct err *e);

/* Set "must be WHAT, got TEXT" for a form_fn. Returns ERR_ARG. */
int form_wrong(struct err *e, const char *what, const char *text);

#endif

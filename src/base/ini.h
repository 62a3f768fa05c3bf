/* ini.h - a reader of INI texts: sections in brackets, and lines KEY = VALUE. Any thread. */
#ifndef QUOTH_BASE_INI_H
#define QUOTH_BASE_INI_H

#include "err.h"

#include <stddef.h>

/* Receive a line of a section ("" before the first section). key is NULL at the start of a section.
 * The texts are NUL-terminated, and borrowed for the call. A result other than 0 ends the
 * reading. */
typedef int ini_fn(void *ctx, const char *section, const char *key, const char *value,
                   struct err *e);

/* Read text [n]. A line that begins with ; or # is a comment. Blanks around names, keys and values
 * are removed. A value may be in double quotes, without escapes. Errors contain `path` and the
 * line: ERR_FORMAT for a malformed line or a NUL, ERR_LIMIT for a line above 4096 bytes. Other
 * errors are those of fn. */
int ini_read(const char *text, size_t n, const char *path, ini_fn *fn, void *ctx, struct err *e);

#endif

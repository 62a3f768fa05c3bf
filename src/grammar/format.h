/* format.h - private to grammar: JSON Schema's `format` as patterns. Any thread; the expressions
 * belong to one thread at a time. */
#ifndef QUOTH_GRAMMAR_FORMAT_H
#define QUOTH_GRAMMAR_FORMAT_H

#include <stdint.h>

/* Return the anchored ECMA pattern of a supported format. NULL if the format is unknown and
 * therefore an annotation, as in the standard. */
const char *format_pattern(const char *name);

/* Return the maximum number of characters of a format; 0: no limit. */
uint32_t format_length(const char *name);

/* Return the pattern of the part before the time in a format whose times may have leap seconds
 * (expr_leap); NULL for other formats. The format's own pattern excludes these times. */
const char *format_before_time(const char *name);

#endif

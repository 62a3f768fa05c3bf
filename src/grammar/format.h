/* format.h - private to grammar: JSON Schema's `format` as patterns. */
#ifndef QUOTH_GRAMMAR_FORMAT_H
#define QUOTH_GRAMMAR_FORMAT_H

/* The ECMA pattern of a format that is checked, anchored; NULL: unknown, an annotation as the standard says. */
const char *format_pattern(const char *name);

/* What comes before the time in a format whose times may have leap seconds (expr_leap), as a pattern; NULL: it has none. The format's
 * own pattern is without them. */
const char *format_before_time(const char *name);

#endif

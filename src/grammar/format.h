/* format.h - private to grammar: JSON Schema's `format` as patterns. */
#ifndef QUOTH_GRAMMAR_FORMAT_H
#define QUOTH_GRAMMAR_FORMAT_H

/* Return the anchored ECMA pattern of a supported format. NULL if it is unknown, and so an
 * annotation, as in the standard. */
const char *format_pattern(const char *name);

/* Return, as a pattern, the part before the time in a format whose times may have leap seconds
 * (expr_leap); NULL if none. The format's own pattern excludes these times. */
const char *format_before_time(const char *name);

#endif

/* utf8.h - strict UTF-8: no overlong forms, no surrogates, no code point above U+10FFFF. All
 * functions are pure. Any thread. */
#ifndef QUOTH_BASE_UTF8_H
#define QUOTH_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decode the sequence at s, of n available bytes, into *cp. Return its length in bytes. Return 0 if
 *   the bytes can never begin a valid sequence (*cp is then U+FFFD). Return -1 for a proper prefix
 *   of a valid sequence, for example if n is 0. */
int utf8_decode(const char *s, size_t n, uint32_t *cp);

/* Write cp (<= 0x10FFFF) to out[4] and return its length in [1, 4]. Surrogates are written as three
 * bytes. */
int utf8_encode(char *out, uint32_t cp);

/* Return true if the n bytes are valid UTF-8, without surrogates and overlong forms. */
bool utf8_valid(const char *s, size_t n);

/* Return the length of the maximal subpart of an ill-formed sequence at s (Unicode 3.9, "U+FFFD
 * substitution of maximal subparts"). One replacement character replaces these bytes. The length is
 * at least 1 if n > 0. */
int utf8_bad_len(const char *s, size_t n);

/* Return true if cp controls a terminal or a line instead of being displayed. Such characters are
 * controls (U+0000 to U+001F, U+007F to U+009F), line and paragraph separators, and characters that
 * change the direction of text. */
bool utf8_is_control(uint32_t cp);

/* Make s[0, n) a displayable line. Each byte of a control character (utf8_is_control) becomes '?'.
 * A line feed or a tab becomes a space. The result cannot move a terminal's cursor, begin a line or
 * reverse text. */
void utf8_show(char *s, size_t n);

/* Return the first character of s[0, n) in quotes, for an error. Return "the byte 0x1b" for a
 * control character or invalid UTF-8, and "the end" if n is 0. The result is static, or `out`. */
const char *utf8_first_text(const char *s, size_t n, char out[24]);

/* Return the width of cp on a terminal in columns: 0 (combining), 1 or 2 (wide). */
int utf8_width(uint32_t cp);

#endif

/* utf8.h - UTF-8, strict: no overlong forms, no surrogates, nothing above U+10FFFF. Pure
 * functions. */
#ifndef QUOTH_BASE_UTF8_H
#define QUOTH_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decode the sequence at s, of n bytes available, into *cp. Returns its length in bytes, or
 * 0 if the bytes can never begin a valid sequence (*cp is then U+FFFD), or
 * -1 if they are a proper prefix of one and n ends too early. n = 0 gives -1. */
int utf8_decode(const char *s, size_t n, uint32_t *cp);

/* Write cp (<= 0x10FFFF) to out[4] and return its length, 1 to 4. Surrogates are written as three
 * bytes. */
int utf8_encode(char *out, uint32_t cp);

bool utf8_valid(const char *s, size_t n);

/* Return the length of the maximal subpart of an ill-formed sequence at s (Unicode 3.9, "U+FFFD
 * substitution of maximal subparts"): the bytes that one replacement character replaces. At least 1
 * if n > 0. */
int utf8_bad_len(const char *s, size_t n);

/* Return how many leading bytes of s[0..n) are complete, i.e. do not end inside a sequence that
 * could still become valid: n, n-1, n-2 or n-3. Invalid bytes count as complete. */
size_t utf8_complete_len(const char *s, size_t n);

/* Return true if cp controls a terminal or a line instead of being displayed: controls (U+0000 to
 * U+001F, U+007F to U+009F), line and paragraph separators, and characters that change the
 * direction of text. */
bool utf8_is_control(uint32_t cp);

/* Make s[0..n) a displayable line: each byte of a control character (utf8_is_control) becomes '?',
 * a line feed or a tab a space. Text from outside then moves no cursor, begins no line and reverses
 * no text. */
void utf8_show(char *s, size_t n);

/* Return the columns of cp on a terminal: 0 (combining), 1 or 2 (wide). */
int utf8_width(uint32_t cp);

#endif

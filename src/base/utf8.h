/* utf8.h - UTF-8, strict: no overlong forms, no surrogates, nothing above U+10FFFF. Pure
 * functions. */
#ifndef QUOTH_BASE_UTF8_H
#define QUOTH_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length in bytes of the valid sequence at s (n bytes are there), its code point in *cp; or
 * 0 if the bytes can never begin a valid sequence (*cp is then U+FFFD), or
 * -1 if they are a proper prefix of one and n ends too early. n = 0 gives -1. */
int utf8_decode(const char *s, size_t n, uint32_t *cp);

/* Write cp (<= 0x10FFFF) to out[4]; its length 1 to 4. Surrogates are written as three bytes. */
int utf8_encode(char *out, uint32_t cp);

bool utf8_valid(const char *s, size_t n);

/* How many bytes at s form the maximal subpart of an ill-formed sequence (Unicode 3.9, "U+FFFD
 * substitution of maximal subparts"): what one replacement character stands for. At least 1 for n
 * > 0. */
int utf8_bad_len(const char *s, size_t n);

/* How many leading bytes of s[0..n) are complete, i.e. do not end inside a sequence that could
 * still become valid. n, n-1, n-2 or n-3. Invalid bytes count as complete. */
size_t utf8_complete_len(const char *s, size_t n);

/* Make s[0..n) a line that can be shown: control characters, those of UTF-8 (U+0080 to U+009F) too, become '?', and what
 * only parts words a space. Whatever others said, it moves no cursor and begins no line. */
void utf8_show(char *s, size_t n);

/* Columns that cp takes on a terminal: 0 (combining), 1 or 2 (wide). */
int utf8_width(uint32_t cp);

#endif

/* percent.h - decode percent-encoded texts of URLs and lists (RFC 3986, 2.1). Pure functions. Any
 * thread. */
#ifndef QUOTH_BASE_PERCENT_H
#define QUOTH_BASE_PERCENT_H

#include <stdbool.h>
#include <stddef.h>

/* Decode %XX in s[0, n), and + as a space if `plus` is true, into out[n + 1]. Return the length; -1
 * and an empty out for a bad escape, a NUL or invalid UTF-8. */
ptrdiff_t percent_decode(char *out, const char *s, size_t n, bool plus);

#endif

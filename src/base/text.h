/* text.h - ends of texts, names in paths, and hexadecimal numbers. All functions are pure. Any
 * thread. */
#ifndef QUOTH_BASE_TEXT_H
#define QUOTH_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Return true if the n bytes of `text` end with `end`. text may be NULL if n is 0. */
static inline bool text_n_ends_with(const char *text, size_t n, const char *end)
{
    size_t n_end = strlen(end);
    return n >= n_end && (n_end == 0 || memcmp(text + n - n_end, end, n_end) == 0);
}

/* Return true if `text` ends with `end`. */
static inline bool text_ends_with(const char *text, const char *end)
{
    return text_n_ends_with(text, strlen(text), end);
}

/* Return the part of a path after its last slash, or the whole path if it has no slash. The
 * result is borrowed from the path. */
static inline const char *path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Return the value of a hexadecimal digit; -1 for other characters. */
static inline int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Set *value to the number of the hexadecimal digits at the start of s [n], at most n_max <= 8
 * digits. Return the number of digits. */
static inline size_t hex_read(const char *s, size_t n, size_t n_max, uint32_t *value)
{
    size_t i = 0;
    for (*value = 0; i < n && i < n_max && hex_digit(s[i]) >= 0; i++)
        *value = *value << 4 | (uint32_t)hex_digit(s[i]);
    return i;
}

#endif

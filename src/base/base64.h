/* base64.h - base64 of RFC 4648, with padding. Any thread. */
#ifndef QUOTH_BASE_BASE64_H
#define QUOTH_BASE_BASE64_H

#include "buf.h"

/* Append the bytes that n characters encode. Padding may be missing. Return false if the
 * characters are not base64 or memory is exhausted (out->failed). */
bool base64_decode(const char *p, size_t n, struct buf *out);
/* Append the base64 text of n bytes to out. */
void base64_encode(const void *data, size_t n, struct buf *out);

#endif

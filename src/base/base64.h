/* base64.h - RFC 4648 base64, with its padding. */
#ifndef QUOTH_BASE_BASE64_H
#define QUOTH_BASE_BASE64_H

#include "buf.h"

/* Append what n characters stand for; padding may be missing. false: not base64, or no memory. */
bool base64_decode(const char *p, size_t n, struct buf *out);
/* Append n bytes as characters. */
void base64_encode(const void *data, size_t n, struct buf *out);

#endif

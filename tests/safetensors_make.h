/* safetensors_make.h - safetensors files and JSON for tests. JSON is written with ' instead of ".
 * The test's thread only. */
#ifndef QUOTH_TEST_SAFETENSORS_MAKE_H
#define QUOTH_TEST_SAFETENSORS_MAKE_H

#include "base/os.h"

#include <string.h>

static inline void add_quoted(struct buf *b, const char *text)
{
    for (; *text; text++) buf_add_char(b, *text == '\'' ? '"' : *text);
}

/* Write the header and n_data bytes 0, 1, 2, ... Return 0 or ERR_IO. */
static inline int safetensors_write(const char *path, const char *header, size_t n_data)
{
    struct buf b = {0};
    struct err e;
    for (int i = 0; i < 8; i++) buf_add_char(&b, (char)(strlen(header) >> (8 * i)));
    add_quoted(&b, header);
    for (size_t i = 0; i < n_data; i++) buf_add_char(&b, (char)i);
    int rc = file_write(path, b.data, b.n, &e);
    buf_deinit(&b);
    return rc;
}

static inline int json_write(const char *path, const char *text)
{
    struct buf b = {0};
    struct err e;
    add_quoted(&b, text);
    int rc = file_write(path, b.data, b.n, &e);
    buf_deinit(&b);
    return rc;
}

#endif

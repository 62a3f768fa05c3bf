/* lines.c - read text files with one entry per line, such as merges.txt, vocab.txt and rank
 * files. */
#include "token_impl.h"

#include <string.h>

enum { FILE_BYTES_MAX = 256 << 20 };

int lines_read(struct tokenizer *t, const char *path, line_fn *line, struct err *e)
{
    struct buf file = {0};
    int rc = file_read(&file, path, FILE_BYTES_MAX, e);
    for (size_t i = 0; i < file.n && rc == 0;) {
        const char *p = file.data + i, *end = memchr(p, '\n', file.n - i);
        size_t n = end ? (size_t)(end - p) : file.n - i;
        i += n + 1;
        if (n && p[n - 1] == '\r') n--;
        rc = line(t, p, n, e);
        if (rc != 0) err_prefix(e, rc, "%s", path);
    }
    buf_deinit(&file);
    return rc;
}

/* buf.h - a growing byte string, and growing arrays.
 *
 * A buf is always NUL-terminated once something was added, so its data can be printed. Failure is
 * sticky: when an allocation fails (or `max` would be passed) `failed` is set, later additions do
 * nothing, and the owner checks once, at the end. */
#ifndef QUOTH_BASE_BUF_H
#define QUOTH_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
    char *data; /* owned; NULL while empty */
    size_t n;   /* bytes, without the NUL */
    size_t cap;
    size_t max; /* 0 = no limit; else n never exceeds it (passing it sets failed) */
    bool failed;
};

/* A zeroed struct buf is ready for use. */
void buf_deinit(struct buf *b); /* frees; the buf is zeroed and reusable; `max` is forgotten */
void buf_clear(struct buf *b);  /* n = 0, failed = false; keeps the memory                 */
bool buf_room(struct buf *b, size_t extra); /* make sure `extra` more bytes fit; false = failed */
void buf_add(struct buf *b, const void *data, size_t n);
void buf_add_text(struct buf *b, const char *text); /* up to its NUL */
void buf_add_char(struct buf *b, char c);
void buf_add_utf8(struct buf *b, unsigned cp); /* one code point, at most 0x10FFFF */
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* caller now owns the NUL-terminated data (free it); NULL if failed */
char *buf_detach(struct buf *b);

/* Growing arrays: VEC(int32_t) ids = {0}; if (!vec_push(&ids, 7)) ...out of memory...;
 * free(ids.v). */
#define VEC(T)                                                                                     \
    struct {                                                                                       \
        T *v;                                                                                      \
        size_t n, cap;                                                                             \
    }
/* Append one element; true, or false when out of memory (the vec is unchanged). */
#define vec_push(a, x)                                                                             \
    (vec_room((void **)&(a)->v, &(a)->cap, (a)->n + 1, sizeof *(a)->v)                             \
         ? ((a)->v[(a)->n++] = (x), true)                                                          \
         : false)
#define vec_reserve(a, count) vec_room((void **)&(a)->v, &(a)->cap, (count), sizeof *(a)->v)
#define vec_deinit(a)         (free((a)->v), (a)->v = NULL, (a)->n = (a)->cap = 0)
bool vec_room(void **v, size_t *cap, size_t need, size_t size);

#include <stdint.h>
/* Token ids, the vec that crosses folders. */
struct ids {
    int32_t *v; /* owned; free with vec_deinit */
    size_t n, cap;
};

#endif

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
    size_t max;   /* maximum of n, passing it sets failed; 0: no limit */
    bool failed;  /* an addition failed; all later ones are lost */
    bool limited; /* failed because of max, not for lack of memory */
};

/* A zeroed struct buf is ready for use. */
void buf_deinit(struct buf *b);             /* free; zeroes b, `max` too; b is reusable */
void buf_clear(struct buf *b);              /* set n = 0 and failed = false; keep the memory */
bool buf_room(struct buf *b, size_t extra); /* reserve `extra` bytes; false: failed */
void buf_add(struct buf *b, const void *data, size_t n);
void buf_add_text(struct buf *b, const char *text); /* up to its NUL */
void buf_add_char(struct buf *b, char c);
void buf_add_utf8(struct buf *b, unsigned cp); /* one code point, at most 0x10FFFF */
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Return the NUL-terminated data, which the caller now owns (free it). NULL if failed. */
char *buf_detach(struct buf *b);

/* Growing arrays: VEC(int32_t) ids = {0}; if (!vec_push(&ids, 7)) ...out of memory...;
 * free(ids.v). */
#define VEC(T)                                                                                     \
    struct {                                                                                       \
        T *v;                                                                                      \
        size_t n, cap;                                                                             \
    }
/* Append one element. Returns false if memory ran out; the vec is then unchanged. */
#define vec_push(a, x)                                                                             \
    (vec_room((void **)&(a)->v, &(a)->cap, (a)->n + 1, sizeof *(a)->v)                             \
         ? ((a)->v[(a)->n++] = (x), true)                                                          \
         : false)
#define vec_reserve(a, count) vec_room((void **)&(a)->v, &(a)->cap, (count), sizeof *(a)->v)
#define vec_deinit(a)         (free((a)->v), (a)->v = NULL, (a)->n = (a)->cap = 0)
bool vec_room(void **v, size_t *cap, size_t need, size_t size);

#include <stdint.h>
/* token ids: the only vec that crosses folders */
struct ids {
    int32_t *v; /* owned; free with vec_deinit */
    size_t n, cap;
};

#endif

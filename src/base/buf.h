/* buf.h - a growing byte string and growing arrays.
 *
 * The data is NUL-terminated after the first addition, so it can be printed. An addition sets
 * `failed` if an allocation fails or n would exceed `max`. Later additions then have no effect. The
 * owner checks `failed` once, at the end. Any thread; a buf or array belongs to one thread at a
 * time. */
#ifndef QUOTH_BASE_BUF_H
#define QUOTH_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    char *data; /* bytes, owned; NULL if empty */
    size_t n;   /* bytes, without the NUL */
    size_t cap;
    size_t max;   /* maximum of n, which no addition may exceed; 0: no limit */
    bool failed;  /* true after a failed addition; all later additions have no effect */
    bool limited; /* true if an addition failed because of max, not because memory is exhausted */
};

/* A zeroed struct buf is ready for use; there is no buf_init. */
void buf_deinit(struct buf *b); /* free the memory and zero all fields; b is reusable */
void buf_clear(struct buf *b);  /* set n = 0 and failed = false; keep the memory */
/* Reserve `extra` bytes. Return false if an allocation failed or `max` would be exceeded. */
bool buf_room(struct buf *b, size_t extra);
/* Append n bytes. Set b->failed, without a change of the content, if memory is exhausted or b->max
 * would be exceeded. data may be NULL if n is 0. */
void buf_add(struct buf *b, const void *data, size_t n);
void buf_add_text(struct buf *b, const char *text); /* append text up to its NUL */
/* Append one byte. Set b->failed if there is no room. */
void buf_add_char(struct buf *b, char c);
void buf_add_utf8(struct buf *b, unsigned cp); /* append the code point cp, at most 0x10FFFF */
/* Append a text formatted as by printf, without its NUL. Set b->failed if there is no room. */
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Return the NUL-terminated data. The caller owns and frees it. NULL if an addition failed. */
char *buf_detach(struct buf *b);

/* VEC(T) is a growing array. For example: VEC(int32_t) ids = {0}; if (!vec_push(&ids, 7)) ...out of
 * memory...; free(ids.v). */
#define VEC(T)                                                                                     \
    struct {                                                                                       \
        T *v;                                                                                      \
        size_t n, cap;                                                                             \
    }
/* Append one element. Return false, without a change, if memory is exhausted. */
#define vec_push(a, x)                                                                             \
    (vec_room((void **)&(a)->v, &(a)->cap, (a)->n + 1, sizeof *(a)->v)                             \
         ? ((a)->v[(a)->n++] = (x), true)                                                          \
         : false)
/* Reserve space for `count` elements in total. Return false, without a change, if memory is
 * exhausted. */
#define vec_reserve(a, count) vec_room((void **)&(a)->v, &(a)->cap, (count), sizeof *(a)->v)
/* Free the elements, and zero the array. A zeroed array is allowed. */
#define vec_deinit(a) (free((a)->v), (a)->v = NULL, (a)->n = (a)->cap = 0)
/* Reserve space for `need` elements of `size` bytes. Update *v and *cap. Return false, without a
 * change, if memory is exhausted. Only vec_push and vec_reserve call it. */
bool vec_room(void **v, size_t *cap, size_t need, size_t size);

/* list of token ids: the only vec that several rooms share */
struct ids {
    int32_t *v; /* owned; free with vec_deinit */
    size_t n, cap;
};

#endif

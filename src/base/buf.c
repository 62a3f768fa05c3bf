/* buf.c - see buf.h. */
#include "buf.h"
#include "utf8.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_deinit(struct buf *b)
{
    free(b->data);
    *b = (struct buf){0};
}

void buf_clear(struct buf *b)
{
    b->n = 0;
    b->failed = false;
    if (b->data) b->data[0] = 0;
}

bool buf_room(struct buf *b, size_t extra)
{
    if (b->failed) return false;
    size_t need;
    if (__builtin_add_overflow(b->n, extra, &need) || (b->max && need > b->max) ||
        !vec_room((void **)&b->data, &b->cap, need + 1, 1))
        b->failed = true;
    return !b->failed;
}

void buf_add(struct buf *b, const void *data, size_t n)
{
    if (!buf_room(b, n)) return;
    if (n) memcpy(b->data + b->n, data, n);
    b->n += n;
    b->data[b->n] = 0;
}

void buf_add_text(struct buf *b, const char *text)
{
    buf_add(b, text, strlen(text));
}

void buf_add_char(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_add_utf8(struct buf *b, unsigned cp)
{
    char bytes[4];
    buf_add(b, bytes, (size_t)utf8_encode(bytes, cp));
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;
    size_t room = b->failed || b->cap < b->n ? 0 : b->cap - b->n;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(room ? b->data + b->n : NULL, room, fmt, ap); /* mostly there is room */
    va_end(ap);
    if (n < 0) b->failed = true;
    if (n >= 0 && buf_room(b, (size_t)n)) {
        if ((size_t)n >= room) vsnprintf(b->data + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    } else if (room) {
        b->data[b->n] = 0;
    }
    va_end(again);
}

char *buf_detach(struct buf *b)
{
    if (!buf_room(b, 0)) return NULL;
    b->data[b->n] = 0;
    char *data = b->data;
    b->data = NULL;
    b->n = b->cap = 0;
    return data;
}

bool vec_room(void **v, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap) return true;
    size_t grown = *cap < 8 ? 16 : *cap + *cap / 2;
    if (grown < need) grown = need;
    size_t n_byte;
    if (__builtin_mul_overflow(grown, size, &n_byte)) return false;
    void *p = realloc(*v, n_byte);
    if (!p) return false;
    *v = p;
    *cap = grown;
    return true;
}

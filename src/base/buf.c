/* buf.c - see buf.h.
 *
 * Invariant: data is NULL, or data[n] is 0 and cap > n. A failure is sticky: each later append has
 * no effect, so a caller checks `failed` once at the end. */
#include "buf.h"
#include "check.h"
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
    b->failed = b->limited = false;
    if (b->data) b->data[0] = 0;
}

/* Allocate one byte more than n + extra, for the terminating NUL. `limited` distinguishes the
 * caller's limit from exhausted memory. */
bool buf_room(struct buf *b, size_t extra)
{
    if (b->failed) return false;
    size_t need;
    bool fits = !__builtin_add_overflow(b->n, extra, &need);
    b->limited = b->max && (!fits || need > b->max);
    b->failed = !fits || b->limited || !vec_room((void **)&b->data, &b->cap, need + 1, 1);
    return !b->failed;
}

void buf_add(struct buf *b, const void *data, size_t n)
{
    CHECK(data || n == 0, "%zu bytes of no data", n);
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

/* ---- formats ----
 *
 * This file formats simple conversions itself. Most formats contain only simple conversions.
 * vsnprintf sets up a stream for each text, which took a fifteenth of all instructions of a short
 * request. */

/* Return the length of the conversion at f, without its %; 0 if put_plain does not support it. */
static size_t plain_len(const char *f)
{
    switch (*f) {
    case 's':
    case 'd':
    case 'c':
    case 'u':
    case '%':
        return 1;
    case 'z':
        return f[1] == 'u' ? 2 : 0;
    case 'l':
        return f[1] == 'l' && (f[2] == 'd' || f[2] == 'u') ? 3 : 0;
    case '0':
        return f[1] == '3' && f[2] == 'd' ? 3 : 0;
    default:
        return 0;
    }
}

/* Return true if put_plain supports each conversion of the format. */
static bool is_plain(const char *fmt)
{
    while (*(fmt += strcspn(fmt, "%"))) {
        size_t n = plain_len(++fmt);
        if (n == 0) return false;
        fmt += n;
    }
    return true;
}

/* Append v with at least n_digit digits. Append nothing if v and n_digit are 0. */
static void put_unsigned(struct buf *b, uint64_t v, int n_digit, bool minus)
{
    char text[24], *p = text + sizeof text;
    for (; v || n_digit > 0; v /= 10, n_digit--) *--p = (char)('0' + v % 10);
    if (minus) *--p = '-';
    buf_add(b, p, (size_t)(text + sizeof text - p));
}

/* Append v with at least n_digit digits. The sign counts as a digit if n_digit is above 1. */
static void put_signed(struct buf *b, int64_t v, int n_digit)
{
    bool minus = v < 0;
    put_unsigned(b, minus ? -(uint64_t)v : (uint64_t)v, n_digit - (minus && n_digit > 1), minus);
}

/* Append one conversion. f points to the character after the %; plain_len(f) is above 0. A NULL
 * text is "(null)", as in glibc. */
static void put_plain(struct buf *b, const char *f, va_list *ap)
{
    const char *s;
    switch (*f) {
    case 's':
        s = va_arg(*ap, const char *);
        buf_add_text(b, s ? s : "(null)");
        return;
    case 'c':
        buf_add_char(b, (char)va_arg(*ap, int));
        return;
    case 'd':
        put_signed(b, va_arg(*ap, int), 1);
        return;
    case '0':
        put_signed(b, va_arg(*ap, int), 3);
        return;
    case 'u':
        put_unsigned(b, va_arg(*ap, unsigned), 1, false);
        return;
    case 'z':
        put_unsigned(b, va_arg(*ap, size_t), 1, false);
        return;
    case 'l':
        if (f[2] == 'd')
            put_signed(b, va_arg(*ap, long long), 1);
        else
            put_unsigned(b, va_arg(*ap, unsigned long long), 1, false);
        return;
    default:
        buf_add_char(b, '%');
    }
}

static void add_plain(struct buf *b, const char *fmt, va_list *ap)
{
    size_t before = b->n;
    while (*fmt) {
        size_t n = strcspn(fmt, "%");
        buf_add(b, fmt, n);
        fmt += n;
        if (!*fmt) break;
        put_plain(b, ++fmt, ap);
        fmt += plain_len(fmt);
    }
    if (!b->failed || !b->data) return;
    b->n = before; /* append a text completely or not at all */
    b->data[before] = 0;
}

/* Format by vsnprintf, first into the free room. A second pass follows only if the text did not
 * fit. */
static void add_formatted(struct buf *b, const char *fmt, va_list *ap)
{
    va_list again;
    size_t room = b->failed || b->cap < b->n ? 0 : b->cap - b->n;
    va_copy(again, *ap);
    int n = vsnprintf(room ? b->data + b->n : NULL, room, fmt, *ap); /* usually the text fits */
    if (n < 0) b->failed = true;
    if (n >= 0 && buf_room(b, (size_t)n)) {
        if ((size_t)n >= room) vsnprintf(b->data + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    } else if (room) {
        b->data[b->n] = 0;
    }
    va_end(again);
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (is_plain(fmt))
        add_plain(b, fmt, &ap);
    else
        add_formatted(b, fmt, &ap);
    va_end(ap);
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

/* Enlarge the array by half, so that n appends copy O(n) items. The first block has 16 items. */
bool vec_room(void **v, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap) return true;
    CHECK(size > 0, "%zu items", need);
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

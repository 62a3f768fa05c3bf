/* mark.c - marks in a text that comes in pieces. */
#include "chat/parser_impl.h"

#include <string.h>

bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

size_t space_front(const char *text, size_t n)
{
    size_t k = 0;
    while (k < n && is_blank(text[k])) k++;
    return k;
}

size_t space_back(const char *text, size_t n)
{
    size_t k = 0;
    while (k < n && is_blank(text[n - 1 - k])) k++;
    return k;
}

bool text_begins(const char *text, size_t n, const char *mark)
{
    size_t n_mark = strlen(mark);
    return n >= n_mark && memcmp(text, mark, n_mark) == 0;
}

bool text_may_begin(const char *text, size_t n, const char *mark)
{
    return n < strlen(mark) && memcmp(text, mark, n) == 0;
}

size_t text_partial(const char *text, size_t n, const char *mark)
{
    size_t k = strlen(mark) - 1;
    for (k = k < n ? k : n; k > 0; k--)
        if (memcmp(text + n - k, mark, k) == 0) return k;
    return 0;
}

enum verdict mark_at(const char *mark, const char *text, size_t n, size_t *used)
{
    const char *first = mark + space_front(mark, strlen(mark));
    const char *last = mark + strlen(mark) - space_back(mark, strlen(mark));
    size_t at = 0;
    for (const char *m = first; m < last; m++) {
        bool gap = is_blank(*m), border = m > first && m[-1] == '>' && *m == '<';
        if (gap || border) at += space_front(text + at, n - at);
        if (at == n) return CALL_MAYBE;
        if (gap) continue;
        if (text[at++] != *m) return CALL_NO;
    }
    *used = at;
    return CALL_YES;
}

size_t mark_find(const char *mark, const char *text, size_t n)
{
    size_t used;
    char first = mark[space_front(mark, strlen(mark))];
    const char *p = n > 0 ? memchr(text, first, n) : NULL;
    for (; p; p = memchr(p + 1, first, n - (size_t)(p + 1 - text)))
        if (mark_at(mark, p, n - (size_t)(p - text), &used) != CALL_NO) return (size_t)(p - text);
    return n;
}

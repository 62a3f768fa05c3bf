/* mark.c - search for marks in a text that arrives in pieces.
 *
 * A blank in a mark matches any number of blanks in the text, also 0. The text may have blanks
 * between the > and < of a mark, because models vary the white space around tags. */
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

/* Return true if text[0, n) is a proper beginning of the mark, so that more text may complete
 * it. */
bool text_may_begin(const char *text, size_t n, const char *mark)
{
    return n < strlen(mark) && memcmp(text, mark, n) == 0;
}

/* Return the length of the longest end of the text that begins the mark. The caller must hold these
 * bytes. */
size_t text_partial(const char *text, size_t n, const char *mark)
{
    size_t k = strlen(mark) - 1;
    for (k = k < n ? k : n; k > 0; k--)
        if (memcmp(text + n - k, mark, k) == 0) return k;
    return 0;
}

/* Return CALL_YES for a match, with *used the length of the match. Return CALL_MAYBE if the text
 * ends inside of the mark. */
enum call_verdict mark_at(const char *mark, const char *text, size_t n, size_t *used)
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

/* A partial match at the end of the text counts as a match. Return n if there is no match. */
size_t mark_find(const char *mark, const char *text, size_t n)
{
    size_t used;
    char first = mark[space_front(mark, strlen(mark))];
    const char *p = n > 0 ? memchr(text, first, n) : NULL;
    for (; p; p = memchr(p + 1, first, n - (size_t)(p + 1 - text)))
        if (mark_at(mark, p, n - (size_t)(p - text), &used) != CALL_NO) return (size_t)(p - text);
    return n;
}

enum call_verdict mark_any(const char *const *mark, int n_mark, const char *text, size_t n,
                           size_t *used)
{
    for (int i = 0; i < n_mark && mark[i]; i++) {
        enum call_verdict v = mark_at(mark[i], text, n, used);
        if (v != CALL_NO) return v;
    }
    return CALL_NO;
}

size_t mark_first(const char *const *mark, int n_mark, const char *text, size_t n, size_t *used)
{
    size_t at = n, k;
    *used = 0;
    for (int i = 0; i < n_mark && mark[i]; i++) {
        size_t found = mark_find(mark[i], text, n);
        if (found >= at) continue;
        at = found;
        *used = mark_at(mark[i], text + at, n - at, &k) == CALL_YES ? k : 0;
    }
    return at;
}

/* digits.c - tool-call arguments with integers that exceed the number types of json.h.
 *
 * A model may write 12345678901234567890 (an id, a key). Parsing makes it a double and loses
 * digits, so such arguments are copied from the call's text, without the blanks between their
 * tokens. */
#include "chat/parser_impl.h"

#include <string.h>

enum { LONG_DIGITS = 19 }; /* numbers with fewer digits always fit in int64 */

/* Return the end of the string whose quote is text[i]. */
static size_t string_end(const char *text, size_t n, size_t i)
{
    for (i++; i < n && text[i] != '"'; i++) i += text[i] == '\\';
    return i < n ? i + 1 : n;
}

static bool in_number(char c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || (c | 32) == 'e';
}

static bool is_long_integer(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((text[i] < '0' || text[i] > '9') && (i > 0 || text[i] != '-')) return false;
    return n - (text[0] == '-') >= LONG_DIGITS;
}

/* Return the end of the token at text[i], which is not blank: a string, a number, or one byte. */
static size_t token_end(const char *text, size_t n, size_t i)
{
    if (text[i] == '"') return string_end(text, n, i);
    size_t end = i;
    if (text[i] == '-' || (text[i] >= '0' && text[i] <= '9'))
        while (end < n && in_number(text[end])) end++;
    return end > i ? end : i + 1;
}

static bool has_long_integer(const char *text, size_t n)
{
    for (size_t i = 0, end; i < n; i = end) {
        end = token_end(text, n, i);
        bool number = text[i] == '-' || (text[i] >= '0' && text[i] <= '9');
        if (number && is_long_integer(text + i, end - i)) return true;
    }
    return false;
}

/* Return the end of the value at text[i]. */
static size_t value_end(const char *text, size_t n, size_t i)
{
    int depth = 0;
    while (i < n) {
        char c = text[i];
        if (depth == 0 && (c == ',' || c == '}' || c == ']')) return i;
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        i = token_end(text, n, i);
        if (depth == 0 && (c == '"' || c == '}' || c == ']')) return i;
    }
    return n;
}

/* Return the text of the object's last member with this key, the member that json_field returns. */
static const char *member(const char *text, size_t n, const char *key, size_t *n_value)
{
    const char *found = NULL;
    size_t n_key = strlen(key);
    for (size_t i = 1; i < n;) {
        i += space_front(text + i, n - i);
        if (i >= n || text[i] != '"') break;
        size_t name = i + 1, end = string_end(text, n, i);
        bool wanted = end - name == n_key + 1 && memcmp(text + name, key, n_key) == 0;
        i = end + space_front(text + end, n - end) + 1; /* past the colon */
        if (i >= n) break;
        i += space_front(text + i, n - i);
        end = value_end(text, n, i);
        if (wanted) found = text + i, *n_value = end - i;
        i = end + space_front(text + end, n - end) + 1; /* past the comma */
    }
    return found;
}

bool digits_kept(struct buf *out, const char *call, size_t n, const char *key)
{
    size_t n_value = 0;
    const char *value = member(call, n, key, &n_value);
    if (!value || !has_long_integer(value, n_value)) return false;
    for (size_t i = 0, end; i < n_value; i = end) {
        size_t blank = space_front(value + i, n_value - i);
        end = blank ? i + blank : token_end(value, n_value, i);
        if (!blank) buf_add(out, value + i, end - i);
    }
    return true;
}

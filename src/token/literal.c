/* literal.c - Python's literals of strings ('...' and "...") and bytes (b'...' and b"..."), in
 * RWKV's lists of tokens. GGUF files have the text between the quotes of a bytes literal.
 *
 * Reader: literal_read --> literal_decode --> one escape at a time. Only the escapes that repr()
 * writes are known: \\ \' \" \n \r \t \xHH, and in strings \uHHHH \UHHHHHHHH. */
#include "token_impl.h"

#include "base/text.h"
#include "base/utf8.h"

#include <string.h>

/* Append the character or byte of an escape with digits. *n: number of digits. Return false if
 * digits are missing or the value is no character. */
static bool add_number(struct buf *out, const char *p, size_t n, size_t n_digit, bool bytes)
{
    uint32_t value;
    if (hex_read(p, n, n_digit, &value) != n_digit) return false;
    if (bytes) {
        buf_add_char(out, (char)value);
        return true;
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return false;
    buf_add_utf8(out, value);
    return true;
}

/* Append the value of the escape at p, after its backslash. Return its length; 0 for a wrong
 * escape. */
static size_t add_escape(struct buf *out, const char *p, size_t n, bool bytes)
{
    static const char plain[] = "\\'\"nrt", value[] = "\\'\"\n\r\t";
    if (n == 0 || *p == 0) return 0;
    const char *known = strchr(plain, *p);
    if (known) {
        buf_add_char(out, value[known - plain]);
        return 1;
    }
    const size_t n_digit = *p == 'x' ? 2 : bytes ? 0 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0;
    return n_digit && add_number(out, p + 1, n - 1, n_digit, bytes) ? 1 + n_digit : 0;
}

/* Return the length of the plain character at p; 0 if a literal must not contain it: a control
 * character, or a byte that is not UTF-8 (strings) or not ASCII (bytes). */
static size_t plain_len(const char *p, size_t n, bool bytes)
{
    uint32_t cp;
    const int len = utf8_decode(p, n, &cp);
    return len <= 0 || cp < ' ' || cp == 0x7F || (bytes && len > 1) ? 0 : (size_t)len;
}

bool literal_decode(struct buf *out, const char *p, size_t n, bool bytes)
{
    for (size_t i = 0, len; i < n; i += len) {
        if (p[i] == '\\') {
            len = add_escape(out, p + i + 1, n - i - 1, bytes);
            if (len++ == 0) return false;
            continue;
        }
        len = plain_len(p + i, n - i, bytes);
        if (len == 0) return false;
        buf_add(out, p + i, len);
    }
    return true;
}

size_t literal_read(struct buf *out, const char *p, size_t n)
{
    const bool bytes = n > 0 && *p == 'b';
    const size_t first = bytes + (size_t)1;
    if (n < first) return 0;
    const char quote = p[bytes];
    if (quote != '\'' && quote != '"') return 0;
    size_t end = first;
    while (end < n && p[end] != quote) end += p[end] == '\\' ? 2 : 1;
    return end < n && literal_decode(out, p + first, end - first, bytes) ? end + 1 : 0;
}

size_t literal_write(char *out, char *quote, const char *p, size_t n)
{
    static const char plain[] = "\\\n\r\t", name[] = "\\nrt", digit[] = "0123456789abcdef";
    const bool single = n > 0 && memchr(p, '\'', n) && !memchr(p, '"', n);
    size_t at = 0;
    *quote = single ? '"' : '\'';
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)p[i];
        const char *known = c ? strchr(plain, c) : NULL;
        if (known || c == (unsigned char)*quote) {
            out[at++] = '\\';
            out[at++] = known ? name[known - plain] : *quote;
        } else if (c < ' ' || c >= 0x7F) {
            memcpy(out + at, (char[]){'\\', 'x', digit[c >> 4], digit[c & 15]}, 4);
            at += LITERAL_BYTE_MAX;
        } else {
            out[at++] = (char)c;
        }
    }
    return at;
}

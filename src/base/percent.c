/* percent.c - decode percent-encoded texts; see percent.h. */
#include "percent.h"

#include "text.h"
#include "utf8.h"

/* Decode one byte at s[*i] and move *i to its last character. Return 0 if the escape is malformed
 * or the byte is NUL. */
static char decode_byte(const char *s, size_t n, size_t *i, bool plus)
{
    if (s[*i] == '+' && plus) return ' ';
    if (s[*i] != '%') return s[*i];
    int hi = *i + 2 < n ? hex_digit(s[*i + 1]) : -1;
    int lo = hi >= 0 ? hex_digit(s[*i + 2]) : -1;
    *i += 2;
    return lo < 0 ? 0 : (char)(hi << 4 | lo);
}

ptrdiff_t percent_decode(char *out, const char *s, size_t n, bool plus)
{
    size_t m = 0;
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) ok = (out[m++] = decode_byte(s, n, &i, plus)) != 0;
    ok = ok && utf8_valid(out, m);
    out[ok ? m : 0] = 0;
    return ok ? (ptrdiff_t)m : -1;
}

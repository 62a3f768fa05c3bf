/* utf8.c - see utf8.h. Well-formedness by table 3-7 of the Unicode standard. */
#include "utf8.h"

#include <string.h>

/* Return the length of a sequence with first byte c, and the range of its second byte; 0 if c
 * cannot be first. */
static int sequence_len(uint8_t c, uint8_t *lo, uint8_t *hi)
{
    *lo = 0x80, *hi = 0xBF;
    if (c < 0x80) return 1;
    if (c < 0xC2) return 0;
    if (c < 0xE0) return 2;
    if (c < 0xF0) {
        if (c == 0xE0) *lo = 0xA0;
        if (c == 0xED) *hi = 0x9F;
        return 3;
    }
    if (c > 0xF4) return 0;
    if (c == 0xF0) *lo = 0x90;
    if (c == 0xF4) *hi = 0x8F;
    return 4;
}

/* Return how many bytes of s match the sequence that begins there. *want: the length that it would
 * have; 0 if none. */
static int matched_len(const char *s, size_t n, int *want)
{
    uint8_t lo, hi;
    *want = sequence_len((uint8_t)s[0], &lo, &hi);
    int m = 1;
    while (m < *want && (size_t)m < n) {
        uint8_t c = (uint8_t)s[m];
        if (c < lo || c > hi) break;
        lo = 0x80, hi = 0xBF;
        m++;
    }
    return m;
}

int utf8_decode(const char *s, size_t n, uint32_t *cp)
{
    static const uint8_t first_mask[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    *cp = 0xFFFD;
    if (n == 0) return -1;
    int want, m = matched_len(s, n, &want);
    if (want == 0) return 0;
    if (m < want) return (size_t)m == n ? -1 : 0;
    uint32_t c = (uint8_t)s[0] & first_mask[want];
    for (int i = 1; i < want; i++) c = c << 6 | ((uint8_t)s[i] & 0x3F);
    *cp = c;
    return want;
}

int utf8_encode(char *out, uint32_t cp)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    int n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, cp >>= 6) out[i] = (char)(0x80 | (cp & 0x3F));
    out[0] = (char)((0xF00 >> n & 0xF0) | cp);
    return n;
}

bool utf8_valid(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = utf8_decode(s + i, n - i, &cp);
        if (len <= 0) return false;
        i += (size_t)len;
    }
    return true;
}

int utf8_bad_len(const char *s, size_t n)
{
    if (n == 0) return 0;
    int want;
    return matched_len(s, n, &want);
}

size_t utf8_complete_len(const char *s, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        uint32_t cp;
        if (((uint8_t)s[n - back] & 0xC0) == 0x80) continue; /* look for the first byte */
        return utf8_decode(s + n - back, back, &cp) == -1 ? n - back : n;
    }
    return n;
}

bool utf8_is_control(uint32_t cp)
{
    if (cp < 0xA0) return cp < ' ' || cp >= 127;
    return cp == 0x61C || cp == 0x200E || cp == 0x200F || (cp >= 0x2028 && cp <= 0x202E) ||
           (cp >= 0x2066 && cp <= 0x2069);
}

void utf8_show(char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = utf8_decode(s + i, n - i, &cp);
        bool control = len > 0 && utf8_is_control(cp);
        if (control) memset(s + i, cp == '\n' || cp == '\t' ? ' ' : '?', (size_t)len);
        i += len > 0 ? (size_t)len : 1;
    }
}

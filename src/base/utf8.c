/* utf8.c - see utf8.h. Table 3-7 of the Unicode standard defines well-formed sequences. */
#include "utf8.h"

#include <stdio.h>
#include <string.h>

/* Return the length of a sequence with first byte c; 0 if c cannot be the first byte. Set *lo and
 * *hi to the range of its second byte. */
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

/* Return the number of bytes of s that match the sequence at s. Set *want to the complete length of
 * the sequence, or to 0 if no sequence begins at s. */
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

/* Return 0 for an invalid sequence, -1 if the text ends within a valid sequence. The second byte's
 * range excludes overlong forms, surrogates and values above U+10FFFF, so no later check is
 * needed. */
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

/* Set the leading one bits by 0xF00 >> n, which is 0xC0, 0xE0 or 0xF0 for n of 2, 3 or 4. */
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

/* Return true for C0, DEL, C1, and the marks that change the direction of a terminal's text. Such
 * marks can make a log line look like another line (CVE-2021-42574). */
bool utf8_is_control(uint32_t cp)
{
    if (cp < 0xA0) return cp < ' ' || cp >= 127;
    return cp == 0x61C || cp == 0x200E || cp == 0x200F || (cp >= 0x2028 && cp <= 0x202E) ||
           (cp >= 0x2066 && cp <= 0x2069);
}

/* Keep the text's length, so that callers may use fixed buffers. */
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

const char *utf8_first_text(const char *s, size_t n, char out[24])
{
    uint32_t cp;
    if (n == 0) return "the end";
    int len = utf8_decode(s, n, &cp);
    if (len > 0 && !utf8_is_control(cp))
        snprintf(out, 24, "'%.*s'", len, s);
    else
        snprintf(out, 24, "the byte 0x%02x", (unsigned char)s[0]);
    return out;
}

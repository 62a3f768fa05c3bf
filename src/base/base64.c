/* base64.c - base64 of RFC 4648. It is used for rank files, the charsmap of tokenizer.json and
 * embeddings. */
#include "base64.h"

#include <stdint.h>

static int digit(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Accept texts with and without padding. Reject a single leftover digit, which leaves six unused
 * bits. */
bool base64_decode(const char *p, size_t n, struct buf *out)
{
    uint32_t bits = 0;
    int n_bit = 0;
    while (n > 0 && p[n - 1] == '=') n--;
    for (size_t i = 0; i < n; i++) {
        int d = digit(p[i]);
        if (d < 0) return false;
        bits = bits << 6 | (uint32_t)d;
        n_bit += 6;
        if (n_bit < 8) continue;
        n_bit -= 8;
        buf_add_char(out, (char)(bits >> n_bit));
    }
    return n_bit < 6 && !out->failed;
}

void base64_encode(const void *data, size_t n, struct buf *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *byte = data;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t bits = (uint32_t)byte[i] << 16;
        if (i + 1 < n) bits |= (uint32_t)byte[i + 1] << 8;
        if (i + 2 < n) bits |= byte[i + 2];
        buf_add_char(out, digits[bits >> 18]);
        buf_add_char(out, digits[bits >> 12 & 63]);
        buf_add_char(out, i + 1 < n ? digits[bits >> 6 & 63] : '=');
        buf_add_char(out, i + 2 < n ? digits[bits & 63] : '=');
    }
}

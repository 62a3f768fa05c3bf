/* json_put.c - write texts and numbers as JSON. This file does not use jansson, so code that only
 * writes JSON can be linked without a parser. */
#include "json.h"
#include "utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* letters of two-character escapes; 0: \u00NN */
static const char short_form[0x20] = {
    ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r',
};

static void put_char(struct buf *b, unsigned char c)
{
    if (c == '"' || c == '\\')
        buf_addf(b, "\\%c", c);
    else if (c < 0x20 && short_form[c])
        buf_addf(b, "\\%c", short_form[c]);
    else
        buf_addf(b, "\\u%04x", c);
}

void json_put_text(struct buf *b, const char *text, size_t n)
{
    size_t i = 0, plain = 0; /* text[plain, i) needs no escape and is not appended yet */
    buf_add_char(b, '"');
    while (i < n) {
        uint32_t cp;
        int len = utf8_decode(text + i, n - i, &cp);
        if (len > 0 && cp >= 0x20 && cp != '"' && cp != '\\') {
            i += (size_t)len;
            continue;
        }
        buf_add(b, text + plain, i - plain);
        if (len > 0)
            put_char(b, (unsigned char)cp);
        else
            buf_add_utf8(b, 0xFFFD);
        i += len > 0 ? 1 : (size_t)utf8_bad_len(text + i, n - i);
        plain = i;
    }
    buf_add(b, text + plain, n - plain);
    buf_add_char(b, '"');
}

/* Count the bytes as json_put_text writes them. An invalid sequence becomes U+FFFD, which has 3
 * bytes. */
size_t json_text_bytes(const char *text, size_t n)
{
    size_t sum = 2;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = utf8_decode(text + i, n - i, &cp);
        bool two = len > 0 && (cp == '"' || cp == '\\' || (cp < 0x20 && short_form[cp]));
        sum += len <= 0 ? 3 : two ? 2 : cp < 0x20 ? 6 : (size_t)len;
        i += len > 0 ? (size_t)len : (size_t)utf8_bad_len(text + i, n - i);
    }
    return sum;
}

/* Append x with `digits` digits, or with the smallest larger number of digits that reads back as
 * x. */
static void put_number(struct buf *b, double x, int digits, bool as_float)
{
    char text[48];
    if (!isfinite(x)) {
        buf_add_text(b, "null");
        return;
    }
    do snprintf(text, sizeof text, "%.*g", digits, x);
    while ((as_float ? (double)strtof(text, NULL) : strtod(text, NULL)) != x && ++digits <= 17);
    char *comma = strchr(text, ','); /* decimal point of the user's locale */
    if (comma) *comma = '.';
    buf_add_text(b, text);
    if (!strpbrk(text, ".e")) buf_add_text(b, ".0");
}

/* Append a double. A normal number preserves any decimal of 15 digits (float: 6). Only subnormal
 * numbers need a test of fewer digits. */
void json_put_real(struct buf *b, double x)
{
    put_number(b, x, fabs(x) < 1e-300 ? 1 : 15, false);
}

void json_put_float(struct buf *b, float x)
{
    put_number(b, (double)x, fabsf(x) < 1e-37f ? 1 : 6, true);
}

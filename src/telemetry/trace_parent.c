/* trace_parent.c - the headers of W3C Trace Context, level 1.
 *
 *   00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
 *   |  |                                |                '- flags; bit 0: sampled
 *   |  |                                '- id of the parent's span
 *   |  '- id of the trace
 *   '- version
 *
 * A value of a later version may have further fields, each after a hyphen. Digits are lower case.
 * Ids of zeros are malformed. */
#include "telemetry_impl.h"

#include "base/text.h"

#include <string.h>

enum { TRACE_AT = 3, SPAN_AT = 36, FLAGS_AT = 53, PARENT_CHARS = 55 };

/* Read n bytes of lower-case hexadecimal digits. Return false for another character. */
static bool read_hex(uint8_t *out, const char *text, size_t n)
{
    for (size_t i = 0; i < 2 * n; i++) {
        const int digit = text[i] >= 'A' && text[i] <= 'F' ? -1 : hex_digit(text[i]);
        if (digit < 0) return false;
        out[i / 2] = (uint8_t)(out[i / 2] << 4 | digit);
    }
    return true;
}

static bool is_zero(const uint8_t *id, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (id[i]) return false;
    return true;
}

bool trace_parent_read(struct trace_context *out, const char *text)
{
    struct trace_context c = {0};
    uint8_t version = 0, flags = 0;
    if (strnlen(text, PARENT_CHARS) < PARENT_CHARS || text[TRACE_AT - 1] != '-' ||
        text[SPAN_AT - 1] != '-' || text[FLAGS_AT - 1] != '-')
        return false;
    if (!read_hex(&version, text, 1) || !read_hex(c.trace, text + TRACE_AT, TRACE_ID_BYTES) ||
        !read_hex(c.span, text + SPAN_AT, SPAN_ID_BYTES) || !read_hex(&flags, text + FLAGS_AT, 1))
        return false;
    const char next = text[PARENT_CHARS];
    if (version == 0xff || (next && (version == 0 || next != '-'))) return false;
    if (is_zero(c.trace, sizeof c.trace) || is_zero(c.span, sizeof c.span)) return false;
    c.sampled = flags & 1;
    *out = c;
    return true;
}

static void write_hex(char *out, const uint8_t *id, size_t n)
{
    for (size_t i = 0; i < 2 * n; i++)
        out[i] = "0123456789abcdef"[i % 2 ? id[i / 2] & 15 : id[i / 2] >> 4];
}

void trace_parent_put(const struct trace_context *c, char out[static TRACE_PARENT_BYTES])
{
    memcpy(out, "00-", 3);
    write_hex(out + TRACE_AT, c->trace, TRACE_ID_BYTES);
    out[SPAN_AT - 1] = '-';
    write_hex(out + SPAN_AT, c->span, SPAN_ID_BYTES);
    memcpy(out + FLAGS_AT - 1, c->sampled ? "-01" : "-00", 4);
}

bool trace_state_valid(const char *text)
{
    size_t n = 0;
    while (n <= TRACE_STATE_MAX && text[n] >= ' ' && text[n] <= '~') n++;
    return n > 0 && n <= TRACE_STATE_MAX && text[n] == 0;
}

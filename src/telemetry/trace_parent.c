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

/* ---- tracestate: "vendor=value,tenant@vendor=value" ---- */

static const char key_chars[] = "abcdefghijklmnopqrstuvwxyz0123456789_-*/";

/* Return the length of the member's key; 0 if it is malformed. */
static size_t key_length(const char *text)
{
    enum { KEY_MAX = 256, TENANT_MAX = 241, VENDOR_MAX = 14 };
    const bool letter = text[0] >= 'a' && text[0] <= 'z', digit = text[0] >= '0' && text[0] <= '9';
    const size_t n = strspn(text, key_chars);
    if (!letter && !digit) return 0;
    if (text[n] != '@') return letter && n <= KEY_MAX ? n : 0;
    const char *vendor = text + n + 1;
    const size_t n_vendor = strspn(vendor, key_chars);
    const bool begins = *vendor >= 'a' && *vendor <= 'z';
    return begins && n <= TENANT_MAX && n_vendor <= VENDOR_MAX ? n + 1 + n_vendor : 0;
}

/* Return the length of the member's value; 0 if it is malformed. A blank at its end does not belong
 * to it. */
static size_t value_length(const char *text)
{
    enum { VALUE_MAX = 256 };
    size_t n = 0;
    while (text[n] >= ' ' && text[n] <= '~' && text[n] != ',' && text[n] != '=') n++;
    while (n > 0 && text[n - 1] == ' ') n--;
    return n <= VALUE_MAX ? n : 0;
}

bool trace_state_valid(const char *text)
{
    enum { MEMBER_MAX = 32 };
    static const char blanks[] = " \t";
    struct {
        const char *text;
        size_t n;
    } key[MEMBER_MAX];
    int n = 0;
    if (strnlen(text, TRACE_STATE_MAX + 1) > TRACE_STATE_MAX) return false;
    for (const char *at = text; *(at += strspn(at, blanks));) {
        const size_t n_key = key_length(at);
        if (n_key > 0) {
            const size_t n_value = at[n_key] == '=' ? value_length(at + n_key + 1) : 0;
            if (n_value == 0 || n == MEMBER_MAX) return false;
            for (int i = 0; i < n; i++)
                if (key[i].n == n_key && memcmp(key[i].text, at, n_key) == 0) return false;
            key[n].text = at;
            key[n++].n = n_key;
            at += n_key + 1 + n_value;
            at += strspn(at, blanks);
        }
        if (*at && *at++ != ',') return false; /* a member may be empty */
    }
    return n > 0;
}

/* jinja_text.c - values as text: Python's str() and repr(), json.dumps, and code points of strings.
 *
 * Text is created at the end of render.out. Printed text remains in render.out. out_take moves
 * other text to a value. Therefore printed text and values need only one buffer and one limit. */
#include "chat/jinja_impl.h"

#include "base/check.h"
#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Report a failure of the buffer as a failure of the rendering. Other functions append without
 * checks, and call out_take(r, r->out.n) to report a failure. */
struct val out_take(struct render *r, size_t mark)
{
    if (r->out.limited)
        jinja_fail_code(r, ERR_LIMIT, "the output is larger than %zu bytes", r->out.max);
    else if (r->out.failed)
        render_no_memory(r, r->out.n);
    if (r->rc != 0) return VAL_UNDEFINED;
    CHECK(mark <= r->out.n, "byte %zu of %zu", mark, r->out.n);
    struct val v = val_copy_text(r, r->out.data ? r->out.data + mark : "", r->out.n - mark);
    r->out.n = mark;
    return v;
}

/* Copy twice as many bytes each time. A copy per text took 5 ns for each byte of 'a' * n. */
void out_repeat(struct render *r, const char *s, size_t n, int64_t count)
{
    struct buf *b = &r->out;
    if (n == 0 || count <= 0) return;
    const size_t total = (uint64_t)count > SIZE_MAX / 2 / n ? SIZE_MAX / 2 : n * (size_t)count;
    if (!buf_room(b, total) || !render_charge(r, total / 64)) return;
    const size_t mark = b->n;
    buf_add(b, s, n);
    while (b->n - mark < total) {
        const size_t done = b->n - mark, more = total - done < done ? total - done : done;
        memcpy(b->data + b->n, b->data + mark, more);
        b->n += more;
    }
    b->data[b->n] = 0;
}

/* ---- str and repr ---- */

/* Get the digits and the decimal exponent of the shortest text with the value d > 0. Return the
 * number of digits. */
static int shortest(double d, char digits[20], int *exponent)
{
    char text[40];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, d);
        if (strtod(text, NULL) == d) break;
    }
    int n = 0;
    const char *p = text;
    for (; *p && *p != 'e'; p++)
        if (*p != '.' && n < 19) digits[n++] = *p;
    *exponent = (int)strtol(p + 1, NULL, 10);
    while (n > 1 && digits[n - 1] == '0') n--;
    return n;
}

/* Append Python's repr of a float: the shortest digits that read back as d. The text has an
 * exponent if the decimal exponent is outside of [-4, 15]. A whole number ends with ".0".
 *
 *   digits 125, exponent  1  ->  12.5           digits 5, exponent 16  ->  5e+16
 *   digits 125, exponent  4  ->  12500.0        digits 5, exponent -5  ->  5e-05
 *   digits 125, exponent -2  ->  0.0125 */
void out_real(struct buf *b, double d)
{
    char digits[20];
    int exponent = 0;
    if (isnan(d)) {
        buf_add_text(b, "nan");
        return;
    }
    if (signbit(d)) buf_add_char(b, '-');
    d = fabs(d);
    if (isinf(d) || d == 0) {
        buf_add_text(b, d == 0 ? "0.0" : "inf");
        return;
    }
    int n = shortest(d, digits, &exponent);
    if (exponent < -4 || exponent >= 16) {
        buf_add(b, digits, 1);
        if (n > 1) buf_add_char(b, '.');
        buf_add(b, digits + 1, (size_t)n - 1);
        buf_addf(b, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    if (exponent < 0) buf_add_text(b, "0.");
    for (int i = exponent + 1; i < 0; i++) buf_add_char(b, '0');
    for (int i = 0; i < n || i <= exponent; i++) {
        if (i == exponent + 1 && exponent >= 0) buf_add_char(b, '.');
        buf_add_char(b, i < n ? digits[i] : '0');
    }
    if (exponent >= n - 1) buf_add_text(b, ".0");
}

/* Append a text in quotes as Python's repr does. Use double quotes only if the text contains ' and
 * no ". Code points above 127 are unchanged. */
static void out_repr_text(struct render *r, struct val v)
{
    char quote = memchr(v.s, '\'', v.n) && !memchr(v.s, '"', v.n) ? '"' : '\'';
    struct buf *b = &r->out;
    if (!render_charge(r, v.n / 4)) return;
    buf_add_char(b, quote);
    for (uint32_t i = 0; i < v.n; i++) {
        unsigned char c = (unsigned char)v.s[i];
        if (c == (unsigned char)quote || c == '\\')
            buf_addf(b, "\\%c", c);
        else if (c == '\n' || c == '\r' || c == '\t')
            buf_addf(b, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (c < 0x20 || c == 0x7F)
            buf_addf(b, "\\x%02x", c);
        else
            buf_add_char(b, (char)c);
    }
    buf_add_char(b, quote);
}

/* Append the items with ", " between them, each by repr. */
static void out_items(struct render *r, const struct list *l)
{
    for (uint32_t i = 0; i < l->n && r->rc == 0; i++) {
        if (i > 0) buf_add_text(&r->out, ", ");
        out_repr(r, l->v[i]);
    }
}

/* Append the entries as {key: value, ...}, each by repr. */
static void out_pairs(struct render *r, const struct dict *d)
{
    buf_add_char(&r->out, '{');
    for (uint32_t i = 0; i < d->n && r->rc == 0; i++) {
        if (i > 0) buf_add_text(&r->out, ", ");
        out_repr(r, d->v[i].key);
        buf_add_text(&r->out, ": ");
        out_repr(r, d->v[i].value);
    }
    buf_add_char(&r->out, '}');
}

/* Append a list, tuple, dict or namespace. A tuple of one item keeps its comma: (1,). A list that
 * contains itself fails at the recursion limit. */
static void out_container(struct render *r, struct val v)
{
    if (!render_enter(r)) return;
    if (v.kind == V_DICT) {
        out_pairs(r, v.dict);
    } else if (v.kind == V_NAMESPACE) {
        buf_add_text(&r->out, "<Namespace ");
        out_pairs(r, v.dict);
        buf_add_char(&r->out, '>');
    } else {
        buf_add_char(&r->out, v.kind == V_LIST ? '[' : '(');
        out_items(r, v.list);
        if (v.kind == V_TUPLE && v.list->n == 1) buf_add_char(&r->out, ',');
        buf_add_char(&r->out, v.kind == V_LIST ? ']' : ')');
    }
    render_leave(r);
}

/* Items of a list are written by repr, and printed values by str. repr and str differ for texts and
 * for undefined. */
void out_repr(struct render *r, struct val v)
{
    if (r->out.failed) out_take(r, r->out.n);
    if (v.kind == V_TEXT)
        out_repr_text(r, v);
    else if (v.kind == V_UNDEFINED)
        buf_add_text(&r->out, "Undefined");
    else
        out_str(r, v);
}

/* Undefined is an empty text, so {{ message.name }} prints nothing if the field is absent. */
void out_str(struct render *r, struct val v)
{
    switch (v.kind) {
    case V_UNDEFINED:
        break;
    case V_NONE:
        buf_add_text(&r->out, "None");
        break;
    case V_BOOL:
        buf_add_text(&r->out, v.b ? "True" : "False");
        break;
    case V_INT:
        buf_addf(&r->out, "%lld", (long long)v.i);
        break;
    case V_REAL:
        out_real(&r->out, v.d);
        break;
    case V_TEXT:
        buf_add(&r->out, v.s, v.n);
        break;
    case V_LIST:
    case V_TUPLE:
    case V_DICT:
    case V_NAMESPACE:
        out_container(r, v);
        break;
    default:
        buf_addf(&r->out, "<%s>", val_type(v));
        break;
    }
    if (r->out.failed) out_take(r, r->out.n);
}

/* Return a text unchanged, with its mark `safe`. */
struct val val_str(struct render *r, struct val v)
{
    size_t mark = r->out.n;
    if (v.kind == V_TEXT) return v;
    out_str(r, v);
    return out_take(r, mark);
}

/* ---- json.dumps ---- */

/* Append one unit of UTF-16 as \uXXXX. */
static void json_escape(struct buf *b, uint32_t unit)
{
    buf_addf(b, "\\u%04x", unit);
}

/* Append one code point of k bytes as json.dumps does. Code points from 127 on are escaped if
 * `ascii` is true; code points above 0xFFFF become surrogate pairs. */
static void json_char(struct buf *b, const char *s, int k, uint32_t cp, bool ascii)
{
    static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
    const char *p = cp > 0 && cp < 128 ? strchr(from, (int)cp) : NULL;
    if (p)
        buf_addf(b, "\\%c", to[p - from]);
    else if (cp < 0x20)
        json_escape(b, cp);
    else if (!ascii || cp < 0x7F)
        buf_add(b, s, (size_t)k);
    else if (cp < 0x10000)
        json_escape(b, cp);
    else {
        json_escape(b, 0xD800 + ((cp - 0x10000) >> 10));
        json_escape(b, 0xDC00 + ((cp - 0x10000) & 0x3FF));
    }
}

/* Append a JSON string. Invalid UTF-8 becomes U+FFFD, so the result is always valid. */
static void json_string(struct buf *b, struct val v, bool ascii)
{
    buf_add_char(b, '"');
    for (uint32_t i = 0; i < v.n;) {
        uint32_t cp;
        int k = utf8_decode(v.s + i, v.n - i, &cp);
        if (k <= 0) {
            k = utf8_bad_len(v.s + i, v.n - i);
            json_char(b, "\xEF\xBF\xBD", 3, 0xFFFD, ascii);
        } else {
            json_char(b, v.s + i, k, cp, ascii);
        }
        i += (uint32_t)k;
    }
    buf_add_char(b, '"');
}

/* Append a line break and the indentation if the style has an indentation. */
static void json_break(struct render *r, const struct json_style *style, int level)
{
    if (!style->indent) return;
    buf_add_char(&r->out, '\n');
    for (int i = 0; i < level; i++) buf_add(&r->out, style->indent, style->n_indent);
}

/* Append a list as JSON. An empty list is [] even if the style has an indentation, as in
 * json.dumps. */
static void json_list(struct render *r, const struct list *l, const struct json_style *style,
                      int level)
{
    buf_add_char(&r->out, '[');
    for (uint32_t i = 0; i < l->n && r->rc == 0; i++) {
        if (i > 0) buf_add(&r->out, style->item_sep, style->n_item_sep);
        json_break(r, style, level + 1);
        out_json(r, l->v[i], style, level + 1);
    }
    if (l->n > 0) json_break(r, style, level);
    buf_add_char(&r->out, ']');
}

/* Append a key. JSON has only string keys, so Python converts numbers and None: {1: 2} is {"1":
 * 2}. */
static void json_key(struct render *r, struct val key, const struct json_style *style)
{
    if (key.kind == V_TEXT) {
        json_string(&r->out, key, style->ascii);
    } else if (val_is_number(key) || key.kind == V_NONE) {
        buf_add_char(&r->out, '"');
        out_json(r, key, style, 0);
        buf_add_char(&r->out, '"');
    } else {
        jinja_fail(r, "%s cannot be a key in JSON", val_type(key));
    }
}

/* Return a copy of the entries of d, sorted by key. Insertion takes quadratic time, but val_compare
 * charges each comparison. */
static const struct val_pair *sorted_pairs(struct render *r, const struct dict *d)
{
    struct val_pair *v = render_push(r, d->n, sizeof *v);
    for (uint32_t i = 0; v && i < d->n; i++) {
        uint32_t k = i;
        for (; k > 0 && r->rc == 0 && val_compare(r, v[k - 1].key, d->v[i].key) > 0; k--)
            v[k] = v[k - 1];
        v[k] = d->v[i];
    }
    return v;
}

/* Append a dict in the order of insertion, or sorted by key if style->sort_keys. */
static void json_dict(struct render *r, const struct dict *d, const struct json_style *style,
                      int level)
{
    const struct val_pair *v = style->sort_keys && d->n > 0 ? sorted_pairs(r, d) : d->v;
    buf_add_char(&r->out, '{');
    for (uint32_t i = 0; i < d->n && r->rc == 0; i++) {
        if (i > 0) buf_add(&r->out, style->item_sep, style->n_item_sep);
        json_break(r, style, level + 1);
        json_key(r, v[i].key, style);
        buf_add(&r->out, style->key_sep, style->n_key_sep);
        out_json(r, v[i].value, style, level + 1);
    }
    if (d->n > 0) json_break(r, style, level);
    buf_add_char(&r->out, '}');
}

/* Append a float. NaN and Infinity are not JSON, but json.dumps writes them. */
static void json_number(struct buf *b, double d)
{
    if (isnan(d))
        buf_add_text(b, "NaN");
    else if (isinf(d))
        buf_add_text(b, d < 0 ? "-Infinity" : "Infinity");
    else
        out_real(b, d);
}

/* level: number of enclosing containers, for the indentation. Fail for undefined and for
 * functions. */
void out_json(struct render *r, struct val v, const struct json_style *style, int level)
{
    if (!render_enter(r)) return;
    switch (v.kind) {
    case V_NONE:
        buf_add_text(&r->out, "null");
        break;
    case V_BOOL:
        buf_add_text(&r->out, v.b ? "true" : "false");
        break;
    case V_INT:
        buf_addf(&r->out, "%lld", (long long)v.i);
        break;
    case V_REAL:
        json_number(&r->out, v.d);
        break;
    case V_TEXT:
        if (render_charge(r, v.n / 4)) json_string(&r->out, v, style->ascii);
        break;
    case V_LIST:
    case V_TUPLE:
        json_list(r, v.list, style, level);
        break;
    case V_DICT:
        json_dict(r, v.dict, style, level);
        break;
    default:
        jinja_fail(r, "%s cannot be written as JSON", val_type(v));
        break;
    }
    if (r->out.failed) out_take(r, r->out.n);
    render_leave(r);
}

/* ---- code points ---- */

/* Return the length of the code point at s, or of an invalid sequence, at least 1. */
size_t text_step(const char *s, size_t n)
{
    uint32_t cp;
    int k = utf8_decode(s, n, &cp);
    return k > 0 ? (size_t)k : (size_t)utf8_bad_len(s, n);
}

/* Return the number of code points. */
uint32_t text_count(struct render *r, struct val v)
{
    uint32_t count = 0;
    if (!render_charge(r, v.n / 8)) return 0;
    for (size_t i = 0; i < v.n; count++) i += text_step(v.s + i, v.n - i);
    return count;
}

/* Return the byte offset of code point i_cp; v.n if the text is shorter. */
size_t text_offset(struct render *r, struct val v, uint32_t i_cp)
{
    size_t i = 0;
    while (i_cp-- > 0 && i < v.n) i += text_step(v.s + i, v.n - i);
    render_charge(r, i / 8);
    return i;
}

/* Return true if Python's str.strip() removes cp. */
static bool is_space(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || (cp >= 28 && cp <= 32) || cp == 0x85 || cp == 0xA0 ||
           cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

/* Return the length of the white space character at s; 0 if none. */
size_t text_space(const char *s, size_t n)
{
    uint32_t cp;
    int k = utf8_decode(s, n, &cp);
    return k > 0 && is_space(cp) ? (size_t)k : 0;
}

size_t text_space_back(const char *s, size_t n)
{
    for (size_t k = 1; k <= 3 && k <= n; k++)
        if ((s[n - k] & 0xC0) != 0x80) return text_space(s + n - k, k) == k ? k : 0;
    return 0;
}

struct val text_strip(struct val v, unsigned sides)
{
    size_t k;
    while (sides & STRIP_LEFT && v.n > 0 && (k = text_space(v.s, v.n)) > 0) {
        v.s += k;
        v.n -= (uint32_t)k;
    }
    while (sides & STRIP_RIGHT && v.n > 0 && (k = text_space_back(v.s, v.n)) > 0)
        v.n -= (uint32_t)k;
    return v;
}

const char *text_find(struct render *r, struct val hay, size_t from, struct val needle)
{
    if (from > hay.n || !render_charge(r, 1 + (hay.n - from) / 256)) return NULL;
    if (needle.n == 0) return hay.s + from;
    return memmem(hay.s + from, hay.n - from, needle.s, needle.n);
}

/* jinja_format.c - formatting as in Python: "%5.2f" % x and "{0:>8}".format(x).
 *
 *   "%-8s|%05.1f" % (a, b)          percent_one    each conversion becomes a struct spec
 *   "{0:>8}|{x!r}|{:,}".format()    braces_one     the same after the colon
 *                                   out_spec       writes a value by its spec
 *
 * The conversions that templates use are supported. Unknown types of numbers are written as
 * integers. */
#include "chat/jinja_impl.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH_MAX = 4096 };

/* Format specification: [[fill]align][sign][#][0][width][,][.precision][type] */
struct spec {
    char fill[4]; /* one code point in UTF-8 [n_fill] */
    int n_fill;
    char align, sign, type; /* 0 if absent; align: one of < > ^ = */
    bool comma;             /* true: thousands are grouped */
    int width, precision;   /* -1 if absent */
};

/* Read digits at s[*i]. Return -1 if there are no digits. Large numbers become WIDTH_MAX, so that a
 * width cannot exhaust memory. */
static int read_number(const char *s, size_t n, size_t *i)
{
    int x = -1;
    for (; *i < n && s[*i] >= '0' && s[*i] <= '9'; (*i)++)
        x = (x < 0 ? 0 : x) * 10 + (s[*i] - '0') % 10;
    return x > WIDTH_MAX || x < -1 ? WIDTH_MAX : x;
}

/* Parse a format specification. The fill is any code point that an alignment sign follows. A
 * leading 0 sets the fill "0" and the alignment "=". */
static struct spec spec_parse(const char *s, size_t n)
{
    struct spec p = {.fill = " ", .n_fill = 1, .width = -1, .precision = -1};
    size_t i = 0, k = n > 0 ? text_step(s, n) : 0;
    if (k < n && strchr("<>^=", s[k]) && s[k]) {
        memcpy(p.fill, s, k);
        p.n_fill = (int)k;
        i = k;
    }
    if (i < n && s[i] && strchr("<>^=", s[i])) p.align = s[i++];
    if (i < n && s[i] && strchr("+- ", s[i])) p.sign = s[i++];
    if (i < n && s[i] == '0' && !p.align) {
        p.fill[0] = '0';
        p.align = '=';
        i++;
    }
    p.width = read_number(s, n, &i);
    if (i < n && s[i] == ',') p.comma = ++i;
    if (i < n && s[i] == '.') {
        i++;
        p.precision = read_number(s, n, &i);
    }
    if (i < n) p.type = s[i];
    return p;
}

/* Insert commas: write "-1234.5" as "-1,234.5" to `out`, which must be large enough. */
static void group_thousands(char *out, const char *digits)
{
    size_t n_whole = strspn(digits, "0123456789");
    for (size_t i = 0; i < n_whole; i++) {
        if (i > 0 && (n_whole - i) % 3 == 0) *out++ = ',';
        *out++ = digits[i];
    }
    memcpy(out, digits + n_whole, strlen(digits + n_whole) + 1);
}

/* Write the digits of the absolute value of v to text[600]. */
static void number_digits(struct render *r, struct val v, const struct spec *p, char *text)
{
    char type = p->type ? p->type : v.kind == V_REAL ? 'r' : 'd';
    bool fits = v.kind == V_REAL && v.d > -9e18 && v.d < 9e18;
    int64_t i = fits ? (int64_t)v.d : v.kind == V_REAL ? 0 : v.kind == V_BOOL ? v.b : v.i;
    unsigned long long u = i < 0 ? 0ull - (unsigned long long)i : (unsigned long long)i;
    double d = val_as_real(v) < 0 ? -val_as_real(v) : val_as_real(v);
    int precision = p->precision < 0 ? 6 : p->precision > 100 ? 100 : p->precision;
    switch (type) {
    case 'x':
        snprintf(text, 600, "%llx", u);
        break;
    case 'X':
        snprintf(text, 600, "%llX", u);
        break;
    case 'o':
        snprintf(text, 600, "%llo", u);
        break;
    case 'f':
    case 'F':
        snprintf(text, 600, "%.*f", precision, d);
        break;
    case '%':
        snprintf(text, 600, "%.*f%%", precision, d * 100);
        break;
    case 'e':
        snprintf(text, 600, "%.*e", precision, d);
        break;
    case 'g':
        snprintf(text, 600, "%.*g", precision, d);
        break;
    case 'r': {
        struct buf b = {0};
        if (p->precision >= 0)
            buf_addf(&b, "%.*g", precision, d);
        else
            out_real(&b, d);
        snprintf(text, 600, "%s", b.data ? b.data : "");
        if (b.failed) render_no_memory(r, b.n);
        buf_deinit(&b);
        break;
    }
    default:
        snprintf(text, 600, "%llu", u);
        break;
    }
}

/* Write sign and body in a field of the spec's width. The alignment '=' puts the fill between sign
 * and digits. */
static void out_padded(struct render *r, const struct spec *p, const char *sign, struct val body,
                       char align)
{
    int pad = p->width - (int)text_count(r, body) - (int)strlen(sign);
    int left = pad <= 0 ? 0 : align == '>' ? pad : align == '^' ? pad / 2 : 0;
    out_repeat(r, p->fill, (size_t)p->n_fill, left);
    buf_add_text(&r->out, sign);
    if (align == '=') out_repeat(r, p->fill, (size_t)p->n_fill, pad);
    buf_add(&r->out, body.s, body.n);
    if (align != '=') out_repeat(r, p->fill, (size_t)p->n_fill, pad - left);
}

/* Append a value by its specification. A bool without a type is a text ("True"), as in Python. An
 * integer conversion of a real outside of int64 fails. */
static void out_spec(struct render *r, struct val v, const struct spec *p)
{
    char digits[600], grouped[840];
    if (val_is_number(v) && p->type != 's' && !(v.kind == V_BOOL && !p->type)) {
        if (v.kind == V_REAL && !(v.d > -9e18 && v.d < 9e18) && p->type &&
            strchr("dxXo", p->type)) {
            jinja_fail(r, "this number cannot be an integer");
            return;
        }
        number_digits(r, v, p, digits);
        if (p->comma) group_thousands(grouped, digits);
        const char *body = p->comma ? grouped : digits;
        const char *sign = val_as_real(v) < 0 ? "-"
                           : p->sign == '+'   ? "+"
                           : p->sign == ' '   ? " "
                                              : "";
        out_padded(r, p, sign, val_text(body, strlen(body)), p->align ? p->align : '>');
        return;
    }
    v = val_str(r, v);
    if (p->precision >= 0) v.n = (uint32_t)text_offset(r, v, (uint32_t)p->precision);
    if (r->rc == 0) out_padded(r, p, "", v, p->align && p->align != '=' ? p->align : '<');
}

/* ---- "%" ---- */

/* Format one conversion after '%'. Return the offset after the conversion. */
static size_t percent_one(struct render *r, struct val format, size_t i, const struct args *a,
                          uint32_t *next)
{
    struct spec p = {.fill = " ", .n_fill = 1, .align = '>', .width = -1, .precision = -1};
    struct val v = VAL_UNDEFINED;
    const char *close =
        i < format.n && format.s[i] == '(' ? memchr(format.s + i, ')', format.n - i) : NULL;
    if (close && a->n == 1 && a->v[0].kind == V_DICT) {
        size_t end = (size_t)(close - format.s);
        const struct val name = val_text(format.s + i + 1, end - i - 1);
        const struct val *found = dict_find(r, a->v[0].dict, name);
        v = found ? *found
                  : jinja_fail(r, "the format string's \"%.*s\" is not given", (int)name.n, name.s);
        i = end + 1;
    } else if (!(i < format.n && format.s[i] == '%')) {
        v = *next < a->n ? a->v[*next]
                         : jinja_fail(r, "not enough arguments for the format string");
        (*next)++;
    }
    for (; i < format.n && format.s[i] && strchr("-+ 0#", format.s[i]); i++) {
        if (format.s[i] == '-') p.align = '<';
        if (format.s[i] == '+' || format.s[i] == ' ') p.sign = format.s[i];
        if (format.s[i] == '0' && p.align == '>') p.fill[0] = '0', p.align = '=';
    }
    p.width = read_number(format.s, format.n, &i);
    if (i < format.n && format.s[i] == '.') {
        i++;
        p.precision = read_number(format.s, format.n, &i);
    }
    p.type = i < format.n ? format.s[i] : 0;
    if (p.type == 'i' || p.type == 'u') p.type = 'd';
    if (p.type == '%') {
        buf_add_char(&r->out, '%');
    } else if (p.type == 's' || p.type == 'r') {
        size_t mark = r->out.n;
        if (p.type == 'r') out_repr(r, v);
        struct val text = p.type == 'r' ? out_take(r, mark) : val_str(r, v);
        p.type = 's';
        if (p.align == '=') p.align = '>';
        if (r->rc == 0) out_spec(r, text, &p);
    } else if (p.type && strchr("dxXofFeg", p.type) && val_is_number(v)) {
        out_spec(r, v, &p);
    } else {
        jinja_fail(r, "\"%%%c\" cannot format %s", p.type ? p.type : ' ', val_type(v));
    }
    return i + 1;
}

/* `next` counts the positional arguments. A single dict supplies %(name)s. */
struct val text_format_percent(struct render *r, struct val format, const struct args *a, bool all)
{
    size_t mark = r->out.n;
    uint32_t next = 0;
    render_charge(r, format.n / 8);
    for (size_t i = 0; i < format.n && r->rc == 0 && !r->out.failed;) {
        if (format.s[i] == '%') {
            i = percent_one(r, format, i + 1, a, &next);
            render_charge(r, 1);
        } else {
            buf_add_char(&r->out, format.s[i++]);
        }
    }
    if (all && next < a->n && !r->out.failed)
        jinja_fail(r, "the format string does not use all arguments");
    return out_take(r, mark);
}

/* ---- "{}" ---- */

/* Return the value of a field: "", "0", "name", "name.attr", "0[key]". */
static struct val field_value(struct render *r, struct val name, const struct args *a,
                              uint32_t *next)
{
    size_t n = 0;
    struct val v = VAL_UNDEFINED;
    while (n < name.n && name.s[n] != '.' && name.s[n] != '[') n++;
    struct val head = val_text(name.s, n);
    size_t i = 0;
    int index = read_number(head.s, head.n, &i);
    if (n == 0 || (index >= 0 && i == n)) {
        uint32_t k = n == 0 ? (*next)++ : (uint32_t)index;
        v = k < a->n ? a->v[k] : jinja_fail(r, "not enough arguments for the format string");
    } else {
        const struct val *found = NULL;
        for (uint32_t k = 0; k < a->n_kw; k++)
            if (val_equal(r, a->kw[k].name, head)) found = &a->kw[k].value;
        v = found ? *found
                  : jinja_fail(r, "the format string's \"%.*s\" is not given", (int)n, head.s);
    }
    while (n < name.n && r->rc == 0) {
        size_t begin = ++n;
        while (n < name.n && name.s[n] != '.' && name.s[n] != '[' && name.s[n] != ']') n++;
        v = val_path(r, v, val_text(name.s + begin, n - begin));
        if (n < name.n && name.s[n] == ']') n++;
    }
    return v;
}

/* Format one field after '{'. Return the offset after the field's '}'. */
static size_t braces_one(struct render *r, struct val format, size_t i, const struct args *a,
                         uint32_t *next)
{
    const char *close = i < format.n ? memchr(format.s + i, '}', format.n - i) : NULL;
    if (!close) {
        jinja_fail(r, "single \"{\" in a format string");
        return format.n;
    }
    size_t end = (size_t)(close - format.s);
    const char *colon = memchr(format.s + i, ':', end - i);
    size_t name_end = colon ? (size_t)(colon - format.s) : end, n_name = name_end - i;
    bool repr = n_name >= 2 && format.s[name_end - 2] == '!';
    struct val v = field_value(r, val_text(format.s + i, repr ? n_name - 2 : n_name), a, next);
    struct spec p = spec_parse(colon ? colon + 1 : "", colon ? end - name_end - 1 : 0);
    if (repr && format.s[name_end - 1] == 'r') {
        size_t mark = r->out.n;
        out_repr(r, v);
        v = out_take(r, mark);
    }
    if (r->rc == 0) out_spec(r, v, &p);
    return end + 1;
}

/* "{{" and "}}" are literal braces. */
struct val text_format_braces(struct render *r, struct val format, const struct args *a)
{
    size_t mark = r->out.n;
    uint32_t next = 0;
    render_charge(r, format.n / 8);
    for (size_t i = 0; i < format.n && r->rc == 0 && !r->out.failed;) {
        char c = format.s[i];
        bool twice = i + 1 < format.n && format.s[i + 1] == c;
        if (c == '{' && !twice) {
            i = braces_one(r, format, i + 1, a, &next);
            render_charge(r, 1);
        } else {
            buf_add_char(&r->out, c);
            i += (c == '{' || c == '}') && twice ? 2 : 1;
        }
    }
    return out_take(r, mark);
}

/* jinja_filter.c - filters of single values: text, numbers, JSON. Filters of sequences are in
 * jinja_seq.c.
 *
 * Calls have three forms, which all use builtin_fn: value|f, map('f') and a filter block. */
#include "chat/jinja_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define FILTER(name, id, params) builtin_fn filter_##id;
#include "chat/filter.def"
#undef FILTER

/* ---- text ---- */

/* Append an ASCII character in the case of `mode`. add_ascii_case is the fast path of text_case. */
static void add_ascii_case(struct buf *b, char c, char mode, bool first, bool *word_start)
{
    bool upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z';
    bool up = mode == 'u' || (mode == 't' && *word_start) || (mode == 'c' && first);
    *word_start = !upper && !lower;
    buf_add_char(b, lower && up ? c - 32 : upper && !up ? c + 32 : c);
}

/* Copy invalid UTF-8. A letter begins a word after each character that has no case, as in
 * str.title(). */
struct val text_case(struct render *r, struct val v, char mode)
{
    size_t mark = r->out.n;
    bool word_start = true;
    v = val_str(r, v);
    render_charge(r, v.n / 2);
    for (uint32_t i = 0; i < v.n && r->rc == 0;) {
        if ((v.s[i] & 0x80) == 0) {
            add_ascii_case(&r->out, v.s[i], mode, i == 0, &word_start);
            i++;
            continue;
        }
        utf8proc_int32_t cp = 0;
        utf8proc_ssize_t k = utf8proc_iterate((const uint8_t *)v.s + i, v.n - i, &cp);
        if (k <= 0) {
            buf_add_char(&r->out, v.s[i++]);
            continue;
        }
        bool up = mode == 'u' || (mode == 't' && word_start) || (mode == 'c' && i == 0);
        buf_add_utf8(&r->out, (unsigned)(up ? utf8proc_toupper(cp) : utf8proc_tolower(cp)));
        word_start = utf8proc_toupper(cp) == cp && utf8proc_tolower(cp) == cp;
        i += (uint32_t)k;
    }
    return out_take(r, mark);
}

struct val filter_upper(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    return text_case(r, self, 'u');
}

struct val filter_lower(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    return text_case(r, self, 'l');
}

/* Convert to title case by jinja2's own rule. A word begins only after white space or -([{<. */
struct val filter_title(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    struct val v = text_case(r, self, 'l');
    bool word_start = true;
    render_charge(r, v.n / 8);
    char *s = r->rc == 0 ? render_push(r, v.n + 1, 1) : NULL;
    if (!s) return VAL_UNDEFINED;
    memcpy(s, v.s, v.n);
    for (uint32_t i = 0; i < v.n; i++) {
        if (word_start && s[i] >= 'a' && s[i] <= 'z') s[i] -= 32;
        word_start = strchr(" \t\r\n\v\f-([{<", s[i]) != NULL;
    }
    return val_text(s, v.n);
}

struct val filter_capitalize(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    return text_case(r, self, 'c');
}

struct val filter_string(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    return val_str(r, self);
}

/* Mark the text, so that |escape does not change it. */
struct val filter_safe(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    struct val v = val_str(r, self);
    v.safe = true;
    return v;
}

/* Use markupsafe's spelling of the entities. */
struct val filter_escape(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    size_t mark = r->out.n;
    struct val v = val_str(r, self);
    if (v.safe) return v;
    render_charge(r, v.n / 8);
    for (uint32_t i = 0; i < v.n && r->rc == 0; i++) {
        const char *p = v.s[i] ? strchr(from, v.s[i]) : NULL;
        if (p)
            buf_add_text(&r->out, to[p - from]);
        else
            buf_add_char(&r->out, v.s[i]);
    }
    struct val out = out_take(r, mark);
    out.safe = true;
    return out;
}

/* Implement |trim by str.strip (jinja_str.c). */
struct val filter_trim(struct render *r, struct val self, const struct args *a)
{
    struct val v = val_str(r, self);
    struct bound strip = {.self = v, .method = method_find(val_text("", 0), "strip", 5)};
    return r->rc == 0 ? strip.method->fn(r, v, a) : v;
}

/* An empty `from` matches before each code point and at the end of the text, as in Python. */
struct val text_replace(struct render *r, struct val v, struct val from, struct val to,
                        int64_t count)
{
    size_t mark = r->out.n, i = 0;
    while (count-- != 0 && r->rc == 0 && !r->out.failed) {
        const char *p = text_find(r, v, i, from);
        if (!p) break;
        size_t at = (size_t)(p - v.s);
        buf_add(&r->out, v.s + i, at - i);
        buf_add(&r->out, to.s, to.n);
        i = at + from.n;
        if (from.n == 0) {
            if (i >= v.n) break;
            size_t k = text_step(v.s + i, v.n - i);
            buf_add(&r->out, v.s + i, k);
            i += k;
        }
    }
    if (i < v.n && r->rc == 0) buf_add(&r->out, v.s + i, v.n - i);
    return out_take(r, mark);
}

struct val filter_replace(struct render *r, struct val self, const struct args *a)
{
    struct val from = val_str(r, arg(a, 0, "old") ? *arg(a, 0, "old") : VAL_UNDEFINED);
    struct val to = val_str(r, arg(a, 1, "new") ? *arg(a, 1, "new") : VAL_UNDEFINED);
    int64_t count = arg_int(r, a, 2, "count", -1);
    struct val v = val_str(r, self);
    return r->rc == 0 ? text_replace(r, v, from, to, count) : VAL_UNDEFINED;
}

/* Append a line with its indentation. Empty lines get no indentation unless `blank` is true. */
static void indent_line(struct render *r, struct val width, const char *line, size_t n, bool blank)
{
    if (n > 0 || blank) buf_add(&r->out, width.s, width.n);
    buf_add(&r->out, line, n);
}

/* width: a number of blanks, or the text of the indentation. The first line is not indented unless
 * `first` is true. */
struct val filter_indent(struct render *r, struct val self, const struct args *a)
{
    const struct val *given = arg(a, 0, "width");
    struct val width =
        given && given->kind == V_TEXT
            ? *given
            : val_binary(r, '*', val_text(" ", 1), val_int(arg_int(r, a, 0, "width", 4)));
    bool first = arg_bool(a, 1, "first", false), blank = arg_bool(a, 2, "blank", false);
    if (self.kind != V_TEXT) return jinja_fail(r, "indent needs a string, not %s", val_type(self));
    struct val v = self;
    size_t mark = r->out.n;
    for (size_t i = 0; i <= v.n && r->rc == 0;) {
        const char *p = i < v.n ? memchr(v.s + i, '\n', v.n - i) : NULL;
        size_t end = p ? (size_t)(p - v.s) : v.n;
        if (i == 0 && !first)
            buf_add(&r->out, v.s, end);
        else
            indent_line(r, width, v.s + i, end - i, blank || i == 0);
        if (p) buf_add_char(&r->out, '\n');
        if (r->out.failed) break;
        i = end + 1;
    }
    return out_take(r, mark);
}

struct val filter_center(struct render *r, struct val self, const struct args *a)
{
    struct val v = val_str(r, self);
    const int64_t width = arg_int(r, a, 0, "width", 80), count = text_count(r, v);
    if (width <= count || r->rc != 0) return v;
    const int64_t pad = width - count;
    /* like Python, put the odd blank on the left if the width is also odd */
    int64_t left = pad / 2 + (pad & width & 1);
    struct val blank = val_text(" ", 1);
    struct val text = val_binary(r, '+', val_binary(r, '*', blank, val_int(left)), v);
    return r->rc == 0 ? val_binary(r, '+', text, val_binary(r, '*', blank, val_int(pad - left)))
                      : text;
}

/* A text that exceeds the length by at most `leeway` is not changed. A longer text ends at a blank,
 * or at the length if killwords is true. Length and leeway may be any 64-bit numbers, so a
 * comparison precedes each difference. */
struct val filter_truncate(struct render *r, struct val self, const struct args *a)
{
    struct val v = self.kind == V_UNDEFINED ? val_text("", 0) : self,
               end = arg_text(r, a, 2, "end", "...");
    int64_t length = arg_int(r, a, 0, "length", 255), leeway = arg_int(r, a, 3, "leeway", 5);
    const int64_t n_end = text_count(r, end);
    if (length < n_end) return jinja_fail(r, "truncate: the length is less than that of \"end\"");
    if (leeway < 0)
        return jinja_fail(r, "truncate: leeway must be at least 0, got %lld", (long long)leeway);
    if (r->rc != 0) return v;
    const int64_t count = filter_length(r, v, a).i;
    if (count <= length || count - length <= leeway) return v;
    if (v.kind != V_TEXT) return jinja_fail(r, "truncate needs a string, not %s", val_type(v));
    struct val cut = val_text(v.s, text_offset(r, v, (uint32_t)(length - n_end)));
    const char *space = arg_bool(a, 1, "killwords", false) ? NULL : memrchr(cut.s, ' ', cut.n);
    if (space) cut.n = (uint32_t)(space - cut.s);
    return val_concat(r, cut, end);
}

/* A word is a run of characters that are not white space. */
struct val filter_wordcount(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    struct val v = val_str(r, self);
    int64_t count = 0;
    bool inside = false;
    if (!render_charge(r, v.n / 4)) return VAL_UNDEFINED;
    for (size_t i = 0; i < v.n; i += text_step(v.s + i, v.n - i)) {
        bool space = text_space(v.s + i, v.n - i) > 0;
        count += !space && !inside;
        inside = !space;
    }
    return val_int(count);
}

/* Append v, quoted for a URL. query: '+' replaces blanks, and '/' is also quoted. */
static void url_quote(struct render *r, struct val v, bool query)
{
    if (!render_charge(r, v.n / 4)) return;
    for (uint32_t i = 0; i < v.n; i++) {
        unsigned char c = (unsigned char)v.s[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     (c && strchr("_.-~", c)) || (c == '/' && !query);
        if (c == ' ' && query)
            buf_add_char(&r->out, '+');
        else if (plain)
            buf_add_char(&r->out, (char)c);
        else
            buf_addf(&r->out, "%%%02X", c);
    }
}

/* A dict becomes "key=value&...". */
struct val filter_urlencode(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    struct val v = self.kind == V_DICT ? self : val_str(r, self);
    size_t mark = r->out.n;
    if (v.kind == V_TEXT) url_quote(r, v, false);
    for (uint32_t i = 0; v.kind == V_DICT && i < v.dict->n && r->rc == 0; i++) {
        struct val key = val_str(r, v.dict->v[i].key), value = val_str(r, v.dict->v[i].value);
        if (i > 0) buf_add_char(&r->out, '&');
        url_quote(r, key, true);
        buf_add_char(&r->out, '=');
        url_quote(r, value, true);
    }
    return out_take(r, mark);
}

struct val filter_format(struct render *r, struct val self, const struct args *a)
{
    struct val named;
    if (a->n_kw == 0) return text_format_percent(r, val_str(r, self), a, true);
    if (a->n > 0) return jinja_fail(r, "format: positional arguments must not come with names");
    named = val_dict(r, V_DICT);
    for (uint32_t i = 0; i < a->n_kw && r->rc == 0; i++)
        dict_put(r, named.dict, a->kw[i].name, a->kw[i].value);
    const struct args by_name = {.v = &named, .n = 1};
    return text_format_percent(r, val_str(r, self), &by_name, false);
}

/* ---- numbers ---- */

/* 0 - i checks the overflow of -INT64_MIN. */
struct val filter_abs(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    if (self.kind == V_REAL) return val_real(fabs(self.d));
    if (!val_is_number(self)) return jinja_fail(r, "%s has no absolute value", val_type(self));
    int64_t i = self.kind == V_BOOL ? self.b : self.i;
    return i < 0 ? val_binary(r, '-', val_int(0), val_int(i)) : val_int(i);
}

/* Convert the whole text v to a number by the rules of Python's int() and float(), with strtoll or
 * strtod. Return false if v is not a number. */
static bool text_to_int(struct val v, int base, int64_t *i)
{
    char digits[80];
    size_t n = 0;
    char *end;
    v = text_strip(v, STRIP_BOTH);
    if (v.n > 200) return false;
    for (uint32_t k = 0; k < v.n; k++)
        if (v.s[k] != '_' && n < sizeof digits - 1) digits[n++] = v.s[k];
    digits[n] = 0;
    if (n > 2 && digits[0] == '0' && base == 2 && (digits[1] | 32) == 'b')
        memmove(digits, digits + 2, n - 1);
    if (n > 2 && digits[0] == '0' && base == 8 && (digits[1] | 32) == 'o')
        memmove(digits, digits + 2, n - 1);
    *i = strtoll(digits, &end, base);
    return n > 0 && *end == 0;
}

/* Convert the whole text v to a double. Hexadecimal numbers are rejected, because strtod accepts
 * hexadecimal numbers, but Python does not. */
static bool text_to_real(struct val v, double *d)
{
    char digits[400], *end;
    v = text_strip(v, STRIP_BOTH);
    if (v.n == 0 || v.n >= sizeof digits || memchr(v.s, 'x', v.n) || memchr(v.s, 'X', v.n))
        return false;
    memcpy(digits, v.s, v.n);
    digits[v.n] = 0;
    *d = strtod(digits, &end);
    return *end == 0;
}

/* Truncate towards 0. Return the fallback for infinities, NaN and large numbers. */
static struct val real_to_int(struct val fallback, double d)
{
    return fabs(d) < 9.2e18 ? val_int((int64_t)d) : fallback;
}

/* Read a text that is not an integer as a float, as in jinja2: "3.7"|int is 3. */
struct val filter_int(struct render *r, struct val self, const struct args *a)
{
    (void)r;
    const struct val *given = arg(a, 0, "default");
    struct val fallback = given ? *given : val_int(0);
    const struct val *number = arg(a, 1, "base");
    const bool based = !number || number->kind == V_INT;
    int64_t i, base = number && based ? number->i : 10;
    double d;
    if (self.kind == V_BOOL) return val_int(self.b);
    if (self.kind == V_INT) return self;
    if (self.kind == V_REAL) return real_to_int(fallback, self.d);
    if (self.kind != V_TEXT) return fallback;
    if (base < 2 || base > 36) base = 10;
    if (based && text_to_int(self, (int)base, &i)) return val_int(i);
    return text_to_real(self, &d) ? real_to_int(fallback, d) : fallback;
}

struct val filter_float(struct render *r, struct val self, const struct args *a)
{
    (void)r;
    const struct val *given = arg(a, 0, "default");
    double d;
    if (val_is_number(self)) return val_real(val_as_real(self));
    if (self.kind == V_TEXT && text_to_real(self, &d)) return val_real(d);
    return given ? *given : val_real(0);
}

/* "common" rounds the decimal text to nearest even, as Python's round does. An int remains an int
 * if the precision is at least 0. */
struct val filter_round(struct render *r, struct val self, const struct args *a)
{
    int64_t precision = arg_int(r, a, 0, "precision", 0);
    struct val method = arg_text(r, a, 1, "method", "common");
    if (!val_is_number(self)) return jinja_fail(r, "%s cannot be rounded", val_type(self));
    if (!text_is(method, "common") && !text_is(method, "ceil") && !text_is(method, "floor"))
        return jinja_fail(r, "round: the method must be common, ceil or floor");
    double d = val_as_real(self), scale = pow(10, (double)precision);
    if (scale == 0) return val_real(0);
    if (text_is(method, "ceil")) return val_real(ceil(d * scale) / scale);
    if (text_is(method, "floor")) return val_real(floor(d * scale) / scale);
    if (self.kind == V_INT && precision >= 0) return self;
    if (precision < 0 || precision > 15) return val_real(rint(d * scale) / scale);
    char text[400];
    snprintf(text, sizeof text, "%.*f", (int)precision, d);
    return val_real(strtod(text, NULL));
}

/* ---- JSON, defaults, attributes ---- */

/* Set the indentation of tojson: a number of blanks or a string. */
static void style_indent(struct render *r, struct json_style *style, const struct val *indent)
{
    if (!indent || indent->kind == V_NONE) return;
    struct val text = *indent;
    if (indent->kind == V_INT) {
        int64_t n = indent->i < 0 ? 0 : indent->i > 64 ? 64 : indent->i;
        text = val_binary(r, '*', val_text(" ", 1), val_int(n));
    }
    if (text.kind != V_TEXT) return;
    style->indent = text.n ? text.s : "";
    style->n_indent = text.n;
    style->item_sep = ",";
    style->n_item_sep = 1;
}

/* jinja2 escapes <, >, & and ' for HTML. transformers replaces jinja2's filter by a filter without
 * escapes, which templates expect. */
struct val filter_tojson(struct render *r, struct val self, const struct args *a)
{
    struct json_style style = {.item_sep = ", ", .n_item_sep = 2, .key_sep = ": ", .n_key_sep = 2};
    const struct val *separators = arg(a, 2, "separators");
    struct args by_name = {.kw = a->kw, .n_kw = a->n_kw};
    /* the order of transformers: ensure_ascii, indent, separators, sort_keys; jinja2 has only
     * indent */
    const struct val *first = a->n > 0 && a->v[0].kind != V_BOOL ? &a->v[0] : NULL;
    style_indent(r, &style, first ? first : arg(a, 1, "indent"));
    style.ascii = first ? arg_bool(&by_name, 0, "ensure_ascii", false)
                        : arg_bool(a, 0, "ensure_ascii", false);
    style.sort_keys = arg_bool(a, 3, "sort_keys", false);
    if (separators && separators->kind != V_NONE) {
        if (!val_is_seq(*separators) || separators->list->n != 2)
            return jinja_fail(r, "separators: expected a pair of strings");
        const struct val *part = separators->list->v;
        if (part[0].kind != V_TEXT || part[1].kind != V_TEXT)
            return jinja_fail(r, "separators: expected strings, got %s and %s", val_type(part[0]),
                              val_type(part[1]));
        style.item_sep = part[0].s;
        style.n_item_sep = part[0].n;
        style.key_sep = part[1].s;
        style.n_key_sep = part[1].n;
    }
    size_t mark = r->out.n;
    out_json(r, self, &style, 0);
    return out_take(r, mark);
}

/* Copy the texts of a parsed document to the memory of the rendering, because the value outlives
 * the document. */
static struct val own_texts(struct render *r, struct val v)
{
    if (!render_enter(r)) return VAL_UNDEFINED;
    if (v.kind == V_TEXT) v = val_copy_text(r, v.s, v.n);
    if (v.kind == V_LIST)
        for (uint32_t i = 0; i < v.list->n; i++) v.list->v[i] = own_texts(r, v.list->v[i]);
    for (uint32_t i = 0; v.kind == V_DICT && i < v.dict->n; i++) {
        v.dict->v[i].key = own_texts(r, v.dict->v[i].key);
        v.dict->v[i].value = own_texts(r, v.dict->v[i].value);
    }
    render_leave(r);
    return v;
}

/* Return the value of the document j in the memory of the rendering. Free j. */
static struct val own_json(struct render *r, struct json *j)
{
    struct val v = own_texts(r, val_from_json(r, j));
    json_drop(j);
    return v;
}

/* Limits of JSON texts inside a template. Parsing needs up to a hundred times the size of the text,
 * so a check of the arena's limit after parsing would be too late. */
static const struct json_limits inner_limits = {.depth_max = 200, .node_max = 1 << 20};

/* Fail the rendering if the JSON is invalid. */
struct val filter_from_json(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    struct json *j = NULL;
    struct err e = {0};
    if (self.kind != V_TEXT)
        return jinja_fail(r, "from_json needs a string, not %s", val_type(self));
    if (!render_charge(r, self.n / 8)) return VAL_UNDEFINED;
    int rc = json_parse(&j, self.s, self.n, &inner_limits, &e);
    if (rc == ERR_MEMORY) render_no_memory(r, self.n);
    if (rc != 0) return jinja_fail(r, "from_json: %s", e.text);
    return own_json(r, j);
}

/* Return the text itself if it is invalid JSON, because arguments of earlier calls are written by
 * models. */
struct val val_from_json_text(struct render *r, struct val text)
{
    struct json *j = NULL;
    struct err e = {0};
    if (!render_charge(r, text.n / 8)) return VAL_UNDEFINED;
    int rc = json_parse(&j, text.s, text.n, &inner_limits, &e);
    if (rc == ERR_MEMORY) render_no_memory(r, text.n);
    if (rc == ERR_LIMIT) jinja_fail_code(r, rc, "JSON in a message's text: %s", e.text);
    return rc == 0 ? own_json(r, j) : text;
}

/* False values also get the default if the second argument is true. */
struct val filter_default(struct render *r, struct val self, const struct args *a)
{
    (void)r;
    const struct val *fallback = arg(a, 0, "default_value");
    bool falsy_too = arg_bool(a, 1, "boolean", false);
    if (self.kind != V_UNDEFINED && (!falsy_too || val_truth(self))) return self;
    return fallback ? *fallback : val_text("", 0);
}

struct val filter_attr(struct render *r, struct val self, const struct args *a)
{
    const struct val name = arg_text(r, a, 0, "name", NULL);
    /* the entries of a dict are no attributes */
    if (self.kind == V_DICT && r->rc == 0 && !method_find(self, name.s, name.n))
        return VAL_UNDEFINED;
    return val_attr(r, self, name);
}

/* ---- the table of filters ---- */

/* A linear search is enough for these tables. */
const struct builtin *builtin_find(const struct builtin *table, size_t count, const char *name,
                                   size_t n)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0) return &table[i];
    return NULL;
}

const struct builtin *filter_find(const char *name, size_t n)
{
    static const struct builtin filters[] = {
#define FILTER(text, id, params) {text, params, filter_##id},
#include "chat/filter.def"
#undef FILTER
    };
    return builtin_find(filters, sizeof filters / sizeof *filters, name, n);
}

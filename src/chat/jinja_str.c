/* jinja_str.c - methods of strings, with the semantics of Python's str.
 *
 * A text is bytes of UTF-8 with a length. A position is a number of code points. text_count and
 * text_offset convert between bytes and code points. Each search is charged by its bytes. Results
 * of strip, split and partition borrow from self, because all texts of a rendering have one
 * lifetime.
 *
 *   " a b  c ".split()        ["a", "b", "c"]         runs of white space are one separator
 *   " a b  c ".split(" ")     ["", "a", "b", "", "c", ""]
 *   " a b  c ".split(None, 1) ["a", "b  c "]          the rest is not stripped
 *   "a-b-c".rsplit("-", 1)    ["a-b", "c"]
 *   "a-b-c".partition("-")    ("a", "-", "b-c")       no separator: (text, "", "")
 *   "a-b-c".rpartition("-")   ("a-b", "-", "c")       no separator: ("", "", text) */
#include "chat/jinja_impl.h"

#include <string.h>
#include <utf8proc.h>

#define METHOD(kind, name, id, params) builtin_fn method_##id;
#include "chat/method.def"
#undef METHOD

/* ---- case and strip ---- */

struct val method_text_upper(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    return text_case(r, self, 'u');
}

struct val method_text_lower(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    return text_case(r, self, 'l');
}

struct val method_text_title(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    return text_case(r, self, 't');
}

struct val method_text_capitalize(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    return text_case(r, self, 'c');
}

/* Return true if the code point s[n] is in the set. In valid UTF-8, the bytes of a code point match
 * only at the start of a code point. */
static bool in_set(struct val set, const char *s, size_t n)
{
    return memmem(set.s, set.n, s, n) != NULL;
}

/* Return the length in bytes of the last code point of v. */
static size_t step_back(struct val v)
{
    size_t k = 1;
    while (k < 4 && k < v.n && (v.s[v.n - k] & 0xC0) == 0x80) k++;
    return k;
}

/* Remove the code points of a set from the sides: strip("-*"). The argument is a set, not a
 * prefix. */
static struct val strip_set(struct render *r, struct val v, struct val set, unsigned sides)
{
    while (sides & STRIP_LEFT && v.n > 0 && render_charge(r, 1)) {
        size_t k = text_step(v.s, v.n);
        if (!in_set(set, v.s, k)) break;
        v.s += k;
        v.n -= (uint32_t)k;
    }
    while (sides & STRIP_RIGHT && v.n > 0 && render_charge(r, 1)) {
        size_t k = step_back(v);
        if (!in_set(set, v.s + v.n - k, k)) break;
        v.n -= (uint32_t)k;
    }
    return v;
}

/* Strip by the argument `chars`, or white space if it is absent or none. */
static struct val strip_by(struct render *r, struct val self, const struct args *a, unsigned sides)
{
    const struct val *set = arg(a, 0, "chars");
    if (set && set->kind == V_TEXT) return strip_set(r, self, *set, sides);
    if (set && set->kind != V_NONE)
        return jinja_fail(r, "expected a string, got %s", val_type(*set));
    struct val v = text_strip(self, sides);
    render_charge(r, (self.n - v.n) / 8);
    return v;
}

struct val method_text_strip(struct render *r, struct val self, const struct args *a)
{
    return strip_by(r, self, a, STRIP_BOTH);
}

struct val method_text_lstrip(struct render *r, struct val self, const struct args *a)
{
    return strip_by(r, self, a, STRIP_LEFT);
}

struct val method_text_rstrip(struct render *r, struct val self, const struct args *a)
{
    return strip_by(r, self, a, STRIP_RIGHT);
}

/* ---- search ---- */

/* Set *part to self[start:end] by Python's arguments 1 and 2 of find and similar methods. Negative
 * positions count from the end. Return false if start is after end. */
static bool slice_text(struct render *r, struct val *part, struct val self, const struct args *a)
{
    *part = self;
    if (a->n < 2) return r->rc == 0;
    const int64_t n = text_count(r, self);
    int64_t start = arg_int(r, a, 1, NULL, 0), end = arg_int(r, a, 2, NULL, n);
    start += start < 0 ? n : 0;
    end += end < 0 ? n : 0;
    if (start < 0) start = 0;
    end = end < 0 ? 0 : end > n ? n : end;
    if (start > end || r->rc != 0) return false;
    const size_t from = text_offset(r, self, (uint32_t)start);
    *part = val_text(self.s + from, text_offset(r, self, (uint32_t)end) - from);
    return r->rc == 0;
}

/* Return true if v begins with the bytes of the affix. The comparison is charged by its bytes. */
static bool same_bytes(struct render *r, const char *v, struct val affix)
{
    return render_charge(r, affix.n / 8) && (affix.n == 0 || memcmp(v, affix.s, affix.n) == 0);
}

/* Return true if v begins with the prefix. A value of another kind is not a prefix. An empty text
 * is a prefix of each text. */
static bool begins(struct render *r, struct val v, struct val prefix)
{
    return prefix.kind == V_TEXT && prefix.n <= v.n && same_bytes(r, v.s, prefix);
}

static bool ends(struct render *r, struct val v, struct val suffix)
{
    return suffix.kind == V_TEXT && suffix.n <= v.n && same_bytes(r, v.s + v.n - suffix.n, suffix);
}

/* Return true if the argument matches: a string, or any string of a tuple. */
static struct val any_affix(struct render *r, struct val self, const struct args *a,
                            bool (*fits)(struct render *, struct val, struct val))
{
    const struct val *affix = arg(a, 0, NULL);
    struct val part;
    bool found = false;
    if (!affix) return jinja_fail(r, "this method needs an argument");
    const bool any = slice_text(r, &part, self, a);
    if (affix->kind == V_TEXT) return val_bool(any && fits(r, part, *affix));
    if (!val_is_seq(*affix)) return jinja_fail(r, "expected a string, got %s", val_type(*affix));
    for (uint32_t i = 0; any && i < affix->list->n && !found && render_charge(r, 1); i++)
        found = fits(r, part, affix->list->v[i]);
    return val_bool(found);
}

struct val method_text_startswith(struct render *r, struct val self, const struct args *a)
{
    return any_affix(r, self, a, begins);
}

struct val method_text_endswith(struct render *r, struct val self, const struct args *a)
{
    return any_affix(r, self, a, ends);
}

/* begins and ends return false for a value that is not a text, such as a failed argument. */
struct val method_text_removeprefix(struct render *r, struct val self, const struct args *a)
{
    struct val prefix = arg_text(r, a, 0, NULL, NULL);
    return begins(r, self, prefix) ? val_text(self.s + prefix.n, self.n - prefix.n) : self;
}

struct val method_text_removesuffix(struct render *r, struct val self, const struct args *a)
{
    struct val suffix = arg_text(r, a, 0, NULL, NULL);
    return ends(r, self, suffix) ? val_text(self.s, self.n - suffix.n) : self;
}

/* Return the last occurrence of `needle` that ends at or before `end`; NULL if none. */
static const char *find_last(struct render *r, struct val hay, size_t end, struct val needle)
{
    if (needle.n > end || !render_charge(r, 1 + hay.n / 2)) return NULL;
    for (size_t i = end - needle.n + 1; i-- > 0;)
        if (needle.n == 0 ||
            (hay.s[i] == needle.s[0] && memcmp(hay.s + i, needle.s, needle.n) == 0))
            return hay.s + i;
    return NULL;
}

/* Return the index of p in code points; -1 if p is NULL, as str.find returns. */
static int64_t position(struct render *r, struct val self, const char *p)
{
    if (!p || r->rc != 0) return -1;
    return text_count(r, val_text(self.s, (size_t)(p - self.s)));
}

struct val method_text_find(struct render *r, struct val self, const struct args *a)
{
    struct val needle = arg_text(r, a, 0, NULL, NULL), part;
    const char *p = slice_text(r, &part, self, a) ? text_find(r, part, 0, needle) : NULL;
    return r->rc == 0 ? val_int(position(r, self, p)) : VAL_UNDEFINED;
}

struct val method_text_rfind(struct render *r, struct val self, const struct args *a)
{
    struct val needle = arg_text(r, a, 0, NULL, NULL), part;
    const char *p = slice_text(r, &part, self, a) ? find_last(r, part, part.n, needle) : NULL;
    return r->rc == 0 ? val_int(position(r, self, p)) : VAL_UNDEFINED;
}

/* Return the index of a text. Fail the rendering if the text is absent; find then returns -1. */
struct val method_text_index(struct render *r, struct val self, const struct args *a)
{
    struct val v = method_text_find(r, self, a);
    return v.kind == V_INT && v.i < 0 ? jinja_fail(r, "substring not found") : v;
}

struct val method_text_count(struct render *r, struct val self, const struct args *a)
{
    struct val needle = arg_text(r, a, 0, NULL, NULL), part;
    int64_t count = 0;
    const bool any = slice_text(r, &part, self, a);
    if (r->rc != 0) return VAL_UNDEFINED;
    if (!any) return val_int(0);
    /* as in Python, the empty text is before, between and after all characters */
    if (needle.n == 0) return val_int((int64_t)text_count(r, part) + 1);
    for (size_t i = 0; r->rc == 0; count++) {
        const char *p = text_find(r, part, i, needle);
        if (!p) break;
        i = (size_t)(p - part.s) + needle.n;
    }
    return val_int(count);
}

/* ---- split and join ---- */

/* Append the bytes [from, to) of v to the list. */
static void add_piece(struct render *r, struct val out, struct val v, size_t from, size_t to)
{
    list_add(r, out.list, val_text(v.s + from, to - from));
}

/* Split at runs of white space, at most `count` times; count < 0: no limit. The last piece is the
 * unsplit rest. No piece is empty. */
static struct val split_space(struct render *r, struct val v, int64_t count)
{
    struct val out = val_list(r, V_LIST, 0);
    render_charge(r, v.n / 4);
    for (size_t i = 0, k; r->rc == 0;) {
        while (i < v.n && (k = text_space(v.s + i, v.n - i)) > 0) i += k;
        if (i >= v.n) break;
        size_t end = i;
        while (end < v.n && text_space(v.s + end, v.n - end) == 0)
            end += text_step(v.s + end, v.n - end);
        if (count-- == 0) end = v.n;
        add_piece(r, out, v, i, end);
        i = end;
    }
    return out;
}

/* Split at a separator or, without one, at white space. Adjacent separators give empty pieces. An
 * empty separator fails, as in Python. */
struct val method_text_split(struct render *r, struct val self, const struct args *a)
{
    const struct val *separator = arg(a, 0, "sep");
    int64_t count = arg_int(r, a, 1, "maxsplit", -1);
    if (!separator || separator->kind == V_NONE) return split_space(r, self, count);
    struct val sep = arg_text(r, a, 0, "sep", NULL), out = val_list(r, V_LIST, 0);
    if (r->rc == 0 && sep.n == 0) return jinja_fail(r, "empty separator");
    size_t i = 0;
    while (r->rc == 0 && count-- != 0) {
        const char *p = text_find(r, self, i, sep);
        if (!p) break;
        add_piece(r, out, self, i, (size_t)(p - self.s));
        i = (size_t)(p - self.s) + sep.n;
    }
    if (r->rc == 0) add_piece(r, out, self, i, self.n);
    return out;
}

/* Split at white space from the right. The result is the unsplit rest, then the last `count` pieces
 * of split_space. */
static struct val rsplit_space(struct render *r, struct val v, int64_t count)
{
    struct val all = split_space(r, v, -1), out = val_list(r, V_LIST, 0);
    if (r->rc != 0 || count < 0 || all.list->n <= count) return all;
    uint32_t kept = all.list->n - (uint32_t)count;
    const struct val *last = &all.list->v[kept - 1];
    list_add(r, out.list, val_text(v.s, (size_t)(last->s + last->n - v.s)));
    for (uint32_t i = kept; i < all.list->n; i++) list_add(r, out.list, all.list->v[i]);
    return out;
}

/* Split from the right. Reverse the list at the end, because the pieces are found in reverse
 * order. */
struct val method_text_rsplit(struct render *r, struct val self, const struct args *a)
{
    const struct val *separator = arg(a, 0, "sep");
    struct args none = {0};
    int64_t count = arg_int(r, a, 1, "maxsplit", -1);
    if (!separator || separator->kind == V_NONE) return rsplit_space(r, self, count);
    struct val sep = arg_text(r, a, 0, "sep", NULL), out = val_list(r, V_LIST, 0);
    if (r->rc == 0 && sep.n == 0) return jinja_fail(r, "empty separator");
    size_t end = self.n;
    while (r->rc == 0 && count-- != 0) {
        const char *p = find_last(r, self, end, sep);
        if (!p) break;
        add_piece(r, out, self, (size_t)(p - self.s) + sep.n, end);
        end = (size_t)(p - self.s);
    }
    if (r->rc != 0) return out;
    add_piece(r, out, self, 0, end);
    method_find(out, "reverse", 7)->fn(r, out, &none);
    return out;
}

/* Split at \n, \r and \r\n. A newline at the end does not begin another line. */
struct val method_text_splitlines(struct render *r, struct val self, const struct args *a)
{
    bool keep = arg_int(r, a, 0, "keepends", false) != 0;
    struct val out = val_list(r, V_LIST, 0);
    render_charge(r, self.n / 8);
    for (size_t i = 0; i < self.n && r->rc == 0;) {
        size_t end = i;
        while (end < self.n && self.s[end] != '\n' && self.s[end] != '\r') end++;
        size_t next = end + (end < self.n);
        if (next < self.n && self.s[end] == '\r' && self.s[next] == '\n') next++;
        add_piece(r, out, self, i, keep ? next : end);
        i = next;
    }
    return out;
}

/* Return the tuple (before, separator, after). p is the place of the separator. The whole text is
 * `before` if p is NULL, or `after` if `right` is true. */
static struct val partition_at(struct render *r, struct val v, const char *p, struct val sep,
                               bool right)
{
    struct val out = val_list(r, V_TUPLE, 3), empty = val_text("", 0);
    size_t at = p ? (size_t)(p - v.s) : right ? 0 : v.n;
    if (r->rc != 0) return out;
    list_add(r, out.list, p || !right ? val_text(v.s, at) : empty);
    list_add(r, out.list, p ? sep : empty);
    list_add(r, out.list, p ? val_text(p + sep.n, v.n - at - sep.n) : right ? v : empty);
    return out;
}

struct val method_text_partition(struct render *r, struct val self, const struct args *a)
{
    struct val sep = arg_text(r, a, 0, NULL, NULL);
    return r->rc == 0 ? partition_at(r, self, text_find(r, self, 0, sep), sep, false)
                      : VAL_UNDEFINED;
}

struct val method_text_rpartition(struct render *r, struct val self, const struct args *a)
{
    struct val sep = arg_text(r, a, 0, NULL, NULL);
    return r->rc == 0 ? partition_at(r, self, find_last(r, self, self.n, sep), sep, true)
                      : VAL_UNDEFINED;
}

/* Evaluate ", ".join(list) as list|join(", "). In contrast to Python, items may be of any kind. */
struct val method_text_join(struct render *r, struct val self, const struct args *a)
{
    struct args by = {.v = &self, .n = 1};
    if (a->n == 0) return jinja_fail(r, "join needs a list");
    return filter_find("join", 4)->fn(r, a->v[0], &by);
}

struct val method_text_replace(struct render *r, struct val self, const struct args *a)
{
    struct val from = arg_text(r, a, 0, NULL, NULL), to = arg_text(r, a, 1, NULL, NULL);
    int64_t count = arg_int(r, a, 2, "count", -1);
    return r->rc == 0 ? text_replace(r, self, from, to, count) : VAL_UNDEFINED;
}

struct val method_text_format(struct render *r, struct val self, const struct args *a)
{
    return text_format_braces(r, self, a);
}

/* ---- character classes ---- */

/* Return true for the categories Lu, Ll, Lt, Lm and Lo, as str.isalpha() does. */
static bool is_letter(utf8proc_int32_t cp)
{
    utf8proc_category_t c = utf8proc_category(cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

static bool is_decimal(utf8proc_int32_t cp)
{
    return utf8proc_category(cp) == UTF8PROC_CATEGORY_ND;
}

static bool is_letter_or_number(utf8proc_int32_t cp)
{
    utf8proc_category_t c = utf8proc_category(cp);
    return is_letter(cp) || (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO);
}

static bool is_blank(utf8proc_int32_t cp)
{
    char s[4];
    utf8proc_ssize_t n = utf8proc_encode_char(cp, (uint8_t *)s);
    return n > 0 && text_space(s, (size_t)n) > 0;
}

/* Return true if v has at least one code point and all code points are in the class. Invalid UTF-8
 * is in no class. */
static struct val all_are(struct render *r, struct val v, bool (*is)(utf8proc_int32_t))
{
    bool all = v.n > 0;
    render_charge(r, v.n / 2);
    for (uint32_t i = 0; all && i < v.n;) {
        utf8proc_int32_t cp = 0;
        utf8proc_ssize_t k = utf8proc_iterate((const uint8_t *)v.s + i, v.n - i, &cp);
        all = k > 0 && is(cp);
        i += k > 0 ? (uint32_t)k : 1;
    }
    return val_bool(all);
}

struct val method_text_isalpha(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    return all_are(r, self, is_letter);
}

struct val method_text_isdigit(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    return all_are(r, self, is_decimal);
}

struct val method_text_isalnum(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    return all_are(r, self, is_letter_or_number);
}

struct val method_text_isspace(struct render *r, struct val self, const struct args *a)
{
    (void)a;
    return all_are(r, self, is_blank);
}

struct val method_text_islower(struct render *r, struct val self, const struct args *a)
{
    return is_find("lower", 5)->fn(r, self, a);
}

struct val method_text_isupper(struct render *r, struct val self, const struct args *a)
{
    return is_find("upper", 5)->fn(r, self, a);
}

/* json_read.c - parse JSON text to jansson values, by recursive descent over the caller's text.
 *
 *   json_parse: UTF-8? --> read_value (list, object, text, number, literal) --> only blanks left?
 *
 * Values and keys are counted before they are allocated, and depth before recursion.
 *
 * jansson's parser is not used, because its lexer ignores failed allocations. After a failed
 * allocation, the document lacks a byte, for example a digit of a number. The lexer also reads and
 * writes past its buffers if a closing quote is missing.
 *
 * Invariants: r->at is at the first byte that is not consumed. A read_* function that fails has set
 * the error and has freed its partial value. depth_max limits recursion: one level is about three
 * frames on the stack. */
/* included before json.h, because json.h renames json_real, a function of jansson */
#include <jansson.h>

static json_t *new_real(double x)
{
    return json_real(x);
}

#include "json.h"
#include "cancel.h"
#include "utf8.h"
#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* DEPTH_MAX limits the options of all callers, because jansson frees nested values by recursion.
 * DEPTH_MAX is the maximum depth of jansson's own parser. */
enum { DEPTH_DEFAULT = 512, DEPTH_MAX = 2048, NODE_DEFAULT = 20 * 1000 * 1000 };

struct json_reader {
    const char *text; /* [n] text of the document, borrowed */
    size_t n, at;     /* length and position of the text; `at` never decreases */
    size_t depth, depth_max, n_node, node_max; /* open containers; counted values and keys */
    const struct json_limits *limits;          /* borrowed; may be NULL */
    struct buf scratch;                        /* a decoded text, or a number with a NUL */
    struct err *e;                             /* borrowed */
};

/* Place in a text for error messages. */
struct text_place {
    size_t line, column; /* line and column from 1; a column is a character */
};

static struct text_place place_of(const struct json_reader *r, size_t at)
{
    struct text_place p = {1, 1};
    for (size_t i = 0; i < at; i++) {
        if (r->text[i] == '\n') p.line++, p.column = 0;
        if ((r->text[i] & 0xC0) != 0x80) p.column++;
    }
    return p;
}

static int fail_at(const struct json_reader *r, size_t at, int code, const char *what)
{
    struct text_place p = place_of(r, at);
    return err_set(r->e, code, "line %zu, column %zu: %s", p.line, p.column, what);
}

static int no_memory(const struct json_reader *r)
{
    return err_memory(r->e, "JSON", r->n);
}

/* Fail with "expected WHAT, got FOUND" for the character at `at`. */
static int expected_at(const struct json_reader *r, size_t at, const char *what)
{
    char text[96], found[24];
    snprintf(text, sizeof text, "expected %s, got %s", what,
             utf8_first_text(r->text + at, r->n - at, found));
    return fail_at(r, at, ERR_FORMAT, text);
}

static int expected(const struct json_reader *r, const char *what)
{
    return expected_at(r, r->at, what);
}

static void skip_blanks(struct json_reader *r)
{
    while (r->at < r->n && memchr(" \t\r\n", r->text[r->at], 4)) r->at++;
}

/* Skip blanks, then c if it is the next character. Return true if c was skipped. */
static bool skip_char(struct json_reader *r, char c)
{
    skip_blanks(r);
    if (r->at >= r->n || r->text[r->at] != c) return false;
    r->at++;
    return true;
}

/* Count the value after the bracket, comma or colon at r->at - 1. */
static int count_node(struct json_reader *r)
{
    if (cancelled()) return err_cancelled(r->e);
    return ++r->n_node > r->node_max
               ? fail_at(r, r->at - 1, ERR_LIMIT, "more values than the limit")
               : 0;
}

/* ---- texts ---- */

/* Return the value of the escape \uXXXX at text[at], or -1. `at` may be past the end, because the
 * second half of a pair is read before its length is known. */
static int escape_value(const struct json_reader *r, size_t at)
{
    if (at > r->n || r->n - at < 6 || r->text[at] != '\\' || r->text[at + 1] != 'u') return -1;
    int v = 0;
    for (int i = 2; i < 6; i++) {
        int digit = hex_digit(r->text[at + i]);
        if (digit < 0) return -1;
        v = v << 4 | digit;
    }
    return v;
}

static bool is_high(int v)
{
    return v >= 0xD800 && v <= 0xDBFF;
}

static bool is_low(int v)
{
    return v >= 0xDC00 && v <= 0xDFFF;
}

/* Decode the escape at r->at, which is a backslash. A lone surrogate becomes U+FFFD. */
static int read_escape(struct json_reader *r)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *known = r->at + 1 < r->n ? memchr(from, r->text[r->at + 1], sizeof from - 1) : NULL;
    int v = escape_value(r, r->at), low = escape_value(r, r->at + 6);
    if (known) {
        buf_add_char(&r->scratch, to[known - from]);
        r->at += 2;
    } else if (v < 0) {
        return expected_at(r, r->at + 1, "an escape after the backslash");
    } else if (is_high(v) && is_low(low)) {
        buf_add_utf8(&r->scratch,
                     0x10000u + ((unsigned)(v - 0xD800) << 10) + (unsigned)(low - 0xDC00));
        r->at += 12;
    } else {
        buf_add_utf8(&r->scratch, is_high(v) || is_low(v) ? 0xFFFD : (unsigned)v);
        r->at += 6;
    }
    return 0;
}

/* Return the number of bytes before a quote, a backslash or a character that is illegal in a
 * text. */
static size_t plain_run(const struct json_reader *r)
{
    size_t i = r->at;
    while (i < r->n && r->text[i] != '"' && r->text[i] != '\\' && (unsigned char)r->text[i] >= ' ')
        i++;
    return i - r->at;
}

/* Skip the closing quote. Raw control characters are errors, as RFC 8259 requires. */
static int end_text(struct json_reader *r)
{
    if (r->at < r->n && r->text[r->at] == '"') return r->at++, 0;
    return expected(r, r->at < r->n ? "no control character in a string" : "a closing quote");
}

/* Decode a text with escapes into scratch, which the next text overwrites. */
static int read_escaped(struct json_reader *r, const char **text, size_t *n)
{
    int rc = 0;
    buf_clear(&r->scratch);
    for (;;) {
        size_t k = plain_run(r);
        buf_add(&r->scratch, r->text + r->at, k);
        r->at += k;
        if (rc != 0 || r->at >= r->n || r->text[r->at] != '\\') break;
        rc = read_escape(r);
        if (rc != 0) return rc;
    }
    rc = end_text(r);
    if (rc == 0 && r->scratch.failed) rc = no_memory(r);
    *text = r->scratch.data;
    *n = r->scratch.n;
    return rc;
}

/* Read the text after the quote at r->at - 1. The result is borrowed from the document, or from
 * scratch if the text has escapes. */
static int read_text(struct json_reader *r, const char **text, size_t *n)
{
    size_t begin = r->at, k = plain_run(r);
    if (begin + k < r->n && r->text[begin + k] == '\\') return read_escaped(r, text, n);
    r->at += k;
    *text = r->text + begin;
    *n = k;
    return end_text(r);
}

static int read_string(struct json_reader *r, json_t **out)
{
    const char *text;
    size_t n;
    int rc = read_text(r, &text, &n);
    if (rc == 0 && !(*out = json_stringn_nocheck(text, n))) rc = no_memory(r);
    return rc;
}

/* ---- numbers ---- */

static size_t skip_digits(const struct json_reader *r, size_t i)
{
    while (i < r->n && isdigit((unsigned char)r->text[i])) i++;
    return i;
}

/* Return the end of the number at r->at by RFC 8259's grammar; 0 if no number begins there. Set
 * *whole to true if the number has neither fraction nor exponent. */
static size_t number_end(const struct json_reader *r, bool *whole)
{
    size_t begin = r->at + (r->text[r->at] == '-'), i = skip_digits(r, begin), k;
    *whole = true;
    if (i == begin || (r->text[begin] == '0' && i > begin + 1)) return 0;
    if (i < r->n && r->text[i] == '.') {
        *whole = false;
        k = skip_digits(r, ++i);
        if (k == i) return 0;
        i = k;
    }
    if (i < r->n && (r->text[i] | 32) == 'e') {
        *whole = false;
        i++;
        i += i < r->n && (r->text[i] == '-' || r->text[i] == '+');
        k = skip_digits(r, i);
        if (k == i) return 0;
        i = k;
    }
    return i;
}

/* Read a number. An integer that does not fit int64 is a double. */
static int read_number(struct json_reader *r, json_t **out)
{
    bool whole;
    size_t end = number_end(r, &whole);
    if (end == 0) return fail_at(r, r->at, ERR_FORMAT, "malformed number");
    buf_clear(&r->scratch);
    buf_add(&r->scratch, r->text + r->at, end - r->at);
    if (r->scratch.failed) return no_memory(r);
    errno = 0;
    long long i = whole ? strtoll(r->scratch.data, NULL, 10) : 0;
    whole = whole && errno == 0;
    char *point = whole ? NULL : memchr(r->scratch.data, '.', r->scratch.n);
    const char *text = r->text + r->at;
    if (point) *point = *localeconv()->decimal_point; /* a host program may have set a locale */
    double x = whole ? 0 : strtod(r->scratch.data, NULL);
    if (isinf(x)) return fail_at(r, r->at, ERR_FORMAT, "number outside the range of a double");
    *out = whole ? json_integer(i) : new_real(x);
    bool ok = *out != NULL;
    if (ok && !whole && r->limits && r->limits->number)
        ok = r->limits->number(r->limits->arg, (const struct json *)*out, text, end - r->at);
    r->at = end;
    if (ok) return 0;
    json_decref(*out);
    *out = NULL;
    return no_memory(r);
}

/* ---- values ---- */

static int read_value(struct json_reader *r, json_t **out);

/* Read the items after '['. On failure the caller frees the list and its items. */
static int read_list(struct json_reader *r, json_t *list)
{
    int rc = 0;
    if (skip_char(r, ']')) return 0;
    do {
        json_t *item = NULL;
        rc = read_value(r, &item);
        if (rc == 0 && json_array_append_new(list, item) != 0)
            rc = no_memory(r); /* the failed append has already freed the value */
        if (rc == 0 && skip_char(r, ']')) return 0;
        if (rc == 0 && !skip_char(r, ',')) rc = expected(r, "',' or ']'");
        if (rc == 0) rc = count_node(r);
    } while (rc == 0);
    return rc;
}

/* Check the key of n bytes at text[at]. Search results are exact, because getn also compares
 * lengths. */
static int check_unique(const struct json_reader *r, const json_t *object, const char *key,
                        size_t n, size_t at)
{
    if (!r->limits || !r->limits->unique || !json_object_getn(object, key, n)) return 0;
    struct text_place p = place_of(r, at);
    char name[64]; /* a text that ends at its first NUL */
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), key);
    return err_field(r->e, ERR_ARG, name,
                     ": must not be repeated in an object (line %zu, column %zu)", p.line,
                     p.column);
}

/* Read "key": value. The key is either borrowed from the document or detached from scratch, because
 * the value may be a text with escapes. */
static int read_member(struct json_reader *r, json_t *object)
{
    const char *key;
    char *own = NULL;
    size_t n;
    json_t *value = NULL;
    if (!skip_char(r, '"')) return expected(r, "a key");
    size_t at = r->at - 1;
    int rc = read_text(r, &key, &n);
    if (rc != 0) return rc;
    if (key == r->scratch.data)
        key = own = buf_detach(&r->scratch); /* the value also needs scratch */
    rc = key ? check_unique(r, object, key, n, at) : no_memory(r);
    if (rc == 0 && !skip_char(r, ':')) rc = expected(r, "':'");
    if (rc == 0) rc = count_node(r);
    if (rc == 0) rc = read_value(r, &value);
    if (rc == 0 && json_object_setn_new_nocheck(object, key, n, value) != 0) rc = no_memory(r);
    free(own);
    return rc;
}

/* Read an object's members. The last value of a permitted duplicate replaces the earlier values, at
 * the key's first place. */
static int read_object(struct json_reader *r, json_t *object)
{
    int rc = 0;
    if (skip_char(r, '}')) return 0;
    do {
        rc = read_member(r, object);
        if (rc == 0 && skip_char(r, '}')) return 0;
        if (rc == 0 && !skip_char(r, ',')) rc = expected(r, "',' or '}'");
        if (rc == 0) rc = count_node(r);
    } while (rc == 0);
    return rc;
}

/* Read a list or an object after its bracket. depth is restored only on success, because a failure
 * ends the whole parse. */
static int read_inside(struct json_reader *r, json_t **out, bool object)
{
    if (++r->depth > r->depth_max)
        return fail_at(r, r->at - 1, ERR_LIMIT, "nested deeper than the limit");
    int rc = count_node(r);
    if (rc != 0) return rc;
    json_t *j = object ? json_object() : json_array();
    if (!j) return no_memory(r);
    rc = object ? read_object(r, j) : read_list(r, j);
    r->depth--;
    if (rc == 0)
        *out = j;
    else
        json_decref(j);
    return rc;
}

static int read_literal(struct json_reader *r, json_t **out)
{
    static const char *const word[] = {"null", "true", "false"};
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(word[i]);
        if (r->n - r->at < n || memcmp(r->text + r->at, word[i], n) != 0) continue;
        r->at += n;
        *out = i == 0 ? json_null() : json_boolean(i == 1);
        return 0;
    }
    return expected(r, "a value");
}

/* Read Infinity, -Infinity or NaN as an object, if the limits permit these words. Leave *out
 * unchanged if none of them is next. */
static int read_python(struct json_reader *r, json_t **out)
{
    static const char *const word[] = {"Infinity", "-Infinity", "NaN"};
    if (!r->limits || !r->limits->python) return 0;
    for (int i = 0; i < 3; i++) {
        const size_t n = strlen(word[i]);
        if (r->n - r->at < n || memcmp(r->text + r->at, word[i], n) != 0) continue;
        r->at += n;
        *out = json_pack("{s: s}", "__float__", word[i]);
        return *out ? 0 : no_memory(r);
    }
    return 0;
}

/* Read a value. On success *out is a new reference. */
static int read_value(struct json_reader *r, json_t **out)
{
    if (skip_char(r, '"')) return read_string(r, out);
    if (skip_char(r, '[')) return read_inside(r, out, false);
    if (skip_char(r, '{')) return read_inside(r, out, true);
    const int rc = read_python(r, out);
    if (rc != 0 || *out) return rc;
    if (r->at < r->n && (r->text[r->at] == '-' || isdigit((unsigned char)r->text[r->at])))
        return read_number(r, out);
    return read_literal(r, out);
}

/* Check the whole text once. All later functions may then copy bytes without a check. */
static int check_utf8(const struct json_reader *r)
{
    char what[64];
    size_t i = 0;
    uint32_t cp;
    if (utf8_valid(r->text, r->n)) return 0;
    for (int k; (k = utf8_decode(r->text + i, r->n - i, &cp)) > 0;) i += (size_t)k;
    snprintf(what, sizeof what, "the byte 0x%02x is not UTF-8", (unsigned char)r->text[i]);
    return fail_at(r, i, ERR_FORMAT, what);
}

/* Count the values before any allocation, because values take hundreds of times the memory of their
 * text. The count needs no grammar, because count_node counts at the same characters. Counts of
 * malformed texts may be wrong, but read_value rejects malformed texts. */
static int check_count(const struct json_reader *r)
{
    bool inside = false;
    size_t n = r->n_node;
    for (size_t i = 0; i < r->n; i++) {
        char c = r->text[i];
        if (c == '"')
            inside = !inside;
        else if (inside)
            i += c == '\\';
        else if ((c == ',' || c == ':' || c == '[' || c == '{') && ++n > r->node_max)
            return fail_at(r, i, ERR_LIMIT, "more values than the limit");
    }
    return 0;
}

int json_parse(struct json **out, const char *text, size_t n, const struct json_limits *limits,
               struct err *e)
{
    struct json_reader r = {.text = text,
                            .n = n,
                            .depth_max = DEPTH_DEFAULT,
                            .n_node = 1,
                            .node_max = NODE_DEFAULT,
                            .e = e};
    json_t *j = NULL;
    *out = NULL;
    r.limits = limits;
    if (limits && limits->depth_max) r.depth_max = limits->depth_max;
    if (limits && limits->node_max) r.node_max = limits->node_max;
    if (r.depth_max > DEPTH_MAX) r.depth_max = DEPTH_MAX;
    int rc = check_utf8(&r);
    if (rc == 0) rc = check_count(&r);
    if (rc == 0) rc = read_value(&r, &j);
    skip_blanks(&r);
    if (rc == 0 && r.at < n) rc = expected(&r, "the end");
    buf_deinit(&r.scratch);
    if (rc == 0)
        *out = (struct json *)j;
    else
        json_decref(j);
    return rc;
}

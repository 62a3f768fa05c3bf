/* json.c - jansson behind json.h, and the corner cases that jansson leaves open.
 *
 *   text --copy--> json_settle --> json_loadb --> nul_keys_restore --> struct json (a json_t)
 *
 * json_settle goes once over a private copy of the text, before anything recurses: it holds the
 * limits on depth and nodes, and rewrites in place what jansson refuses though RFC 8259 allows it:
 * lone surrogate escapes (U+FFFD), integers beyond int64 (spelled as doubles) and NUL in a key (a
 * stand-in, taken back after parsing). Every rewrite keeps the length, so that jansson's line and
 * column are those of the caller's text. */
#include <jansson.h> /* before json.h, which renames json_real: jansson exports one too */

#include "json.h"
#include "os.h"
#include "utf8.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 512, NODE_MAX = 20 * 1000 * 1000 };

/* The pass before jansson. `at` only grows; text[0..n) is ours to rewrite. */
struct settle {
    char *text;
    size_t n, at;
    size_t depth, depth_max, n_node, node_max;
    VEC(size_t) nul_key; /* where a \u0000 escape stands in an object key */
    struct err *e;
};

static int fail_at(const struct settle *s, int code, const char *what)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < s->at; i++) {
        if (s->text[i] == '\n') line++, column = 0;
        if ((s->text[i] & 0xC0) != 0x80) column++;
    }
    return err_set(s->e, code, "line %zu, column %zu: %s", line, column, what);
}

/* ---- strings ---- */

/* The value of the escape \uXXXX at text[at], or -1. */
static int escape_value(const struct settle *s, size_t at)
{
    if (at > s->n || s->n - at < 6 || s->text[at] != '\\' || s->text[at + 1] != 'u') return -1;
    int v = 0;
    for (int i = 2; i < 6; i++) {
        int c = (unsigned char)s->text[at + i];
        if (!isxdigit(c)) return -1;
        v = v << 4 | (c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
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

/* Step over the escape at s->at, making a lone surrogate U+FFFD. */
static void settle_escape(struct settle *s)
{
    int v = escape_value(s, s->at);
    size_t n = v < 0 ? 2 : 6;
    if (is_high(v) && is_low(escape_value(s, s->at + 6)))
        n = 12;
    else if (is_high(v) || is_low(v))
        memcpy(s->text + s->at, "\\uFFFD", 6);
    s->at += n < s->n - s->at ? n : s->n - s->at;
}

static bool is_key(const struct settle *s)
{
    size_t i = s->at;
    while (i < s->n && memchr(" \t\r\n", s->text[i], 4)) i++;
    return i < s->n && s->text[i] == ':';
}

/* Step over the string at s->at. An unterminated one ends with the text; jansson will say so. */
static int settle_string(struct settle *s)
{
    size_t first_nul = s->nul_key.n;
    for (s->at++;;) {
        size_t i = s->at;
        while (i < s->n && s->text[i] != '"' && s->text[i] != '\\') i++;
        s->at = i;
        if (i >= s->n || s->text[i] == '"') break;
        if (escape_value(s, i) == 0 && !vec_push(&s->nul_key, i))
            return err_memory(s->e, "JSON keys", s->n);
        settle_escape(s);
    }
    if (s->at < s->n) s->at++;
    if (!is_key(s)) s->nul_key.n = first_nul; /* jansson keeps NUL in values by itself */
    return 0;
}

/* ---- numbers ---- */

/* Spell an integer of n digits (n > 18) as a double in exactly n characters: 17 digits, 'e',
 * exponent. One that no double holds stays, and jansson refuses it. */
static void respell_integer(char *digits, size_t n)
{
    double x = 0;
    char copy[400], shown[32];
    if (n < sizeof copy) {
        memcpy(copy, digits, n);
        copy[n] = 0;
        x = strtod(copy, NULL);
    }
    if (x == 0 || isinf(x)) return;
    snprintf(shown, sizeof shown, "%.16e", x); /* d.dddddddddddddddde+XX */
    long exponent = strtol(shown + 19, NULL, 10) - 16;
    digits[0] = shown[0];
    memcpy(digits + 1, shown + 2, 16);
    snprintf(copy, sizeof copy, "e%0*ld", (int)n - 18, exponent);
    memcpy(digits + 17, copy, n - 17);
}

/* Step over the number at s->at; an integer that int64 cannot hold is respelled. */
static void settle_number(struct settle *s)
{
    size_t start = s->at, first = s->at + (s->text[s->at] == '-');
    while (s->at < s->n && memchr("+-.0123456789eE", s->text[s->at], 15)) s->at++;
    size_t n = s->at - first;
    bool plain = true;
    for (size_t i = first; i < s->at; i++) plain = plain && isdigit((unsigned char)s->text[i]);
    if (!plain || n < 19 || s->text[first] == '0') return;
    static const char *const most[2] = {"9223372036854775807", "9223372036854775808"};
    if (n == 19 && memcmp(s->text + first, most[first > start], 19) <= 0) return;
    respell_integer(s->text + first, n);
}

static int settle_next(struct settle *s)
{
    switch (s->text[s->at]) {
    case '"':
        return settle_string(s);
    case '[':
    case '{':
        if (++s->depth > s->depth_max) return fail_at(s, ERR_LIMIT, "nested deeper than the limit");
        /* fall through */
    case ',':
    case ':':
        if (++s->n_node > s->node_max) return fail_at(s, ERR_LIMIT, "more values than the limit");
        break;
    case ']':
    case '}':
        if (s->depth > 0) s->depth--;
        break;
    default:
        if (s->text[s->at] != '-' && !isdigit((unsigned char)s->text[s->at])) break;
        settle_number(s);
        return 0;
    }
    s->at++;
    return 0;
}

static int json_settle(struct settle *s)
{
    const char *nul = s->n ? memchr(s->text, 0, s->n) : NULL;
    if (nul) { /* jansson overlooks one behind a number */
        s->at = (size_t)(nul - s->text);
        return fail_at(s, ERR_FORMAT, "a NUL byte");
    }
    int rc = 0;
    while (rc == 0 && s->at < s->n) rc = settle_next(s);
    return rc;
}

/* ---- NUL in keys: jansson's objects can hold it, its parser refuses it ---- */

/* Bit i: the document has the noncharacter U+FDD0 + i (UTF-8: EF B7 90+i), plain or escaped. */
static uint32_t nonchars_used(const struct settle *s)
{
    uint32_t used = 0;
    for (size_t i = 0; s->n - i >= 3; i++) {
        const uint8_t *t = (const uint8_t *)s->text + i;
        int v = escape_value(s, i);
        if (t[0] == 0xEF && t[1] == 0xB7) v = 0xFDD0 + t[2] - 0x90;
        if (v >= 0xFDD0 && v <= 0xFDEF) used |= 1u << (v - 0xFDD0);
    }
    return used;
}

/* Put a noncharacter that the document has nowhere in place of each NUL of a key. Answers its code
 * point; 0: none is free. */
static uint32_t nul_keys_hide(struct settle *s)
{
    uint32_t used = nonchars_used(s);
    if (used == UINT32_MAX) return 0;
    uint32_t cp = 0xFDD0 + (uint32_t)__builtin_ctz(~used);
    char escape[7];
    snprintf(escape, sizeof escape, "\\u%04x", (unsigned)cp);
    for (size_t i = 0; i < s->nul_key.n; i++) memcpy(s->text + s->nul_key.v[i], escape, 6);
    return cp;
}

/* Add key: value to an object, with NUL where the key has the three bytes of the stand-in. */
static int set_restored(json_t *object, const char *key, size_t n, const char *raw, json_t *value)
{
    struct buf b = {0};
    for (size_t i = 0; i < n;) {
        bool hidden = n - i >= 3 && memcmp(key + i, raw, 3) == 0;
        buf_add_char(&b, hidden ? 0 : key[i]);
        i += hidden ? 3 : 1;
    }
    int rc = b.failed ? -1 : json_object_setn_nocheck(object, b.data ? b.data : "", b.n, value);
    buf_deinit(&b);
    return rc;
}

static int nul_keys_restore(json_t *j, const char *raw)
{
    int rc = 0;
    for (size_t i = 0; i < json_array_size(j) && rc == 0; i++)
        rc = nul_keys_restore(json_array_get(j, i), raw);
    if (!json_is_object(j)) return rc;
    json_t *old = json_copy(j); /* shallow; keeps the order */
    if (!old) return -1;
    json_object_clear(j);
    for (void *it = json_object_iter(old); it && rc == 0; it = json_object_iter_next(old, it)) {
        json_t *value = json_object_iter_value(it);
        rc = nul_keys_restore(value, raw);
        if (rc == 0)
            rc =
                set_restored(j, json_object_iter_key(it), json_object_iter_key_len(it), raw, value);
    }
    json_decref(old);
    return rc;
}

/* ---- parsing ---- */

static int fail_jansson(const json_error_t *je, struct err *e)
{
    if (json_error_code(je) == json_error_out_of_memory) return err_memory(e, "JSON", 0);
    size_t n = utf8_complete_len(je->text, strlen(je->text));
    return err_set(e, ERR_FORMAT, "line %d, column %d: %.*s", je->line, je->column, (int)n,
                   je->text);
}

static int load_settled(json_t **out, struct settle *s)
{
    uint32_t stand_in = s->nul_key.n ? nul_keys_hide(s) : 0;
    if (s->nul_key.n && !stand_in)
        return err_set(s->e, ERR_UNSUPPORTED, "NUL in a key beside all noncharacters U+FDD0..FDEF");
    json_error_t je;
    json_t *j = json_loadb(s->text, s->n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &je);
    if (!j) return fail_jansson(&je, s->e);
    char raw[4];
    utf8_encode(raw, stand_in);
    if (stand_in && nul_keys_restore(j, raw) != 0) {
        json_decref(j);
        return err_memory(s->e, "JSON", s->n);
    }
    *out = j;
    return 0;
}

int json_parse(struct json **out, const char *text, size_t n, const struct json_limits *limits,
               struct err *e)
{
    *out = NULL;
    struct settle s = {.n = n, .depth_max = DEPTH_MAX, .n_node = 1, .node_max = NODE_MAX, .e = e};
    if (limits && limits->depth_max) s.depth_max = limits->depth_max;
    if (limits && limits->node_max) s.node_max = limits->node_max;
    s.text = malloc(n + 1);
    if (!s.text) return err_memory(e, "JSON text", n);
    if (n) memcpy(s.text, text, n);
    json_t *j = NULL;
    int rc = json_settle(&s);
    if (rc == 0) rc = load_settled(&j, &s);
    *out = (struct json *)j;
    vec_deinit(&s.nul_key);
    free(s.text);
    return rc;
}

int json_read_file(struct json **out, const char *path, size_t n_byte_max, struct err *e)
{
    *out = NULL;
    struct buf b = {0};
    int rc = file_read(&b, path, n_byte_max, e);
    if (rc == 0) {
        rc = json_parse(out, b.data, b.n, NULL, e);
        if (rc != 0) err_prefix(e, rc, "%s", path);
    }
    buf_deinit(&b);
    return rc;
}

void json_drop(struct json *root)
{
    json_decref((json_t *)root);
}

/* ---- reading ---- */

/* jansson's getters take non-const pointers, but change nothing. */
static json_t *jt(const struct json *j)
{
    return (json_t *)(uintptr_t)j;
}

enum json_kind json_kind(const struct json *j)
{
    if (!j) return JK_NONE;
    switch (json_typeof(jt(j))) {
    case JSON_OBJECT:
        return JK_OBJECT;
    case JSON_ARRAY:
        return JK_LIST;
    case JSON_STRING:
        return JK_TEXT;
    case JSON_INTEGER:
        return JK_INT;
    case JSON_REAL:
        return JK_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return JK_BOOL;
    case JSON_NULL:
        return JK_NULL;
    }
    return JK_NONE;
}

const char *json_kind_name(enum json_kind kind)
{
    static const char *const name[] = {
        [JK_NONE] = "nothing",   [JK_NULL] = "null",        [JK_BOOL] = "a boolean",
        [JK_INT] = "an integer", [JK_REAL] = "a number",    [JK_TEXT] = "a string",
        [JK_LIST] = "an array",  [JK_OBJECT] = "an object",
    };
    return name[kind];
}

const struct json *json_field(const struct json *object, const char *key)
{
    return json_field_n(object, key, strlen(key));
}

const struct json *json_field_n(const struct json *object, const char *key, size_t n_key)
{
    return (const struct json *)json_object_getn(jt(object), key, n_key);
}

size_t json_count(const struct json *list_or_object)
{
    json_t *j = jt(list_or_object);
    return json_is_object(j) ? json_object_size(j) : json_array_size(j);
}

const struct json *json_item(const struct json *list, size_t i)
{
    return (const struct json *)json_array_get(jt(list), i);
}

void *json_first(const struct json *object)
{
    return json_object_iter(jt(object));
}

void *json_next(const struct json *object, void *it)
{
    return json_object_iter_next(jt(object), it);
}

const char *json_it_key(void *it, size_t *n)
{
    if (n) *n = it ? json_object_iter_key_len(it) : 0;
    return json_object_iter_key(it);
}

const struct json *json_it_value(void *it)
{
    return (const struct json *)json_object_iter_value(it);
}

const char *json_text(const struct json *j, size_t *n)
{
    if (n) *n = json_string_length(jt(j));
    return json_string_value(jt(j));
}

bool json_bool(const struct json *j, bool otherwise)
{
    return json_is_boolean(jt(j)) ? json_is_true(jt(j)) : otherwise;
}

int64_t json_int(const struct json *j, int64_t otherwise)
{
    if (json_is_integer(jt(j))) return json_integer_value(jt(j));
    double x = json_is_real(jt(j)) ? json_real_value(jt(j)) : 0.5;
    return x >= -0x1p63 && x < 0x1p63 && x == floor(x) ? (int64_t)x : otherwise;
}

double json_real(const struct json *j, double otherwise)
{
    return json_is_number(jt(j)) ? json_number_value(jt(j)) : otherwise;
}

/* ---- writing ---- */

static void put_list(struct buf *b, const struct json *list)
{
    buf_add_char(b, '[');
    for (size_t i = 0; i < json_count(list); i++) {
        if (i) buf_add_char(b, ',');
        json_put(b, json_item(list, i));
    }
    buf_add_char(b, ']');
}

static void put_object(struct buf *b, const struct json *object)
{
    buf_add_char(b, '{');
    for (void *it = json_first(object), *first = it; it; it = json_next(object, it)) {
        size_t n;
        const char *key = json_it_key(it, &n);
        if (it != first) buf_add_char(b, ',');
        json_put_text(b, key, n);
        buf_add_char(b, ':');
        json_put(b, json_it_value(it));
    }
    buf_add_char(b, '}');
}

void json_put(struct buf *b, const struct json *j)
{
    size_t n;
    switch (json_kind(j)) {
    case JK_NONE:
    case JK_NULL:
        buf_add_text(b, "null");
        break;
    case JK_BOOL:
        buf_add_text(b, json_bool(j, false) ? "true" : "false");
        break;
    case JK_INT:
        buf_addf(b, "%lld", (long long)json_int(j, 0));
        break;
    case JK_REAL:
        json_put_real(b, json_real(j, 0));
        break;
    case JK_TEXT: {
        const char *text = json_text(j, &n);
        json_put_text(b, text, n);
        break;
    }
    case JK_LIST:
        put_list(b, j);
        break;
    case JK_OBJECT:
        put_object(b, j);
        break;
    }
}

void json_member_real(struct buf *b, const char *key, double x)
{
    buf_addf(b, ",\"%s\":", key);
    json_put_real(b, x);
}

void json_member_int(struct buf *b, const char *key, int64_t x)
{
    buf_addf(b, ",\"%s\":%lld", key, (long long)x);
}

void json_member_text(struct buf *b, const char *key, const char *text)
{
    buf_addf(b, ",\"%s\":", key);
    if (text)
        json_put_text(b, text, strlen(text));
    else
        buf_add_text(b, "null");
}

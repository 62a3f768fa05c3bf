/* tool_value.c - conversion of argument values to JSON.
 *
 * JSON is emitted as written, except that control characters in strings, such as line breaks, are
 * escaped. Models often omit these escapes. A raw text gets its type from the tool's schema.
 *
 *   value_json     VALUE_BEGIN --{ or [--> INSIDE --depth 0--> VALUE_END
 *                              --"-------> TEXT ----"--------> VALUE_END
 *                              --other---> SCALAR --, ] } or blank--> VALUE_END
 *   value_typed    the whole raw text at once, with the type of its schema */
#include "chat/parser_impl.h"

#include "base/check.h"
#include "base/text.h"

#include <string.h>

/* ---- JSON ---- */

enum { INSIDE = 1, TEXT, SCALAR };

/* Emit text of a value if `wanted` is true. The values of skipped members are parsed, but not
 * emitted. */
static void emit_if(struct parser_stage *s, bool wanted, const char *text, size_t n)
{
    if (wanted) parser_emit_arguments(s, text, n);
}

/* Emit a control character, a quote or a backslash as JSON's escape, the short form if
 * available. */
static void escape(struct parser_stage *s, char c)
{
    static const char hex[] = "0123456789abcdef";
    const char *p = c ? strchr("\"\\\nn\tt\rr\bb\ff", c) : NULL;
    char text[6] = {'\\', 'u', '0', '0', hex[(c >> 4) & 1], hex[c & 15]};
    if (c == '"' || c == '\\')
        text[1] = c;
    else if (p)
        text[1] = p[1];
    parser_emit_arguments(s, text, p ? 2 : 6);
}

/* Emit text as the inside of a JSON string. */
void value_text(struct parser_stage *s, const char *text, size_t n)
{
    size_t begin = 0;
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)text[i] >= 0x20 && text[i] != '"' && text[i] != '\\') continue;
        parser_emit_arguments(s, text + begin, i - begin);
        escape(s, text[i]);
        begin = i + 1;
    }
    parser_emit_arguments(s, text + begin, n - begin);
}

/* Continue inside an object or a list. Return the number of bytes consumed. */
static size_t json_inside(struct parser_stage *s, const char *text, size_t n, bool wanted)
{
    struct value *v = &s->call.value;
    size_t i = 0, begin = 0;
    for (; i < n && v->part == INSIDE; i++) {
        char c = text[i];
        if (v->quoted && (unsigned char)c < 0x20) {
            emit_if(s, wanted, text + begin, i - begin);
            if (wanted && !v->escaped) escape(s, c);
            if (wanted && v->escaped) parser_emit_arguments(s, "n", 1);
            begin = i + 1;
        }
        if (v->escaped)
            v->escaped = false;
        else if (v->quoted && c == '\\')
            v->escaped = true;
        else if (c == '"')
            v->quoted = !v->quoted;
        else if (!v->quoted && (c == '{' || c == '['))
            v->depth++;
        else if (!v->quoted && (c == '}' || c == ']') && --v->depth == 0)
            v->part = VALUE_END;
    }
    emit_if(s, wanted, text + begin, i - begin);
    return i;
}

/* Return the value of n hexadecimal digits; -1 if a character is not a hexadecimal digit. */
int hex_value(const char *text, int n)
{
    CHECK(n >= 1 && n <= 8, "%d digits", n);
    int x = 0;
    for (int i = 0; i < n; i++) {
        int digit = hex_digit(text[i]);
        if (digit < 0) return -1;
        x = x * 16 + digit;
    }
    return x;
}

static void emit_utf8(struct parser_stage *s, bool wanted, unsigned cp)
{
    struct buf b = {0};
    buf_add_utf8(&b, cp);
    if (b.failed)
        parser_no_memory(s);
    else
        emit_if(s, wanted, b.data, b.n);
    buf_deinit(&b);
}

/* Emit the character of the escape \uXXXX at text[0]. Return the length of the escape; 0 if more
 * text is needed. */
static size_t unescape_u(struct parser_stage *s, const char *text, size_t n, bool end, bool wanted)
{
    int low, high = n >= 6 ? hex_value(text + 2, 4) : -1;
    if (n < 6 && !end) return 0;
    if (high < 0) return emit_if(s, wanted, text, 2), 2;
    if (high < 0xD800 || high > 0xDFFF) return emit_utf8(s, wanted, (unsigned)high), 6;
    if (n < 12 && !end && (n < 7 || text[6] == '\\') && (n < 8 || text[7] == 'u')) return 0;
    low =
        high < 0xDC00 && n >= 12 && text[6] == '\\' && text[7] == 'u' ? hex_value(text + 8, 4) : -1;
    bool pair = low >= 0xDC00 && low <= 0xDFFF;
    unsigned cp = 0x10000u + ((unsigned)(high & 0x3FF) << 10) + (unsigned)(low & 0x3FF);
    return emit_utf8(s, wanted, pair ? cp : 0xFFFD), pair ? 12 : 6;
}

/* Emit the decoded text of a JSON string, because models put quotes around arguments. */
static size_t json_text_inside(struct parser_stage *s, const char *text, size_t n, bool end,
                               bool wanted)
{
    size_t i = 0, k;
    while (i < n && text[i] != '"' && text[i] != '\\') i++;
    emit_if(s, wanted, text, i);
    if (i == n) return i;
    if (text[i] == '"') {
        s->call.value.part = VALUE_END;
        return i + 1;
    }
    if (i + 1 == n) return end ? n : i;
    if (text[i + 1] == 'u') {
        k = unescape_u(s, text + i, n - i, end, wanted);
        return i + k;
    }
    static const char from[] = "ntrbf", to[] = "\n\t\r\b\f";
    const char *p = strchr(from, text[i + 1]);
    emit_if(s, wanted, p && *p ? &to[p - from] : &text[i + 1], 1);
    return i + 2;
}

/* Emit a number or word up to the next delimiter, without a check. */
static size_t json_scalar(struct parser_stage *s, const char *text, size_t n, bool wanted)
{
    size_t i = 0;
    while (i < n && !is_blank(text[i]) && !strchr(",]}", text[i])) i++;
    if (i < n) s->call.value.part = VALUE_END;
    emit_if(s, wanted, text, i);
    return i;
}

/* Begin a JSON value. Blanks are skipped. Emit nothing for null, which means that there are no
 * arguments. */
static size_t json_begin(struct parser_stage *s, const char *text, size_t n, bool end)
{
    struct value *v = &s->call.value;
    size_t blank = space_front(text, n);
    if (blank > 0 || n == 0) return blank;
    if (!end && text_may_begin(text, n, "null")) return 0;
    if (text_begins(text, n, "null")) {
        v->part = VALUE_END;
        return 4;
    }
    v->part = *text == '{' || *text == '[' ? INSIDE : *text == '"' ? TEXT : SCALAR;
    return v->part == TEXT;
}

size_t value_json(struct parser_stage *s, const char *text, size_t n, bool end, bool wanted)
{
    switch (s->call.value.part) {
    case VALUE_BEGIN:
        return json_begin(s, text, n, end);
    case INSIDE:
        return json_inside(s, text, n, wanted);
    case TEXT:
        return json_text_inside(s, text, n, end, wanted);
    default:
        return json_scalar(s, text, n, wanted);
    }
}

/* ---- raw text with a type ---- */

/* Return true if the value must be a string, so that it can be emitted before its end is known. */
bool value_is_text(const struct parser_stage *s)
{
    const struct tool_call *c = &s->call;
    if (c->body->key_end[1]) return !c->is_json; /* the marks declare the type */
    return schema_types(c->schema, c->type) == JT_TEXT;
}

/* Emit text[0, n) unchanged if the text is JSON of one of the types. A quoted string is JSON only
 * if its mark declares JSON; otherwise the quotes belong to the text. */
static bool as_json(struct parser_stage *s, const char *text, size_t n, unsigned types,
                    bool is_json)
{
    static const struct json_limits limits = {.depth_max = 200, .node_max = 1000000};
    struct json *j = NULL;
    if (json_parse(&j, text, n, &limits, NULL) == ERR_MEMORY) parser_no_memory(s);
    bool ok = j && (is_json || (json_type_bit(j) & types & ~(unsigned)JT_TEXT) != 0);
    if (ok) parser_emit_arguments(s, text, n);
    json_drop(j);
    return ok;
}

/* Emit the JSON constant for a constant of JSON or Python, because models write both kinds. */
static bool as_word(struct parser_stage *s, const char *text, size_t n, unsigned types)
{
    static const struct {
        const char *word, *json; /* static */
        unsigned type;
    } words[] = {{"True", "true", JT_BOOL}, {"False", "false", JT_BOOL}, {"None", "null", JT_NULL}};
    if (types & JT_TEXT) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if ((types & words[i].type) && n == strlen(words[i].word) &&
            text_begins(text, n, words[i].word))
            return parser_emit_arguments(s, words[i].json, strlen(words[i].json)), true;
    return false;
}

/* Emit a raw text as a JSON string, with its blanks. */
static void as_text(struct parser_stage *s, const char *text, size_t n)
{
    parser_emit_arguments(s, "\"", 1);
    value_text(s, text, n);
    parser_emit_arguments(s, "\"", 1);
}

/* Emit a raw text as a value of its schema's type. JSON of an allowed type is tried first, then a
 * constant of Python, then a string. */
static void typed(struct parser_stage *s, const struct json *schema, const char *text, size_t n)
{
    bool is_json = s->call.is_json;
    unsigned types = is_json ? JT_ALL : schema_types(s->call.schema, schema);
    size_t blank = space_front(text, n), n_inner = n - blank - space_back(text + blank, n - blank);
    const char *inner = text + blank;
    if (n_inner > 0 && as_json(s, inner, n_inner, types, is_json)) return;
    if (!as_word(s, inner, n_inner, types)) as_text(s, text, n);
}

/* ---- nested arguments ---- */

enum { NEST_MAX = 32 };

/* A nested argument at the front of a text. */
struct nested {
    const char *key, *value;       /* borrowed from the text [n_key], [n_value] */
    size_t n_key, n_value, n_used; /* n_used: length of the argument with its marks, in bytes */
};

/* Find the argument KEY at the front of text[0, n). */
static bool find_nested(const struct call_body *b, const char *text, size_t n, struct nested *out)
{
    char end[NAME_ROOM + 64];
    size_t begin = space_front(text, n);
    if (!text_begins(text + begin, n - begin, b->key_begin)) return false;
    const char *key = text + begin + strlen(b->key_begin);
    const char *close = memchr(key, '>', n - (size_t)(key - text));
    if (!close || close - key >= NAME_ROOM || *key == '/') return false;
    size_t n_key = (size_t)(close - key), n_end = strlen(b->value_end);
    CHECK(n_end + n_key + 1 <= sizeof end, "a mark of %zu bytes", n_end + n_key + 1);
    memcpy(end, b->value_end, n_end);
    memcpy(end + n_end, key, n_key + 1);
    n_end += n_key + 1;
    const char *value = close + 1, *p = memmem(value, n - (size_t)(value - text), end, n_end);
    if (!p) return false;
    *out = (struct nested){.key = key,
                           .n_key = n_key,
                           .value = value,
                           .n_value = (size_t)(p - value),
                           .n_used = (size_t)(p - text) + n_end};
    return true;
}

/* Return true if the text consists of nested arguments only. */
static bool all_nested(const struct call_body *b, const char *text, size_t n)
{
    struct nested a;
    size_t at = 0;
    for (; at + space_front(text + at, n - at) < n; at += a.n_used)
        if (!find_nested(b, text + at, n - at, &a)) return false;
    return at > 0;
}

/* Emit nested arguments as an object, or as a list if the schema permits a list and the keys are
 * "item". A schema that permits strings excludes nesting, because a string may contain the
 * marks. */
static void emit_nested(struct parser_stage *s, const struct json *schema, const char *text,
                        size_t n, int depth)
{
    const struct call_body *b = s->call.body;
    unsigned types = schema_types(s->call.schema, schema);
    struct nested a;
    bool nested = depth < NEST_MAX && (types == JT_ALL || !(types & JT_TEXT)) &&
                  (types & (JT_LIST | JT_OBJECT)) && all_nested(b, text, n);
    if (!nested) {
        typed(s, schema, text, n);
        return;
    }
    find_nested(b, text, n, &a);
    bool list = (types & JT_LIST) && a.n_key == 4 && memcmp(a.key, "item", 4) == 0;
    for (size_t at = 0; at + space_front(text + at, n - at) < n; at += a.n_used) {
        find_nested(b, text + at, n - at, &a);
        parser_emit_arguments(s, at > 0 ? ", " : list ? "[" : "{", at > 0 ? 2 : 1);
        if (!list) as_text(s, a.key, a.n_key);
        if (!list) parser_emit_arguments(s, ": ", 2);
        emit_nested(s, schema_member(s->call.schema, schema, list ? NULL : a.key, a.n_key), a.value,
                    a.n_value, depth + 1);
    }
    parser_emit_arguments(s, list ? "]" : "}", 1);
}

void value_typed(struct parser_stage *s, const char *text, size_t n)
{
    if (s->call.body->nested)
        emit_nested(s, s->call.type, text, n, 0);
    else
        typed(s, s->call.type, text, n);
}

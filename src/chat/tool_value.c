/* tool_value.c - values of arguments, from what the model writes to JSON.
 *
 * JSON passes as it is written, with line breaks and other control characters in its strings
 * escaped, which models forget. A raw text gets its type from the tool's schema. */
#include "chat/parser_impl.h"

#include <string.h>

/* ---- JSON ---- */

enum { INSIDE = 1, TEXT, SCALAR };

static void emit_if(struct stage *s, bool wanted, const char *text, size_t n)
{
    if (wanted) parser_emit_arguments(s, text, n);
}

static void escape(struct stage *s, char c)
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

void value_text(struct stage *s, const char *text, size_t n)
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

/* Read on in an object or a list. */
static size_t json_inside(struct stage *s, const char *text, size_t n, bool wanted)
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

int hex_value(const char *text, int n)
{
    int x = 0;
    for (int i = 0; i < n; i++) {
        char c = text[i], low = (char)(c | 32);
        int digit = c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
        if (digit < 0) return -1;
        x = x * 16 + digit;
    }
    return x;
}

static void emit_utf8(struct stage *s, bool wanted, unsigned cp)
{
    struct buf b = {0};
    buf_add_utf8(&b, cp);
    if (b.failed)
        parser_no_memory(s);
    else
        emit_if(s, wanted, b.data, b.n);
    buf_deinit(&b);
}

/* Emit the character of the escape \uXXXX at text[0]; its length, 0 if more text is needed. */
static size_t unescape_u(struct stage *s, const char *text, size_t n, bool end, bool wanted)
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

/* Emit the inside of a JSON string, decoded: models put quotes around arguments. */
static size_t json_text_inside(struct stage *s, const char *text, size_t n, bool end, bool wanted)
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

static size_t json_scalar(struct stage *s, const char *text, size_t n, bool wanted)
{
    size_t i = 0;
    while (i < n && !is_blank(text[i]) && !strchr(",]}", text[i])) i++;
    if (i < n) s->call.value.part = VALUE_END;
    emit_if(s, wanted, text, i);
    return i;
}

static size_t json_begin(struct stage *s, const char *text, size_t n, bool end)
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

size_t value_json(struct stage *s, const char *text, size_t n, bool end, bool wanted)
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

bool value_is_text(const struct stage *s)
{
    const struct call *c = &s->call;
    if (c->body->key_end[1]) return !c->is_json; /* the marks declare it */
    return schema_types(c->schema, c->type) == TYPE_TEXT;
}

static unsigned type_of(const struct json *j)
{
    static const unsigned types[] = {
        [JK_NONE] = 0,          [JK_NULL] = TYPE_NULL,    [JK_BOOL] = TYPE_BOOL,
        [JK_INT] = TYPE_NUMBER, [JK_REAL] = TYPE_NUMBER,  [JK_TEXT] = 0,
        [JK_LIST] = TYPE_LIST,  [JK_OBJECT] = TYPE_OBJECT};
    return types[json_kind(j)];
}

/* Emit text[0, n) as it is if it is JSON of the types. A quoted string is JSON only if its mark
 * declares it to be: otherwise the quotes belong to the text. */
static bool as_json(struct stage *s, const char *text, size_t n, unsigned types, bool is_json)
{
    static const struct json_limits limits = {.depth_max = 200, .node_max = 1000000};
    struct json *j = NULL;
    if (json_parse(&j, text, n, &limits, NULL) == ERR_MEMORY) parser_no_memory(s);
    bool ok = j && (is_json || (type_of(j) & types) != 0);
    if (ok) parser_emit_arguments(s, text, n);
    json_drop(j);
    return ok;
}

/* Python's words, which models write for those of JSON. */
static bool as_word(struct stage *s, const char *text, size_t n, unsigned types)
{
    static const struct {
        const char *word, *json;
        unsigned type;
    } words[] = {
        {"True", "true", TYPE_BOOL}, {"False", "false", TYPE_BOOL}, {"None", "null", TYPE_NULL}};
    if (types & TYPE_TEXT) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if ((types & words[i].type) && n == strlen(words[i].word) &&
            text_begins(text, n, words[i].word))
            return parser_emit_arguments(s, words[i].json, strlen(words[i].json)), true;
    return false;
}

static void as_text(struct stage *s, const char *text, size_t n)
{
    parser_emit_arguments(s, "\"", 1);
    value_text(s, text, n);
    parser_emit_arguments(s, "\"", 1);
}

static void typed(struct stage *s, const struct json *schema, const char *text, size_t n)
{
    bool is_json = s->call.is_json;
    unsigned types = is_json ? TYPE_ANY : schema_types(s->call.schema, schema);
    size_t blank = space_front(text, n), n_inner = n - blank - space_back(text + blank, n - blank);
    const char *inner = text + blank;
    if (n_inner > 0 && as_json(s, inner, n_inner, types, is_json)) return;
    if (!as_word(s, inner, n_inner, types)) as_text(s, text, n);
}

/* ---- nested arguments ---- */

enum { NEST_MAX = 32 };

/* Find the argument KEY at the front of text[0, n): its key, its value, and the bytes of it all. */
static bool find_nested(const struct call_body *b, const char *text, size_t n, const char **key,
                        size_t *n_key, const char **value, size_t *n_value, size_t *used)
{
    char end[NAME_ROOM + 64];
    size_t begin = space_front(text, n);
    if (!text_begins(text + begin, n - begin, b->key_begin)) return false;
    *key = text + begin + strlen(b->key_begin);
    const char *close = memchr(*key, '>', n - (size_t)(*key - text));
    if (!close || close - *key >= NAME_ROOM || **key == '/') return false;
    *n_key = (size_t)(close - *key);
    *value = close + 1;
    size_t n_end = strlen(b->value_end);
    memcpy(end, b->value_end, n_end);
    memcpy(end + n_end, *key, *n_key + 1);
    n_end += *n_key + 1;
    const char *p = memmem(*value, n - (size_t)(*value - text), end, n_end);
    if (!p) return false;
    *n_value = (size_t)(p - *value);
    *used = (size_t)(p - text) + n_end;
    return true;
}

static bool all_nested(const struct call_body *b, const char *text, size_t n)
{
    const char *key, *value;
    size_t n_key, n_value, used, at = 0;
    while (at + space_front(text + at, n - at) < n) {
        if (!find_nested(b, text + at, n - at, &key, &n_key, &value, &n_value, &used)) return false;
        at += used;
    }
    return at > 0;
}

static void emit_nested(struct stage *s, const struct json *schema, const char *text, size_t n,
                        int depth)
{
    const struct call_body *b = s->call.body;
    unsigned types = schema_types(s->call.schema, schema);
    const char *key, *value;
    size_t n_key, n_value, used;
    bool nested = depth < NEST_MAX && (types == TYPE_ANY || !(types & TYPE_TEXT)) &&
                  (types & (TYPE_LIST | TYPE_OBJECT)) && all_nested(b, text, n);
    if (!nested) {
        typed(s, schema, text, n);
        return;
    }
    find_nested(b, text, n, &key, &n_key, &value, &n_value, &used);
    bool list = (types & TYPE_LIST) && n_key == 4 && memcmp(key, "item", 4) == 0;
    for (size_t at = 0; at + space_front(text + at, n - at) < n; at += used) {
        find_nested(b, text + at, n - at, &key, &n_key, &value, &n_value, &used);
        parser_emit_arguments(s, at > 0 ? ", " : list ? "[" : "{", at > 0 ? 2 : 1);
        if (!list) as_text(s, key, n_key);
        if (!list) parser_emit_arguments(s, ": ", 2);
        emit_nested(s, schema_member(s->call.schema, schema, list ? NULL : key, n_key), value,
                    n_value, depth + 1);
    }
    parser_emit_arguments(s, list ? "]" : "}", 1);
}

void value_typed(struct stage *s, const char *text, size_t n)
{
    if (s->call.body->nested)
        emit_nested(s, s->call.type, text, n, 0);
    else
        typed(s, s->call.type, text, n);
}

/* tool_literal.c - conversion of literals to JSON: literals of Python, and literals with bare keys
 * and special quotes.
 *
 * Any text becomes JSON. A word that is neither a number nor a constant is a string, and a missing
 * value is null. A closing bracket ends the innermost level. A comma or closing bracket at the
 * outermost level is not part of the literal. */
#include "chat/parser_impl.h"

#include <string.h>

enum { ITEM, COLON, VALUE }; /* next part of a level; COLON and VALUE are in objects only */

static void put(struct parser_stage *s, const char *text)
{
    parser_emit_arguments(s, text, strlen(text));
}

/* Begin a key or value. Return true for a key. */
static bool item_begin(struct parser_stage *s)
{
    struct value *v = &s->call.value;
    bool key = v->level[v->depth].map && v->level[v->depth].phase == ITEM;
    if (v->level[v->depth].phase == COLON) { /* a key without a value, as in {'a' 'b'} */
        put(s, ": null");
        v->level[v->depth].phase = ITEM;
        key = true;
    }
    if (v->level[v->depth].phase == ITEM && v->level[v->depth].any) put(s, ", ");
    v->level[v->depth].any = true;
    return key;
}

/* End a key or value. A colon follows a key, and a value ends its item. At depth 0 the value ends
 * the literal. */
static void item_end(struct parser_stage *s)
{
    struct value *v = &s->call.value;
    bool key = v->level[v->depth].map && v->level[v->depth].phase == ITEM;
    v->level[v->depth].phase = key ? COLON : ITEM;
    if (v->depth == 0) v->part = VALUE_END;
}

/* ---- strings ---- */

/* End a string. n: number of consumed bytes, including the closing quote. */
static size_t text_close(struct parser_stage *s, size_t n)
{
    put(s, "\"");
    s->call.value.quote = 0;
    s->call.value.triple = false;
    item_end(s);
    return n;
}

/* Emit a code point. Emit U+FFFD for a number that is not a code point. */
static void put_utf8(struct parser_stage *s, int cp)
{
    struct buf b = {0};
    buf_add_utf8(&b, cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF) ? 0xFFFD : (unsigned)cp);
    if (b.failed)
        parser_no_memory(s);
    else
        value_text(s, b.data, b.n);
    buf_deinit(&b);
}

/* Emit the character of Python's escape at text[0]. Return the length of the escape; 0 if more text
 * is needed. */
static size_t python_escape(struct parser_stage *s, const char *text, size_t n, bool end)
{
    static const char from[] = "ntrbf0av'\"\\", to[] = "\n\t\r\b\f\0\a\v'\"\\";
    if (n < 2) return end ? n : 0;
    const char *p = text[1] ? strchr(from, text[1]) : NULL;
    int n_hex = text[1] == 'x' ? 2 : text[1] == 'u' ? 4 : text[1] == 'U' ? 8 : 0;
    if (text[1] == '\n') return 2;
    if (p) return value_text(s, &to[p - from], 1), 2;
    if (n_hex == 0) return value_text(s, text, 2), 2;
    if (n < 2 + (size_t)n_hex && !end) return 0;
    int cp =
        n < 2 + (size_t)n_hex || (n_hex == 8 && text[2] != '0') ? -1 : hex_value(text + 2, n_hex);
    if (cp < 0) return value_text(s, text, 2), 2;
    if (cp < 0xD800 || cp > 0xDBFF) return put_utf8(s, cp), 2 + (size_t)n_hex;
    if (n < 12 && !end) return 0; /* a pair of surrogates, as in JSON */
    int low = n >= 12 && text[6] == '\\' && text[7] == 'u' ? hex_value(text + 8, 4) : -1;
    bool pair = low >= 0xDC00 && low <= 0xDFFF;
    return put_utf8(s, pair ? 0x10000 + ((cp & 0x3FF) << 10) + (low & 0x3FF) : 0xFFFD),
           pair ? 12 : 2 + (size_t)n_hex;
}

static size_t python_text(struct parser_stage *s, const char *text, size_t n, bool end)
{
    struct value *v = &s->call.value;
    size_t i = 0;
    while (i < n && text[i] != v->quote && text[i] != '\\') i++;
    value_text(s, text, i);
    if (i > 0 || n == 0) return i;
    if (text[0] == '\\') return python_escape(s, text, n, end);
    if (!v->triple) return text_close(s, 1);
    if (n < 3 && !end) return 0;
    if (n >= 3 && text[1] == v->quote && text[2] == v->quote) return text_close(s, 3);
    value_text(s, text, 1);
    return 1;
}

/* Emit the text up to the string mark. Hold an incomplete mark at the end of the text. */
static size_t marked_text(struct parser_stage *s, const char *text, size_t n, bool end)
{
    const char *mark = s->call.body->string_mark, *p = memmem(text, n, mark, strlen(mark));
    size_t k = p ? (size_t)(p - text) : n - (end ? 0 : text_partial(text, n, mark));
    value_text(s, text, k);
    return p ? text_close(s, k + strlen(mark)) : k;
}

/* Begin a string at text[0]. Return the length of the string's quote; 0 if more text is needed. */
static size_t text_begin(struct parser_stage *s, const char *text, size_t n, bool end)
{
    struct value *v = &s->call.value;
    const char *mark = s->call.body->string_mark;
    if (!mark && n < 3 && !end && (n < 2 || text[1] == text[0])) return 0;
    v->quote = text[0];
    v->triple = !mark && n >= 3 && text[1] == text[0] && text[2] == text[0];
    item_begin(s);
    put(s, "\"");
    return mark ? strlen(mark) : v->triple ? 3 : 1;
}

/* ---- words and brackets ---- */

/* Return true if the text is a number of JSON. */
static bool is_number(const char *text, size_t n)
{
    struct json *j = NULL;
    if (n > 64 || !memchr("-0123456789", text[0], 11)) return false;
    json_parse(&j, text, n, NULL, NULL);
    bool ok = json_kind(j) == JK_INT || json_kind(j) == JK_REAL;
    json_drop(j);
    return ok;
}

/* Return the JSON constant of a word of Python or JSON; NULL if none. */
static const char *constant(const char *text, size_t n)
{
    static const char *const words[][2] = {{"true", "true"},   {"True", "true"}, {"false", "false"},
                                           {"False", "false"}, {"null", "null"}, {"None", "null"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (n == strlen(words[i][0]) && memcmp(text, words[i][0], n) == 0) return words[i][1];
    return NULL;
}

/* Emit a bare word. The word ends at the next delimiter, possibly in later text. v->at is the
 * number of bytes that were already searched. */
static size_t word(struct parser_stage *s, const char *text, size_t n, bool end)
{
    struct value *v = &s->call.value;
    const char *mark = s->call.body->string_mark;
    size_t i = v->at > 0 ? v->at : 1;
    while (i < n && !strchr(",:()[]{}'\"", text[i]) && !(mark && text[i] == mark[0])) i++;
    v->at = i;
    if (i == n && !end) return 0;
    v->at = 0;
    size_t k = i - space_back(text, i);
    bool key = item_begin(s);
    const char *known = key ? NULL : constant(text, k);
    if (known)
        put(s, known);
    else if (!key && is_number(text, k))
        parser_emit_arguments(s, text, k);
    else
        put(s, "\""), value_text(s, text, k), put(s, "\"");
    item_end(s);
    return i;
}

/* Open a list or an object. "(" opens a list, because a tuple of Python becomes a list. */
static size_t open_bracket(struct parser_stage *s, char c)
{
    struct value *v = &s->call.value;
    bool map = c == '{', key = v->level[v->depth].map && v->level[v->depth].phase != VALUE;
    /* JSON has no key of this kind, and deeper levels are not stored */
    if (key || v->depth == LITERAL_DEPTH_MAX) return 1;
    item_begin(s);
    put(s, map ? "{" : "[");
    v->depth++;
    v->level[v->depth].map = map;
    v->level[v->depth].any = false;
    v->level[v->depth].phase = ITEM;
    return 1;
}

/* Complete a pair whose value is missing: {"a"} and {"a":}. */
static void finish_pair(struct parser_stage *s)
{
    struct value *v = &s->call.value;
    if (v->level[v->depth].phase == COLON) put(s, ": null");
    if (v->level[v->depth].phase == VALUE) put(s, "null");
    v->level[v->depth].phase = ITEM;
}

static size_t close_bracket(struct parser_stage *s)
{
    struct value *v = &s->call.value;
    finish_pair(s);
    put(s, v->level[v->depth].map ? "}" : "]");
    v->depth--;
    item_end(s);
    return 1;
}

/* End the literal. Emit null if the literal has no value. */
static size_t close_literal(struct parser_stage *s)
{
    if (!s->call.value.level[0].any) put(s, "null");
    s->call.value.part = VALUE_END;
    return 0;
}

/* Process a delimiter. At depth 0, a comma or closing bracket belongs to the call, not to the
 * literal. */
static size_t sign(struct parser_stage *s, char c)
{
    struct value *v = &s->call.value;
    if (c == ',' || c == ')' || c == ']' || c == '}') {
        if (v->depth == 0) return close_literal(s);
        if (c != ',') return close_bracket(s);
        finish_pair(s);
        return 1;
    }
    if (c == ':' && v->level[v->depth].phase == COLON) {
        put(s, ": ");
        v->level[v->depth].phase = VALUE;
    }
    return c == ':' ? 1 : open_bracket(s, c);
}

size_t value_literal(struct parser_stage *s, const char *text, size_t n, bool end)
{
    struct value *v = &s->call.value;
    const char *mark = s->call.body->string_mark;
    if (v->quote && mark) return marked_text(s, text, n, end);
    if (v->quote) return python_text(s, text, n, end);
    size_t blank = space_front(text, n);
    if (blank > 0 || n == 0) return blank;
    if (mark && !end && text_may_begin(text, n, mark)) return 0;
    bool quoted = mark ? text_begins(text, n, mark) : *text == '\'' || *text == '"';
    if (quoted) return text_begin(s, text, n, end);
    return *text && strchr(",:()[]{}", *text) ? sign(s, *text) : word(s, text, n, end);
}

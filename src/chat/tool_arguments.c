/* tool_arguments.c - the arguments of a call, after its name, emitted as written.
 *
 * Each form is a small state machine with the state s->call.part. The machine stops at the first
 * text that does not belong to the call, which is content or the next call.
 *
 *   form            text after the name                        states
 *   CALL_OBJECT     {"name": N, "arguments": {...}}            KEY COLON VALUE NEXT
 *   CALL_LIST       [{...}, {...}]                             ITEM, then as CALL_OBJECT
 *   CALL_KEYED      [{NAME: {...}}, ...]                       ITEM VALUE NEXT
 *   CALL_NAMED      {...}                                      the states of value_json
 *   CALL_MARKED     <key>city</key><value>Rome</value> ...     BETWEEN FIRST IN_*
 *
 * Each step function returns the number of consumed bytes. 0 means that more text is needed, or
 * that the state has changed without a byte. */
#include "chat/parser_impl.h"

#include "base/check.h"

#include <string.h>

/* End the call. A call without arguments gets "{}", because clients parse them as JSON. */
static size_t finish_call(struct parser_stage *s, size_t n)
{
    if (!s->call.emitted) parser_emit_arguments(s, "{}", 2);
    s->call.done = true;
    return n;
}

void call_begin(struct parser_stage *s, const struct call_body *body, const struct tool_head *h)
{
    CHECK(body->form != CALL_FORM_END, "the call %s has no form", h->name);
    s->call = (struct tool_call){.body = body, .schema = schema_of_tool(s->schemas, h->name)};
    s->any_call = true;
    parser_emit_call(s, h->name, *h->id ? h->id : NULL);
}

/* ---- lists ---- */

enum { OPEN, KEY, COLON, VALUE, NEXT, ITEM };

/* Process text[0, n) between two calls of a list, or after the last call. */
static size_t list_item(struct parser_stage *s, const char *text, size_t n, bool end)
{
    const struct call_body *b = s->call.body;
    struct tool_head h;
    if (text[0] == ',') return 1;
    if (text[0] == ']') return finish_call(s, 1);
    enum call_verdict v = call_item(s, text, n, end, &h);
    if (v == CALL_MAYBE) return 0;
    if (v == CALL_NO) return finish_call(s, 0);
    call_begin(s, b, &h);
    s->call.part = b->form == CALL_KEYED ? VALUE : KEY;
    s->call.wanted = true;
    return b->form == CALL_KEYED ? h.n_used : 1;
}

/* End an object. Return n. */
static size_t object_end(struct parser_stage *s, size_t n)
{
    if (s->call.body->form == CALL_OBJECT) return finish_call(s, n);
    if (!s->call.emitted) parser_emit_arguments(s, "{}", 2);
    s->call.emitted = true;
    s->call.part = ITEM;
    return n;
}

/* ---- objects ---- */

enum { KEY_MAX = 6 * NAME_ROOM }; /* maximum length of a member's name as written, in bytes */

/* Return true if a key, with its quotes, is a name of the arguments. */
static bool is_arguments(const struct tool_call *c, const char *key, size_t n)
{
    for (int i = 0; i < 2 && c->body->arguments_key[i]; i++)
        if (n == strlen(c->body->arguments_key[i]) + 2 &&
            memcmp(key + 1, c->body->arguments_key[i], n - 2) == 0)
            return true;
    return false;
}

/* Parse a member's name. Only the first member with the arguments is emitted (c->wanted). All other
 * members are skipped. */
static size_t object_key(struct parser_stage *s, const char *text, size_t n)
{
    struct tool_call *c = &s->call;
    if (text[0] == '}') return object_end(s, 1);
    if (text[0] != '"') return finish_call(s, 0);
    size_t k = string_len(text, n);
    if (k > KEY_MAX || (k == 0 && n > KEY_MAX)) return finish_call(s, 0);
    c->wanted = k > 0 && c->n_argument == 0 && is_arguments(c, text, k);
    c->n_argument += c->wanted;
    if (k > 0) c->part = COLON;
    return k;
}

/* Parse a member's value, and emit it if c->wanted. */
static size_t object_value(struct parser_stage *s, const char *text, size_t n, bool end)
{
    struct tool_call *c = &s->call;
    size_t k = value_json(s, text, n, end, c->wanted);
    if (c->value.part == VALUE_END) c->value = (struct value){0}, c->part = NEXT;
    return k;
}

/* Parse an object {"name": ..., "arguments": ...}, a list of these objects, or a list of {NAME:
 * ...}. */
static size_t object_step(struct parser_stage *s, const char *text, size_t n, bool end)
{
    struct tool_call *c = &s->call;
    if (c->part == VALUE) return object_value(s, text, n, end);
    size_t blank = space_front(text, n);
    if (blank > 0) return blank;
    switch (c->part) {
    case OPEN: /* call_head has parsed the whole head */
        c->part = c->body->form == CALL_OBJECT ? KEY : ITEM;
        return 1;
    case KEY:
        return object_key(s, text, n);
    case COLON:
        c->part = VALUE;
        return text[0] == ':';
    case NEXT:
        if (text[0] == '}') return object_end(s, 1);
        c->part = KEY;
        return text[0] == ',' ? 1 : finish_call(s, 0);
    default:
        return list_item(s, text, n, end);
    }
}

/* ---- a name and JSON ---- */

/* Parse the JSON arguments of CALL_NAMED. The arguments end with their outermost bracket. */
static size_t named_step(struct parser_stage *s, const char *text, size_t n, bool end)
{
    size_t k = value_json(s, text, n, end, true);
    return s->call.value.part == VALUE_END ? finish_call(s, k) : k;
}

/* ---- arguments between marks ---- */

enum { BETWEEN, FIRST, IN_TEXT, IN_RAW, IN_VERBATIM, AFTER_VERBATIM, IN_LITERAL };

/* Close the JSON object of the arguments. The end mark is not consumed. */
static size_t end_of_arguments(struct parser_stage *s)
{
    parser_emit_arguments(s, s->call.n_argument ? "}" : "{}", s->call.n_argument ? 1 : 2);
    return finish_call(s, 0);
}

/* Emit the key as JSON and select the parser of the value. The key must be shorter than
 * s->call.key. */
static size_t argument_begin(struct parser_stage *s, const char *key, size_t n_key, size_t used)
{
    CHECK(n_key < sizeof s->call.key, "a key of %zu bytes", n_key);
    struct tool_call *c = &s->call;
    memcpy(c->key, key, n_key);
    c->key[n_key] = 0;
    c->type = schema_member(c->schema, c->schema, key, n_key);
    parser_emit_arguments(s, c->n_argument ? ", \"" : "{\"", c->n_argument ? 3 : 2);
    value_text(s, key, n_key);
    parser_emit_arguments(s, "\": ", 3);
    c->n_argument++;
    c->value = (struct value){0};
    c->part = c->body->value == VALUE_TYPED ? FIRST : IN_LITERAL;
    return used;
}

/* Find the end of the key at text[0]. After CALL_YES, *n_key is the length of the key, and *used is
 * the length of key and mark, in bytes. */
static enum call_verdict find_key_end(struct tool_call *c, const char *text, size_t n,
                                      size_t *n_key, size_t *used)
{
    bool typed = c->body->value == VALUE_TYPED;
    for (size_t k = 0; k < n && k < NAME_ROOM; k++) {
        for (int i = 0; k > 0 && i < 2 && c->body->key_end[i]; i++) {
            enum call_verdict v = mark_at(c->body->key_end[i], text + k, n - k, used);
            if (v == CALL_NO) continue;
            c->is_json = i == 1;
            *n_key = k - space_back(text, k);
            *used += k;
            return *n_key > 0 ? v : CALL_NO;
        }
        if (typed ? text[k] == '\n' : !in_name(text[k])) return CALL_NO;
    }
    return n < NAME_ROOM ? CALL_MAYBE : CALL_NO;
}

/* Process the text between two arguments, or after the last argument. */
static size_t argument_next(struct parser_stage *s, const char *text, size_t n, bool end)
{
    struct tool_call *c = &s->call;
    const struct call_body *b = c->body;
    size_t used = 0, n_key = 0, at = 0, blank = space_front(text, n);
    if (blank > 0) return blank;
    enum call_verdict v = mark_at(s->tools->end[0], text, n, &used);
    if (v == CALL_YES) return end_of_arguments(s);
    if (v == CALL_MAYBE && !end) return 0;
    v = c->n_argument && b->argument_separator ? mark_at(b->argument_separator, text, n, &at)
                                               : CALL_NO;
    if (v == CALL_MAYBE && !end) return 0;
    if (v == CALL_YES) at += space_front(text + at, n - at);
    v = mark_at(b->key_begin ? b->key_begin : "", text + at, n - at, &used);
    at += v == CALL_YES ? used : 0;
    if (v == CALL_YES) v = find_key_end(c, text + at, n - at, &n_key, &used);
    if (v == CALL_MAYBE && !end) return 0;
    if (v == CALL_YES) return argument_begin(s, text + at, n_key, at + used);
    /* the end may follow a comma, or there may be no argument */
    if (at > 0 && b->argument_separator && !b->key_begin) return at;
    return end ? finish_call(s, 0) : end_of_arguments(s);
}

/* Find the end of a typed value. Return the number of bytes before the end, and set *used to the
 * length of the end mark. Set *used to 0 and return the number of bytes that certainly belong to
 * the value if there is no end mark. */
static size_t value_end(const struct tool_call *c, const char *text, size_t n, bool end,
                        size_t *used)
{
    char mark[NAME_ROOM + 64];
    const char *from = c->body->value_end + space_front(c->body->value_end, 64);
    size_t k = strlen(from), n_key = c->body->nested ? strlen(c->key) : 0;
    k -= space_back(from, k);
    CHECK(k + n_key < sizeof mark, "a mark of %zu bytes", k + n_key);
    memcpy(mark, from, k);
    memcpy(mark + k, c->key, n_key);
    if (c->body->nested) mark[k + n_key++] = '>';
    mark[k += n_key] = 0;
    const char *p = memmem(text, n, mark, k);
    *used = p ? k : 0;
    if (p) return (size_t)(p - text);
    return n - (end ? 0 : text_partial(text, n, mark));
}

/* Return the length of the newline at the end of text[0, k) if the end mark begins with a newline;
 * otherwise 0. */
static size_t newline_of_mark(const struct tool_call *c, const char *text, size_t k)
{
    return c->body->value_end[0] == '\n' && k > 0 && text[k - 1] == '\n';
}

/* End a value. The value ends after n bytes, with its mark. */
static size_t value_done(struct parser_stage *s, size_t n)
{
    s->call.part = BETWEEN;
    return n;
}

/* Emit the text of a string argument as written. */
static size_t typed_text(struct parser_stage *s, const char *text, size_t n, bool end)
{
    size_t used, k = value_end(&s->call, text, n, end, &used);
    size_t newline = used || !end ? newline_of_mark(&s->call, text, k) : 0;
    value_text(s, text, k - newline);
    if (!used) return k - newline;
    parser_emit_arguments(s, "\"", 1);
    return value_done(s, k + used);
}

/* Emit a typed value that is not a string. The type depends on the whole text. */
static size_t typed_raw(struct parser_stage *s, const char *text, size_t n, bool end)
{
    struct value *v = &s->call.value;
    size_t used, k = v->at + value_end(&s->call, text + v->at, n - v->at, end, &used);
    v->at = k;
    if (!used && !end) return 0;
    v->at = 0;
    value_typed(s, text, k - newline_of_mark(&s->call, text, k));
    return value_done(s, k + used);
}

/* Parse a value between the marks `verbatim`. The value's text may contain other marks. */
static size_t typed_verbatim(struct parser_stage *s, const char *text, size_t n, bool end)
{
    struct value *v = &s->call.value;
    const char *mark = s->call.body->verbatim[1];
    const char *p = memmem(text + v->at, n - v->at, mark, strlen(mark));
    size_t k = p ? (size_t)(p - text) : n;
    v->at = n - text_partial(text, n, mark);
    if (!p && !end) return 0;
    v->at = 0;
    value_typed(s, text, k);
    s->call.part = AFTER_VERBATIM;
    return p ? k + strlen(mark) : n;
}

/* Skip the text between the verbatim mark and the end of the value. */
static size_t after_verbatim(struct parser_stage *s, const char *text, size_t n, bool end)
{
    size_t used, k = value_end(&s->call, text, n, end, &used);
    return used ? value_done(s, k + used) : k;
}

/* Process the first byte of a typed value. */
static size_t typed_first(struct parser_stage *s, const char *text, size_t n, bool end)
{
    struct tool_call *c = &s->call;
    const char *mark = c->body->verbatim[0], *before = c->body->key_end[0];
    size_t newline = before[strlen(before) - 1] == '\n' && text[0] == '\n';
    if (newline && c->value.depth == 0) return c->value.depth = 1, 1;
    if (mark && !end && text_may_begin(text, n, mark)) return 0;
    if (mark && text_begins(text, n, mark)) {
        c->part = IN_VERBATIM;
        return strlen(mark);
    }
    c->part = value_is_text(s) ? IN_TEXT : IN_RAW;
    if (c->part == IN_TEXT) parser_emit_arguments(s, "\"", 1);
    return 0;
}

static size_t literal(struct parser_stage *s, const char *text, size_t n, bool end)
{
    size_t k = value_literal(s, text, n, end);
    return s->call.value.part == VALUE_END ? value_done(s, k) : k;
}

static size_t marked_step(struct parser_stage *s, const char *text, size_t n, bool end)
{
    switch (s->call.part) {
    case BETWEEN:
        return argument_next(s, text, n, end);
    case FIRST:
        return typed_first(s, text, n, end);
    case IN_TEXT:
        return typed_text(s, text, n, end);
    case IN_RAW:
        return typed_raw(s, text, n, end);
    case IN_VERBATIM:
        return typed_verbatim(s, text, n, end);
    case AFTER_VERBATIM:
        return after_verbatim(s, text, n, end);
    default:
        return literal(s, text, n, end);
    }
}

/* Run a step of the machine for the call's form. */
static size_t one_step(struct parser_stage *s, const char *text, size_t n, bool end)
{
    switch (s->call.body->form) {
    case CALL_NAMED:
        return named_step(s, text, n, end);
    case CALL_MARKED:
        return marked_step(s, text, n, end);
    default:
        return object_step(s, text, n, end);
    }
}

/* The loop ends if a step consumes no byte and changes no state. */
size_t call_step(struct parser_stage *s, const char *text, size_t n, bool end)
{
    CHECK(s->call.body && !s->call.done, "no call is open, %zu bytes", n);
    size_t at = 0;
    while (at < n && !s->call.done) {
        int part = s->call.part, value = s->call.value.part;
        size_t k = one_step(s, text + at, n - at, end);
        at += k;
        if (k == 0 && part == s->call.part && value == s->call.value.part) break;
    }
    return at;
}

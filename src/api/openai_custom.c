/* openai_custom.c - OpenAI's custom tools: a call has a text instead of arguments.
 *
 *   {"type":"custom","custom":{"name","description","format"}}
 *      --openai_read_custom--> {"type":"function","function":{"name","description","parameters"}}
 *   the function's call --custom_push--> {"type":"custom","custom":{"name","input"}}
 *
 * Templates and models support only functions. A custom tool therefore becomes a function with one
 * argument, the string `input`. The description of `input` contains the format, so a client need
 * not repeat the format in its prompt. Calls in messages are also converted.
 *
 * A grammar in the format is also enforced during generation (read_tool of openai_tools.c). */
#include "openai.h"

#include "base/utf8.h"

#include <string.h>

/* ---- reading ---- */

/* Return the member "custom" of an object of the type "custom"; NULL for another object. */
static const struct json *custom_of(const struct json *object)
{
    const char *type = json_text(json_field(object, "type"), NULL);
    return type && strcmp(type, "custom") == 0 ? json_field(object, "custom") : NULL;
}

/* Return true also for an object without the member "custom", so that put_tool reports the missing
 * member. */
static bool is_custom(const struct json *object)
{
    const char *type = json_text(json_field(object, "type"), NULL);
    return type && strcmp(type, "custom") == 0;
}

/* Return true if a list has an item of the type "custom". */
static bool has_custom(const struct json *list)
{
    for (size_t i = 0; json_kind(list) == JK_LIST && i < json_count(list); i++)
        if (is_custom(json_item(list, i))) return true;
    return false;
}

/* Return the list of tool_choice's allowed tools; NULL if none. */
static const struct json *allowed_of(const struct json *choice)
{
    const struct json *inner = body_field(choice, "allowed_tools");
    return body_field(inner ? inner : choice, "tools");
}

/* Return true if the conversion changes the body. Most bodies have no custom tool, and are not
 * copied. */
static bool body_has_custom(const struct json *body)
{
    const struct json *choice = body_field(body, "tool_choice"),
                      *list = body_field(body, "messages");
    if (has_custom(body_field(body, "tools")) || is_custom(choice)) return true;
    if (json_kind(choice) == JK_OBJECT && has_custom(allowed_of(choice))) return true;
    for (size_t i = 0; json_kind(list) == JK_LIST && i < json_count(list); i++)
        if (has_custom(body_field(json_item(list, i), "tool_calls"))) return true;
    return false;
}

/* Set *syntax and *definition to the grammar of a custom tool; NULL for any text. */
static int read_format(const struct json *custom, size_t i, const char **syntax,
                       const struct json **definition, struct err *e)
{
    const struct json *format = body_field(custom, "format"),
                      *grammar = body_field(format, "grammar");
    const char *type = json_text(json_field(format, "type"), NULL);
    char text[80];
    *syntax = NULL, *definition = NULL;
    if (!format || (type && strcmp(type, "text") == 0)) return 0;
    if (!type || strcmp(type, "grammar") != 0)
        return err_field(e, ERR_ARG, "tools",
                         "[%zu].custom.format.type: must be \"text\" or \"grammar\", got %s", i,
                         json_value_text(json_field(format, "type"), text));
    *syntax = json_text(json_field(grammar, "syntax"), NULL);
    *definition = json_field(grammar, "definition");
    if (!*syntax || (strcmp(*syntax, "lark") != 0 && strcmp(*syntax, "regex") != 0))
        return err_field(
            e, ERR_ARG, "tools",
            "[%zu].custom.format.grammar.syntax: must be \"lark\" or \"regex\", got %s", i,
            json_value_text(json_field(grammar, "syntax"), text));
    if (json_kind(*definition) != JK_TEXT)
        return err_field(e, ERR_ARG, "tools",
                         "[%zu].custom.format.grammar.definition: expected a string, got %s", i,
                         json_kind_name(json_kind(*definition)));
    return 0;
}

/* Append the schema of the function's arguments. */
static void put_parameters(struct json_out *o, const char *syntax, const struct json *definition)
{
    struct buf text = {0};
    size_t n = 0;
    const char *grammar = json_text(definition, &n);
    if (syntax) {
        buf_add_text(&text, strcmp(syntax, "lark") == 0
                                ? "text of this Lark grammar: "
                                : "text that matches this regular expression: ");
        buf_add(&text, grammar, n);
    }
    out_object(o, "parameters");
    out_word(o, "type", "object");
    out_object(o, "properties");
    out_object(o, "input");
    out_word(o, "type", "string");
    if (text.n) out_text(o, "description", text.data, text.n);
    out_end(o);
    out_end(o);
    out_list(o, "required");
    out_word(o, NULL, "input");
    out_end(o);
    out_flag(o, "additionalProperties", false);
    out_end(o);
    o->b->failed |= text.failed;
    buf_deinit(&text);
}

/* Append tool i, as a function if it is custom. */
static int put_tool(struct json_out *o, const struct json *tool, size_t i, struct err *e)
{
    const struct json *custom = custom_of(tool), *name = json_field(custom, "name"), *definition;
    const char *syntax;
    if (!is_custom(tool)) return openai_put_json(o, NULL, tool), 0;
    if (json_kind(name) != JK_TEXT)
        return err_field(e, ERR_ARG, "tools", "[%zu].custom.name: expected a string, got %s", i,
                         json_kind_name(json_kind(name)));
    int rc = read_format(custom, i, &syntax, &definition, e);
    if (rc != 0) return rc;
    out_object(o, NULL);
    out_word(o, "type", "function");
    out_object(o, "function");
    openai_put_json(o, "name", name);
    openai_put_json(o, "description", body_field(custom, "description"));
    put_parameters(o, syntax, definition);
    out_end(o);
    out_end(o);
    return 0;
}

/* Append an object {"type":"custom","custom":...} of tool_choice as an object of a function. */
static void put_named(struct json_out *o, const char *key, const struct json *choice)
{
    if (!is_custom(choice)) return openai_put_json(o, key, choice);
    out_object(o, key);
    out_word(o, "type", "function");
    openai_put_json(o, "function", custom_of(choice));
    out_end(o);
}

/* Append tool_choice. The list of allowed tools is written in the short form. */
static void put_choice(struct json_out *o, const struct json *choice)
{
    const struct json *allowed = json_kind(choice) == JK_OBJECT ? allowed_of(choice) : NULL,
                      *inner = body_field(choice, "allowed_tools");
    if (!allowed) return put_named(o, "tool_choice", choice);
    out_object(o, "tool_choice");
    out_word(o, "type", "allowed_tools");
    openai_put_json(o, "mode", body_field(inner ? inner : choice, "mode"));
    out_list(o, "tools");
    for (size_t i = 0; i < json_count(allowed); i++) put_named(o, NULL, json_item(allowed, i));
    out_end(o);
    out_end(o);
}

/* Append a call of a message. A call of a custom tool becomes the call of a function. */
static void put_call(struct json_out *o, const struct json *call)
{
    static const char *const without[] = {"type", "custom", NULL};
    const struct json *custom = custom_of(call);
    struct buf arguments = {0};
    struct json_out inner = {.b = &arguments};
    if (!is_custom(call)) return openai_put_json(o, NULL, call);
    out_object(&inner, NULL);
    openai_put_json(&inner, "input", json_field(custom, "input"));
    out_end(&inner);
    out_object(o, NULL);
    openai_put_members(o, call, without);
    out_word(o, "type", "function");
    out_object(o, "function");
    openai_put_json(o, "name", json_field(custom, "name"));
    out_text(o, "arguments", arguments.data, arguments.n);
    out_end(o);
    out_end(o);
    o->b->failed |= arguments.failed;
    buf_deinit(&arguments);
}

/* Append a message. Only the calls of the assistant's messages may be custom. */
static void put_message(struct json_out *o, const struct json *message)
{
    static const char *const calls[] = {"tool_calls", NULL};
    const struct json *list = body_field(message, "tool_calls");
    if (!has_custom(list)) return openai_put_json(o, NULL, message);
    out_object(o, NULL);
    openai_put_members(o, message, calls);
    out_list(o, "tool_calls");
    for (size_t i = 0; i < json_count(list); i++) put_call(o, json_item(list, i));
    out_end(o);
    out_end(o);
}

int openai_read_custom(struct json **out, const struct json *body, struct err *e)
{
    static const char *const changed[] = {"tools", "tool_choice", "messages", NULL};
    const struct json *tools = body_field(body, "tools"), *messages = body_field(body, "messages");
    struct buf b = {0};
    struct json_out o = {.b = &b};
    int rc = 0;
    *out = NULL;
    if (!body_has_custom(body)) return 0;
    out_object(&o, NULL);
    openai_put_members(&o, body, changed);
    if (tools) {
        out_list(&o, "tools");
        for (size_t i = 0; rc == 0 && i < json_count(tools); i++)
            rc = put_tool(&o, json_item(tools, i), i, e);
        out_end(&o);
    }
    if (body_field(body, "tool_choice")) put_choice(&o, body_field(body, "tool_choice"));
    if (json_kind(messages) == JK_LIST) {
        out_list(&o, "messages");
        for (size_t i = 0; i < json_count(messages); i++) put_message(&o, json_item(messages, i));
        out_end(&o);
    } else {
        openai_put_json(&o, "messages", messages);
    }
    out_end(&o);
    if (rc == 0)
        rc = b.failed ? err_memory(e, "tools", b.n) : json_parse(out, b.data, b.n, NULL, e);
    buf_deinit(&b);
    return rc;
}

int openai_custom_input(struct arena *a, const struct json *tool, struct text_span *out,
                        struct err *e)
{
    struct buf b = {0};
    struct json_out o = {.b = &b};
    const struct json *definition;
    const char *syntax;
    *out = (struct text_span){"", 0};
    if (!is_custom(tool)) return 0;
    int rc = read_format(custom_of(tool), 0, &syntax, &definition, e);
    out_object(&o, NULL);
    out_word(&o, "syntax", syntax ? syntax : "text");
    openai_put_json(&o, "definition", definition);
    out_end(&o);
    *out = (struct text_span){b.failed ? NULL : arena_text(a, b.data, b.n), b.n};
    buf_deinit(&b);
    return rc == 0 && !out->text ? err_memory(e, "tools", b.n) : rc;
}

/* ---- the text of a call ---- */

/* Place in the arguments {"input":"TEXT"}: index of the next byte of `front`, or a value of this
 * enum. */
enum { IN_TEXT = 100, IN_ESCAPE, IN_HEX, AFTER_TEXT, AS_IT_IS };

static const char front[] = "{\"input\":\"";

/* Read a byte before the text. There may be blanks between two tokens. Arguments of another form
 * are the text of the call. */
static void push_front(struct custom_text *t, char c, struct buf *out)
{
    bool between = t->place == 0 || t->place == 1 || t->place == 8 || t->place == 9;
    bool blank = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    bool fits = t->n_held < sizeof t->held;
    if (fits) t->held[t->n_held++] = c;
    if (fits && between && blank) return;
    if (!fits || c != front[t->place]) {
        t->place = AS_IT_IS;
        buf_add(out, t->held, t->n_held);
        if (!fits) buf_add_char(out, c);
    } else if (++t->place == sizeof front - 1) {
        t->place = IN_TEXT;
    }
}

/* Append a code point from \u. A high surrogate waits in t->high; a lone surrogate is dropped. */
static void push_char(struct custom_text *t, uint32_t cp, struct buf *out)
{
    char bytes[4];
    if (t->high && cp >= 0xDC00 && cp <= 0xDFFF)
        cp = 0x10000 + ((uint32_t)(t->high - 0xD800) << 10) + (cp - 0xDC00);
    t->high = cp >= 0xD800 && cp <= 0xDBFF ? (uint16_t)cp : 0;
    if (cp < 0xD800 || cp > 0xDFFF) buf_add(out, bytes, (size_t)utf8_encode(bytes, cp));
}

/* Read the byte after a backslash. An unknown escape is the byte itself. */
static void push_escape(struct custom_text *t, char c, struct buf *out)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    const char *at = c ? strchr(from, c) : NULL;
    t->place = IN_TEXT;
    if (c == 'u')
        t->place = IN_HEX, t->n_hex = 0, t->hex = 0;
    else
        buf_add_char(out, at ? to[at - from] : c);
}

/* Read one of the four digits after \u. Any other byte counts as 0. */
static void push_hex(struct custom_text *t, char c, struct buf *out)
{
    int digit = c >= '0' && c <= '9'                 ? c - '0'
                : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                     : 0;
    t->hex = (uint16_t)(t->hex << 4 | digit);
    if (++t->n_hex < 4) return;
    t->place = IN_TEXT;
    push_char(t, t->hex, out);
}

void custom_push(struct custom_text *t, const char *text, size_t n, struct buf *out)
{
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (t->place < IN_TEXT)
            push_front(t, c, out);
        else if (t->place == IN_ESCAPE)
            push_escape(t, c, out);
        else if (t->place == IN_HEX)
            push_hex(t, c, out);
        else if (t->place == IN_TEXT && c == '\\')
            t->place = IN_ESCAPE;
        else if (t->place == IN_TEXT && c == '"')
            t->place = AFTER_TEXT;
        else if (t->place != AFTER_TEXT)
            buf_add_char(out, c);
    }
}

bool call_is_custom(const struct api_call *c, const char *name)
{
    for (size_t i = 0; i < c->n_custom; i++)
        if (strcmp(c->custom[i], name) == 0) return true;
    return false;
}

/* openai_tools.c - the functions that the answer to a request may or must call. */
#include "openai.h"

#include <string.h>

/* each name is compared with each tool, so this number limits the work to a million comparisons */
enum { NAMED_MAX = 1000 };

/* Set the error for a value of the wrong type in item i of a list. */
static int wrong_type(const char *field, size_t i, const char *place, const char *expected,
                      const struct json *found, struct err *e)
{
    return err_field(e, ERR_ARG, field, "[%zu]%s: expected %s, got %s", i, place, expected,
                     json_kind_name(json_kind(found)));
}

/* Check the fields of each tool that this file reads. The compiler of grammars checks the
 * schemas. */
static int check_tools(const struct json *tools, struct err *e)
{
    char value[80];
    size_t n;
    for (size_t i = 0; i < json_count(tools); i++) {
        const struct json *tool = json_item(tools, i), *function = json_field(tool, "function");
        const char *type = json_text(json_field(tool, "type"), NULL);
        if (!type || strcmp(type, "function") != 0)
            return err_field(e, ERR_UNSUPPORTED, "tools",
                             "[%zu].type: must be \"function\" or \"custom\", got %s", i,
                             json_value_text(json_field(tool, "type"), value));
        const struct json *name = json_field(function, "name");
        if (json_kind(name) == JK_TEXT && !json_text(name, NULL))
            return err_field(e, ERR_ARG, "tools",
                             "[%zu].function.name: must not contain NUL, got one at offset %zu", i,
                             strlen(json_text(name, &n)));
        if (!name || json_kind(name) != JK_TEXT)
            return wrong_type("tools", i, ".function.name", "a string", name, e);
        const struct json *strict = body_field(function, "strict");
        if (strict && json_kind(strict) != JK_BOOL)
            return wrong_type("tools", i, ".function.strict", "true or false", strict, e);
    }
    return 0;
}

/* Return true if the request sets a variable of the template other than those of reasoning. */
static bool sets_variables(const struct json *body)
{
    const struct json *kwargs = body_field(body, "chat_template_kwargs");
    for (void *it = json_first(kwargs); it; it = json_next(kwargs, it)) {
        const char *name = json_it_key(it, NULL);
        if (strcmp(name, "enable_thinking") != 0 && strcmp(name, "thinking") != 0) return true;
    }
    return false;
}

/* Check that the prompt contains the tools and that calls are parsed. A template may read variables
 * of the request instead of `tools` (SmolLM3's xml_tools). */
static int check_tools_kept(const struct api_call *c, const struct json *body, struct err *e)
{
    const struct chat *chat = c->api->chat;
    if (!c->tool_parser && !chat->calls_as_content)
        return err_field(
            e, ERR_UNSUPPORTED, "tools",
            ": no parser for the tool calls of this model's chat template; choose one "
            "with --tool-call-parser (a wrong name lists them; none: calls stay content), "
            "or send tool_choice \"none\"");
    if (!template_caps(chat->t)->tools && !chat->kwargs && !sets_variables(body))
        return err_field(
            e, ERR_UNSUPPORTED, "tools",
            ": not supported by this model's chat template; choose another with --chat-template");
    return 0;
}

/* ---- tool_choice ---- */

/* Contents of tool_choice. Pointers are borrowed from the body. */
struct choice_spec {
    bool none, must, one;
    const struct json *named;   /* name of the only function; NULL: any */
    const struct json *allowed; /* list of {"function": {"name": ...}}; NULL: all */
};

/* Set the error of tool_choice. place: path below tool_choice. */
static int bad_choice(const char *place, const char *expected, const struct json *found,
                      struct err *e)
{
    char value[80];
    return err_field(e, ERR_ARG, "tool_choice", "%s: expected %s, got %s", place, expected,
                     json_value_text(found, value));
}

/* Read "auto", "none" or "required". */
static int read_word(struct choice_spec *out, const char *place, const struct json *value,
                     struct err *e)
{
    const char *word = json_text(value, NULL);
    out->none = word && strcmp(word, "none") == 0;
    out->must = word && strcmp(word, "required") == 0;
    if (out->none || out->must || (word && strcmp(word, "auto") == 0)) return 0;
    return bad_choice(place, "\"auto\", \"none\", \"required\" or an object", value, e);
}

/* Read {"type":"allowed_tools","mode":"auto","tools":[...]}, or the same members inside
 * "allowed_tools" (chat completions). */
static int read_allowed(struct choice_spec *out, const struct json *choice, struct err *e)
{
    const struct json *inner = body_field(choice, "allowed_tools");
    const struct json *from = inner ? inner : choice;
    const struct json *mode = body_field(from, "mode");
    const char *word = json_text(mode, NULL);
    out->allowed = body_field(from, "tools");
    if (json_kind(out->allowed) != JK_LIST || json_count(out->allowed) == 0)
        return bad_choice(".allowed_tools.tools", "a list of functions", out->allowed, e);
    if (!word || strcmp(word, "none") == 0)
        return bad_choice(".allowed_tools.mode", "\"auto\" or \"required\"", mode, e);
    return read_word(out, ".allowed_tools.mode", mode, e);
}

/* Return the name of a function in the form of chat completions or of responses. */
static const struct json *name_of(const struct json *choice)
{
    const struct json *function = body_field(choice, "function");
    return body_field(function ? function : choice, "name");
}

/* Read tool_choice. An absent tool_choice means "auto". A named function must be called exactly
 * once. */
static int read_choice(struct choice_spec *out, const struct json *choice, struct err *e)
{
    char value[80];
    const char *type = json_text(json_field(choice, "type"), NULL);
    if (!choice) return 0;
    if (json_kind(choice) != JK_OBJECT) return read_word(out, "", choice, e);
    if (type && strcmp(type, "allowed_tools") == 0) return read_allowed(out, choice, e);
    if (!type || strcmp(type, "function") != 0)
        return err_field(e, ERR_UNSUPPORTED, "tool_choice",
                         ".type: must be \"function\", \"custom\" or \"allowed_tools\", got %s",
                         json_value_text(json_field(choice, "type"), value));
    out->must = out->one = true;
    out->named = name_of(choice);
    return json_kind(out->named) == JK_TEXT
               ? 0
               : bad_choice(".function.name", "a string", out->named, e);
}

/* Return true if the values are equal texts. */
static bool same_text(const struct json *a, const struct json *b)
{
    size_t n = 0, n_other = 0;
    const char *text = json_text(a, &n), *other = json_text(b, &n_other);
    return text && other && n == n_other && memcmp(text, other, n) == 0;
}

/* Return true if tool_choice permits the function. */
static bool may_call(const struct choice_spec *spec, const struct json *name)
{
    if (spec->named) return same_text(spec->named, name);
    for (size_t i = 0; i < json_count(spec->allowed); i++)
        if (same_text(name_of(json_item(spec->allowed, i)), name)) return true;
    return !spec->allowed;
}

/* Check that each function of the choice exists. */
static int check_named(const struct choice_spec *spec, const struct json *tools, struct err *e)
{
    size_t n = spec->named ? 1 : json_count(spec->allowed);
    if (n > NAMED_MAX || (n > 0 && json_count(tools) > NAMED_MAX))
        return err_field(e, ERR_LIMIT, n > NAMED_MAX ? "tool_choice" : "tools",
                         ": must have at most %d functions, got %zu", NAMED_MAX,
                         n > NAMED_MAX ? n : json_count(tools));
    for (size_t i = 0; i < n; i++) {
        const struct json *name = spec->named ? spec->named : name_of(json_item(spec->allowed, i));
        bool found = false;
        for (size_t k = 0; k < json_count(tools); k++)
            found |=
                same_text(name, json_field(json_field(json_item(tools, k), "function"), "name"));
        if (!found)
            return err_field(e, ERR_ARG, "tool_choice", ": tool \"%.60s\" not found",
                             json_text(name, NULL) ? json_text(name, NULL) : "");
    }
    if (spec->must && json_count(tools) == 0)
        return err_field(e, ERR_ARG, "tool_choice", ": must come with tools, got none");
    return 0;
}

/* ---- their schemas ---- */

/* Append a schema with the type "object", because arguments are always an object. */
static int put_schema(struct buf *b, const struct json *schema, size_t i, struct err *e)
{
    static const char place[] = ".function.parameters";
    const struct json *type = json_field(schema, "type");
    const char *word = json_text(type, NULL);
    bool object = !type || (word && strcmp(word, "object") == 0);
    for (size_t k = 0; json_kind(type) == JK_LIST && k < json_count(type); k++) {
        word = json_text(json_item(type, k), NULL);
        object |= word && strcmp(word, "object") == 0;
    }
    if (json_kind(schema) != JK_OBJECT)
        return wrong_type("tools", i, place, "an object", schema, e);
    if (!object)
        return err_field(e, ERR_ARG, "tools", "[%zu]%s: #/type: must be object, got another type",
                         i, place);
    buf_add_text(b, "{\"type\":\"object\"");
    json_put_members(b, schema, "type");
    buf_add_char(b, '}');
    return 0;
}

/* Read the schema of a function. A function without `parameters` has no arguments, as in OpenAI's
 * API. */
static int read_schema(struct api_call *c, struct chat_tool *out, const struct json *function,
                       struct err *e)
{
    static const char none[] =
        "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}";
    const struct json *schema = body_field(function, "parameters");
    struct buf b = {0};
    struct err why = {0};
    int rc = check_numbers(schema, &why);
    if (rc != 0)
        rc = err_field(e, rc, "tools", "[%zu].function.parameters: %s", out->i, why.text);
    else if (schema)
        rc = put_schema(&b, schema, out->i, e);
    else
        buf_add_text(&b, none);
    out->n_schema = b.n;
    if (rc == 0) out->schema = arena_text(&c->arena, b.data ? b.data : "", b.n);
    if (rc == 0 && (b.failed || !out->schema)) rc = err_memory(e, "tools", b.n);
    buf_deinit(&b);
    return rc;
}

/* Read the text of a custom tool, the only argument of its function, and add the tool's name to
 * c->custom. Set *has_grammar if the text is not free. */
static int read_input(struct api_call *c, struct chat_tool *tool, const struct json *given,
                      bool *has_grammar, struct err *e)
{
    static const char free_text[] = "{\"syntax\":\"text\"}";
    struct text_span input;
    int rc = openai_custom_input(&c->arena, given, &input, e);
    if (rc != 0 || input.n == 0) return rc;
    tool->input = input.text, tool->n_input = input.n;
    c->custom[c->n_custom++] = tool->name;
    *has_grammar = strcmp(input.text, free_text) != 0;
    return 0;
}

/* Add a function that may be called. The function's schema is enforced if a call is required,
 * `strict` is set or the tool is custom with a grammar. In other cases the call is not constrained,
 * as in OpenAI's API. */
static int read_tool(struct api_call *c, struct tools_spec *out, const struct choice_spec *spec,
                     const struct json *function, const struct json *given, size_t i, struct err *e)
{
    struct chat_tool *tool = &out->tool[out->n];
    size_t n;
    const char *name = json_text(json_field(function, "name"), &n);
    bool strict = json_bool(body_field(function, "strict"), false);
    if (!may_call(spec, json_field(function, "name"))) return 0;
    *tool = (struct chat_tool){.name = arena_text(&c->arena, name, n), .n_name = n, .i = i};
    if (!tool->name) return err_memory(e, "tools", n);
    out->n++;
    int rc = read_input(c, tool, given, &strict, e);
    if (rc != 0) return rc;
    if (strict && !spec->must) out->field = "tools";
    return strict || spec->must || tool->input ? read_schema(c, tool, function, e) : 0;
}

/* Check that no name belongs to both a function and a custom tool, because a call has only a
 * name. */
static int check_custom_names(const struct json *tools, const struct json *given, struct err *e)
{
    size_t n = json_count(tools);
    if (tools == given) return 0; /* the client sent only functions */
    if (n > NAMED_MAX)
        return err_field(e, ERR_LIMIT, "tools",
                         ": must have at most %d tools if some are custom, got %zu", NAMED_MAX, n);
    for (size_t i = 0; i < n; i++) {
        const struct json *name = json_field(json_field(json_item(given, i), "custom"), "name");
        for (size_t k = 0; name && k < n; k++)
            if (k != i &&
                same_text(name, json_field(json_field(json_item(tools, k), "function"), "name")))
                return err_field(e, ERR_ARG, "tools",
                                 "[%zu].custom.name: must be unique, got the name of tools[%zu]", i,
                                 k);
    }
    return 0;
}

/* Read all functions that may be called. out->field is the field that causes the constraint. */
static int read_functions(struct api_call *c, struct tools_spec *out,
                          const struct choice_spec *spec, const struct json *tools,
                          const struct json *given, struct err *e)
{
    size_t n = json_count(tools);
    int rc = 0;
    out->tool = arena_push0(&c->arena, n ? n : 1, sizeof *out->tool);
    c->custom = arena_push0(&c->arena, n ? n : 1, sizeof *c->custom);
    if (!out->tool || !c->custom) return err_memory(e, "tools", n * sizeof *out->tool);
    if (spec->must || spec->allowed) out->field = "tool_choice";
    rc = check_custom_names(tools, given, e);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = read_tool(c, out, spec, json_field(json_item(tools, i), "function"),
                       json_item(given, i), i, e);
    return rc;
}

/* Keep the tools, because the parser needs their schemas until the call ends. */
static int keep_tools(struct api_call *c, const struct json *tools, struct err *e)
{
    struct buf text = {0};
    json_put(&text, tools);
    int rc = text.failed ? err_memory(e, "tools", text.n)
                         : json_parse(&c->tools, text.data, text.n, NULL, e);
    buf_deinit(&text);
    return rc;
}

/* Set c->tool_parser, c->tools and *out. Without tools the parser is NULL, so text in the form of a
 * call remains content. */
int openai_read_tools(struct api_call *c, struct tools_spec *out, const struct json *body,
                      const struct json *given, struct err *e)
{
    const struct json *tools = body_field(body, "tools");
    const struct chat *chat = c->api->chat;
    struct choice_spec spec = {0};
    bool parallel = true;
    int rc = read_choice(&spec, body_field(body, "tool_choice"), e);
    if (rc == 0) rc = check_tools(tools, e);
    if (rc == 0) rc = check_named(&spec, tools, e);
    if (rc == 0) rc = body_flag(body, "parallel_tool_calls", &parallel, e);
    bool wanted = json_count(tools) > 0 && !spec.none;
    c->tool_parser = wanted ? chat->tool_parser : NULL;
    c->one_tool_call = !parallel;
    if (rc == 0 && wanted) rc = check_tools_kept(c, body, e);
    if (rc == 0 && c->tool_parser) rc = keep_tools(c, tools, e);
    if (rc == 0 && wanted) rc = read_functions(c, out, &spec, tools, given, e);
    out->must = spec.must;
    out->one = spec.one || !parallel;
    return rc;
}

/* responses_body.c - convert a body of OpenAI's Responses API to the neutral form, a body of chat
 * completions (openai_read_chat).
 *
 *   instructions, input           messages (responses_input.c)
 *   tools, tool_choice            tools in the form of chat completions
 *   text.format                   response_format
 *   reasoning.effort              reasoning_effort
 *   max_output_tokens             max_tokens
 *   include, top_logprobs         logprobs, top_logprobs
 *   other fields of fields.def    unchanged
 *
 * This file checks all types, so that errors contain the client's names.
 *
 * The neutral form is written as text and parsed again. Values of a `struct json` are immutable,
 * and all dialects share one reader of the neutral form.
 *
 * A member that this server cannot apply is an error, unless the answer is the same without the
 * member. A name that begins with '!' in a list of members is known but not supported
 * (place_members). */
#include "openai.h"
#include "responses.h"

#include <stdio.h>
#include <string.h>

/* ---- tools ---- */

/* Check members of a tool that are not converted. */
static int check_tool(const struct json *tool, const struct place *at, struct err *e)
{
    static const char *const members[] = {
        "type",   "name",           "description",    "parameters",      "strict",
        "format", "!output_schema", "!defer_loading", "allowed_callers", NULL};
    int rc = place_callers(tool, at, e);
    return rc != 0 ? rc : place_members(tool, at, members, e);
}

/* Write the members of a function. */
static int put_function(struct json_out *o, const struct json *tool, const struct place *at,
                        struct err *e)
{
    const struct json *schema = body_field(tool, "parameters"),
                      *strict = body_field(tool, "strict");
    if (schema && json_kind(schema) != JK_OBJECT)
        return place_wrong(at, ".parameters", "an object", schema, e);
    if (strict && json_kind(strict) != JK_BOOL)
        return place_wrong(at, ".strict", "true or false", strict, e);
    openai_put_json(o, "parameters", schema);
    openai_put_json(o, "strict", strict);
    return 0;
}

/* Write the format of a custom tool: {"type":"grammar","syntax","definition"} gets an object
 * "grammar". */
static int put_format_of(struct json_out *o, const struct json *tool, const struct place *at,
                         struct err *e)
{
    const struct json *format = body_field(tool, "format");
    const char *type = json_text(json_field(format, "type"), NULL);
    if (!format) return 0;
    if (json_kind(format) != JK_OBJECT) return place_wrong(at, ".format", "an object", format, e);
    out_object(o, "format");
    openai_put_json(o, "type", body_field(format, "type"));
    if (type && strcmp(type, "grammar") == 0) {
        out_object(o, "grammar");
        openai_put_json(o, "syntax", body_field(format, "syntax"));
        openai_put_json(o, "definition", body_field(format, "definition"));
        out_end(o);
    }
    out_end(o);
    return 0;
}

/* Write a tool. The flat members of the Responses API become members of an object that is named
 * after the type, as in chat completions. Tools that OpenAI's servers run, such as web_search, are
 * errors, because this server would silently answer without them. */
static int put_tool(struct json_out *o, const struct json *tool, const struct place *at,
                    struct err *e)
{
    const struct json *type = body_field(tool, "type"),
                      *description = body_field(tool, "description");
    const char *word = json_text(type, NULL), *name;
    char value[80];
    if (json_kind(tool) != JK_OBJECT) return place_wrong(at, "", "an object", tool, e);
    const bool function = word && strcmp(word, "function") == 0,
               custom = word && strcmp(word, "custom") == 0;
    if (!function && !custom)
        return err_field(e, ERR_UNSUPPORTED, at->field,
                         "%s.type: must be \"function\" or \"custom\", got %s; tools that a server "
                         "runs or defines are not supported",
                         at->path, json_value_text(type, value));
    int rc = check_tool(tool, at, e);
    if (rc == 0) rc = place_word(tool, "name", at, &name, e);
    if (rc == 0 && description && json_kind(description) != JK_TEXT)
        rc = place_wrong(at, ".description", "a string", description, e);
    if (rc != 0) return rc;
    out_object(o, NULL);
    out_word(o, "type", word);
    out_object(o, word);
    out_word(o, "name", name);
    openai_put_json(o, "description", description);
    rc = function ? put_function(o, tool, at, e) : put_format_of(o, tool, at, e);
    out_end(o);
    out_end(o);
    return rc;
}

static int put_tools(struct json_out *o, const struct json *body, struct err *e)
{
    const struct json *tools = body_field(body, "tools");
    int rc = 0;
    if (!tools) return 0;
    if (json_kind(tools) != JK_LIST) return body_wrong("tools", "a list of tools", tools, e);
    out_list(o, "tools");
    for (size_t i = 0; rc == 0 && i < json_count(tools); i++) {
        const struct place at = place_below(&(struct place){.field = "tools"}, "", i);
        rc = put_tool(o, json_item(tools, i), &at, e);
    }
    out_end(o);
    return rc;
}

/* Write {"type":"function"|"custom","name"} in the form of chat completions. */
static int put_named(struct json_out *o, const char *key, const struct json *named,
                     const struct place *at, struct err *e)
{
    const char *name, *type = json_text(json_field(named, "type"), NULL);
    char value[80];
    if (json_kind(named) != JK_OBJECT) return place_wrong(at, "", "an object", named, e);
    if (!type || (strcmp(type, "function") != 0 && strcmp(type, "custom") != 0))
        return err_field(e, ERR_UNSUPPORTED, at->field,
                         "%s.type: must be \"function\", \"custom\" or \"allowed_tools\", got %s",
                         at->path, json_value_text(json_field(named, "type"), value));
    int rc = place_word(named, "name", at, &name, e);
    if (rc != 0) return rc;
    out_object(o, key);
    out_word(o, "type", type);
    out_object(o, type);
    out_word(o, "name", name);
    out_end(o);
    out_end(o);
    return 0;
}

static int put_choice(struct json_out *o, const struct json *body, struct err *e)
{
    static const char field[] = "tool_choice";
    const struct json *choice = body_field(body, field), *list = body_field(choice, "tools");
    const char *type = json_text(json_field(choice, "type"), NULL);
    const struct place at = {.field = field};
    int rc = 0;
    if (!choice) return 0;
    if (json_kind(choice) == JK_TEXT) return openai_put_json(o, field, choice), 0;
    if (!type || strcmp(type, "allowed_tools") != 0) return put_named(o, field, choice, &at, e);
    if (json_kind(list) != JK_LIST) return place_wrong(&at, ".tools", "a list of tools", list, e);
    out_object(o, field);
    out_word(o, "type", type);
    openai_put_json(o, "mode", body_field(choice, "mode"));
    out_list(o, "tools");
    for (size_t i = 0; rc == 0 && i < json_count(list); i++) {
        const struct place below = place_below(&at, ".tools", i);
        rc = put_named(o, NULL, json_item(list, i), &below, e);
    }
    out_end(o);
    out_end(o);
    return rc;
}

/* ---- objects of the body ---- */

/* Set *out to the word of a list that equals the value. The list ends with NULL. *out is NULL if
 * the value is absent. */
static int read_choice(const struct json *value, const struct place *at, const char *const *words,
                       const char **out, struct err *e)
{
    const char *word = json_text(value, NULL);
    char shown[80], list[100] = "";
    *out = NULL;
    for (size_t i = 0, n = 0; value && words[i]; i++) {
        if (word && strcmp(word, words[i]) == 0) *out = words[i];
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", words[i]);
    }
    if (*out || !value) return 0;
    return err_field(e, ERR_ARG, at->field, "%s: must be one of %s, got %s", at->path, list,
                     json_value_text(value, shown));
}

/* Write text.format as response_format, whose reader checks the members. */
static int put_format(struct json_out *o, const struct json *format, struct err *e)
{
    static const char *const types[] = {"text", "json_object", "json_schema", NULL};
    static const char *const without[] = {"type", NULL};
    static const struct place at = {.field = "text", .path = ".format"},
                              at_type = {.field = "text", .path = ".format.type"};
    const char *type;
    if (json_kind(format) != JK_OBJECT) return place_wrong(&at, "", "an object", format, e);
    if (!body_field(format, "type"))
        return place_wrong(&at, ".type", "a string", body_field(format, "type"), e);
    int rc = read_choice(body_field(format, "type"), &at_type, types, &type, e);
    if (rc != 0) return rc;
    out_object(o, "response_format");
    out_word(o, "type", type);
    const bool schema = strcmp(type, "json_schema") == 0;
    if (schema) out_object(o, "json_schema");
    openai_put_members(o, format, without);
    if (schema) out_end(o);
    out_end(o);
    return 0;
}

/* Write the format of `text`. The member verbosity is only checked. */
static int put_text(struct json_out *o, const struct json *body, struct err *e)
{
    static const char *const levels[] = {"low", "medium", "high", NULL};
    static const char *const members[] = {"format", "verbosity", NULL};
    static const struct place at = {.field = "text"},
                              at_level = {.field = "text", .path = ".verbosity"};
    const struct json *text = body_field(body, "text"), *format = body_field(text, "format");
    const char *level;
    if (!text) return 0;
    if (json_kind(text) != JK_OBJECT) return body_wrong("text", "an object", text, e);
    int rc = place_members(text, &at, members, e);
    if (rc == 0) rc = read_choice(body_field(text, "verbosity"), &at_level, levels, &level, e);
    return rc == 0 && format ? put_format(o, format, e) : rc;
}

/* Write the reasoning's fields. The whole reasoning is returned, so a summary is not needed. */
static int put_reasoning(struct json_out *o, const struct json *body, struct err *e)
{
    static const char *const kinds[] = {"auto", "concise", "detailed", NULL};
    static const char *const efforts[] = {"none", "minimal", "low", "medium",
                                          "high", "xhigh",   "max", NULL};
    static const char *const members[] = {"effort",   "summary", "generate_summary",
                                          "!context", "!mode",   NULL};
    static const struct place at[] = {{.field = "reasoning"},
                                      {.field = "reasoning", .path = ".effort"},
                                      {.field = "reasoning", .path = ".summary"},
                                      {.field = "reasoning", .path = ".generate_summary"}};
    const struct json *reasoning = body_field(body, "reasoning");
    const char *effort = NULL, *word;
    if (!reasoning) return 0;
    if (json_kind(reasoning) != JK_OBJECT)
        return body_wrong("reasoning", "an object", reasoning, e);
    int rc = place_members(reasoning, at, members, e);
    for (int i = 1; rc == 0 && i < 4; i++)
        rc = read_choice(body_field(reasoning, at[i].path + 1), &at[i], i == 1 ? efforts : kinds,
                         i == 1 ? &effort : &word, e);
    if (rc == 0 && effort) out_word(o, "reasoning_effort", effort);
    return rc;
}

bool responses_include(const struct json *body, const char *word)
{
    const struct json *list = body_field(body, "include");
    for (size_t i = 0; i < json_count(list); i++) {
        const char *one = json_text(json_item(list, i), NULL);
        if (one && strcmp(one, word) == 0) return true;
    }
    return false;
}

/* Check `include`. Words for items that quoth does not generate are accepted. */
static int check_include(const struct json *body, struct err *e)
{
    static const char *const words[] = {"file_search_call.results",
                                        "web_search_call.results",
                                        "web_search_call.action.sources",
                                        "message.input_image.image_url",
                                        "computer_call_output.output.image_url",
                                        "code_interpreter_call.outputs",
                                        "reasoning.encrypted_content",
                                        "message.output_text.logprobs"};
    const struct json *list = body_field(body, "include");
    char value[80];
    if (list && json_kind(list) != JK_LIST)
        return body_wrong("include", "a list of words", list, e);
    for (size_t i = 0; i < json_count(list); i++) {
        const char *word = json_text(json_item(list, i), NULL);
        bool known = false;
        for (size_t k = 0; word && k < sizeof words / sizeof *words; k++)
            known |= strcmp(word, words[k]) == 0;
        if (!known)
            return err_field(e, ERR_ARG, "include", "[%zu]: must be a known part of items, got %s",
                             i, json_value_text(json_item(list, i), value));
    }
    return 0;
}

/* Log probabilities are requested by `include`, or by a number of alternatives. */
static int put_logprobs(struct json_out *o, const struct json *body, struct err *e)
{
    int64_t n = 0;
    int rc = check_include(body, e);
    if (rc == 0) rc = body_int(body, "top_logprobs", 0, TOP_LOGPROB_MAX, &n, e);
    if (rc != 0 || (n == 0 && !responses_include(body, "message.output_text.logprobs"))) return rc;
    out_flag(o, "logprobs", true);
    out_int(o, "top_logprobs", n);
    return 0;
}

/* Write max_output_tokens. max_tool_calls limits calls of tools that a server runs. quoth runs no
 * tools, so the number is only checked. */
static int put_max(struct json_out *o, const struct json *body, struct err *e)
{
    int64_t n = -1, n_call = 0;
    int rc = body_int(body, "max_output_tokens", 1, INT32_MAX, &n, e);
    if (rc == 0) rc = body_int(body, "max_tool_calls", 0, INT32_MAX, &n_call, e);
    if (rc == 0 && n >= 0) out_int(o, "max_tokens", n);
    return rc;
}

int responses_check_metadata(const struct json *body, struct err *e)
{
    enum { MEMBER_MAX = 16, KEY_MAX = 64, VALUE_MAX = 512 };
    const struct json *metadata = body_field(body, "metadata");
    if (!metadata) return 0;
    if (json_kind(metadata) != JK_OBJECT) return body_wrong("metadata", "an object", metadata, e);
    if (json_count(metadata) > MEMBER_MAX)
        return err_field(e, ERR_ARG, "metadata", ": must have at most %d members, got %zu",
                         MEMBER_MAX, json_count(metadata));
    for (void *it = json_first(metadata); it; it = json_next(metadata, it)) {
        size_t n_key, n = 0;
        const char *key = json_it_key(it, &n_key);
        const struct json *value = json_it_value(it);
        if (!json_text(value, &n))
            return err_field(e, ERR_ARG, "metadata", ".%.64s: expected a string, got %s", key,
                             json_kind_name(json_kind(value)));
        if (n_key > KEY_MAX || n > VALUE_MAX)
            return err_field(e, ERR_ARG, "metadata",
                             ".%.64s: must have at most %d bytes and a value of at most %d, got "
                             "%zu and %zu",
                             key, KEY_MAX, VALUE_MAX, n_key, n);
    }
    return 0;
}

/* Check fields that no other function reads. */
static int check_rest(const struct json *body, struct err *e)
{
    static const char *const cuts[] = {"auto", "disabled", NULL};
    static const char *const options[] = {"include_obfuscation", NULL};
    static const char *const texts[] = {"instructions", "safety_identifier", "prompt_cache_key",
                                        "service_tier"};
    const struct json *stream = body_field(body, "stream_options"), *value;
    const char *word;
    int64_t n = 1;
    bool flag = false;
    int rc = read_choice(body_field(body, "truncation"), &(struct place){.field = "truncation"},
                         cuts, &word, e);
    if (rc == 0) rc = body_int(body, "n", 1, 1, &n, e);
    if (rc == 0) rc = body_flag(body, "store", &flag, e);
    if (rc == 0) rc = responses_check_metadata(body, e);
    for (size_t i = 0; rc == 0 && i < sizeof texts / sizeof *texts; i++)
        if ((value = body_field(body, texts[i])) && json_kind(value) != JK_TEXT)
            rc = body_wrong(texts[i], "a string", value, e);
    if (rc != 0 || !stream) return rc;
    if (json_kind(stream) != JK_OBJECT) return body_wrong("stream_options", "an object", stream, e);
    rc = body_flag(stream, "include_obfuscation", &flag, e);
    if (rc != 0) return rc;
    return place_members(stream, &(struct place){.field = "stream_options"}, options, e);
}

/* ---- the body ---- */

/* Copy the fields that have the same meaning in both forms. */
static void put_same(struct json_out *o, const struct json *body)
{
    static const char *const converted[] = {
        "input",          "instructions", "tools",
        "tool_choice",    "text",         "reasoning",
        "include",        "top_logprobs", "max_output_tokens",
        "max_tool_calls", "metadata",     "previous_response_id",
        "store",          "stream",       "stream_options",
        "truncation",     "background",   "conversation",
        "model"};
    for (void *it = json_first(body); it; it = json_next(body, it)) {
        size_t n;
        const char *key = json_it_key(it, &n);
        bool same = strlen(key) == n && fields_know(key, ENDPOINT_RESPONSES);
        for (size_t i = 0; i < sizeof converted / sizeof *converted; i++)
            same &= strcmp(key, converted[i]) != 0;
        if (!same) continue;
        out_key(o, key, n);
        openai_put_json(o, NULL, json_it_value(it));
    }
}

int responses_neutral(struct json **out, struct responses_source *from, struct err *e)
{
    const struct json *body = from->body;
    struct buf b = {0};
    struct json_out o = {.b = &b};
    *out = NULL;
    out_object(&o, NULL);
    put_same(&o, body);
    int rc = check_rest(body, e);
    if (rc == 0) rc = put_max(&o, body, e);
    if (rc == 0) rc = put_logprobs(&o, body, e);
    if (rc == 0) rc = put_reasoning(&o, body, e);
    if (rc == 0) rc = put_text(&o, body, e);
    if (rc == 0) rc = put_choice(&o, body, e);
    if (rc == 0) rc = put_tools(&o, body, e);
    if (rc == 0) rc = responses_put_messages(&o, from, e);
    out_end(&o);
    if (rc == 0)
        rc =
            b.failed ? err_memory(e, "a conversation", b.n) : json_parse(out, b.data, b.n, NULL, e);
    buf_deinit(&b);
    return rc;
}

/* ---- the members of a request in its response ---- */

/* Append the client's member; null if it is absent. */
static void put_given(struct json_out *o, const char *key, const struct json *object)
{
    const struct json *value = body_field(object, key);
    if (value)
        openai_put_json(o, key, value);
    else
        out_null(o, key);
}

/* Append a tool with all members that the description of the API requires. */
static void put_echo_tool(struct json_out *o, const struct json *tool)
{
    static const char *const without[] = {"strict", "parameters", NULL}, *const none[] = {NULL};
    const char *type = json_text(json_field(tool, "type"), NULL);
    const bool function = strcmp(type, "function") == 0;
    out_object(o, NULL);
    openai_put_members(o, tool, function ? without : none);
    if (function) {
        put_given(o, "parameters", tool);
        out_flag(o, "strict", json_bool(body_field(tool, "strict"), false));
    }
    out_end(o);
}

/* Append `text` with the defaults of OpenAI's servers for absent members. */
static void put_echo_text(struct json_out *o, const struct json *text)
{
    static const char *const without[] = {"strict", "name", NULL}, *const none[] = {NULL};
    const struct json *format = body_field(text, "format"), *name = body_field(format, "name");
    const char *level = json_text(body_field(text, "verbosity"), NULL),
               *type = json_text(json_field(format, "type"), NULL);
    const bool schema = type && strcmp(type, "json_schema") == 0;
    out_object(o, "text");
    out_object(o, "format");
    if (format)
        openai_put_members(o, format, schema ? without : none);
    else
        out_word(o, "type", "text");
    if (schema) {
        if (name)
            openai_put_json(o, "name", name);
        else
            out_word(o, "name", "response");
        out_flag(o, "strict", true); /* a schema is always enforced */
    }
    out_end(o);
    out_word(o, "verbosity", level ? level : "medium");
    out_end(o);
}

/* Append the members after the sampling parameters. */
static void put_echo_rest(struct json_out *o, const struct json *body)
{
    const struct json *tools = body_field(body, "tools"), *choice = body_field(body, "tool_choice"),
                      *cut = body_field(body, "truncation"), *user = body_field(body, "user");
    int64_t n = 0;
    /* put_logprobs has validated the value */
    (void)body_int(body, "top_logprobs", 0, TOP_LOGPROB_MAX, &n, NULL);
    put_echo_text(o, body_field(body, "text"));
    if (choice)
        openai_put_json(o, "tool_choice", choice);
    else
        out_word(o, "tool_choice", "auto");
    out_list(o, "tools");
    for (size_t i = 0; i < json_count(tools); i++) put_echo_tool(o, json_item(tools, i));
    out_end(o);
    out_int(o, "top_logprobs", n);
    if (cut)
        openai_put_json(o, "truncation", cut);
    else
        out_word(o, "truncation", "disabled");
    if (user) openai_put_json(o, "user", user);
    if (body_field(body, "metadata")) {
        openai_put_json(o, "metadata", body_field(body, "metadata"));
    } else {
        out_object(o, "metadata");
        out_end(o);
    }
}

/* The members have the order of OpenAI's responses. */
void responses_put_echo(struct buf *b, const struct json *body, const struct sample_params *p,
                        bool store)
{
    const struct json *reasoning = body_field(body, "reasoning");
    struct json_out o = {.b = b, .more = true, .depth = 1};
    out_flag(&o, "background", store && json_bool(body_field(body, "background"), false));
    put_given(&o, "instructions", body);
    put_given(&o, "max_output_tokens", body);
    put_given(&o, "max_tool_calls", body);
    out_flag(&o, "parallel_tool_calls", json_bool(body_field(body, "parallel_tool_calls"), true));
    put_given(&o, "previous_response_id", body);
    put_given(&o, "prompt_cache_key", body);
    out_object(&o, "reasoning");
    put_given(&o, "effort", reasoning);
    put_given(&o, "summary", reasoning);
    out_end(&o);
    put_given(&o, "safety_identifier", body);
    out_word(&o, "service_tier", "default");
    out_flag(&o, "store", store);
    out_float(&o, "temperature", p->temperature);
    out_float(&o, "top_p", p->top_p);
    put_echo_rest(&o, body);
}

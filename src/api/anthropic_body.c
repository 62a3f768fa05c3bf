/* anthropic_body.c - convert a body of Anthropic's messages to the neutral form, a body of chat
 * completions (openai_read_chat).
 *
 *   system, messages                  messages (anthropic_turns.c)
 *   tools, tool_choice                functions, and the choice among them
 *   thinking                          enable_thinking and thinking for the template, and a budget
 *   output_config, output_format      reasoning_effort, response_format
 *   other fields of fields.def        unchanged
 *
 * This file checks all types, so that errors contain the client's names. */
#include "anthropic.h"
#include "openai.h"

#include <stdio.h>
#include <string.h>

/* Unknown members are ignored, like unknown fields of a body. */
int anthropic_check_members(const struct json *object, const struct place *at,
                            const char *const *members, struct err *e)
{
    const struct json *cache = body_field(object, "cache_control");
    if (cache && json_kind(cache) != JK_OBJECT)
        return place_wrong(at, ".cache_control", "an object", cache, e);
    return place_members(object, at, members, e);
}

/* ---- tools ---- */

/* Check members of a tool that are not converted. */
static int check_tool(const struct json *tool, const struct place *at, struct err *e)
{
    static const char *const members[] = {"type",
                                          "name",
                                          "description",
                                          "input_schema",
                                          "strict",
                                          "cache_control",
                                          "!defer_loading",
                                          "eager_input_streaming",
                                          "allowed_callers",
                                          "!input_examples",
                                          NULL};
    const struct json *type = body_field(tool, "type");
    char value[80];
    const char *word = json_text(type, NULL);
    if (type && (!word || strcmp(word, "custom") != 0))
        return err_field(e, ERR_UNSUPPORTED, at->field,
                         "%s.type: must be \"custom\", got %s; tools that a server runs or defines "
                         "are not supported",
                         at->path, json_value_text(type, value));
    int rc = place_callers(tool, at, e);
    return rc != 0 ? rc : anthropic_check_members(tool, at, members, e);
}

/* Write a tool as a function. */
static int put_tool(struct json_out *o, const struct json *tool, const struct place *at,
                    struct err *e)
{
    const struct json *schema = body_field(tool, "input_schema"),
                      *description = body_field(tool, "description"),
                      *strict = body_field(tool, "strict");
    const char *name;
    if (json_kind(tool) != JK_OBJECT) return place_wrong(at, "", "an object", tool, e);
    int rc = check_tool(tool, at, e);
    if (rc == 0) rc = place_word(tool, "name", at, &name, e);
    if (rc == 0 && json_kind(schema) != JK_OBJECT)
        rc = place_wrong(at, ".input_schema", "an object", schema, e);
    if (rc == 0 && description && json_kind(description) != JK_TEXT)
        rc = place_wrong(at, ".description", "a string", description, e);
    if (rc == 0 && strict && json_kind(strict) != JK_BOOL)
        rc = place_wrong(at, ".strict", "true or false", strict, e);
    if (rc != 0) return rc;
    out_object(o, NULL);
    out_word(o, "type", "function");
    out_object(o, "function");
    out_word(o, "name", name);
    openai_put_json(o, "description", description);
    openai_put_json(o, "parameters", schema);
    openai_put_json(o, "strict", strict);
    out_end(o);
    out_end(o);
    return 0;
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

/* Write {"type":"auto"|"any"|"tool"|"none"} as the neutral form. */
static int put_choice(struct json_out *o, const struct json *body, struct err *e)
{
    static const char field[] = "tool_choice";
    const struct json *choice = body_field(body, field);
    const struct place at = {.field = field};
    const char *name, *type = json_text(json_field(choice, "type"), NULL);
    bool single = false;
    char value[80];
    if (!choice) return 0;
    if (json_kind(choice) != JK_OBJECT) return body_wrong(field, "an object", choice, e);
    const struct json *flag = body_field(choice, "disable_parallel_tool_use");
    if (flag && json_kind(flag) != JK_BOOL)
        return place_wrong(&at, ".disable_parallel_tool_use", "true or false", flag, e);
    single = json_bool(flag, false);
    if (single) out_flag(o, "parallel_tool_calls", false);
    if (type && strcmp(type, "auto") == 0) return out_word(o, field, "auto"), 0;
    if (type && strcmp(type, "none") == 0) return out_word(o, field, "none"), 0;
    if (type && strcmp(type, "any") == 0) return out_word(o, field, "required"), 0;
    if (!type || strcmp(type, "tool") != 0)
        return err_field(e, ERR_ARG, field, ".type: must be auto, any, tool or none, got %s",
                         json_value_text(json_field(choice, "type"), value));
    int rc = place_word(choice, "name", &at, &name, e);
    if (rc != 0) return rc;
    out_object(o, field);
    out_word(o, "type", "function");
    out_object(o, "function");
    out_word(o, "name", name);
    out_end(o);
    out_end(o);
    return 0;
}

/* ---- thinking ---- */

/* Write the template's variables: those of the server, overridden by those of the body, and the
 * variables for thinking. Templates read one of two names for thinking. on NULL: the template
 * selects the mode. */
static void put_kwargs(struct json_out *o, const struct api *a, const struct json *given,
                       const bool *on)
{
    static const char *const names[] = {"enable_thinking", "thinking", NULL};
    static const char *const none[] = {NULL};
    const struct json *from = given ? given : a->chat ? a->chat->kwargs : NULL;
    out_object(o, "chat_template_kwargs");
    if (from) openai_put_members(o, from, on ? names : none);
    for (int i = 0; on && names[i]; i++) out_flag(o, names[i], *on);
    out_end(o);
}

/* Write thinking.budget_tokens. Any budget is accepted if the model's template has no reasoning. */
static int put_budget(struct json_out *o, const struct api *a, const struct json *thinking,
                      struct err *e)
{
    int64_t n = -1;
    struct err why = {0};
    int rc = body_int(thinking, "budget_tokens", 1, INT32_MAX, &n, &why);
    if (rc != 0) return err_field(e, rc, "thinking", ".%s", why.text);
    if (n < 0)
        return err_field(e, ERR_ARG, "thinking", ".budget_tokens: expected an integer, got %s",
                         json_kind_name(json_kind(json_field(thinking, "budget_tokens"))));
    if (a->chat && a->chat->t && !a->chat->reasoning_parser &&
        !template_caps(a->chat->t)->reasoning)
        return 0;
    out_int(o, "thinking_token_budget", n);
    return 0;
}

/* Write `thinking`. "adaptive" enables thinking without a budget. `display` concerns the answer
 * only (anthropic_messages.c). */
static int put_thinking(struct json_out *o, const struct api *a, const struct json *body,
                        struct err *e)
{
    const struct json *thinking = body_field(body, "thinking"),
                      *given = body_field(body, "chat_template_kwargs"),
                      *display = body_field(thinking, "display");
    const char *type = json_text(json_field(thinking, "type"), NULL),
               *shown = json_text(display, NULL);
    char value[80];
    if (thinking && json_kind(thinking) != JK_OBJECT)
        return body_wrong("thinking", "an object", thinking, e);
    if (given && json_kind(given) != JK_OBJECT)
        return body_wrong("chat_template_kwargs", "an object", given, e);
    if (display && (!shown || (strcmp(shown, "summarized") != 0 && strcmp(shown, "omitted") != 0)))
        return err_field(e, ERR_ARG, "thinking", ".display: must be summarized or omitted, got %s",
                         json_value_text(display, value));
    const bool enabled = type && strcmp(type, "enabled") == 0,
               adaptive = type && strcmp(type, "adaptive") == 0,
               disabled = type && strcmp(type, "disabled") == 0, on = !disabled;
    if (thinking && !enabled && !adaptive && !disabled)
        return err_field(e, ERR_ARG, "thinking",
                         ".type: must be enabled, disabled or adaptive, got %s",
                         json_value_text(json_field(thinking, "type"), value));
    if (thinking || given) put_kwargs(o, a, given, thinking ? &on : NULL);
    return enabled ? put_budget(o, a, thinking, e) : 0;
}

/* ---- the form of the answer ---- */

/* Write {"type":"json_schema","schema":...} as response_format, whose reader checks the members. */
static int put_format(struct json_out *o, const struct json *format, const struct place *at,
                      struct err *e)
{
    static const char *const without[] = {"type", NULL};
    const char *type = json_text(json_field(format, "type"), NULL);
    char value[80];
    if (json_kind(format) != JK_OBJECT) return place_wrong(at, "", "an object", format, e);
    if (!type || strcmp(type, "json_schema") != 0)
        return err_field(e, ERR_UNSUPPORTED, at->field, "%s.type: must be \"json_schema\", got %s",
                         at->path, json_value_text(json_field(format, "type"), value));
    out_object(o, "response_format");
    out_word(o, "type", "json_schema");
    out_object(o, "json_schema");
    openai_put_members(o, format, without);
    out_end(o);
    out_end(o);
    return 0;
}

/* Write output_config, and output_format, the older name of output_config.format. */
static int put_output(struct json_out *o, const struct json *body, struct err *e)
{
    static const char *const efforts[] = {"low", "medium", "high", "xhigh", "max"};
    static const char *const members[] = {"effort", "format", "!task_budget", NULL};
    const struct json *config = body_field(body, "output_config"),
                      *effort = body_field(config, "effort"),
                      *format = body_field(config, "format"),
                      *old = body_field(body, "output_format");
    struct place at = {.field = "output_config"};
    const char *word = json_text(effort, NULL), *known = NULL;
    char value[80];
    if (config && json_kind(config) != JK_OBJECT)
        return body_wrong("output_config", "an object", config, e);
    int rc = config ? anthropic_check_members(config, &at, members, e) : 0;
    if (rc != 0) return rc;
    for (size_t i = 0; word && i < sizeof efforts / sizeof *efforts; i++)
        if (strcmp(word, efforts[i]) == 0) known = efforts[i];
    if (effort && !known)
        return err_field(e, ERR_ARG, at.field,
                         ".effort: must be low, medium, high, xhigh or max, got %s",
                         json_value_text(effort, value));
    if (known) out_word(o, "reasoning_effort", known);
    if (format && old)
        return err_field(e, ERR_ARG, "output_format",
                         ": must not come with output_config.format, its newer form");
    snprintf(at.path, sizeof at.path, ".format");
    if (format) return put_format(o, format, &at, e);
    return old ? put_format(o, old, &(struct place){.field = "output_format"}, e) : 0;
}

/* ---- other fields ---- */

/* Write stop_sequences as `stop`. */
static int put_stop(struct json_out *o, const struct json *body, struct err *e)
{
    const struct json *list = body_field(body, "stop_sequences");
    if (list && json_kind(list) != JK_LIST)
        return body_wrong("stop_sequences", "a list of strings", list, e);
    if (json_count(list) > 0) openai_put_json(o, "stop", list);
    return 0;
}

/* Write metadata.user_id as `user`. */
static int put_user(struct json_out *o, const struct json *body, struct err *e)
{
    const struct json *metadata = body_field(body, "metadata"),
                      *user = body_field(metadata, "user_id");
    if (metadata && json_kind(metadata) != JK_OBJECT)
        return body_wrong("metadata", "an object", metadata, e);
    if (user && json_kind(user) != JK_TEXT)
        return place_wrong(&(struct place){.field = "metadata"}, ".user_id", "a string", user, e);
    openai_put_json(o, "user", user);
    return 0;
}

/* Check that no edit changes the context. Clients send an edit that keeps all thinking. */
static int check_context(const struct json *body, struct err *e)
{
    const struct json *context = body_field(body, "context_management"),
                      *edits = body_field(context, "edits");
    char value[80];
    if (context && json_kind(context) != JK_OBJECT)
        return body_wrong("context_management", "an object", context, e);
    if (edits && json_kind(edits) != JK_LIST)
        return place_wrong(&(struct place){.field = "context_management"}, ".edits", "a list",
                           edits, e);
    for (size_t i = 0; i < json_count(edits); i++) {
        const struct json *edit = json_item(edits, i);
        const char *type = json_text(json_field(edit, "type"), NULL),
                   *keep = json_text(json_field(edit, "keep"), NULL);
        if (!type || strncmp(type, "clear_thinking_", 15) != 0 || !keep || strcmp(keep, "all") != 0)
            return err_field(e, ERR_UNSUPPORTED, "context_management",
                             ".edits[%zu]: not supported yet; expected clear_thinking with keep "
                             "\"all\", got %s",
                             i, json_value_text(json_field(edit, "type"), value));
    }
    return 0;
}

/* Copy the fields that have the same meaning in both forms. */
static void put_same(struct json_out *o, const struct json *body)
{
    static const char *const converted[] = {
        "messages", "system",        "tools",         "tool_choice", "stop_sequences",
        "thinking", "output_config", "output_format", "metadata",    "chat_template_kwargs",
        "stream",   "model"};
    for (void *it = json_first(body); it; it = json_next(body, it)) {
        size_t n;
        const char *key = json_it_key(it, &n);
        bool same = strlen(key) == n && fields_know(key, ENDPOINT_ANTHROPIC);
        for (size_t i = 0; i < sizeof converted / sizeof *converted; i++)
            same &= strcmp(key, converted[i]) != 0;
        if (!same) continue;
        out_key(o, key, n);
        openai_put_json(o, NULL, json_it_value(it));
    }
}

int anthropic_neutral(struct json **out, struct message_places *places, const struct api *a,
                      const struct json *body, struct err *e)
{
    struct buf b = {0};
    struct json_out o = {.b = &b};
    bool continues = false;
    *out = NULL;
    out_object(&o, NULL);
    put_same(&o, body);
    int rc = check_context(body, e);
    if (rc == 0) rc = put_stop(&o, body, e);
    if (rc == 0) rc = put_user(&o, body, e);
    if (rc == 0) rc = put_thinking(&o, a, body, e);
    if (rc == 0) rc = put_output(&o, body, e);
    if (rc == 0) rc = put_choice(&o, body, e);
    if (rc == 0) rc = put_tools(&o, body, e);
    if (rc == 0) rc = anthropic_put_messages(&o, places, body, &continues, e);
    if (rc == 0 && continues) out_flag(&o, "continue_final_message", true);
    out_end(&o);
    if (rc == 0)
        rc =
            b.failed ? err_memory(e, "a conversation", b.n) : json_parse(out, b.data, b.n, NULL, e);
    buf_deinit(&b);
    return rc;
}

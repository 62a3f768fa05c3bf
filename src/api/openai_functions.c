/* openai_functions.c - OpenAI's old form of tools. `functions` and `function_call` of a body and of
 * its messages become `tools`, `tool_choice` and tool calls. A message has one call, whose id is
 * made from the message's number. */
#include "openai.h"

#include "base/json_out.h"

#include <stdio.h>
#include <string.h>

void openai_put_json(struct json_out *o, const char *key, const struct json *value)
{
    struct buf b = {0};
    if (value) json_put(&b, value);
    o->b->failed |= b.failed;
    if (value) out_raw(o, key, b.data ? b.data : "", b.n);
    buf_deinit(&b);
}

void openai_put_members(struct json_out *o, const struct json *object, const char *const *without)
{
    for (void *it = json_first(object); it; it = json_next(object, it)) {
        size_t n, i = 0;
        const char *key = json_it_key(it, &n);
        while (without[i] && (strlen(without[i]) != n || memcmp(without[i], key, n) != 0)) i++;
        if (without[i]) continue;
        out_key(o, key, n);
        openai_put_json(o, NULL, json_it_value(it));
    }
}

/* Append {"type":"function","function":FUNCTION}. */
static void put_tool(struct json_out *o, const struct json *function)
{
    out_object(o, NULL);
    out_word(o, "type", "function");
    openai_put_json(o, "function", function);
    out_end(o);
}

/* Write function_call as tool_choice. The words of function_call are valid for tool_choice.
 * {"name":"f"} becomes an object with a type. */
static void put_choice(struct json_out *o, const struct json *choice)
{
    if (json_kind(choice) != JK_OBJECT) return openai_put_json(o, "tool_choice", choice);
    out_object(o, "tool_choice");
    out_word(o, "type", "function");
    openai_put_json(o, "function", choice);
    out_end(o);
}

/* ---- messages ---- */

/* Append the id of the call in message i. Mistral's templates require ids of nine characters. */
static void put_id(struct json_out *o, const char *key, size_t i)
{
    char id[24];
    snprintf(id, sizeof id, "call%05zu", i % 100000);
    out_word(o, key, id);
}

/* Append a message. *i_call: number of the last message with a call. */
static void put_message(struct json_out *o, const struct json *message, size_t i, size_t *i_call)
{
    static const char *const none[] = {NULL}, *const call[] = {"function_call", NULL},
                             *const role[] = {"role", NULL};
    const struct json *called = body_field(message, "function_call");
    const char *name = json_text(json_field(message, "role"), NULL);
    bool result = name && strcmp(name, "function") == 0;
    if (json_kind(message) != JK_OBJECT) return openai_put_json(o, NULL, message);
    out_object(o, NULL);
    openai_put_members(o, message, called ? call : result ? role : none);
    if (called) {
        *i_call = i;
        out_list(o, "tool_calls");
        out_object(o, NULL);
        put_id(o, "id", i);
        out_word(o, "type", "function");
        openai_put_json(o, "function", called);
        out_end(o);
        out_end(o);
    } else if (result) {
        out_word(o, "role", "tool");
        put_id(o, "tool_call_id", *i_call);
    }
    out_end(o);
}

/* Write the messages with tool calls. A result has no id in the old form. The result belongs to the
 * last call before it. */
static void put_messages(struct json_out *o, const struct json *messages)
{
    size_t i_call = 0;
    if (json_kind(messages) != JK_LIST) return openai_put_json(o, "messages", messages);
    out_list(o, "messages");
    for (size_t i = 0; i < json_count(messages); i++)
        put_message(o, json_item(messages, i), i, &i_call);
    out_end(o);
}

/* ---- a body ---- */

/* Check the old fields. Errors contain their old names. */
static int check(const struct json *functions, const struct json *choice, const struct json *body,
                 struct err *e)
{
    if (body_field(body, "tools") || body_field(body, "tool_choice"))
        return err_field(e, ERR_ARG, functions ? "functions" : "function_call",
                         ": must not come with %s, its newer form",
                         body_field(body, "tools") ? "tools" : "tool_choice");
    if (functions && json_kind(functions) != JK_LIST)
        return body_wrong("functions", "a list of functions", functions, e);
    const char *word = json_text(choice, NULL);
    bool known = word && (strcmp(word, "none") == 0 || strcmp(word, "auto") == 0);
    if (choice && !known && json_kind(body_field(choice, "name")) != JK_TEXT)
        return err_field(e, ERR_ARG, "function_call",
                         ": expected \"none\", \"auto\" or an object with a name, got %s",
                         json_kind_name(json_kind(choice)));
    return 0;
}

/* Set *out to the converted body, owned by the caller; NULL if there are no old fields. Parallel
 * calls are disabled, because the old form of an answer has one call. */
int openai_read_functions(struct json **out, const struct json *body, struct err *e)
{
    static const char *const old[] = {"functions", "function_call", "messages",
                                      "parallel_tool_calls", NULL};
    const struct json *functions = body_field(body, "functions"),
                      *choice = body_field(body, "function_call");
    struct buf b = {0};
    struct json_out o = {.b = &b};
    *out = NULL;
    if (!body_is_set(functions) && !body_is_set(choice)) return 0;
    int rc = check(functions, choice, body, e);
    if (rc != 0) return rc;
    out_object(&o, NULL);
    openai_put_members(&o, body, old);
    put_messages(&o, json_field(body, "messages"));
    out_list(&o, "tools");
    for (size_t i = 0; i < json_count(functions); i++) put_tool(&o, json_item(functions, i));
    out_end(&o);
    put_choice(&o, choice);
    out_flag(&o, "parallel_tool_calls", false);
    out_end(&o);
    rc = b.failed ? err_memory(e, "functions", b.n) : json_parse(out, b.data, b.n, NULL, e);
    buf_deinit(&b);
    return rc;
}

/* shape.c - convert an OpenAI-style conversation to the form that a template supports.
 *
 * Templates accept different forms. Content is a string or a list of parts. Tool-call arguments are
 * an object or JSON text. Some templates have no system role. Clients send any of these forms.
 * probe.c detects the forms that the template expects. Fields in an expected form and unknown
 * fields remain unchanged. */
#include "chat/template_impl.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Return a field of a message; VAL_UNDEFINED if the field is absent or the message is not a
 * dict. */
struct val message_field(struct render *r, struct val message, const char *name)
{
    const struct val *v = message.kind == V_DICT ? dict_find_text(r, message.dict, name) : NULL;
    return v ? *v : VAL_UNDEFINED;
}

bool message_role_is(struct render *r, struct val message, const char *role)
{
    return text_is(message_field(r, message, "role"), role);
}

/* ---- content ---- */

/* Return the text parts of a content, joined with newlines. */
static struct val join_parts(struct render *r, const struct list *parts, uint32_t i_message)
{
    size_t mark = r->out.n;
    for (uint32_t i = 0; i < parts->n && r->rc == 0; i++) {
        struct val text = message_field(r, parts->v[i], "text");
        if (text.kind != V_TEXT) {
            r->rc = err_field(r->err, ERR_UNSUPPORTED, "messages",
                              "[%u].content[%u]: this chat template supports text parts only",
                              i_message, i);
            break;
        }
        if (r->out.n > mark) buf_add_char(&r->out, '\n');
        buf_add(&r->out, text.s, text.n);
    }
    return out_take(r, mark);
}

/* Return a list with one part of the type "text". */
static struct val one_part(struct render *r, struct val text)
{
    struct val parts = val_list(r, V_LIST, 1), part = val_dict(r, V_DICT);
    if (r->rc != 0) return parts;
    dict_set(r, part.dict, "type", val_text("text", 4));
    dict_set(r, part.dict, "text", text);
    list_add(r, parts.list, part);
    return parts;
}

/* Convert a content to the template's form. Null becomes "", because templates may print or reject
 * None. */
static void shape_content(struct render *r, const struct template_caps *caps, struct val message,
                          uint32_t i_message)
{
    struct val content = message_field(r, message, "content"), shaped = content;
    if (content.kind == V_UNDEFINED || content.kind == V_NONE) shaped = val_text("", 0);
    if (shaped.kind == V_LIST && !caps->typed_content)
        shaped = join_parts(r, shaped.list, i_message);
    if (shaped.kind == V_TEXT && !caps->text_content && caps->typed_content)
        shaped = one_part(r, shaped);
    if (shaped.kind != content.kind || shaped.s != content.s)
        dict_set(r, message.dict, "content", shaped);
}

/* ---- tool calls ---- */

static struct val arguments_as_text(struct render *r, struct val arguments)
{
    struct args none = {0};
    return filter_find("tojson", 6)->fn(r, arguments, &none);
}

/* Convert the arguments of calls to the template's form. OpenAI's arguments are JSON text. Most
 * templates expect an object and would print a text with quotes. */
static void shape_tool_calls(struct render *r, const struct template_caps *caps, struct val message)
{
    struct val calls = message_field(r, message, "tool_calls");
    for (uint32_t i = 0; calls.kind == V_LIST && i < calls.list->n && r->rc == 0; i++) {
        struct val function = message_field(r, calls.list->v[i], "function");
        struct val arguments = message_field(r, function, "arguments");
        if (arguments.kind == V_TEXT && caps->object_arguments)
            dict_set(r, function.dict, "arguments", val_from_json_text(r, arguments));
        else if (arguments.kind == V_DICT && !caps->object_arguments && caps->tool_calls)
            dict_set(r, function.dict, "arguments", arguments_as_text(r, arguments));
    }
}

/* ---- roles ---- */

/* Rename the role "developer", which is OpenAI's newer name of the role "system". */
static void shape_role(struct render *r, const struct template *t, struct val message)
{
    bool known = t->family && t->family->keeps_developer;
    if (!known && message_role_is(r, message, "developer"))
        dict_set(r, message.dict, "role", val_text("system", 6));
}

/* Merge a leading system message into the next message, because the template would reject or ignore
 * a system message. */
static void merge_system(struct render *r, struct list *messages)
{
    if (messages->n == 0 || !message_role_is(r, messages->v[0], "system")) return;
    struct val system = message_field(r, messages->v[0], "content");
    messages->v++;
    messages->n--;
    messages->cap--;
    struct val next = messages->n > 0 ? message_field(r, messages->v[0], "content") : VAL_UNDEFINED;
    if (system.kind != V_TEXT || next.kind != V_TEXT) {
        r->rc = err_field(r->err, ERR_ARG, "messages",
                          "[0].role: the chat template has no system message, and it cannot become "
                          "a part of the next message");
        return;
    }
    struct val text = val_concat(r, system, val_text("\n", 1));
    if (r->rc == 0) dict_set(r, messages->v[0].dict, "content", val_concat(r, text, next));
}

/* ---- reasoning ---- */

/* Append a dict with the type, and with the text under the type's name. */
static void add_block(struct render *r, struct val blocks, const char *type, struct val text)
{
    struct val block = val_dict(r, V_DICT);
    if (r->rc != 0) return;
    dict_set(r, block.dict, "type", val_text(type, strlen(type)));
    dict_set(r, block.dict, type, text);
    list_add(r, blocks.list, block);
}

/* Move reasoning_content to the first block of the content, for a template that expects reasoning
 * there. */
static void shape_thinking(struct render *r, struct val message)
{
    struct val content = message_field(r, message, "content");
    struct val reasoning = message_field(r, message, "reasoning_content");
    if (reasoning.kind != V_TEXT || !message_role_is(r, message, "assistant")) return;
    struct val blocks = val_list(r, V_LIST, 2);
    if (r->rc != 0) return;
    add_block(r, blocks, "thinking", reasoning);
    if (content.kind == V_TEXT) add_block(r, blocks, "text", content);
    for (uint32_t k = 0; content.kind == V_LIST && k < content.list->n; k++)
        list_add(r, blocks.list, content.list->v[k]);
    dict_set(r, message.dict, "content", blocks);
    dict_remove(r, message.dict, val_text("reasoning_content", 17));
}

/* Prepend c->system if no message has the role system. */
static void add_system(struct render *r, const struct template *t, const struct conversation *c,
                       struct list *messages)
{
    if (!c->system) return;
    for (uint32_t i = 0; i < messages->n; i++)
        if (message_role_is(r, messages->v[i], "system") ||
            message_role_is(r, messages->v[i], "developer"))
            return;
    struct val first = val_dict(r, V_DICT);
    if (r->rc == 0) dict_set(r, first.dict, "role", val_text("system", 6));
    if (r->rc == 0) dict_set(r, first.dict, "content", val_text(c->system, strlen(c->system)));
    if (r->rc == 0) shape_content(r, &t->caps, first, 0);
    if (r->rc == 0) list_add(r, messages, first);
    if (r->rc != 0) return;
    memmove(messages->v + 1, messages->v, (messages->n - 1) * sizeof *messages->v);
    messages->v[0] = first;
}

/* ---- messages and variables ---- */

/* Return the messages in the template's form. Contents are shaped before the system message is
 * added or merged. The changes of a family are made last, because they require the common form. */
static struct val shape_messages(struct render *r, const struct template *t,
                                 const struct conversation *c)
{
    struct val messages = val_from_json(r, c->messages);
    if (r->rc == 0 && messages.kind != V_LIST) {
        r->rc = err_field(r->err, ERR_ARG, "messages", ": expected a list, got %s",
                          json_kind_name(json_kind(c->messages)));
        return VAL_UNDEFINED;
    }
    if (c->continue_final != CHAT_CONTINUE_NO && messages.list && messages.list->n > 0)
        messages.list->n--;
    for (uint32_t i = 0; r->rc == 0 && i < messages.list->n; i++) {
        struct val message = messages.list->v[i];
        if (message.kind != V_DICT || message_field(r, message, "role").kind != V_TEXT) {
            r->rc = err_field(r->err, ERR_ARG, "messages",
                              "[%u]: expected an object with a \"role\", got %s", i,
                              message.kind == V_DICT ? "one without" : val_type(message));
            return VAL_UNDEFINED;
        }
        shape_role(r, t, message);
        shape_content(r, &t->caps, message, i);
        shape_tool_calls(r, &t->caps, message);
        if (t->thinking_blocks) shape_thinking(r, message);
    }
    if (r->rc == 0) add_system(r, t, c, messages.list);
    if (r->rc == 0 && !t->caps.system_role) merge_system(r, messages.list);
    if (r->rc == 0 && t->family && t->family->adjust) t->family->adjust(r, t, messages.list);
    return messages;
}

static void set_text(struct render *r, const char *name, const char *text)
{
    dict_set(r, r->globals, name, val_text(text ? text : "", text ? strlen(text) : 0));
}

/* Variables in which some templates expect today's date. */
static const char *const dates[][2] = {{"date_string", "%d %b %Y"}, {"datetime", "%b %d %Y"}};
enum { N_DATE = sizeof dates / sizeof *dates };

bool shape_names_date(const char *source)
{
    for (int i = 0; i < N_DATE; i++)
        if (strstr(source, dates[i][0])) return true;
    return false;
}

/* Set the date variables, in local time. */
void shape_dates(struct render *r)
{
    char text[40];
    struct tm tm = {0};
    time_t now = (time_t)r->now;
    localtime_r(&now, &tm);
    for (int i = 0; i < N_DATE && r->rc == 0; i++) {
        size_t n = strftime(text, sizeof text, dates[i][1], &tm);
        dict_set(r, r->globals, dates[i][0], val_copy_text(r, text, n));
    }
}

/* chat_template_kwargs are set after the other variables and override them. Messages are set last,
 * so that no keyword can replace the messages. */
int shape_conversation(struct render *r, const struct template *t, const struct conversation *c)
{
    if (r->rc != 0) return r->rc;
    set_text(r, "bos_token", "");
    set_text(r, "eos_token", "");
    for (int i = 0; i < c->n_token; i++)
        dict_set(r, r->globals, c->token[i].name, val_text(c->token[i].text, c->token[i].n));
    dict_set(r, r->globals, "add_generation_prompt", val_bool(c->add_generation_prompt));
    if (json_count(c->tools) > 0) dict_set(r, r->globals, "tools", val_from_json(r, c->tools));
    if (json_count(c->documents) > 0)
        dict_set(r, r->globals, "documents", val_from_json(r, c->documents));
    if (c->reasoning_effort) {
        const bool none = strcmp(c->reasoning_effort, "none") == 0;
        set_text(r, "reasoning_effort", c->reasoning_effort);
        if (none || !template_knows_effort(t)) {
            dict_set(r, r->globals, "enable_thinking", val_bool(!none));
            dict_set(r, r->globals, "thinking", val_bool(!none));
        }
    }
    for (void *it = json_first(c->kwargs); it && r->rc == 0; it = json_next(c->kwargs, it)) {
        size_t n;
        const char *key = json_it_key(it, &n);
        dict_put(r, r->globals, val_text(key, n), val_from_json(r, json_it_value(it)));
    }
    if (r->rc == 0) dict_set(r, r->globals, "messages", shape_messages(r, t, c));
    return r->rc;
}

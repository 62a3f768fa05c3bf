/* responses_input.c - convert `instructions` and `input` of the Responses API to messages of the
 * neutral form. Items are collected in turns (turn.c).
 *
 *   instructions                                   a message of the role system
 *   message of system, developer, user             a message
 *   reasoning, message of the assistant,           one message: reasoning_content, content,
 *   function_call, custom_tool_call                tool_calls
 *   function_call_output, custom_tool_call_output  messages of the role tool
 *
 * Consecutive items of the assistant become one message, because the model generated them as one
 * answer. A message item directly after a message item begins a new message. */
#include "openai.h"
#include "responses.h"

#include "base/base64.h"

#include <stdio.h>
#include <string.h>

enum { ITEM_MAX = 100000 };

struct item_input {
    struct turns t;
    struct responses_source *from; /* borrowed */
    bool after_message;            /* true: the last item was a message */
    size_t n_item;                 /* number of items so far */
    struct json *found;            /* owned; stored response of the last reference */
};

/* ---- parts of content ---- */

/* Set *type to the type of an object, "" if it is absent. */
static int read_type(const struct json *object, const struct place *at, const char **type,
                     struct err *e)
{
    const struct json *value = body_field(object, "type");
    if (json_kind(object) != JK_OBJECT) return place_wrong(at, "", "an object", object, e);
    *type = value ? json_text(value, NULL) : "";
    return *type ? 0 : place_wrong(at, ".type", "a string", value, e);
}

/* Set *text [n] to the text of a part, borrowed. */
static int read_part(const struct json *part, const struct place *at, const char **text, size_t *n,
                     struct err *e)
{
    static const char *const members[] = {
        "type", "text", "refusal", "annotations", "logprobs", "prompt_cache_breakpoint", NULL};
    const char *type;
    int rc = read_type(part, at, &type, e);
    const bool refusal = rc == 0 && strcmp(type, "refusal") == 0;
    if (rc == 0 && !refusal && strcmp(type, "input_text") != 0 && strcmp(type, "output_text") != 0)
        rc = err_field(e, ERR_UNSUPPORTED, at->field,
                       "%s.type: must be input_text, output_text or refusal, got \"%.60s\"",
                       at->path, type);
    if (rc == 0) rc = place_members(part, at, members, e);
    return rc ? rc : place_text(part, refusal ? "refusal" : "text", at, text, n, e);
}

/* Add a content that is a string or a list of parts. */
static int add_texts(struct turn *t, const struct json *content, const struct place *at,
                     const char *member, struct err *e)
{
    size_t n = 0;
    const char *text = json_text(content, &n);
    int rc = 0;
    if (text) return turn_text(t, "", text, n), 0;
    if (json_kind(content) != JK_LIST)
        return place_wrong(at, member, "a string or a list of parts", content, e);
    for (size_t i = 0; rc == 0 && i < json_count(content); i++) {
        const struct place place = place_below(at, member, i);
        rc = read_part(json_item(content, i), &place, &text, &n, e);
        if (rc == 0) turn_text(t, "", text, n);
    }
    return rc;
}

/* ---- items ---- */

/* Continue or begin the turn of the assistant. message: the item is a message. */
static void assistant(struct item_input *in, struct message_place place, bool message)
{
    if (message && in->after_message) turns_end(&in->t);
    turns_role(&in->t, "assistant", place);
}

/* Add a message. `phase`, `status` and `id` are accepted, because clients send items of earlier
 * answers unchanged. */
static int add_message(struct item_input *in, const struct json *item, const struct place *at,
                       struct message_place place, struct err *e)
{
    static const char *const members[] = {"type", "id", "role", "content", "status", "phase", NULL};
    static const char *const roles[] = {"user", "assistant", "system", "developer"};
    const char *role = NULL, *word = json_text(json_field(item, "role"), NULL);
    char value[80];
    for (size_t i = 0; word && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(word, roles[i]) == 0) role = roles[i];
    if (!role)
        return err_field(e, ERR_ARG, at->field,
                         "%s.role: must be user, assistant, system or developer, got %s", at->path,
                         json_value_text(json_field(item, "role"), value));
    int rc = place_members(item, at, members, e);
    if (rc != 0) return rc;
    if (strcmp(role, "assistant") == 0) {
        assistant(in, place, true);
    } else {
        turns_end(&in->t); /* consecutive messages of one role stay separate */
        turns_role(&in->t, role, place);
    }
    return add_texts(&in->t.turn, body_field(item, "content"), at, ".content", e);
}

/* Check the origin of a call: the model, not a program. */
static int check_caller(const struct json *item, const struct place *at, struct err *e)
{
    const struct json *caller = body_field(item, "caller");
    const char *type = json_text(json_field(caller, "type"), NULL);
    if (!caller || (type && strcmp(type, "direct") == 0)) return 0;
    return err_field(e, ERR_UNSUPPORTED, at->field, "%s.caller.type: must be \"direct\"", at->path);
}

/* Add a call of a function, or of a custom tool. */
static int add_call(struct item_input *in, const struct json *item, const struct place *at,
                    struct message_place place, bool custom, struct err *e)
{
    static const char *const members[] = {"type",  "id",     "call_id",    "name",   "arguments",
                                          "input", "status", "!namespace", "caller", NULL};
    const char *id, *name, *text;
    size_t n;
    struct json_out o;
    int rc = place_word(item, "call_id", at, &id, e);
    if (rc == 0) rc = place_word(item, "name", at, &name, e);
    if (rc == 0) rc = place_text(item, custom ? "input" : "arguments", at, &text, &n, e);
    if (rc == 0) rc = check_caller(item, at, e);
    if (rc == 0) rc = place_members(item, at, members, e);
    if (rc != 0) return rc;
    assistant(in, place, false);
    turn_call(&in->t.turn, &o, call_own_id(id, RESPONSES_CALL_PREFIX),
              custom ? "custom" : "function", name);
    out_text(&o, custom ? "input" : "arguments", text, n);
    turn_call_end(&o);
    return 0;
}

/* Write the result of a call as a message of the role tool, which ends the assistant's turn. */
static int add_output(struct item_input *in, const struct json *item, const struct place *at,
                      struct message_place place, struct err *e)
{
    static const char *const members[] = {"type",       "id",     "call_id", "output", "status",
                                          "!namespace", "caller", "name",    NULL};
    const char *id;
    struct turn t = {0};
    int rc = place_word(item, "call_id", at, &id, e);
    if (rc == 0) rc = check_caller(item, at, e);
    if (rc == 0) rc = place_members(item, at, members, e);
    if (rc == 0) rc = add_texts(&t, body_field(item, "output"), at, ".output", e);
    if (rc == 0) turns_result(&in->t, call_own_id(id, RESPONSES_CALL_PREFIX), &t, place);
    turn_deinit(&t);
    return rc;
}

/* Add the texts of a list of objects of one type. */
static int add_thoughts(struct buf *out, const struct json *item, const char *member,
                        const char *type, const struct place *at, struct err *e)
{
    static const char *const members[] = {"type", "text", NULL};
    const struct json *list = body_field(item, member);
    char below[20];
    int rc = 0;
    snprintf(below, sizeof below, ".%s", member);
    if (list && json_kind(list) != JK_LIST) return place_wrong(at, below, "a list", list, e);
    for (size_t i = 0; rc == 0 && i < json_count(list); i++) {
        const struct place place = place_below(at, below, i);
        const char *text, *word;
        size_t n;
        rc = read_type(json_item(list, i), &place, &word, e);
        if (rc == 0 && strcmp(word, type) != 0)
            rc = err_field(e, ERR_UNSUPPORTED, at->field, "%s.type: must be %s, got \"%.60s\"",
                           place.path, type, word);
        if (rc == 0) rc = place_text(json_item(list, i), "text", &place, &text, &n, e);
        if (rc == 0) rc = place_members(json_item(list, i), &place, members, e);
        if (rc == 0) buf_add(out, text, n);
    }
    return rc;
}

/* Append the reasoning that this server wrote into encrypted_content. encrypted_content of other
 * servers has no effect, because this server cannot read it. */
static int add_sealed(struct buf *out, const struct json *item, const struct place *at,
                      struct err *e)
{
    const struct json *sealed = body_field(item, "encrypted_content");
    const size_t n_seal = sizeof RESPONSES_SEAL - 1;
    size_t n = 0;
    const char *text = json_text(sealed, &n);
    if (!sealed) return 0;
    if (!text) return place_wrong(at, ".encrypted_content", "a string", sealed, e);
    if (n < n_seal || memcmp(text, RESPONSES_SEAL, n_seal) != 0) return 0;
    if (base64_decode(text + n_seal, n - n_seal, out) || out->failed) return 0;
    return err_field(e, ERR_ARG, at->field, "%s.encrypted_content: must be unchanged", at->path);
}

/* Add reasoning: the text, else the summary, else encrypted_content. */
static int add_reasoning(struct item_input *in, const struct json *item, const struct place *at,
                         struct message_place place, struct err *e)
{
    static const char *const members[] = {"type",   "id", "summary", "content", "encrypted_content",
                                          "status", NULL};
    struct buf text = {0}, summary = {0}, sealed = {0};
    int rc = place_members(item, at, members, e);
    if (rc == 0) rc = add_thoughts(&text, item, "content", "reasoning_text", at, e);
    if (rc == 0) rc = add_thoughts(&summary, item, "summary", "summary_text", at, e);
    if (rc == 0) rc = add_sealed(&sealed, item, at, e);
    const struct buf *from = text.n ? &text : sealed.n ? &sealed : &summary;
    if (rc == 0 && (text.failed || summary.failed || sealed.failed))
        rc = err_memory(e, "reasoning", from->n);
    if (rc == 0 && from->n) {
        assistant(in, place, false);
        turn_reasoning(&in->t.turn, from->data, from->n);
    }
    buf_deinit(&text);
    buf_deinit(&summary);
    buf_deinit(&sealed);
    return rc;
}

/* Convert an item. An object with a role needs no type. */
static int add_item(struct item_input *in, const struct json *item, const struct place *at,
                    struct message_place place, struct err *e)
{
    const char *type;
    int rc = read_type(item, at, &type, e);
    if (rc != 0) return rc;
    const bool message =
        strcmp(type, "message") == 0 || (!*type && json_field(item, "role") != NULL);
    if (message)
        rc = add_message(in, item, at, place, e);
    else if (strcmp(type, "function_call") == 0 || strcmp(type, "custom_tool_call") == 0)
        rc = add_call(in, item, at, place, *type == 'c', e);
    else if (strcmp(type, "function_call_output") == 0 ||
             strcmp(type, "custom_tool_call_output") == 0)
        rc = add_output(in, item, at, place, e);
    else if (strcmp(type, "reasoning") == 0)
        rc = add_reasoning(in, item, at, place, e);
    else
        rc = err_field(e, ERR_UNSUPPORTED, at->field,
                       "%s.type: must be message, reasoning, item_reference, or a call or output "
                       "of a function or custom tool, got \"%.60s\"",
                       at->path, type);
    in->after_message = message;
    if (rc == 0 && in->from->keep)
        responses_keep_item(&in->from->items, item, in->from->hex, in->n_item);
    in->n_item++;
    return rc;
}

/* Return true if the item is only the id of a stored item. */
static bool is_reference(const struct json *item)
{
    const struct json *type = body_field(item, "type");
    const char *word = json_text(type, NULL);
    if (type) return word && strcmp(word, "item_reference") == 0;
    return json_field(item, "id") && !json_field(item, "role");
}

/* Convert item i of `input`. Replace a reference by the stored item. */
static int add_input_item(struct item_input *in, const struct json *item, size_t i, struct err *e)
{
    const struct place at = place_below(&(struct place){.field = "input"}, "", i);
    const struct message_place place = {(int)i, -1};
    struct err why = {0};
    const char *id;
    if (!is_reference(item)) return add_item(in, item, &at, place, e);
    int rc = place_word(item, "id", &at, &id, e);
    if (rc != 0) return rc;
    rc = responses_find_item(&in->found, &item, in->from, id, &why);
    if (rc != 0) return err_field(e, rc, at.field, "%s.id: %s", at.path, why.text);
    return add_item(in, item, &at, place, e);
}

/* ---- the list of messages ---- */

/* Convert a text of the user. */
static void add_text(struct item_input *in, const char *text, size_t n)
{
    struct buf item = {0};
    struct json *j = NULL;
    struct json_out o = {.b = &item};
    turns_role(&in->t, "user", (struct message_place){0, -1});
    turn_text(&in->t.turn, "", text, n);
    in->n_item++;
    if (!in->from->keep) return;
    out_object(&o, NULL);
    out_word(&o, "role", "user");
    out_text(&o, "content", text, n);
    out_end(&o);
    if (!item.failed) (void)json_parse(&j, item.data, item.n, NULL, NULL);
    if (j)
        responses_keep_item(&in->from->items, j, in->from->hex, in->n_item - 1);
    else
        in->from->items.failed = true;
    json_drop(j);
    buf_deinit(&item);
}

/* Convert `input`: a text of the user, or items. */
static int add_input(struct item_input *in, const struct json *input, struct err *e)
{
    size_t n;
    const char *text = json_text(input, &n);
    int rc = 0;
    if (text) return add_text(in, text, n), 0;
    if (json_kind(input) != JK_LIST)
        return body_wrong("input", "a string or a list of items", input, e);
    if (json_count(input) == 0)
        return err_field(e, ERR_ARG, "input", ": must have at least 1 item, got 0");
    if (json_count(input) > ITEM_MAX)
        return err_field(e, ERR_LIMIT, "input", ": must have at most %d items, got %zu", ITEM_MAX,
                         json_count(input));
    for (size_t i = 0; rc == 0 && i < json_count(input); i++)
        rc = add_input_item(in, json_item(input, i), i, e);
    return rc;
}

/* Convert the items of the previous response or the conversation, which the server converted for
 * earlier requests. */
static int add_previous(struct item_input *in, struct err *e)
{
    const struct place at = {.field = body_field(in->from->body, "conversation")
                                          ? "conversation"
                                          : "previous_response_id"};
    struct json *list = NULL;
    int rc = responses_previous(&list, in->from, e);
    for (size_t i = 0; rc == 0 && i < json_count(list); i++)
        rc = add_item(in, json_item(list, i), &at, (struct message_place){PLACE_PREVIOUS, -1}, e);
    json_drop(list);
    in->from->n_earlier = in->from->items.n;
    return rc;
}

int responses_put_messages(struct json_out *o, struct responses_source *from, struct err *e)
{
    struct item_input in = {.t = {.o = o, .places = &from->places}, .from = from};
    size_t n;
    const char *text = json_text(body_field(from->body, "instructions"), &n);
    out_list(o, "messages");
    if (text && n) {
        turns_role(&in.t, "system", (struct message_place){PLACE_INSTRUCTIONS, -1});
        turn_text(&in.t.turn, "", text, n);
        turns_end(&in.t);
    }
    int rc = add_previous(&in, e);
    if (rc == 0) rc = add_input(&in, body_field(from->body, "input"), e);
    turns_end(&in.t);
    out_end(o);
    json_drop(in.found);
    /* a failed allocation also loses items */
    if (rc == 0 && (in.t.failed || from->items.failed)) rc = err_memory(e, "input", from->items.n);
    if (rc == 0 && from->places.n == 0)
        rc = err_field(e, ERR_ARG, "input", ": must have an item with text, got none");
    return rc;
}

/* anthropic_turns.c - convert `system` and `messages` of Anthropic's bodies to messages of the
 * neutral form. Blocks are collected in a turn, which is one message (turn.c).
 *
 *   system                      a message of the role system
 *   text blocks of the user     a message of the user; consecutive blocks are joined
 *   tool_result blocks          messages of the role tool
 *   blocks of the assistant     one message: reasoning_content, content, tool_calls
 *
 * Consecutive messages of one role are one turn, as in Anthropic's API. A last message of the
 * assistant is continued. */
#include "anthropic.h"
#include "openai.h"

#include <stdio.h>
#include <string.h>

/* the limit of Anthropic's API */
enum { MESSAGE_MAX = 100000 };

/* ---- blocks ---- */

/* Set *type to the type of a block; "" if the type is not a string. */
static int read_type(const struct json *block, const struct place *at, const char **type,
                     struct err *e)
{
    *type = json_text(json_field(block, "type"), NULL);
    if (json_kind(block) != JK_OBJECT) return place_wrong(at, "", "a block", block, e);
    if (*type) return 0;
    return place_wrong(at, ".type", "a string", json_field(block, "type"), e);
}

/* Set the error for a block that is not allowed at this place or not supported. */
static int refuse_block(const struct place *at, const char *type, const char *allowed,
                        struct err *e)
{
    return err_field(e, ERR_UNSUPPORTED, at->field, "%s.type: must be %s, got \"%.60s\"", at->path,
                     allowed, type);
}

/* Add a block that must be text. */
static int add_text_block(struct turn *t, const struct json *block, const struct place *at,
                          const char *first, struct err *e)
{
    static const char *const members[] = {"type", "text", "cache_control", "!citations", NULL};
    const char *type, *text;
    size_t n;
    int rc = read_type(block, at, &type, e);
    if (rc == 0 && strcmp(type, "text") != 0) rc = refuse_block(at, type, "text", e);
    if (rc == 0) rc = place_text(block, "text", at, &text, &n, e);
    if (rc == 0) rc = anthropic_check_members(block, at, members, e);
    if (rc == 0) turn_text(t, first, text, n);
    return rc;
}

/* Add a content that is a string, a list of text blocks, or absent. `first` precedes the text. */
static int add_texts(struct turn *t, const struct json *content, const struct place *at,
                     const char *member, const char *first, struct err *e)
{
    size_t n = 0;
    const char *text = json_text(content, &n);
    int rc = 0;
    if (text) return turn_text(t, first, text, n), 0;
    if (content && json_kind(content) != JK_LIST)
        return place_wrong(at, member, "a string or a list of blocks", content, e);
    for (size_t i = 0; rc == 0 && i < json_count(content); i++) {
        const struct place place = place_below(at, member, i);
        rc = add_text_block(t, json_item(content, i), &place, i ? "" : first, e);
    }
    if (rc == 0 && t->n_part == 0 && *first) turn_text(t, first, "", 0);
    return rc;
}

/* Write a message of the role tool. The text of an error gets a prefix, because templates have no
 * field for errors. */
static int add_result(struct turns *c, const struct json *block, const struct place *at,
                      struct message_place place, struct err *e)
{
    static const char *const members[] = {"type",          "tool_use_id",   "content", "is_error",
                                          "cache_control", "!toolset_name", NULL};
    const struct json *is_error = body_field(block, "is_error");
    const char *id;
    struct turn t = {0};
    int rc = place_word(block, "tool_use_id", at, &id, e);
    if (rc == 0 && is_error && json_kind(is_error) != JK_BOOL)
        rc = place_wrong(at, ".is_error", "true or false", is_error, e);
    if (rc == 0) rc = anthropic_check_members(block, at, members, e);
    if (rc == 0)
        rc = add_texts(&t, body_field(block, "content"), at, ".content",
                       json_bool(is_error, false) ? "Error: " : "", e);
    if (rc == 0) turns_result(c, call_own_id(id, ANTHROPIC_ID_PREFIX), &t, place);
    turn_deinit(&t);
    return rc;
}

/* Add a call to the open turn of the assistant. */
static int add_use(struct turn *t, const struct json *block, const struct place *at, struct err *e)
{
    static const char *const members[] = {
        "type", "id", "name", "input", "caller", "cache_control", "!toolset_name", NULL};
    const struct json *input = body_field(block, "input");
    const char *id, *name,
        *caller = json_text(json_field(body_field(block, "caller"), "type"), NULL);
    int rc = place_word(block, "id", at, &id, e);
    if (rc == 0) rc = place_word(block, "name", at, &name, e);
    if (rc == 0 && input && json_kind(input) != JK_OBJECT)
        rc = place_wrong(at, ".input", "an object", input, e);
    if (rc == 0 && body_field(block, "caller") && (!caller || strcmp(caller, "direct") != 0))
        rc = err_field(e, ERR_UNSUPPORTED, at->field, "%s.caller.type: must be \"direct\"",
                       at->path);
    if (rc == 0) rc = anthropic_check_members(block, at, members, e);
    if (rc != 0) return rc;
    struct json_out o;
    turn_call(t, &o, call_own_id(id, ANTHROPIC_ID_PREFIX), "function", name);
    if (input)
        openai_put_json(&o, "arguments", input);
    else
        out_raw(&o, "arguments", "{}", 2);
    turn_call_end(&o);
    return 0;
}

/* Add thinking to the open turn. The signature is not verified, because the client may continue a
 * conversation of another server. */
static int add_thinking(struct turn *t, const struct json *block, const struct place *at,
                        struct err *e)
{
    static const char *const members[] = {"type", "thinking", "signature", "cache_control", NULL};
    const struct json *signature = body_field(block, "signature");
    const char *text;
    size_t n;
    int rc = place_text(block, "thinking", at, &text, &n, e);
    if (rc == 0 && signature && json_kind(signature) != JK_TEXT)
        rc = place_wrong(at, ".signature", "a string", signature, e);
    if (rc == 0) rc = anthropic_check_members(block, at, members, e);
    if (rc != 0 || n == 0) return rc;
    turn_reasoning(t, text, n);
    return 0;
}

static int add_assistant_block(struct turns *c, const struct json *block, const struct place *at,
                               struct err *e)
{
    const char *type, *data;
    size_t n;
    int rc = read_type(block, at, &type, e);
    if (rc != 0) return rc;
    if (strcmp(type, "text") == 0) return add_text_block(&c->turn, block, at, "", e);
    if (strcmp(type, "tool_use") == 0) return add_use(&c->turn, block, at, e);
    if (strcmp(type, "thinking") == 0) return add_thinking(&c->turn, block, at, e);
    /* ignore encrypted thinking of another server, which the model cannot read */
    if (strcmp(type, "redacted_thinking") == 0) return place_text(block, "data", at, &data, &n, e);
    return refuse_block(at, type, "text, thinking, redacted_thinking or tool_use", e);
}

static int add_user_block(struct turns *c, const struct json *block, const struct place *at,
                          struct message_place place, struct err *e)
{
    const char *type;
    int rc = read_type(block, at, &type, e);
    if (rc != 0) return rc;
    if (strcmp(type, "tool_result") == 0) return add_result(c, block, at, place, e);
    if (strcmp(type, "text") != 0) return refuse_block(at, type, "text or tool_result", e);
    turns_role(c, "user", place);
    return add_text_block(&c->turn, block, at, "", e);
}

/* ---- messages ---- */

/* Add message i to the turns. A block of the user may end the turn, because results of tools are
 * separate messages of the neutral form. All blocks of the assistant stay in one turn. */
static int add_message(struct turns *c, const struct json *message, size_t i, struct err *e)
{
    const struct json *content = body_field(message, "content");
    const struct message_place place = {(int)i, -1};
    struct place at = {.field = "messages"};
    const char *role;
    char value[80];
    snprintf(at.path, sizeof at.path, "[%zu]", i);
    if (json_kind(message) != JK_OBJECT) return place_wrong(&at, "", "an object", message, e);
    role = json_text(json_field(message, "role"), NULL);
    const bool user = role && strcmp(role, "user") == 0,
               assistant = role && strcmp(role, "assistant") == 0,
               system = role && strcmp(role, "system") == 0;
    if (!user && !assistant && !system)
        return err_field(e, ERR_ARG, "messages",
                         "%s.role: must be user, assistant or system, got %s", at.path,
                         json_value_text(json_field(message, "role"), value));
    if (json_kind(content) != JK_TEXT && json_kind(content) != JK_LIST)
        return place_wrong(&at, ".content", "a string or a list of blocks", content, e);
    if (!user || json_kind(content) == JK_TEXT || json_count(content) == 0)
        turns_role(c, user ? "user" : assistant ? "assistant" : "system", place);
    if (system || json_kind(content) == JK_TEXT)
        return add_texts(&c->turn, content, &at, ".content", "", e);
    int rc = 0;
    for (size_t k = 0; rc == 0 && k < json_count(content); k++) {
        const struct place block = place_below(&at, ".content", k);
        rc = user ? add_user_block(c, json_item(content, k), &block,
                                   (struct message_place){(int)i, (int)k}, e)
                  : add_assistant_block(c, json_item(content, k), &block, e);
    }
    return rc;
}

/* Check the last turn. A last message of the assistant is continued, so it must not end with a
 * call. */
static int check_last(const struct turn *last, bool *continues, struct err *e)
{
    *continues = last->role && strcmp(last->role, "assistant") == 0;
    if (!*continues || last->calls.n == 0) return 0;
    return err_field(e, ERR_ARG, "messages",
                     "[%d]: tool_use must be followed by a tool_result, got no further message",
                     last->place.message);
}

/* Return true for "" and []. */
static bool is_empty(const struct json *content)
{
    const enum json_kind kind = json_kind(content);
    return (kind == JK_TEXT || kind == JK_LIST) && !body_is_set(content);
}

/* Write `system` and `messages` as one list. *continues: the answer continues the last message. */
int anthropic_put_messages(struct json_out *o, struct message_places *places,
                           const struct json *body, bool *continues, struct err *e)
{
    const struct json *list = body_field(body, "messages"), *system = body_field(body, "system");
    struct turns c = {.o = o, .places = places};
    if (json_kind(list) != JK_LIST) return body_wrong("messages", "a list of messages", list, e);
    if (json_count(list) == 0)
        return err_field(e, ERR_ARG, "messages", ": must have at least 1 message, got 0");
    if (json_count(list) > MESSAGE_MAX)
        return err_field(e, ERR_LIMIT, "messages", ": must have at most %d messages, got %zu",
                         MESSAGE_MAX, json_count(list));
    int rc = 0;
    out_list(o, "messages");
    if (system && !is_empty(system)) {
        const struct place at = {.field = "system"};
        turns_role(&c, "system", (struct message_place){-1, -1});
        rc = add_texts(&c.turn, system, &at, "", "", e);
        turns_end(&c);
    }
    for (size_t i = 0; rc == 0 && i < json_count(list); i++)
        rc = add_message(&c, json_item(list, i), i, e);
    if (rc == 0) rc = check_last(&c.turn, continues, e);
    turns_end(&c);
    out_end(o);
    return rc == 0 && c.failed ? err_memory(e, "messages", places->n) : rc;
}

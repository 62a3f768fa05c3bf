/* ollama_turns.c - convert `messages` of Ollama's /api/chat to messages of the neutral form, one by
 * one.
 *
 *   thinking      reasoning_content
 *   tool_calls    with ids, which templates need. Ollama's clients send none, so the n-th call of
 *                 the conversation has an id of its number.
 *   tool_name     name. A result without an id belongs to the next call without a result, of the
 *                 same name if there is one.
 *
 * A last message of the assistant is continued. */
#include "ollama.h"
#include "openai.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* SEARCH_MAX: maximum number of calls that are compared with a result, which limits the work for
 * hostile bodies. */
enum { MESSAGE_MAX = 100000, SEARCH_MAX = 256 };

/* A call of the assistant's last turn without a result. */
struct pending_call {
    size_t number;           /* number of the call in the conversation */
    const struct json *call; /* borrowed from the body */
    bool done;
};

struct converter {
    struct json_out *o;
    struct message_places *places; /* borrowed */
    size_t n_call;                 /* calls so far */
    struct {
        struct pending_call *v; /* calls of the last turn, owned */
        size_t n, cap;
    } pending;
    size_t pending_at; /* no earlier call is without a result */
    bool failed;
};

/* Write the id of the n-th call: nine letters and digits. */
static void put_number(struct json_out *o, const char *key, size_t n)
{
    char id[32];
    snprintf(id, sizeof id, "call%05zu", n % 100000);
    out_word(o, key, id);
}

/* Write the client's id, or an id made from the call's number. */
static int put_id(struct json_out *o, const char *key, const struct json *object,
                  const char *member, const struct place *at, size_t number, struct err *e)
{
    const struct json *value = body_field(object, member);
    const char *id;
    size_t n = 0;
    if (!value || (json_text(value, &n) && n == 0)) {
        put_number(o, key, number);
        return 0;
    }
    int rc = place_word(object, member, at, &id, e);
    if (rc == 0) out_word(o, key, call_own_id(id, OLLAMA_ID_PREFIX));
    return rc;
}

/* Write a call. `arguments` is an object. */
static int put_call(struct converter *c, const struct json *call, const struct place *at,
                    struct err *e)
{
    const struct json *function = body_field(call, "function"),
                      *arguments = body_field(function, "arguments");
    const struct pending_call open = {.number = c->n_call, .call = call};
    struct place inner = *at;
    const char *name;
    if (json_kind(call) != JK_OBJECT) return place_wrong(at, "", "an object", call, e);
    if (json_kind(function) != JK_OBJECT)
        return place_wrong(at, ".function", "an object", function, e);
    if (arguments && json_kind(arguments) != JK_OBJECT)
        return place_wrong(at, ".function.arguments", "an object", arguments, e);
    snprintf(inner.path, sizeof inner.path, "%.60s.function", at->path);
    int rc = place_word(function, "name", &inner, &name, e);
    if (rc != 0) return rc;
    out_object(c->o, NULL);
    rc = put_id(c->o, "id", call, "id", at, c->n_call++, e);
    out_word(c->o, "type", "function");
    out_object(c->o, "function");
    out_word(c->o, "name", name);
    if (arguments)
        openai_put_json(c->o, "arguments", arguments);
    else
        out_raw(c->o, "arguments", "{}", 2);
    out_end(c->o);
    out_end(c->o);
    if (!vec_push(&c->pending, open)) c->failed = true;
    return rc;
}

static int put_calls(struct converter *c, const struct json *calls, const struct place *at,
                     struct err *e)
{
    int rc = 0;
    c->pending.n = c->pending_at = 0;
    if (json_count(calls) == 0) return 0;
    out_list(c->o, "tool_calls");
    for (size_t i = 0; rc == 0 && i < json_count(calls); i++) {
        const struct place below = place_below(at, ".tool_calls", i);
        rc = put_call(c, json_item(calls, i), &below, e);
    }
    out_end(c->o);
    return rc;
}

/* Return true if a pending call has the name; NULL: any call. */
static bool has_name(const struct pending_call *p, const char *name)
{
    const char *own = json_text(json_field(body_field(p->call, "function"), "name"), NULL);
    return !name || (own && strcmp(own, name) == 0);
}

/* Return true if the call of the assistant has this id of the client. */
static bool has_id(const struct pending_call *p, const struct json *id)
{
    size_t n = 0, n_own = 0;
    const char *text = json_text(id, &n), *own = json_text(body_field(p->call, "id"), &n_own);
    return text && own && n == n_own && memcmp(text, own, n) == 0;
}

/* Return the call to which a result belongs; NULL if no call is pending. id NULL: the result has no
 * id. Results mostly have the order of their calls, so the search is short. */
static struct pending_call *pending_of(struct converter *c, const struct json *id, const char *name)
{
    while (c->pending_at < c->pending.n && c->pending.v[c->pending_at].done) c->pending_at++;
    struct pending_call *first = NULL;
    const size_t end = c->pending_at + SEARCH_MAX;
    for (size_t i = c->pending_at; i < c->pending.n && i < end; i++) {
        struct pending_call *p = &c->pending.v[i];
        if (p->done) continue;
        if (id ? has_id(p, id) : has_name(p, name)) return p;
        if (!first) first = p;
    }
    return id ? NULL : first;
}

/* Write the members of a result. */
static int put_result(struct converter *c, const struct json *message, const struct place *at,
                      struct err *e)
{
    const struct json *id = body_field(message, "tool_call_id");
    const char *name = NULL;
    size_t n = 0;
    int rc = body_field(message, "tool_name") ? place_word(message, "tool_name", at, &name, e) : 0;
    if (rc != 0) return rc;
    if (name && !*name) name = NULL;
    if (json_text(id, &n) && n == 0) id = NULL;
    struct pending_call *call = pending_of(c, id, name);
    const size_t number = call ? call->number : c->n_call;
    if (call) call->done = true;
    rc = put_id(c->o, "tool_call_id", message, "tool_call_id", at, number, e);
    if (rc == 0 && name) out_word(c->o, "name", name);
    return rc;
}

/* Set *out to the role in lower case, as Ollama does. */
static int read_role(const struct json *message, const struct place *at, const char **out,
                     struct err *e)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    const char *role = json_text(json_field(message, "role"), NULL);
    char value[80];
    *out = NULL;
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++)
        if (strcasecmp(role, roles[i]) == 0) *out = roles[i];
    if (*out) return 0;
    return err_field(e, ERR_ARG, at->field,
                     "%s.role: must be system, user, assistant or tool, got %s", at->path,
                     json_value_text(json_field(message, "role"), value));
}

/* Write the members that all roles have. */
static int put_texts(struct json_out *o, const struct json *message, const struct place *at,
                     struct err *e)
{
    static const char *const from[] = {"content", "thinking"};
    static const char *const to[] = {"content", "reasoning_content"};
    int rc = 0;
    for (int i = 0; rc == 0 && i < 2; i++) {
        const char *text = "";
        size_t n = 0;
        if (body_field(message, from[i])) rc = place_text(message, from[i], at, &text, &n, e);
        if (rc == 0 && (i == 0 || n > 0)) out_text(o, to[i], text, n);
    }
    return rc;
}

static int put_message(struct converter *c, const struct json *message, size_t i, const char **role,
                       struct err *e)
{
    static const char *const members[] = {"role",       "content",   "thinking",     "!images",
                                          "tool_calls", "tool_name", "tool_call_id", NULL};
    const struct place at = place_below(&(struct place){.field = "messages"}, "", i);
    const struct message_place place = {(int)i, -1};
    const struct json *calls = body_field(message, "tool_calls");
    if (json_kind(message) != JK_OBJECT) return place_wrong(&at, "", "an object", message, e);
    int rc = read_role(message, &at, role, e);
    if (rc == 0) rc = place_members(message, &at, members, e);
    if (rc == 0 && calls && json_kind(calls) != JK_LIST)
        rc = place_wrong(&at, ".tool_calls", "a list of calls", calls, e);
    if (rc != 0) return rc;
    if (!vec_push(c->places, place)) c->failed = true;
    out_object(c->o, NULL);
    out_word(c->o, "role", *role);
    rc = put_texts(c->o, message, &at, e);
    if (rc == 0 && strcmp(*role, "tool") == 0)
        rc = put_result(c, message, &at, e);
    else if (rc == 0)
        rc = put_calls(c, calls, &at, e);
    out_end(c->o);
    return rc;
}

/* Set *continues if the last message is the assistant's, which is then continued. Reject a call in
 * it. */
static int check_last(const struct json *last, size_t i, const char *role, bool *continues,
                      struct err *e)
{
    *continues = role && strcmp(role, "assistant") == 0;
    if (!*continues || json_count(body_field(last, "tool_calls")) == 0) return 0;
    return err_field(e, ERR_ARG, "messages",
                     "[%zu].tool_calls: must be followed by a message of the role tool, got no "
                     "further message",
                     i);
}

int ollama_put_messages(struct json_out *o, struct message_places *places, const struct json *body,
                        size_t first, bool *continues, struct err *e)
{
    const struct json *list = body_field(body, "messages");
    const size_t n = json_count(list);
    struct converter c = {.o = o, .places = places};
    const char *role = NULL;
    int rc = 0;
    if (n > MESSAGE_MAX)
        return err_field(e, ERR_LIMIT, "messages", ": must have at most %d messages, got %zu",
                         MESSAGE_MAX, n);
    out_list(o, "messages");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct json *message = json_item(list, i);
        const char *own = json_text(json_field(message, "role"), NULL);
        if (i < first && !(own && strcasecmp(own, "system") == 0)) continue;
        rc = put_message(&c, message, i, &role, e);
    }
    if (rc == 0 && n > 0) rc = check_last(json_item(list, n - 1), n - 1, role, continues, e);
    out_end(o);
    vec_deinit(&c.pending);
    return rc == 0 && c.failed ? err_memory(e, "messages", places->n) : rc;
}

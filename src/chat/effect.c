/* effect.c - parts of a conversation that have no effect on the prompt.
 *
 * check_roles assumes that a template treats all messages of a role alike. A template of a request
 * may print some contents only ("if m.content == 'a'"), roles without contents, or no tool calls.
 * For these templates, the conversation is rendered again with each change of one part:
 *
 *   another content of a message, without a message, without a call, other arguments of a call
 *
 * A change that leaves the prompt equal changes an ignored part, which is an error. A change that
 * the template rejects has an effect. A leading system message is not left out, because the
 * template may print the same text without it. */
#include "chat/template_impl.h"

#include "base/cancel.h"
#include "base/os.h"

#include <string.h>

/* limits of all renderings of a check, together a few seconds: bytes of prompts and of messages,
 * and evaluation steps */
enum { WORK_BYTES_MAX = 64 << 20, STEPS_MAX = 20 * 1000 * 1000 };

enum change { OTHER_CONTENT, NO_MESSAGE, NO_CALL, OTHER_ARGUMENTS };

/* All pointers are borrowed. */
struct check {
    const struct template *t;
    const struct conversation *c;
    const struct buf *own; /* the prompt */
    size_t n_work;         /* bytes of all renderings so far */
    uint64_t steps_left;
    const char *marker; /* changed contents and arguments contain this text */
};

static const struct json *calls_of(const struct json *message)
{
    return json_field(message, "tool_calls");
}

/* Append a call with other arguments, of the same kind. */
static void put_call(struct buf *b, const struct json *call, const char *marker)
{
    const struct json *f = json_field(call, "function");
    const bool text = json_kind(json_field(f, "arguments")) == JK_TEXT;
    buf_addf(b,
             text ? "{\"function\":{\"arguments\":\"{\\\"%s\\\":1}\""
                  : "{\"function\":{\"arguments\":{\"%s\":1}",
             marker);
    json_put_members(b, f, "arguments");
    buf_add_char(b, '}');
    json_put_members(b, call, "function");
    buf_add_char(b, '}');
}

/* Append the message with a change. */
static void put_changed(struct buf *b, const struct json *message, enum change how, size_t call,
                        const char *marker)
{
    const struct json *calls = calls_of(message);
    if (how == OTHER_CONTENT) {
        buf_addf(b, "{\"content\":\"%s\"", marker);
        json_put_members(b, message, "content");
        buf_add_char(b, '}');
        return;
    }
    buf_add_text(b, "{\"tool_calls\":[");
    for (size_t k = 0, n = 0; k < json_count(calls); k++) {
        if (how == NO_CALL && k == call) continue;
        if (n++) buf_add_char(b, ',');
        if (k == call)
            put_call(b, json_item(calls, k), marker);
        else
            json_put(b, json_item(calls, k));
    }
    buf_add_char(b, ']');
    json_put_members(b, message, "tool_calls");
    buf_add_char(b, '}');
}

/* Parse the conversation's messages with a change of message i. */
static int change_messages(struct json **out, struct check *k, size_t i, enum change how,
                           size_t call, struct err *e)
{
    struct buf b = {0};
    buf_add_char(&b, '[');
    for (size_t m = 0, n = 0; m < json_count(k->c->messages); m++) {
        if (m == i && how == NO_MESSAGE) continue;
        if (n++) buf_add_char(&b, ',');
        if (m == i)
            put_changed(&b, json_item(k->c->messages, m), how, call, k->marker);
        else
            json_put(&b, json_item(k->c->messages, m));
    }
    buf_add_char(&b, ']');
    if (b.n > k->own->n) k->n_work += b.n - k->own->n;
    const int rc =
        b.failed ? err_memory(e, "messages", b.n) : json_parse(out, b.data, b.n, NULL, e);
    buf_deinit(&b);
    return rc;
}

/* Set *ignored if the prompt is equal after a change of message i. */
static int compare(bool *ignored, struct check *k, size_t i, enum change how, size_t call,
                   struct err *e)
{
    struct conversation changed = *k->c;
    struct json *messages = NULL;
    struct buf other = {0};
    *ignored = false;
    k->n_work += k->own->n + 1024;
    if (cancelled()) return err_cancelled(e);
    if (k->n_work > WORK_BYTES_MAX || k->steps_left == 0)
        return err_field(
            e, ERR_LIMIT, "chat_template",
            ": a conversation with a template of its own must be shorter, because each "
            "of its parts is checked");
    struct err why = {0};
    int rc = change_messages(&messages, k, i, how, call, &why);
    changed.messages = messages;
    changed.steps_left = &k->steps_left;
    if (rc == 0) rc = render_conversation(k->t, &changed, &other, &why);
    if (rc == 0 && other.failed) rc = err_memory(&why, "a rendered prompt", other.n);
    if (rc == 0)
        *ignored = other.n == k->own->n && (!other.n || !memcmp(other.data, k->own->data, other.n));
    json_drop(messages);
    buf_deinit(&other);
    if (rc == ERR_LIMIT && k->steps_left == 0) return compare(ignored, k, i, how, call, e);
    if (rc != ERR_MEMORY) return 0; /* the template rejects the change */
    *e = why;
    return rc;
}

/* Check the calls of message i. */
static int check_calls(struct check *k, size_t i, struct err *e)
{
    const size_t n = json_count(calls_of(json_item(k->c->messages, i)));
    bool ignored = false;
    int rc = 0;
    for (size_t call = 0; call < n && rc == 0; call++) {
        rc = compare(&ignored, k, i, NO_CALL, call, e);
        if (rc == 0 && !ignored) rc = compare(&ignored, k, i, OTHER_ARGUMENTS, call, e);
        if (rc == 0 && ignored)
            return err_field(e, ERR_ARG, "messages",
                             "[%zu].tool_calls[%zu]: the chat template ignores a part of this call",
                             i, call);
    }
    return rc;
}

/* Return true if message i begins the conversation with instructions. */
static bool is_leading(const struct json *message, size_t i)
{
    const char *role = json_text(json_field(message, "role"), NULL);
    return i == 0 && role && (strcmp(role, "system") == 0 || strcmp(role, "developer") == 0);
}

static int check_message(struct check *k, size_t i, struct err *e)
{
    const struct json *m = json_item(k->c->messages, i), *content = json_field(m, "content");
    size_t n = 0;
    bool ignored = false;
    int rc = 0;
    if (json_text(content, &n) ? n == 0 : json_count(content) == 0) return check_calls(k, i, e);
    rc = compare(&ignored, k, i, OTHER_CONTENT, 0, e);
    if (rc == 0 && !ignored && !is_leading(m, i)) rc = compare(&ignored, k, i, NO_MESSAGE, 0, e);
    if (rc == 0 && ignored)
        return err_field(e, ERR_ARG, "messages",
                         "[%zu].content: the chat template ignores this content", i);
    return rc ? rc : check_calls(k, i, e);
}

/* The time is the same in all renderings, because a template may print it. */
int check_effects(const struct template *t, const struct conversation *c, struct err *e)
{
    struct conversation fixed = *c;
    struct buf own = {0};
    size_t n = json_count(c->messages);
    if (!fixed.now) fixed.now = time_wall_us() / 1000000;
    /* template_render appends the last message without the template */
    if (n && c->continue_final != CHAT_CONTINUE_NO) n--;
    int rc = render_conversation(t, &fixed, &own, e);
    if (rc == 0 && own.failed) rc = err_memory(e, "a rendered prompt", own.n);
    /* the marker is no part of the conversation, because its prompt does not contain it */
    static const char *const marker[] = {"qOther", "qAnother", "qFurther"};
    struct check k = {.t = t, .c = &fixed, .own = &own, .steps_left = STEPS_MAX};
    for (size_t i = 0; i < sizeof marker / sizeof marker[0] && rc == 0; i++) {
        k.marker = marker[i];
        if (!own.n || !memmem(own.data, own.n, marker[i], strlen(marker[i]))) break;
    }
    for (size_t i = 0; i < n && rc == 0; i++) rc = check_message(&k, i, e);
    buf_deinit(&own);
    return rc;
}

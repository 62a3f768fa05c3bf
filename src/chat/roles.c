/* roles.c - messages whose content a template ignores.
 *
 * Many templates omit a message with an unknown role and raise no exception. The model would answer
 * a conversation without the omitted message. Therefore the conversation is rendered a second time,
 * with a marker as the content of each message that may not be printed. A message's content has no
 * effect if the prompt does not contain the marker and equals the prompt with the original content.
 * Conversations of users, assistants, tools and a leading system message need no second rendering,
 * unless the template omits turns, as "{{ messages[-1].content }}" does. */
#include "chat/template_impl.h"

#include <stdio.h>
#include <string.h>

enum { SUSPECT_MAX = 8, EVERY = -1 };

/* Return true if the message has a content. A message with calls usually has none. */
static bool has_content(const struct json *message)
{
    const struct json *content = json_field(message, "content");
    size_t n = 0;
    return json_text(content, &n) ? n > 0 : json_count(content) > 0;
}

/* Return true if the template certainly prints message i. */
static bool is_certain(const struct template *t, const struct json *messages, size_t i)
{
    const char *role = json_text(json_field(json_item(messages, i), "role"), NULL);
    if (!role) return false;
    if (strcmp(role, "tool") == 0) return t->prints_tool;
    if (strcmp(role, "user") == 0 || strcmp(role, "assistant") == 0)
        return t->prints_turns || !has_content(json_item(messages, i));
    return i == 0 && (strcmp(role, "system") == 0 || strcmp(role, "developer") == 0);
}

/* Write the marker of message i, which does not occur in conversations. */
static void marker(char out[static 32], size_t i)
{
    snprintf(out, 32, "qMessage%zuq", i);
}

/* Append a copy of the message with another content. */
static void put_message(struct buf *b, const struct json *message, const char *content)
{
    buf_addf(b, "{\"content\":\"%s\"", content);
    json_put_members(b, message, "content");
    buf_add_char(b, '}');
}

/* Render with a marker as the content of message i. Use the marker for each message that may not be
 * printed if i is EVERY. */
static int render_marked(const struct template *t, const struct conversation *c, int64_t i,
                         struct buf *out, struct err *e)
{
    struct conversation marked = *c;
    struct json *messages = NULL;
    struct buf b = {0};
    for (size_t k = 0; k < json_count(c->messages); k++) {
        char content[32];
        marker(content, k);
        buf_add_char(&b, k ? ',' : '[');
        if (i == EVERY ? is_certain(t, c->messages, k) : (int64_t)k != i)
            json_put(&b, json_item(c->messages, k));
        else
            put_message(&b, json_item(c->messages, k), content);
    }
    buf_add_char(&b, ']');
    int rc =
        b.failed ? err_memory(e, "messages", b.n) : json_parse(&messages, b.data, b.n, NULL, e);
    marked.messages = messages;
    if (rc == 0) rc = render_conversation(t, &marked, out, e);
    if (rc == 0) buf_add(out, "", 1);
    if (rc == 0 && out->failed) rc = err_memory(e, "a rendered prompt", out->n);
    json_drop(messages);
    buf_deinit(&b);
    return rc;
}

/* Set *ignored if the prompt does not depend on the content of message i. */
static int compare(const struct template *t, const struct conversation *c, size_t i, bool *ignored,
                   struct err *e)
{
    struct buf own = {0}, other = {0};
    int rc = render_conversation(t, c, &own, e);
    if (rc == 0) rc = render_marked(t, c, (int64_t)i, &other, e);
    *ignored =
        rc == 0 && own.n + 1 == other.n && (!own.n || memcmp(own.data, other.data, own.n) == 0);
    buf_deinit(&own);
    buf_deinit(&other);
    return rc;
}

/* Reject a message whose content has no effect on the prompt. A message whose marker is absent is
 * suspect, because the template may have changed or examined the content. Two full renderings are
 * compared for each suspect, at most SUSPECT_MAX times. Further suspects are treated as ignored. */
static int check_marked(const struct template *t, const struct conversation *c, size_t n_message,
                        const struct buf *prompt, struct err *e)
{
    int n_suspect = 0;
    for (size_t i = 0; i < n_message; i++) {
        char content[32];
        bool ignored = true;
        marker(content, i);
        if (is_certain(t, c->messages, i) ||
            memmem(prompt->data, prompt->n, content, strlen(content)))
            continue;
        int rc = n_suspect++ < SUSPECT_MAX ? compare(t, c, i, &ignored, e) : 0;
        if (rc != 0) return rc;
        const char *role = json_text(json_field(json_item(c->messages, i), "role"), NULL);
        if (ignored)
            return err_field(e, ERR_ARG, "messages",
                             "[%zu].role: the chat template ignores a message of \"%.40s\" here", i,
                             role ? role : "");
    }
    return 0;
}

/* Return after the first loop, without a rendering, for most conversations. */
int check_roles(const struct template *t, const struct conversation *c, struct err *e)
{
    size_t n = json_count(c->messages), n_certain = 0;
    struct buf prompt = {0};
    /* template_render appends the last message without the template */
    if (n && c->continue_final != CHAT_CONTINUE_NO) n--;
    while (n_certain < n && is_certain(t, c->messages, n_certain)) n_certain++;
    if (n_certain == n) return 0;
    int rc = render_marked(t, c, EVERY, &prompt, e);
    if (rc == 0) rc = check_marked(t, c, n, &prompt, e);
    buf_deinit(&prompt);
    return rc;
}

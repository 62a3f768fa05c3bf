/* message.c - a message of the assistant in OpenAI's form. */
#include "api_impl.h"

#include <string.h>

static void put_buf(struct buf *b, const struct buf *text)
{
    json_put_text(b, text->data ? text->data : "", text->n);
}

static void put_call(struct buf *b, const struct chat_call *c, size_t i)
{
    buf_add_text(b, i ? ",{\"id\":" : "{\"id\":");
    if (c->id)
        json_put_text(b, c->id, strlen(c->id));
    else
        buf_addf(b, "\"call_%zu\"", i);
    buf_add_text(b, ",\"type\":\"function\",\"function\":{\"name\":");
    json_put_text(b, c->name, strlen(c->name));
    buf_add_text(b, ",\"arguments\":");
    put_buf(b, &c->arguments);
    buf_add_text(b, "}}");
}

void put_message_members(struct buf *b, const struct chat_message *m)
{
    buf_add_text(b, "\"role\":\"assistant\",\"content\":");
    if (m->content.n == 0 && m->n_call > 0)
        buf_add_text(b, "null");
    else
        put_buf(b, &m->content);
    if (m->reasoning.n > 0) {
        buf_add_text(b, ",\"reasoning_content\":");
        put_buf(b, &m->reasoning);
    }
    for (size_t i = 0; i < m->n_call; i++) {
        if (i == 0) buf_add_text(b, ",\"tool_calls\":[");
        put_call(b, &m->call[i], i);
    }
    if (m->n_call) buf_add_char(b, ']');
}

void message_put(struct buf *b, const struct chat_message *m)
{
    buf_add_char(b, '{');
    put_message_members(b, m);
    buf_add_char(b, '}');
}

/* turn.c - write messages of the neutral form. Texts, reasoning and calls are collected in a turn,
 * which becomes one message: reasoning_content, content, tool_calls.
 *
 * Clients of other APIs send several blocks or items for what a template needs as one message. The
 * texts stay separate parts of the content, because the template determines how parts are joined. A
 * turn with one text has a string as content, which all templates support. Texts are kept as JSON,
 * so that turns_end copies them without escaping again. */
#include "dialect.h"

#include <string.h>

void turn_deinit(struct turn *t)
{
    buf_deinit(&t->parts);
    buf_deinit(&t->reasoning);
    buf_deinit(&t->calls);
    *t = (struct turn){0};
}

/* Record the place of the message that is written next. */
static void add_place(struct turns *c, struct message_place place)
{
    if (!vec_push(c->places, place)) c->failed = true;
}

/* Write the member "content": a single text as a string, several texts as a list of parts. */
static void put_content(struct json_out *o, const struct turn *t)
{
    if (t->n_part == 1)
        out_raw(o, "content", t->parts.failed ? "" : t->parts.data + t->text_at,
                t->parts.failed ? 0 : t->n_text);
    else if (t->n_part == 0)
        out_text(o, "content", "", 0);
    else {
        out_list(o, "content");
        out_raw(o, NULL, t->parts.failed ? "" : t->parts.data, t->parts.failed ? 0 : t->parts.n);
        out_end(o);
    }
}

void turns_end(struct turns *c)
{
    struct turn *t = &c->turn;
    struct json_out *o = c->o;
    if (!t->role) return;
    add_place(c, t->place);
    out_object(o, NULL);
    out_word(o, "role", t->role);
    put_content(o, t);
    if (t->reasons) out_text(o, "reasoning_content", t->reasoning.data, t->reasoning.n);
    if (t->calls.n) {
        out_list(o, "tool_calls");
        out_raw(o, NULL, t->calls.failed ? "" : t->calls.data, t->calls.failed ? 0 : t->calls.n);
        out_end(o);
    }
    out_end(o);
    o->b->failed |= t->parts.failed || t->reasoning.failed || t->calls.failed;
    turn_deinit(t);
}

void turns_role(struct turns *c, const char *role, struct message_place place)
{
    if (c->turn.role && strcmp(c->turn.role, role) == 0) return;
    turns_end(c);
    c->turn.role = role;
    c->turn.place = place;
}

void turns_result(struct turns *c, const char *call_id, const struct turn *content,
                  struct message_place place)
{
    turns_end(c);
    add_place(c, place);
    out_object(c->o, NULL);
    out_word(c->o, "role", "tool");
    out_word(c->o, "tool_call_id", call_id);
    put_content(c->o, content);
    out_end(c->o);
    c->o->b->failed |= content->parts.failed;
}

void turn_text(struct turn *t, const char *first, const char *text, size_t n)
{
    struct buf whole = {0};
    buf_add_text(&whole, first);
    buf_add(&whole, text, n);
    if (t->n_part++) buf_add_char(&t->parts, ',');
    buf_add_text(&t->parts, "{\"type\":\"text\",\"text\":");
    size_t begin = t->parts.n;
    json_put_text(&t->parts, whole.data ? whole.data : "", whole.n);
    if (t->n_part == 1) t->n_text = t->parts.n - begin, t->text_at = begin;
    buf_add_char(&t->parts, '}');
    t->parts.failed |= whole.failed;
    buf_deinit(&whole);
}

void turn_reasoning(struct turn *t, const char *text, size_t n)
{
    t->reasons = true;
    buf_add(&t->reasoning, text, n);
}

void turn_call(struct turn *t, struct json_out *o, const char *id, const char *type,
               const char *name)
{
    *o = (struct json_out){.b = &t->calls, .more = t->calls.n > 0};
    out_object(o, NULL);
    out_word(o, "id", id);
    out_word(o, "type", type);
    out_object(o, type);
    out_word(o, "name", name);
}

void turn_call_end(struct json_out *o)
{
    out_end(o);
    out_end(o);
}

const char *call_own_id(const char *id, const char *prefix)
{
    const size_t n = strlen(prefix);
    return strncmp(id, prefix, n) == 0 && id[n] ? id + n : id;
}

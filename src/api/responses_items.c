/* responses_items.c - items of a response, from the model's output. Whole responses and streams use
 * the same items, which grow token by token. The text, ids and log probabilities of an item
 * therefore do not depend on the times at which tokens arrive.
 *
 *   response.output_item.added
 *     response.content_part.added      reasoning and messages only
 *       KIND.delta ..., KIND.done
 *     response.content_part.done
 *   response.output_item.done
 *
 * Tokens between the beginning and the end of a message have their log probabilities in the
 * message. Tokens of reasoning and of calls have no log probabilities. */
#include "openai.h"
#include "responses.h"

#include "base/base64.h"
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct item_form {
    const char *type, *prefix; /* static: type of the item, and prefix of its id */
    const char *events;        /* static: prefix of its events */
    const char *text;          /* static: member with the text in the last of these events */
} kinds[] = {
    [ITEM_REASONING] = {"reasoning", "rs", "response.reasoning_text", "text"},
    [ITEM_MESSAGE] = {"message", "msg", "response.output_text", "text"},
    [ITEM_FUNCTION] = {"function_call", "fc", "response.function_call_arguments", "arguments"},
    [ITEM_CUSTOM] = {"custom_tool_call", "ctc", "response.custom_tool_call_input", "input"},
};

static bool is_call(const struct response_item *item)
{
    return item->kind == ITEM_FUNCTION || item->kind == ITEM_CUSTOM;
}

void responses_items_deinit(struct responses *own)
{
    for (size_t i = 0; i < own->n_item; i++) {
        free(own->item[i].call_id);
        free(own->item[i].name);
        buf_deinit(&own->item[i].text);
    }
    free(own->item);
    own->item = NULL;
    own->n_item = own->cap_item = 0;
}

/* ---- items as JSON ---- */

/* Append the id of item i. */
static void put_id(struct json_out *o, const char *key, const struct responses *own, size_t i)
{
    char id[RESPONSES_ID_MAX];
    int n = snprintf(id, sizeof id, "%s_%s%04zx", kinds[own->item[i].kind].prefix, own->hex, i);
    out_plain(o, key, id, (size_t)n);
}

static void put_text(struct json_out *o, const char *key, const struct buf *text)
{
    out_text(o, key, text->data, text->n);
}

/* Append the log probabilities of the item's tokens from number `from` on. */
static void put_logs(const struct api_call *c, struct json_out *o, const struct response_item *item,
                     size_t from)
{
    const struct answer_log *log = &c->part->choice[0].log;
    const bool any = c->logprobs && item->n_log > from;
    put_logprobs_list(o, "logprobs", &(struct token_names){c->api->session->tokenizer, false},
                      any ? log->v + item->log + from : NULL, any ? item->n_log - from : 0);
}

/* Append the only part of an item's content. begun: true if the part has no text yet. */
static void put_part(const struct api_call *c, struct json_out *o, const char *key,
                     const struct response_item *item, bool begun)
{
    static const struct buf none;
    const bool message = item->kind == ITEM_MESSAGE;
    out_object(o, key);
    out_word(o, "type", message ? "output_text" : "reasoning_text");
    if (message) {
        out_list(o, "annotations");
        out_end(o);
        put_logs(c, o, item, begun ? item->n_log : 0);
    }
    put_text(o, "text", begun ? &none : &item->text);
    out_end(o);
}

/* Append the reasoning in an opaque form, which clients send back. */
static void put_sealed(struct json_out *o, const struct buf *text)
{
    struct buf b = {0};
    buf_add_text(&b, RESPONSES_SEAL);
    base64_encode(text->data ? text->data : "", text->n, &b);
    out_plain(o, "encrypted_content", b.failed ? "" : b.data, b.failed ? 0 : b.n);
    o->b->failed |= b.failed;
    buf_deinit(&b);
}

/* Append item i. begun: true if the item has no text yet. */
static void put_item(const struct api_call *c, struct json_out *o, const char *key, size_t i,
                     bool begun)
{
    static const struct buf none;
    const struct responses *own = c->own;
    const struct response_item *item = &own->item[i];
    out_object(o, key);
    put_id(o, "id", own, i);
    out_word(o, "type", kinds[item->kind].type);
    out_word(o, "status", begun ? "in_progress" : item->incomplete ? "incomplete" : "completed");
    if (is_call(item)) {
        put_text(o, kinds[item->kind].text, begun ? &none : &item->text);
        out_word(o, "call_id", item->call_id);
        out_word(o, "name", item->name);
    } else {
        out_list(o, "content");
        if (!begun) put_part(c, o, NULL, item, false);
        out_end(o);
    }
    if (item->kind == ITEM_MESSAGE) out_word(o, "role", "assistant");
    if (item->kind == ITEM_REASONING) {
        out_list(o, "summary");
        out_end(o);
        if (own->seal && !begun) put_sealed(o, &item->text);
    }
    out_end(o);
}

void responses_put_items(const struct api_call *c, struct json_out *o)
{
    const struct responses *own = c->own;
    for (size_t i = 0; i < own->n_item; i++) put_item(c, o, NULL, i, false);
}

void responses_put_output(const struct api_call *c, struct json_out *o)
{
    out_list(o, "output");
    responses_put_items(c, o);
    out_end(o);
}

/* ---- events ---- */

void responses_event(const struct api_call *c, const char *type, struct json_out *o, struct buf *b)
{
    struct responses *own = c->own;
    *o = (struct json_out){.b = b};
    buf_addf(b, "event: %s\ndata: ", type);
    out_object(o, NULL);
    out_word(o, "type", type);
    out_int(o, "sequence_number", own->n_event++);
}

void responses_event_end(struct json_out *o)
{
    out_end(o);
    buf_add_text(o->b, "\n\n");
}

/* Begin an event about the last item. */
static void item_event(const struct api_call *c, const char *type, struct json_out *o,
                       struct buf *b)
{
    const struct responses *own = c->own;
    responses_event(c, type, o, b);
    out_int(o, "output_index", (int64_t)own->n_item - 1);
}

/* Append an event with the whole last item. */
static void put_item_event(const struct api_call *c, const char *type, bool begun, struct buf *b)
{
    const struct responses *own = c->own;
    struct json_out o;
    item_event(c, type, &o, b);
    put_item(c, &o, "item", own->n_item - 1, begun);
    responses_event_end(&o);
}

/* Append an event with the part of the last item's content. */
static void put_part_event(const struct api_call *c, const char *type, bool begun, struct buf *b)
{
    const struct responses *own = c->own;
    struct json_out o;
    item_event(c, type, &o, b);
    put_id(&o, "item_id", own, own->n_item - 1);
    out_int(&o, "content_index", 0);
    put_part(c, &o, "part", &own->item[own->n_item - 1], begun);
    responses_event_end(&o);
}

/* Begin an event about the text of the last item: "delta" or "done". */
static void text_event(const struct api_call *c, const char *which, struct json_out *o,
                       struct buf *b)
{
    const struct responses *own = c->own;
    const struct response_item *item = &own->item[own->n_item - 1];
    char type[64];
    snprintf(type, sizeof type, "%s.%s", kinds[item->kind].events, which);
    item_event(c, type, o, b);
    put_id(o, "item_id", own, own->n_item - 1);
    if (!is_call(item)) out_int(o, "content_index", 0);
}

/* Append the event of the unsent text of the last item, if there is any. */
static void put_delta(const struct api_call *c, struct buf *b)
{
    struct responses *own = c->own;
    struct response_item *item = &own->item[own->n_item - 1];
    struct json_out o;
    if (item->text.failed || (item->n_sent == item->text.n && item->n_log_sent == item->n_log))
        return;
    text_event(c, "delta", &o, b);
    out_text(&o, "delta", item->text.data ? item->text.data + item->n_sent : "",
             item->text.n - item->n_sent);
    if (item->kind == ITEM_MESSAGE) put_logs(c, &o, item, item->n_log_sent);
    responses_event_end(&o);
    item->n_sent = item->text.n;
    item->n_log_sent = item->n_log;
}

/* ---- growth ---- */

/* Writer of items, and of events if b is not NULL. All pointers are borrowed. */
struct item_writer {
    const struct api_call *c;
    struct choice *a;
    struct buf *b;
};

/* End the last item if it is open. Its last events repeat the whole text, as in OpenAI's
 * streams. */
static void end_item(const struct item_writer *w)
{
    struct responses *own = w->c->own;
    struct response_item *item = own->open ? &own->item[own->n_item - 1] : NULL;
    struct json_out o;
    if (!item) return;
    own->open = false;
    if (!w->b) return;
    put_delta(w->c, w->b);
    text_event(w->c, "done", &o, w->b);
    if (is_call(item)) out_word(&o, "name", item->name);
    put_text(&o, kinds[item->kind].text, &item->text);
    if (item->kind == ITEM_MESSAGE) put_logs(w->c, &o, item, 0);
    responses_event_end(&o);
    if (!is_call(item)) put_part_event(w->c, "response.content_part.done", false, w->b);
    put_item_event(w->c, "response.output_item.done", false, w->b);
}

/* Set id and name of a call's item. The id is the model's own id, or an id made from the call's
 * seed. */
static bool name_item(struct response_item *item, const struct api_call *c,
                      const struct chat_delta *d)
{
    struct buf id = {0};
    char made[CALL_ID_LETTERS + 1];
    call_id(made, choice_seed(c, 0), d->i_call);
    buf_add_text(&id, RESPONSES_CALL_PREFIX);
    buf_add_text(&id, d->id ? d->id : made);
    item->call_id = buf_detach(&id);
    item->name = strdup(d->name ? d->name : "");
    return item->call_id && item->name;
}

static enum response_kind kind_of(const struct api_call *c, const struct chat_delta *d)
{
    if (d->kind == CHAT_REASONING) return ITEM_REASONING;
    if (d->kind == CHAT_CONTENT) return ITEM_MESSAGE;
    return d->name && call_is_custom(c, d->name) ? ITEM_CUSTOM : ITEM_FUNCTION;
}

/* Append an item for a delta. A call has no content part, only arguments. */
static void begin_item(const struct item_writer *w, const struct chat_delta *d)
{
    struct responses *own = w->c->own;
    if (!vec_room((void **)&own->item, &own->cap_item, own->n_item + 1, sizeof *own->item)) {
        own->failed = true;
        return;
    }
    struct response_item *item = &own->item[own->n_item++];
    *item = (struct response_item){.kind = kind_of(w->c, d), .log = own->log_next};
    own->open = true;
    own->custom = (struct custom_text){0};
    if (is_call(item) && !name_item(item, w->c, d)) own->failed = true;
    if (!w->b || own->failed) return;
    put_item_event(w->c, "response.output_item.added", true, w->b);
    if (!is_call(item)) put_part_event(w->c, "response.content_part.added", true, w->b);
}

/* Return true if a delta begins an item. Each call begins an item. An empty text does not begin an
 * item. */
static bool begins(const struct responses *own, const struct chat_delta *d)
{
    if (!own->open || d->name) return true;
    const struct response_item *item = &own->item[own->n_item - 1];
    return d->kind == CHAT_CALL
               ? !is_call(item)
               : item->kind != (d->kind == CHAT_CONTENT ? ITEM_MESSAGE : ITEM_REASONING);
}

/* Add a delta to its item (chat_delta_fn). */
static void add_delta(void *ctx, const struct chat_delta *d)
{
    const struct item_writer *w = ctx;
    struct responses *own = w->c->own;
    if ((d->n == 0 && !d->name) || own->failed) return;
    if (begins(own, d)) {
        end_item(w);
        begin_item(w, d);
        if (own->failed) return;
    }
    struct response_item *item = &own->item[own->n_item - 1];
    if (item->kind == ITEM_CUSTOM)
        custom_push(&own->custom, d->text ? d->text : "", d->text ? d->n : 0, &item->text);
    else if (d->n)
        buf_add(&item->text, d->text, d->n);
    own->failed |= item->text.failed;
}

/* Add the tokens before token `end` to the open item if it is a message. Tokens of other items are
 * skipped. Tokens whose text the parser still keeps belong to the next item. */
static void add_logs(struct responses *own, size_t end, bool inside)
{
    struct response_item *item = own->open ? &own->item[own->n_item - 1] : NULL;
    if (item && item->kind == ITEM_MESSAGE)
        item->n_log = end - item->log, own->log_next = end;
    else if (item || inside)
        own->log_next = end;
}

/* Add the text of one token. A token counts as reasoning if the reasoning contains a part of its
 * text, or its end. */
static bool add_token(const struct item_writer *w)
{
    struct responses *own = w->c->own;
    const size_t i = own->n_token++;
    const bool before = chat_parser_place(w->a->parser) == CHAT_INSIDE;
    if (!choice_deltas_to(w->c, w->a, w->a->ends.v[i], add_delta, (void *)w)) return false;
    const bool inside = chat_parser_place(w->a->parser) == CHAT_INSIDE;
    own->n_reasoning += before || inside;
    add_logs(own, i + 1, inside);
    return !own->failed;
}

/* Add the remaining text of a complete choice. The last item is incomplete if a limit ended the
 * choice. */
static bool finish(const struct item_writer *w)
{
    struct responses *own = w->c->own;
    if (!choice_deltas(w->c, w->a, add_delta, (void *)w)) return false;
    if (own->failed) return false;
    add_logs(own, own->n_token, false);
    if (own->open && w->a->reply.finish != FINISH_STOP)
        own->item[own->n_item - 1].incomplete = true;
    end_item(w);
    return true;
}

bool responses_advance(const struct api_call *c, struct choice *a, struct buf *b)
{
    struct responses *own = c->own;
    struct item_writer w = {c, a, b};
    while (own->n_token < a->ends.n)
        if (!add_token(&w)) return false;
    if (a->reply.finish) return finish(&w);
    if (own->open && b) put_delta(c, b);
    return true;
}

/* anthropic_messages.c - Anthropic's /v1/messages and /v1/messages/count_tokens. A body becomes the
 * neutral form, a body of chat completions (anthropic_body.c). The model's output becomes blocks:
 * thinking, text and tool_use, in the order of the output.
 *
 *   message_start, ping, then for each block
 *     content_block_start, content_block_delta ..., content_block_stop
 *   message_delta (reason of the end, usage), message_stop
 *
 * A signature is a digest of the thinking, because clients require a signature. */
#include "anthropic.h"
#include "openai.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the body ---- */

/* Copy the places to the call's arena. */
static int keep_places(struct api_call *c, const struct message_places *from, struct err *e)
{
    struct anthropic *own = c->own;
    struct message_place *copy = arena_push0(&c->arena, from->n + 1, sizeof *copy);
    if (!copy) return err_memory(e, "messages", from->n * sizeof *copy);
    if (from->n) memcpy(copy, from->v, from->n * sizeof *copy);
    own->place = copy;
    own->n_place = from->n;
    return 0;
}

/* Read the fields around the conversation. */
static int read_own(struct api_call *c, const struct json *body, struct err *e)
{
    int rc = call_own(c, sizeof(struct anthropic), e);
    struct anthropic *own = c->own;
    if (rc == 0) rc = call_model(c, body, e);
    if (rc == 0) rc = body_flag(body, "stream", &c->stream, e);
    if (rc == 0 && c->dialect->counts) c->stream = false;
    if (rc == 0) rc = call_stream(c, e);
    if (rc != 0) return rc;
    const char *display = json_text(json_field(body_field(body, "thinking"), "display"), NULL);
    own->omit_thinking = display && strcmp(display, "omitted") == 0;
    own->old_format = body_field(body, "output_format") != NULL;
    return 0;
}

/* Read a body (dialect.read). max_tokens is required in Anthropic's API, except to count tokens. */
static int read_body(struct api_call *c, const struct json *body, struct err *e)
{
    struct message_places places = {0};
    struct json *neutral = NULL;
    int rc = read_own(c, body, e);
    if (rc == 0 && !c->dialect->counts && !body_field(body, "max_tokens"))
        rc = body_wrong("max_tokens", "an integer", NULL, e);
    if (rc == 0) rc = anthropic_neutral(&neutral, &places, c->api, body, e);
    if (rc == 0) rc = keep_places(c, &places, e);
    vec_deinit(&places);
    if (rc == 0) rc = openai_read_chat(c, neutral, body_field(neutral, "tools"), e);
    json_drop(neutral);
    return rc;
}

/* ---- parts of the response ---- */

/* The digest of thinking is FNV-1a, which does not depend on the cuts between pieces. */
static const uint64_t digest_begin = 0xCBF29CE484222325u;

/* Return the digest of a text and the bytes before it. */
static uint64_t digest_add(uint64_t digest, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) digest = (digest ^ (unsigned char)text[i]) * 0x100000001B3u;
    return digest;
}

/* Append the signature. It protects nothing: anthropic_turns.c does not verify the signatures of
 * later requests. */
static void put_signature(struct json_out *o, uint64_t digest)
{
    char text[32];
    snprintf(text, sizeof text, "quoth-%016llx", (unsigned long long)digest);
    out_word(o, "signature", text);
}

/* Append the id of a call. Later requests contain this id. call_own_id removes its prefix. */
static void put_id(struct json_out *o, const char *own, uint64_t seed, int i)
{
    struct buf id = {0};
    char made[CALL_ID_LETTERS + 1];
    call_id(made, seed, i);
    buf_add_text(&id, ANTHROPIC_ID_PREFIX);
    buf_add_text(&id, own ? own : made);
    out_text(o, "id", id.failed ? "" : id.data, id.failed ? 0 : id.n);
    o->b->failed |= id.failed;
    buf_deinit(&id);
}

/* Append the usage. The engine reports cached tokens at the end of an answer. A stream therefore
 * begins with all prompt tokens as input and no output tokens, even if the answer is complete. */
static void put_usage(const struct api_call *c, struct json_out *o, bool first)
{
    const struct part *p = c->part;
    int n_cached = p->done && !first ? p->usage.n_cached : 0, n = 0;
    if (!first && (p->choice[0].begun || p->done)) n = choice_n_token(p, &p->choice[0]);
    out_object(o, "usage");
    out_int(o, "input_tokens", p->n_prompt - n_cached);
    out_int(o, "cache_creation_input_tokens", 0);
    out_int(o, "cache_read_input_tokens", n_cached);
    out_int(o, "output_tokens", n);
    out_end(o);
}

/* Append the reason for the end, and the stop sequence that matched. */
static void put_stop(const struct part *p, const struct choice *a, struct json_out *o)
{
    const bool length = a->reply.finish != FINISH_STOP;
    const char *text = NULL;
    size_t n = 0;
    if (a->reply.stop_index >= 0)
        text = p->reply.stop[a->reply.stop_index].text, n = p->reply.stop[a->reply.stop_index].n;
    else if (!length && a->stop_id >= 0 && !tokenizer_is_eog(p->reply.tokenizer, a->stop_id))
        text = tokenizer_bytes(p->reply.tokenizer, a->stop_id, &n);
    out_word(o, "stop_reason",
             text        ? "stop_sequence"
             : length    ? "max_tokens"
             : a->called ? "tool_use"
                         : "end_turn");
    if (text)
        out_text(o, "stop_sequence", text, n);
    else
        out_null(o, "stop_sequence");
}

/* Append a message up to its content. */
static void put_head(const struct api_call *c, struct json_out *o)
{
    out_plain(o, "id", c->id, strlen(c->id));
    out_word(o, "type", "message");
    out_word(o, "role", "assistant");
    out_word(o, "model", c->model);
    out_list(o, "content");
}

/* Return the kind of a delta's block. */
static enum anthropic_block block_of(const struct chat_delta *d)
{
    return d->kind == CHAT_REASONING ? BLOCK_THINKING
           : d->kind == CHAT_CONTENT ? BLOCK_TEXT
                                     : BLOCK_TOOL_USE;
}

/* Return true if a delta begins a block. Each call begins a block. An empty text does not begin a
 * block. */
static bool begins(enum anthropic_block open, const struct chat_delta *d)
{
    return block_of(d) != open || (d->kind == CHAT_CALL && d->name);
}

/* ---- the whole response ---- */

/* Writer of blocks. All pointers are borrowed. */
struct block_writer {
    const struct api_call *c;
    struct json_out *o;
    enum anthropic_block open;
    struct buf text; /* text of the open block, owned */
};

/* End a call. Arguments that are not a JSON object, such as truncated arguments, are written in
 * Anthropic's form {"INVALID_JSON": TEXT}. */
static void put_input(struct json_out *o, const struct buf *text)
{
    struct json *input = NULL;
    const char *data = text->n ? text->data : "{}";
    const size_t n = text->n ? text->n : 2;
    const int rc = json_parse(&input, data, n, NULL, NULL);
    if (rc == ERR_MEMORY) o->b->failed = true;
    if (json_kind(input) == JK_OBJECT) {
        out_raw(o, "input", data, n);
    } else {
        out_object(o, "input");
        out_text(o, "INVALID_JSON", data, n);
        out_end(o);
    }
    json_drop(input);
}

/* Write the text of the open block, and end it. The text is collected first, because deltas arrive
 * in pieces. */
static void end_block(struct block_writer *w)
{
    const struct anthropic *own = w->c->own;
    const struct buf *t = &w->text;
    if (w->open == BLOCK_NONE) return;
    if (w->open == BLOCK_TEXT) out_text(w->o, "text", t->n ? t->data : "", t->n);
    if (w->open == BLOCK_TOOL_USE) put_input(w->o, t);
    if (w->open == BLOCK_THINKING) {
        const size_t n = own->omit_thinking ? 0 : t->n;
        out_text(w->o, "thinking", n ? t->data : "", n);
        put_signature(w->o, digest_add(digest_begin, t->data, t->n));
    }
    out_end(w->o);
    w->o->b->failed |= t->failed;
    buf_clear(&w->text);
    w->open = BLOCK_NONE;
}

/* Append a delta to its block (chat_delta_fn). */
static void add_delta(void *ctx, const struct chat_delta *d)
{
    static const char *const type[] = {NULL, "thinking", "text", "tool_use"};
    struct block_writer *w = ctx;
    if (d->n == 0 && !d->name) return;
    if (begins(w->open, d)) {
        end_block(w);
        w->open = block_of(d);
        out_object(w->o, NULL);
        out_word(w->o, "type", type[w->open]);
        if (d->name) put_id(w->o, d->id, choice_seed(w->c, 0), d->i_call);
        if (d->name) out_word(w->o, "name", d->name);
    }
    if (d->n) buf_add(&w->text, d->text, d->n);
}

/* Write the whole response (dialect.put). */
static int put(const struct api_call *c, struct buf *b, struct err *e)
{
    struct part *p = c->part;
    struct choice *a = &p->choice[0];
    struct json_out o = {.b = b};
    struct block_writer w = {.c = c, .o = &o};
    out_object(&o, NULL);
    put_head(c, &o);
    int rc = choice_parse(c, a, add_delta, &w, e);
    end_block(&w);
    buf_deinit(&w.text);
    out_end(&o);
    put_stop(p, a, &o);
    put_usage(c, &o, false);
    out_end(&o);
    return rc;
}

/* ---- the response in pieces ---- */

/* Begin the event `name` up to the members after its type. event_end ends it. */
static void event_begin(struct buf *b, const char *name, struct json_out *o)
{
    *o = (struct json_out){.b = b};
    buf_addf(b, "event: %s\ndata: ", name);
    out_object(o, NULL);
    out_word(o, "type", name);
}

static void event_end(struct json_out *o)
{
    out_end(o);
    buf_add_text(o->b, "\n\n");
}

/* Append the beginning of the message. */
static void put_start(const struct api_call *c, struct buf *b)
{
    struct json_out o;
    event_begin(b, "message_start", &o);
    out_object(&o, "message");
    put_head(c, &o);
    out_end(&o);
    out_null(&o, "stop_reason");
    out_null(&o, "stop_sequence");
    put_usage(c, &o, true);
    out_end(&o);
    event_end(&o);
    buf_add_text(b, anthropic_ping);
}

/* Begin a delta of the open block. delta_end ends it. */
static void delta_begin(const struct anthropic *own, const char *type, struct buf *b,
                        struct json_out *o)
{
    event_begin(b, "content_block_delta", o);
    out_int(o, "index", own->index);
    out_object(o, "delta");
    out_word(o, "type", type);
}

static void delta_end(struct json_out *o)
{
    out_end(o);
    event_end(o);
}

/* Append the end of the open block. */
static void put_block_end(struct anthropic *own, struct buf *b)
{
    struct json_out o;
    if (own->open == BLOCK_NONE) return;
    if (own->open == BLOCK_THINKING) {
        delta_begin(own, "signature_delta", b, &o);
        put_signature(&o, own->digest);
        delta_end(&o);
    }
    event_begin(b, "content_block_stop", &o);
    out_int(&o, "index", own->index++);
    event_end(&o);
    own->open = BLOCK_NONE;
}

/* Append the beginning of the block of a delta. */
static void put_block_begin(const struct api_call *c, const struct chat_delta *d, struct buf *b)
{
    struct anthropic *own = c->own;
    struct json_out o;
    own->open = block_of(d);
    own->digest = digest_begin;
    event_begin(b, "content_block_start", &o);
    out_int(&o, "index", own->index);
    out_object(&o, "content_block");
    if (own->open == BLOCK_TOOL_USE) {
        out_word(&o, "type", "tool_use");
        put_id(&o, d->id, choice_seed(c, 0), d->i_call);
        out_word(&o, "name", d->name ? d->name : "");
        out_raw(&o, "input", "{}", 2);
    } else {
        const char *type = own->open == BLOCK_TEXT ? "text" : "thinking";
        out_word(&o, "type", type);
        out_text(&o, type, "", 0);
        if (own->open == BLOCK_THINKING) out_text(&o, "signature", "", 0);
    }
    out_end(&o);
    event_end(&o);
}

/* The stream that is written. All pointers are borrowed. */
struct event_writer {
    const struct api_call *c;
    struct buf *b;
};

/* Append a delta (chat_delta_fn). */
static void put_delta(void *ctx, const struct chat_delta *d)
{
    static const char *const type[] = {NULL, "thinking_delta", "text_delta", "input_json_delta"};
    static const char *const member[] = {NULL, "thinking", "text", "partial_json"};
    const struct event_writer *w = ctx;
    struct anthropic *own = w->c->own;
    struct json_out o;
    if (d->n == 0 && !d->name) return;
    if (begins(own->open, d)) {
        put_block_end(own, w->b);
        put_block_begin(w->c, d, w->b);
    }
    if (d->kind == CHAT_REASONING) own->digest = digest_add(own->digest, d->text, d->n);
    if (d->n == 0 || (d->kind == CHAT_REASONING && own->omit_thinking)) return;
    delta_begin(own, type[own->open], w->b, &o);
    out_text(&o, member[own->open], d->text, d->n);
    delta_end(&o);
}

/* Append the events of the unsent part of the answer. */
static void put_pieces(const struct api_call *c, struct part *p, struct choice *a, int index,
                       struct buf *b)
{
    struct event_writer w = {c, b};
    (void)index;
    if (a->ids.n == 0 && !a->reply.finish)
        return; /* the first event marks the time of the first token */
    if (!choice_begin(c, a)) {
        p->no_memory = true;
        return;
    }
    if (!a->begun) put_start(c, b);
    a->begun = true;
    if (!choice_deltas(c, a, put_delta, &w)) b->failed = true; /* the stream ends with an error */
    if (a->reply.finish) put_block_end(c->own, b);
}

/* Append the end of the message, with its reason and usage (dialect.put_end). */
static void put_end(const struct api_call *c, struct buf *b)
{
    struct json_out o;
    event_begin(b, "message_delta", &o);
    out_object(&o, "delta");
    put_stop(c->part, &c->part->choice[0], &o);
    out_end(&o);
    put_usage(c, &o, false);
    event_end(&o);
    event_begin(b, "message_stop", &o);
    event_end(&o);
}

const struct dialect dialect_anthropic_messages = {
    .fields = ENDPOINT_ANTHROPIC,
    .id_prefix = "msg_",
    .prompt = "messages",
    .errors = &anthropic_errors,
    .name_error = anthropic_name_error,
    .read = read_body,
    .put = put,
    .stream_type = "text/event-stream",
    .no_memory = anthropic_no_memory,
    .put_pieces = put_pieces,
    .put_end = put_end,
};

/* ---- the count of a prompt's tokens ---- */

static int put_count(const struct api_call *c, struct buf *b, struct err *e)
{
    struct json_out o = {.b = b};
    (void)e;
    out_object(&o, NULL);
    out_int(&o, "input_tokens", c->part->n_prompt);
    out_end(&o);
    return 0;
}

const struct dialect dialect_anthropic_count = {
    .fields = ENDPOINT_ANTHROPIC,
    .id_prefix = "msg_",
    .prompt = "messages",
    .errors = &anthropic_errors,
    .counts = true,
    .name_error = anthropic_name_error,
    .read = read_body,
    .put = put_count,
};

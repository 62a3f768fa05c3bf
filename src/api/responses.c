/* responses.c - OpenAI's /v1/responses and /v1/responses/input_tokens. A body becomes the neutral
 * form, a body of chat completions (responses_body.c). The model's output becomes items: reasoning,
 * message, function_call and custom_tool_call, in the order of the output (responses_items.c).
 *
 *   response.created, response.in_progress, events of each item,
 *   response.completed, response.incomplete or response.failed
 *
 * Fields of the request that concern the store:
 *
 *   store                 put and put_end store the response, or the job of one in the background
 *   conversation          the conversation's record gets the new items, also without `store`
 *   previous_response_id  the prompt begins with the items of a stored response
 *
 * The echo and the input are copied while the body exists, because the handler thread frees the
 * body before the stream thread writes the answer. /input_tokens uses the same reader, but does not
 * store, stream or truncate. */
#include "openai.h"
#include "responses.h"

#include "base/log.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the body ---- */

/* Copy the places to the call's arena. */
static int keep_places(struct api_call *c, const struct message_places *from, struct err *e)
{
    struct responses *own = c->own;
    struct message_place *copy = arena_push0(&c->arena, from->n + 1, sizeof *copy);
    if (!copy) return err_memory(e, "input", from->n * sizeof *copy);
    if (from->n) memcpy(copy, from->v, from->n * sizeof *copy);
    own->place = copy;
    own->n_place = from->n;
    return 0;
}

void responses_random(char hex[static RESPONSES_HEX + 1])
{
    snprintf(hex, RESPONSES_HEX + 1, "%016llx%016llx", (unsigned long long)os_random(),
             (unsigned long long)os_random());
}

/* Make the unpredictable id of the response. */
static void name_response(struct api_call *c)
{
    struct responses *own = c->own;
    responses_random(own->hex);
    snprintf(c->id, sizeof c->id, "%s%s", c->dialect->id_prefix, own->hex);
}

/* Keep the id of the conversation, to which the response is added. */
static int keep_conversation(struct api_call *c, const struct json *body, struct err *e)
{
    struct responses *own = c->own;
    const char *id;
    int rc = responses_conversation(body, &id, e);
    if (rc != 0 || !id || c->dialect->counts) return rc;
    own->conversation = arena_text(&c->arena, id, strlen(id));
    return own->conversation ? 0 : err_memory(e, "conversation", strlen(id));
}

/* Keep the items of the prompt for the store. */
static int keep_input(struct api_call *c, const struct responses_source *from, struct err *e)
{
    struct responses *own = c->own;
    const struct buf *b = &from->items;
    if (!from->keep) return 0;
    const size_t n_previous = strlen(from->previous);
    own->n_earlier = from->n_earlier;
    own->previous = n_previous ? arena_text(&c->arena, from->previous, n_previous) : NULL;
    own->input = (struct text_span){arena_text(&c->arena, b->n ? b->data : "", b->n), b->n};
    return own->input.text ? 0 : err_memory(e, "input", b->n);
}

/* Read `background`. A response in the background must be stored, because clients read it from the
 * store. */
static int read_background(struct api_call *c, const struct json *body, struct err *e)
{
    const struct responses *own = c->own;
    int rc = body_flag(body, "background", &c->background, e);
    if (c->dialect->counts) c->background = false;
    if (rc != 0 || !c->background || own->store) return rc;
    return err_field(e, ERR_ARG, "background", ": must come with store true, got %s",
                     c->api->store ? "false" : "no store");
}

/* Read the fields around the conversation. */
static int read_own(struct api_call *c, const struct json *body, struct err *e)
{
    int rc = call_own(c, sizeof(struct responses), e);
    struct responses *own = c->own;
    if (rc != 0) return rc;
    name_response(c);
    c->token_ends = true;
    rc = call_model(c, body, e);
    if (rc == 0) rc = body_flag(body, "stream", &c->stream, e);
    if (c->dialect->counts) c->stream = false;
    if (rc == 0) rc = call_stream(c, e);
    bool store = true;
    if (rc == 0) rc = body_flag(body, "store", &store, e);
    own->store = store && c->api->store && !c->dialect->counts;
    if (rc == 0) rc = read_background(c, body, e);
    own->seal = responses_include(body, "reasoning.encrypted_content");
    return rc;
}

/* Keep the members of the request that response objects repeat. */
static int keep_echo(struct api_call *c, const struct json *body, struct err *e)
{
    struct responses *own = c->own;
    struct buf b = {0};
    responses_put_echo(&b, body, &c->part->request->params, own->store);
    own->echo = (struct text_span){b.failed ? NULL : arena_text(&c->arena, b.data, b.n), b.n};
    buf_deinit(&b);
    return own->echo.text ? 0 : err_memory(e, "a request", b.n);
}

/* Read a body (dialect.read). The order matters: truncation needs the neutral form and the places
 * of its messages, and keep_places copies the places that remain after truncation. */
static int read_body(struct api_call *c, const struct json *body, struct err *e)
{
    struct json *neutral = NULL, *plain = NULL;
    int rc = read_own(c, body, e);
    if (rc == 0) rc = keep_conversation(c, body, e);
    const struct responses *own = c->own;
    if (rc != 0) return rc;
    struct responses_source from = {.body = body,
                                    .store = c->api->store,
                                    .owner = c->owner,
                                    .hex = own->hex,
                                    .keep = own->store || own->conversation};
    const char *cut = json_text(body_field(body, "truncation"), NULL);
    rc = responses_neutral(&neutral, &from, e);
    if (rc == 0) rc = openai_check_calls(neutral, e);
    if (rc == 0 && cut && strcmp(cut, "auto") == 0 && !c->dialect->counts)
        rc = responses_truncate(c, &neutral, &from.places, e);
    if (rc == 0) rc = keep_places(c, &from.places, e);
    if (rc == 0) rc = keep_input(c, &from, e);
    vec_deinit(&from.places);
    buf_deinit(&from.items);
    if (rc == 0) rc = openai_read_custom(&plain, neutral, e);
    if (rc == 0) rc = openai_read_chat(c, plain ? plain : neutral, body_field(neutral, "tools"), e);
    if (rc == 0) rc = keep_echo(c, body, e);
    json_drop(plain);
    json_drop(neutral);
    return rc;
}

/* Free the items. All other data of the call are in its arena. */
static void close_own(struct api_call *c)
{
    if (c->own) responses_items_deinit(c->own);
}

/* ---- the response ---- */

enum status { QUEUED, IN_PROGRESS, COMPLETED, INCOMPLETE, FAILED, CANCELLED };

/* Return the status of a complete choice. Limits of tokens and of time make a response
 * incomplete. */
static enum status status_of(const struct choice *a)
{
    return a->reply.finish == FINISH_STOP ? COMPLETED : INCOMPLETE;
}

/* Append the counts of tokens. cache_write_tokens is always 0, because it counts tokens with a
 * special price. */
static void put_usage(const struct api_call *c, struct json_out *o)
{
    const struct responses *own = c->own;
    const struct part *p = c->part;
    const int n = choice_n_token(p, &p->choice[0]);
    out_object(o, "usage");
    out_int(o, "input_tokens", p->n_prompt);
    out_object(o, "input_tokens_details");
    out_int(o, "cached_tokens", p->usage.n_cached);
    out_int(o, "cache_write_tokens", 0);
    out_end(o);
    out_int(o, "output_tokens", n);
    out_object(o, "output_tokens_details");
    out_int(o, "reasoning_tokens", own->n_reasoning);
    out_end(o);
    out_int(o, "total_tokens", p->n_prompt + n);
    out_end(o);
}

/* Append the cause of a failure. */
static void put_cause(struct json_out *o, int rc, const struct err *why)
{
    out_object(o, "error");
    out_word(o, "code",
             rc == ERR_BUSY                     ? "rate_limit_exceeded"
             : rc == ERR_ARG || rc == ERR_LIMIT ? "invalid_prompt"
                                                : "server_error");
    out_word(o, "message", why->text);
    out_end(o);
}

/* Append the response object. rc, why: failure of the response, 0 if none. */
static void put_response(const struct api_call *c, enum status status, int rc,
                         const struct err *why, struct buf *b)
{
    static const char *const words[] = {"queued",     "in_progress", "completed",
                                        "incomplete", "failed",      "cancelled"};
    struct responses *own = c->own;
    struct json_out o = {.b = b};
    const bool ended = status == COMPLETED || status == INCOMPLETE || status == CANCELLED;
    /* a response may be written twice, for a stream and for the store, with the same time */
    if (ended && !own->ended) own->ended = time_wall_us() / 1000000;
    out_object(&o, NULL);
    out_plain(&o, "id", c->id, strlen(c->id));
    out_word(&o, "object", "response");
    out_int(&o, "created_at", c->created);
    out_word(&o, "status", words[status]);
    if (status == COMPLETED)
        out_int(&o, "completed_at", own->ended);
    else
        out_null(&o, "completed_at");
    if (status == FAILED)
        put_cause(&o, rc, why);
    else
        out_null(&o, "error");
    if (status == INCOMPLETE) {
        out_object(&o, "incomplete_details");
        out_word(&o, "reason", "max_output_tokens");
        out_end(&o);
    } else {
        out_null(&o, "incomplete_details");
    }
    out_word(&o, "model", c->model);
    responses_put_output(c, &o);
    buf_add(b, own->echo.text, own->echo.n);
    if (own->conversation) {
        out_object(&o, "conversation");
        out_word(&o, "id", own->conversation);
        out_end(&o);
    }
    if (ended) put_usage(c, &o);
    out_end(&o);
}

/* Add the new items and the output of a complete response to its conversation, once. A conversation
 * that was deleted or is full is not changed. Return false if memory is exhausted. */
static bool append(const struct api_call *c)
{
    struct responses *own = c->own;
    struct buf items = {0};
    const struct buf id = {.data = (char *)c->id, .n = strlen(c->id)};
    struct json_out o = {.b = &items};
    struct err e = {0};
    if (!own->conversation || own->appended) return true;
    own->appended = true;
    /* the comma between earlier and new items */
    size_t at = own->n_earlier + (own->n_earlier > 0 && own->n_earlier < own->input.n);
    buf_add(&items, own->input.text + at, own->input.n - at);
    o.more = items.n > 0;
    responses_put_items(c, &o);
    int rc = items.failed ? ERR_MEMORY
                          : store_append(c->api->store, c->owner, own->conversation, &items,
                                         own->store ? &id : NULL, &e);
    if (rc != 0 && rc != ERR_MEMORY) log_debug("%s: %s", c->id, e.text);
    buf_deinit(&items);
    return rc != ERR_MEMORY;
}

/* Store a complete response. A response that is larger than the store's limits is not stored.
 * Return false if memory is exhausted. */
static bool keep(const struct api_call *c, struct buf *response)
{
    const struct responses *own = c->own;
    struct buf input = {.data = (char *)own->input.text, .n = own->input.n};
    struct err e = {0};
    if (!append(c)) return false;
    if (!own->store || c->background) return true; /* the job stores the response with its events */
    if (response->failed) return false;
    const int rc = store_put(
        c->api->store, c->owner, c->id,
        &(struct store_texts){.head = response, .body = &input, .previous = own->previous}, &e);
    if (rc == ERR_LIMIT) log_debug("%s is not stored: %s", c->id, e.text);
    return rc != ERR_MEMORY;
}

/* Write the whole response. The items are complete after the first call. */
static int put(const struct api_call *c, struct buf *b, struct err *e)
{
    struct choice *a = &c->part->choice[0];
    struct buf text = {0};
    int rc = 0;
    if (!choice_begin(c, a) || !responses_advance(c, a, NULL))
        return err_memory(e, "a response", a->text.n);
    put_response(c, status_of(a), 0, NULL, &text);
    if (keep(c, &text))
        buf_add(b, text.data, text.n);
    else
        rc = err_memory(e, "a response", text.n);
    buf_deinit(&text);
    return rc;
}

/* ---- the response in pieces ---- */

/* Append an event with the response, and store a complete response. */
static void put_state(const struct api_call *c, const char *type, enum status status, int rc,
                      const struct err *why, struct buf *b)
{
    struct json_out o;
    struct buf text = {0};
    put_response(c, status, rc, why, &text);
    const bool kept = (status != COMPLETED && status != INCOMPLETE) || keep(c, &text);
    responses_event(c, type, &o, b);
    out_raw(&o, "response", text.failed ? "" : text.data, text.failed ? 0 : text.n);
    responses_event_end(&o);
    b->failed |= text.failed || !kept;
    buf_deinit(&text);
}

/* Append the first events. A response in the background has sent response.created while it was
 * queued (responses_put_queued). */
static void put_start(const struct api_call *c, struct buf *b)
{
    const struct responses *own = c->own;
    if (own->n_event == 0) put_state(c, "response.created", IN_PROGRESS, 0, NULL, b);
    put_state(c, "response.in_progress", IN_PROGRESS, 0, NULL, b);
}

/* Append the events of the unsent part of the answer. */
static void put_pieces(const struct api_call *c, struct part *p, struct choice *a, int index,
                       struct buf *b)
{
    (void)index;
    if (a->ids.n == 0 && !a->reply.finish)
        return; /* the first event marks the time of the first token */
    if (!choice_begin(c, a)) {
        p->no_memory = true;
        return;
    }
    if (!a->begun) put_start(c, b);
    a->begun = true;
    if (!responses_advance(c, a, b)) b->failed = true; /* the stream ends with an error */
}

/* Append the last event of a stream (dialect.put_end). */
static void put_end(const struct api_call *c, struct buf *b)
{
    const enum status status = status_of(&c->part->choice[0]);
    put_state(c, status == COMPLETED ? "response.completed" : "response.incomplete", status, 0,
              NULL, b);
}

/* Append the end of a failed response. A response that a client cancels is incomplete, but not
 * failed. The response contains the items that were generated before. */
static void put_error(const struct api_call *c, struct buf *b, int rc, const struct err *e)
{
    const struct responses *own = c->own;
    struct part *p = c->part;
    struct choice *a = p->choice;
    struct err why = *e;
    if (own->n_event == 0) put_start(c, b);
    if (a && a->reply.finish && !p->no_memory && choice_begin(c, a))
        (void)responses_advance(c, a, b);
    if (own->why) rc = err_set(&why, ERR_MEMORY, "%s", own->why);
    if (own->cancelled)
        put_state(c, "response.incomplete", CANCELLED, 0, NULL, b);
    else
        put_state(c, "response.failed", FAILED, rc, &why, b);
}

/* ---- the background ---- */

void responses_put_queued(const struct api_call *c, struct buf *b)
{
    put_state(c, "response.created", QUEUED, 0, NULL, b);
    put_state(c, "response.queued", QUEUED, 0, NULL, b);
}

void responses_put_now(const struct api_call *c, struct buf *b)
{
    put_response(c, api_call_has_output(c) ? IN_PROGRESS : QUEUED, 0, NULL, b);
}

void responses_set_cancelled(struct api_call *c, const char *why)
{
    struct responses *own = c->own;
    own->cancelled = why == NULL;
    own->why = why;
}

void responses_put_failed(const struct api_call *c, struct buf *b)
{
    const struct responses *own = c->own;
    struct err e;
    int rc = err_set(&e, ERR_MEMORY, "%s", own->why ? own->why : "out of memory: events");
    put_state(c, "response.failed", FAILED, rc, &e, b);
}

/* Return the error of a complete call, with the client's names. */
static int final_error(const struct api_call *c, struct err *e)
{
    const struct responses *own = c->own;
    const struct part *p = c->part;
    int rc = 0;
    if (c->rc != 0)
        *e = c->why, rc = c->rc;
    else if (own->why)
        rc = err_set(e, ERR_MEMORY, "%s", own->why);
    else
        rc = p->choice ? check_choice(p, p->choice, e) : err_set(e, ERR_IO, "cancelled");
    if (rc != 0) responses_name_error(c, e);
    return rc;
}

/* A cancelled response has the output before its end. The status is complete if the response was
 * complete before its cancellation. */
void responses_put_final(struct api_call *c, struct buf *b)
{
    struct responses *own = c->own;
    struct part *p = c->part;
    struct choice *a = p->choice;
    struct err e = {0};
    int rc = final_error(c, &e);
    bool cancelled = own->cancelled && rc != 0;
    if (a && a->reply.finish && (!choice_begin(c, a) || !responses_advance(c, a, NULL)))
        rc = err_memory(&e, "a response", a->text.n), cancelled = false;
    if (rc == 0 && !append(c)) rc = err_memory(&e, "a response", a->text.n);
    put_response(c, cancelled ? CANCELLED : rc != 0 ? FAILED : status_of(a), rc, &e, b);
}

/* Append an error event (dialect.put_early_error), because there is no response yet whose state
 * could be failed. The member `error` lets the openai package raise its exception. */
static void put_early_error(struct buf *b, int rc, const struct err *e)
{
    struct json_out o = {.b = b};
    buf_add_text(b, "event: error\ndata: ");
    out_object(&o, NULL);
    out_word(&o, "type", "error");
    out_word(&o, "code", openai_error_code(rc, e->field));
    out_word(&o, "message", e->text);
    out_word(&o, "param", *e->field ? e->field : NULL);
    out_int(&o, "sequence_number", 0);
    out_key(&o, "error", strlen("error"));
    api_error_put(b, rc, e);
    out_end(&o);
    buf_add_text(b, "\n\n");
}

/* Write an event into static memory, for a stream whose next event could not be allocated. There
 * may be a gap before its number, because earlier events were not sent. */
static void write_no_memory(const struct api_call *c, char out[static NO_MEMORY_BYTES])
{
    const struct responses *own = c->own;
    snprintf(
        out, NO_MEMORY_BYTES,
        "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"out of "
        "memory: a piece of the answer\",\"param\":null,\"sequence_number\":%lld}\n\n",
        (long long)own->n_event);
}

const struct dialect dialect_responses = {
    .fields = ENDPOINT_RESPONSES,
    .id_prefix = "resp_",
    .prompt = "input",
    .errors = &openai_errors,
    .name_error = responses_name_error,
    .read = read_body,
    .put = put,
    .close = close_own,
    .stream_type = "text/event-stream",
    .write_no_memory = write_no_memory,
    .put_pieces = put_pieces,
    .put_end = put_end,
    .put_error = put_error,
    .put_early_error = put_early_error,
};

/* ---- the count of a prompt's tokens ---- */

/* Write the number of the prompt's tokens (dialect.put). The engine has received no request. */
static int put_count(const struct api_call *c, struct buf *b, struct err *e)
{
    struct json_out o = {.b = b};
    (void)e;
    out_object(&o, NULL);
    out_word(&o, "object", "response.input_tokens");
    out_int(&o, "input_tokens", c->part->n_prompt);
    out_end(&o);
    return 0;
}

const struct dialect dialect_responses_count = {
    .fields = ENDPOINT_RESPONSES,
    .id_prefix = "resp_",
    .prompt = "input",
    .errors = &openai_errors,
    .counts = true,
    .name_error = responses_name_error,
    .read = read_body,
    .put = put_count,
    .close = close_own,
};

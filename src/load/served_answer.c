/* served_answer.c - parse one response of a measured server as it arrives; see served.h.
 *
 * An event is a token if its choice has text. In a completion, an event without text before the end
 * is also a token (a special token). The first event of a chat, which has only the role, is not a
 * token. A last event with only the finish reason is not a token. The number of tokens is the
 * number in the usage. A response without a usage has as many tokens as events. */
#include "served.h"

#include "base/json.h"
#include "base/utf8.h"

#include <string.h>

enum { ERROR_MAX = 2000 };

/* Return true for a text that is not empty, or a list or object with items, such as tool_calls. */
static bool has_text(const struct json *j)
{
    size_t n = 0;
    const char *text = json_text(j, &n);
    return (text && n > 0) || json_count(j) > 0;
}

/* Return true if an event's choice is a token by the rules in the head of served_answer.c. Servers
 * name the reasoning reasoning_content or reasoning. */
static bool is_token(const struct json *choice, bool chat)
{
    const struct json *delta = json_field(choice, "delta");
    if (chat)
        return has_text(json_field(delta, "content")) ||
               has_text(json_field(delta, "reasoning_content")) ||
               has_text(json_field(delta, "reasoning")) ||
               has_text(json_field(delta, "tool_calls"));
    const struct json *text = json_field(choice, "text");
    bool continues = json_kind(json_field(choice, "finish_reason")) != JK_TEXT;
    return has_text(text) || (json_kind(text) == JK_TEXT && continues);
}

/* Count the token. Only choice 0 has a text and times, because latencies are measured on one
 * sequence. */
static void on_choice(struct served_answer *a, const struct json *choice)
{
    bool chat = a->chat;
    if (json_kind(json_field(choice, "finish_reason")) == JK_TEXT) a->finished = true;
    if (json_int(json_field(choice, "index"), 0) != 0) a->several = true;
    if (!is_token(choice, chat)) return;
    a->n_event++;
    if (json_int(json_field(choice, "index"), 0) != 0) return;
    size_t n = 0;
    const char *text = chat ? json_text(json_field(json_field(choice, "delta"), "content"), &n)
                            : json_text(json_field(choice, "text"), &n);
    if (text && a->keep_text) buf_add(&a->text, text, n);
    if (!vec_push(&a->token_us, a->now_us)) buf_add_text(&a->error, "no memory");
}

/* Return a count in the usage; `fallback` if the count is missing or invalid. */
static int64_t count_of(const struct json *usage, const char *name, int64_t fallback)
{
    int64_t n = json_int(json_field(usage, name), -1);
    return n >= 0 && n <= INT32_MAX ? n : fallback;
}

/* Read a usage. A server may send a usage in each event. The last usage is used. */
static void on_usage(struct served_answer *a, const struct json *usage)
{
    const struct json *detail = json_field(usage, "prompt_tokens_details");
    a->n_input = count_of(usage, "prompt_tokens", a->n_input);
    a->n_output = count_of(usage, "completion_tokens", a->n_output);
    a->n_cached = count_of(detail, "cached_tokens", a->n_cached);
}

/* Read an error, which is {"error":{"message":TEXT}} or {"error":TEXT}. */
static void on_error(struct served_answer *a, const struct json *error)
{
    const char *text = json_text(json_field(error, "message"), NULL);
    if (!text) text = json_text(error, NULL);
    buf_addf(&a->error, "%.500s", text ? text : "an error without a message");
}

/* Process the data of one event (sse_fn). Return false to abort the stream after an error. */
static bool on_event(void *ctx, const char *data, size_t n)
{
    struct served_answer *a = ctx;
    struct json *j = NULL;
    struct err e;
    if (strcmp(data, "[DONE]") == 0) {
        a->finished = true;
        return true;
    }
    if (json_parse(&j, data, n, NULL, &e) != 0) {
        buf_addf(&a->error, "event: expected JSON, got %.200s", data);
        return false;
    }
    const struct json *choices = json_field(j, "choices");
    for (size_t i = 0; i < json_count(choices); i++) on_choice(a, json_item(choices, i));
    if (json_field(j, "usage")) on_usage(a, json_field(j, "usage"));
    if (json_kind(json_field(j, "error")) == JK_OBJECT ||
        json_kind(json_field(j, "error")) == JK_TEXT)
        on_error(a, json_field(j, "error"));
    json_drop(j);
    return a->error.n == 0;
}

void served_answer_begin(struct served_answer *a, bool chat, bool keep_text)
{
    *a = (struct served_answer){
        .chat = chat, .keep_text = keep_text, .n_input = -1, .n_output = -1, .n_cached = -1};
}

/* A body whose status is not 200 is an error message, not a stream. The first ERROR_MAX bytes of
 * the message are kept. */
bool served_answer_feed(struct served_answer *a, int status, const char *data, size_t n,
                        int64_t now_us)
{
    a->now_us = now_us;
    if (status == 200) return sse_feed(&a->sse, data, n, on_event, a);
    if (a->error.n < ERROR_MAX) buf_add(&a->error, data, n);
    return true;
}

/* ---- the end of a response ---- */

/* Set the reason of the request's failure. Return false if the request succeeded. */
static bool why_failed(struct served_answer *a, const struct fetch_result *f, struct buf *why)
{
    struct json *j = NULL;
    const char *text = a->error.data ? a->error.data : "";
    /* use the message in OpenAI's format, which is short; otherwise use the whole body */
    if (f->status && f->status != 200) {
        if (json_parse(&j, text, a->error.n, NULL, NULL) == 0) {
            const char *message = json_text(json_field(json_field(j, "error"), "message"), NULL);
            text = message ? message : text;
        }
        buf_addf(why, "HTTP %d: %.500s", f->status, text);
    } else if (a->error.n)
        buf_add_text(why, text);
    else if (f->error)
        buf_add_text(why, f->error);
    else if (!a->finished)
        buf_add_text(why, "the stream ended before the answer did");
    else if (a->token_us.n == 0)
        buf_add_text(why, "an answer without a token");
    json_drop(j);
    return why->n > 0;
}

/* Set the times of a request. n_token is the number of events of choice 0 if there are several
 * choices, because the usage counts the tokens of all choices. */
static void record_times(struct served_answer *a, struct client_trace *s, int64_t now_us)
{
    s->token_us = a->token_us.v;
    s->n_time = (int)a->token_us.n;
    s->n_token = a->n_output > 0 && !a->several ? (int)a->n_output : s->n_time;
    s->n_output = a->n_output >= 0 ? (int)a->n_output : a->n_event;
    s->n_cached = a->n_cached > 0 ? (int)a->n_cached : 0;
    if (a->n_input >= 0) s->n_input = (int)a->n_input;
    s->done_us = s->n_time ? s->token_us[s->n_time - 1] : now_us;
}

void served_answer_end(struct served_answer *a, const struct fetch_result *f, int64_t now_us,
                       struct client_trace *s, struct served_memory *own)
{
    struct buf why = {0};
    record_times(a, s, now_us);
    own->token_us = a->token_us.v;
    own->text = a->keep_text ? buf_detach(&a->text) : NULL;
    if (why_failed(a, f, &why)) {
        /* replace control characters, because the text of the server is printed on a terminal */
        utf8_show(why.data, why.n);
        own->error = buf_detach(&why);
        s->error = own->error ? own->error : "no memory";
    }
    buf_deinit(&why);
    buf_deinit(&a->error);
    buf_deinit(&a->text);
    sse_deinit(&a->sse);
}

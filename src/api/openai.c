/* openai.c - common parts of OpenAI's dialects: the fields around a prompt, the response around its
 * choices, and frames of server-sent events.
 *
 * A frame is a response object with one choice: data: {"id":...,"choices":[{"index":0, ... }]}. The
 * usage, if requested, and data: [DONE] follow the last frame of the last choice. */
#include "openai.h"

#include <stdio.h>
#include <string.h>

enum { ID_MAX = 200 };

/* Return the data of OpenAI's dialects, which call_own allocated. */
const struct openai *openai_of(const struct api_call *c)
{
    return c->own;
}

static const struct openai_form *form_of(const struct api_call *c)
{
    return c->dialect->form;
}

/* ---- the body ---- */

/* Use the client's id of the request as the answer's id if it is valid in a header. */
static int read_id(struct api_call *c, const struct json *body, struct err *e)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:";
    const char *id = NULL;
    int rc = body_text(body, "request_id", ID_MAX, &id, e);
    if (rc != 0 || !id) return rc;
    if (!*id || id[strspn(id, letters)])
        return err_field(e, ERR_ARG, "request_id",
                         ": must have only letters, digits and -_.:, got \"%.60s\"", id);
    snprintf(c->id, sizeof c->id, "%s%s", c->dialect->id_prefix, id);
    return 0;
}

/* Read `stream` and `stream_options`, by which the client requests the answer in pieces. */
static int read_stream(struct api_call *c, const struct json *body, struct err *e)
{
    const struct json *options = body_field(body, "stream_options");
    struct openai *own = c->own;
    int64_t interval = 1;
    int rc = body_flag(body, "stream", &c->stream, e);
    if (rc == 0) rc = call_stream(c, e);
    if (rc == 0) rc = body_int(body, "stream_interval", 1, INT32_MAX, &interval, e);
    c->stream_interval = (int)interval;
    if (rc != 0 || !options) return rc;
    if (json_kind(options) != JK_OBJECT)
        return body_wrong("stream_options", "an object", options, e);
    if (!c->stream)
        return err_field(e, ERR_ARG, "stream_options", ": must come with stream true, got false");
    rc = body_flag(options, "include_usage", &own->include_usage, e);
    if (rc == 0) rc = body_flag(options, "continuous_usage_stats", &own->usage_always, e);
    /* the option has no effect without include_usage, as in vLLM */
    own->usage_always &= own->include_usage;
    return rc;
}

/* Read the fields that all of OpenAI's dialects have. */
int openai_read(struct api_call *c, const struct json *body, struct err *e)
{
    int rc = call_own(c, sizeof(struct openai), e);
    if (rc == 0) rc = call_model(c, body, e);
    if (rc == 0) rc = read_id(c, body, e);
    return rc ? rc : read_stream(c, body, e);
}

/* ---- the response ---- */

/* Append a response up to the beginning of its list. */
void openai_put_head(const struct api_call *c, const char *object, const char *list,
                     struct json_out *o)
{
    out_object(o, NULL);
    out_plain(o, "id", c->id, strlen(c->id));
    out_plain(o, "object", object, strlen(object));
    out_int(o, "created", c->created);
    out_word(o, "model", c->model);
    if (c->api->fingerprint) out_word(o, "system_fingerprint", c->api->fingerprint);
    out_list(o, list);
}

/* Append the requested ids from ids[from] to the end. vLLM's list also has the token that stopped
 * the choice. */
static void put_token_ids(const struct api_call *c, const struct choice *a, size_t from,
                          struct json_out *o)
{
    if (c->tokens_back) put_ids(o, "tokens", a->ids.n ? a->ids.v + from : NULL, a->ids.n - from);
    if (!c->ids_back) return;
    out_list(o, "token_ids");
    for (size_t i = from; i < a->ids.n; i++) out_int(o, NULL, a->ids.v[i]);
    if (a->reply.finish && a->stop_id >= 0) out_int(o, NULL, a->stop_id);
    out_end(o);
}

/* Append the prompt's text and ids if they are requested. */
static void put_prompt_ids(const struct api_call *c, const struct part *p, struct json_out *o)
{
    if (c->text_back) out_text(o, "prompt_text", p->text.n ? p->text.data : "", p->text.n);
    if (c->ids_back) put_ids(o, "prompt_token_ids", p->prompt.v, p->prompt.n);
}

/* Append the log probabilities of the prompt; null if the client does not request them. */
static void put_requested_logprobs(const struct api_call *c, const struct part *p,
                                   struct json_out *o)
{
    if (c->prompt_logprobs)
        put_prompt_logprobs(o, c->api->session->tokenizer, &p->prompt_log);
    else
        out_null(o, "prompt_logprobs");
}

/* Append the sums over all prompts and choices. In a stream with continuous_usage_stats the sums
 * are those of the pieces sent so far. */
void openai_put_usage(const struct api_call *c, struct json_out *o)
{
    int n_prompt = 0, n = 0, n_cached = 0, n_reasoning = 0;
    const bool ended = c->n_open == 0, reasons = ended && c->is_message && c->reasoning_parser;
    for (int i = 0; i < c->n_part; i++) {
        const struct part *p = &c->part[i];
        n_prompt += p->n_prompt;
        n_cached += p->usage.n_cached;
        for (int k = 0; k < p->n; k++) /* the first piece of a choice contains only the role */
            if (p->choice[k].begun || !openai_of(c)->usage_always)
                n += choice_n_token(p, &p->choice[k]);
        for (int k = 0; reasons && k < p->n; k++)
            n_reasoning += choice_n_reasoning(c, &p->choice[k]);
    }
    out_object(o, "usage");
    out_int(o, "prompt_tokens", n_prompt);
    out_int(o, "completion_tokens", n);
    out_int(o, "total_tokens", n_prompt + n);
    if (ended) { /* the numbers are available only at the end */
        out_object(o, "prompt_tokens_details");
        out_int(o, "cached_tokens", n_cached);
        out_end(o);
    }
    if (reasons) {
        out_object(o, "completion_tokens_details");
        out_int(o, "reasoning_tokens", n_reasoning);
        out_end(o);
    }
    out_end(o);
}

/* Return the reason for the end. OpenAI's clients support only OpenAI's reasons, so a time limit is
 * reported as "length". */
static const char *finish_word(enum finish f)
{
    return finish_name(f == FINISH_TIMEOUT ? FINISH_LENGTH : f);
}

/* Append the reason for the end, and the text or token of the stop lists that matched. */
static void put_finish(const struct api_call *c, const struct part *p, const struct choice *a,
                       bool called, struct json_out *o)
{
    bool call = called && a->reply.finish == FINISH_STOP;
    const char *word = c->function_call ? "function_call" : "tool_calls";
    out_word(o, "finish_reason", call ? word : finish_word(a->reply.finish));
    if (a->reply.stop_index >= 0)
        out_text(o, "stop_reason", p->reply.stop[a->reply.stop_index].text,
                 p->reply.stop[a->reply.stop_index].n);
    else if (a->stop_id >= 0 && !tokenizer_is_eog(p->reply.tokenizer, a->stop_id))
        out_int(o, "stop_reason", a->stop_id);
    else if (a->reply.finish == FINISH_REPETITION)
        out_word(o, "stop_reason", "repetition_detected");
    else
        out_null(o, "stop_reason");
}

/* Append the members of a choice that are common to all dialects: the tokens, if requested, and the
 * reason for the end. */
static void put_choice_end(const struct api_call *c, const struct part *p, const struct choice *a,
                           bool called, struct json_out *o)
{
    if (c->dialect->prompt_per_choice) {
        put_requested_logprobs(c, p, o);
        put_prompt_ids(c, p, o);
    }
    put_token_ids(c, a, 0, o);
    if (!p->n_pooled) put_finish(c, p, a, called, o);
}

/* Append the choices of one prompt after the choices of the previous prompts. */
static int put_part(const struct api_call *c, const struct part *p, int *index, struct json_out *o,
                    struct err *e)
{
    int rc = 0;
    for (int k = 0; rc == 0 && k < p->n; k++) {
        const struct choice *a = &p->choice[k];
        bool called = false;
        out_object(o, NULL);
        out_int(o, "index", (*index)++);
        rc = form_of(c)->put(c, p, a, &called, o, e);
        put_choice_end(c, p, a, called, o);
        out_end(o);
    }
    return rc;
}

/* The order of members is that of OpenAI's answers, because clients print them unchanged. */
int openai_put(const struct api_call *c, struct buf *b, struct err *e)
{
    struct json_out o = {.b = b};
    int rc = 0;
    openai_put_head(c, form_of(c)->object, form_of(c)->list, &o);
    for (int i = 0, index = 0; rc == 0 && i < c->n_part; i++)
        rc = put_part(c, &c->part[i], &index, &o, e);
    out_end(&o);
    if (form_of(c)->prompt_in_response) {
        put_prompt_ids(c, c->part, &o);
        put_requested_logprobs(c, c->part, &o);
    }
    openai_put_usage(c, &o);
    const struct usage u = call_usage(c);
    if (c->timings) put_timings(&o, &u);
    out_end(&o);
    return rc;
}

/* ---- frames ---- */

/* Begin a server-sent event with a response object. frame_close ends both. */
static void frame_open(const struct api_call *c, struct json_out *o, struct buf *b)
{
    *o = (struct json_out){.b = b};
    buf_add_text(b, "data: ");
    openai_put_head(c, form_of(c)->object_piece, form_of(c)->list, o);
}

static void frame_close(struct json_out *o)
{
    out_end(o);
    buf_add_text(o->b, "\n\n");
}

void openai_frame_begin(const struct api_call *c, int index, struct json_out *o, struct buf *b)
{
    frame_open(c, o, b);
    out_object(o, NULL);
    out_int(o, "index", index);
}

/* Ids of the prompt are sent once per choice, with its first frame. The place of the ids depends on
 * the dialect: in the choice, or in the response. */
void openai_frame_end(const struct api_call *c, const struct part *p, struct choice *a, bool last,
                      struct json_out *o)
{
    bool first = !a->ids_begun, of_choice = c->dialect->prompt_per_choice;
    a->ids_begun = true;
    if (first && of_choice) put_prompt_ids(c, p, o);
    put_token_ids(c, a, a->n_id_sent, o);
    a->n_id_sent = a->ids.n;
    if (last)
        put_finish(c, p, a, a->called, o);
    else
        out_null(o, "finish_reason"), out_null(o, "stop_reason");
    out_end(o);
    out_end(o);
    if (first && !of_choice) put_prompt_ids(c, p, o);
    if (openai_of(c)->usage_always)
        openai_put_usage(c, o);
    else if (openai_of(c)->include_usage)
        out_null(o, "usage");
    if (c->timings) put_timings(o, &a->reply.usage);
    frame_close(o);
}

void openai_put_progress(const struct api_call *c, struct part *p, int index, struct buf *b)
{
    struct json_out o;
    (void)index;
    frame_open(c, &o, b);
    out_end(&o);
    put_progress(&o, p);
    frame_close(&o);
}

/* Return a view of the unsent log, and mark the log as sent. The view is borrowed until the next
 * event. */
struct answer_log log_unsent(struct choice *a)
{
    struct answer_log log = {.v = a->log.v ? a->log.v + a->n_log_sent : NULL,
                             .n = a->log.n - a->n_log_sent};
    a->log_offset += log_bytes(a->reply.detok.t, &log);
    a->n_log_sent = a->log.n;
    return log;
}

/* The usage is in a separate frame with an empty list of choices, as OpenAI sends it. */
void openai_put_end(const struct api_call *c, struct buf *b)
{
    if (openai_of(c)->include_usage) {
        struct json_out o;
        frame_open(c, &o, b);
        out_end(&o);
        openai_put_usage(c, &o);
        frame_close(&o);
    }
    buf_add_text(b, "data: [DONE]\n\n");
}

/* ollama_answer.c - answers of /api/chat and /api/generate, whole or as lines of JSON, and common
 * parts of the readers of Ollama's bodies.
 *
 *   {"model":...,"created_at":...,"message":{"role":"assistant","content":"4"},"done":false}
 *   {"model":...,"created_at":...,"message":{"role":"assistant","content":""},"done":true,
 *    "done_reason":"stop","total_duration":...,"eval_count":...}
 *
 * /api/generate has "response" in place of "message". A call is written after its arguments are
 * complete, because `arguments` is an object.
 *
 * A stream of Ollama is a line of JSON per delta, without the frames of server-sent events. The
 * last line has counts and times in nanoseconds. The engine has no time of its own for loading, so
 * load_duration is the time in the queue. */
#include "ollama.h"
#include "openai.h"

#include "base/os.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- fields of all bodies ---- */

int ollama_read_own(struct api_call *c, const struct json *body, struct err *e)
{
    const struct json *model = body_field(body, "model");
    bool stream = true;
    int rc = ollama_check_outside(body, e);
    if (rc == 0) rc = call_own(c, sizeof(struct ollama), e);
    if (rc != 0) return rc;
    struct ollama *own = c->own;
    if (!model || !body_is_set(model)) return err_set(e, ERR_ARG, "model is required");
    own->n_top = -1;
    rc = call_model(c, body, e);
    if (rc == 0) rc = body_flag(body, "stream", &stream, e);
    if (rc == 0) rc = body_flag(body, "truncate", &own->truncate, e);
    if (rc == 0) own->n_ctx = c->api->n_ctx;
    if (rc == 0) rc = ollama_num_ctx(body, &own->n_ctx, e);
    c->stream =
        stream && c->dialect->stream_type && (c->api->streams || body_field(body, "stream"));
    return rc ? rc : call_stream(c, e);
}

void ollama_close(struct api_call *c)
{
    struct ollama *o = c->own;
    if (!o) return;
    buf_deinit(&o->name);
    buf_deinit(&o->id);
    buf_deinit(&o->arguments);
}

int64_t ollama_prompt_max(const struct api_call *c)
{
    const struct ollama *own = c->own;
    const int64_t context = c->api->session->info->context_max;
    return (own->n_ctx && own->n_ctx < context ? own->n_ctx : context) - 1;
}

/* The engine checks the server's context. A num_ctx above the server's context has no effect,
 * because the engine rejects a longer prompt. */
int ollama_limit(struct api_call *c, struct err *e)
{
    const struct ollama *own = c->own;
    struct request *r = c->part->request;
    const int64_t n = (int64_t)r->prompt.n, max = own->n_ctx - (r->max_tokens > 0 ? 1 : 0);
    if (!own->n_ctx) return 0;
    if (n > max) {
        int rc = err_field(e, ERR_LIMIT, c->dialect->prompt,
                           ": must have at most %lld tokens (options.num_ctx), got %lld",
                           (long long)max, (long long)n);
        return err_figures(e, rc, (long long)n, (long long)max);
    }
    if (r->max_tokens > own->n_ctx - n) r->max_tokens = (int)(own->n_ctx - n);
    if (r->params.min_tokens > r->max_tokens) r->params.min_tokens = r->max_tokens;
    return 0;
}

/* ---- parts of a response ---- */

/* Return the names that differ between /api/chat and /api/generate. */
static const struct ollama_form *form_of(const struct api_call *c)
{
    return c->dialect->form;
}

void ollama_put_time(struct json_out *o, const char *key, int64_t us)
{
    struct tm t = {0};
    char text[64];
    const time_t second = (time_t)(us / 1000000);
    gmtime_r(&second, &t);
    snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%06d000Z", t.tm_year + 1900,
             t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, (int)(us % 1000000));
    out_plain(o, key, text, strlen(text));
}

void ollama_put_durations(const struct api_call *c, struct json_out *o, int64_t load_us)
{
    const int64_t begin_us = c->arrival_us, now_us = time_us();
    out_int(o, "total_duration", begin_us ? (now_us - begin_us) * 1000 : load_us * 1000);
    out_int(o, "load_duration", load_us * 1000);
}

/* Append the reason of the end, and counts and times. */
static void put_end_members(const struct api_call *c, struct json_out *o)
{
    const struct part *p = c->part;
    const struct choice *a = &p->choice[0];
    out_word(o, "done_reason", a->reply.finish == FINISH_STOP ? "stop" : "length");
    ollama_put_durations(c, o, p->usage.queue_us);
    out_int(o, "prompt_eval_count", p->n_prompt);
    out_int(o, "prompt_eval_duration", p->usage.prefill_us * 1000);
    out_int(o, "eval_count", choice_n_token(p, a));
    out_int(o, "eval_duration", p->usage.decode_us * 1000);
}

/* Append the tokens of prompt and answer, with the end token of the turn. A later prompt that
 * begins with them finds their keys and values. */
static void put_context(const struct api_call *c, struct json_out *o)
{
    const struct part *p = c->part;
    const struct choice *a = &p->choice[0];
    if (!c->ids_back) return;
    out_list(o, "context");
    for (size_t i = 0; i < p->prompt.n; i++) out_int(o, NULL, p->prompt.v[i]);
    for (size_t i = 0; i < a->ids.n; i++) out_int(o, NULL, a->ids.v[i]);
    if (a->stop_id >= 0 && tokenizer_is_eog(p->reply.tokenizer, a->stop_id))
        out_int(o, NULL, a->stop_id);
    out_end(o);
}

/* Begin a response up to the text's members. message_end ends the object around them. */
static void message_begin(const struct api_call *c, struct json_out *o, const char *text, size_t n)
{
    const struct ollama_form *form = form_of(c);
    out_object(o, NULL);
    out_word(o, "model", c->model);
    ollama_put_time(o, "created_at", time_wall_us());
    if (form->message) {
        out_object(o, form->message);
        out_word(o, "role", "assistant");
    }
    out_text(o, form->text, n ? text : "", n);
}

/* End the text's members. The caller appends further members, and ends the object. */
static void message_end(const struct api_call *c, struct json_out *o, bool done)
{
    if (form_of(c)->message) out_end(o);
    out_flag(o, "done", done);
}

/* Append the log probabilities if the client has requested them, and there are any. */
static void put_logs(const struct api_call *c, struct json_out *o, const struct answer_log *log)
{
    if (c->logprobs && log->n)
        put_logprobs_list(o, "logprobs", &(struct token_names){c->api->session->tokenizer, false},
                          log->v, log->n);
}

/* ---- calls ---- */

/* Append the id of a call. Later requests may have the same id (put_id of ollama_turns.c). */
static void put_id(struct json_out *o, const char *own, uint64_t seed, int i)
{
    struct buf id = {0};
    char made[CALL_ID_LETTERS + 1];
    call_id(made, seed, i);
    buf_add_text(&id, OLLAMA_ID_PREFIX);
    buf_add_text(&id, own ? own : made);
    out_text(o, "id", id.failed ? "" : id.data, id.failed ? 0 : id.n);
    o->b->failed |= id.failed;
    buf_deinit(&id);
}

/* Append the arguments. Arguments that are not a JSON object, such as truncated arguments, become
 * the only member of an object. */
static void put_arguments(struct json_out *o, const struct buf *text)
{
    struct json *parsed = NULL;
    const char *data = text->n ? text->data : "{}";
    const size_t n = text->n ? text->n : 2;
    const int rc = json_parse(&parsed, data, n, NULL, NULL);
    if (rc == ERR_MEMORY) o->b->failed = true;
    if (json_kind(parsed) == JK_OBJECT) {
        out_raw(o, "arguments", data, n);
    } else {
        out_object(o, "arguments");
        out_text(o, "INVALID_JSON", data, n);
        out_end(o);
    }
    json_drop(parsed);
}

/* Append call i. id NULL: the model's output has no id, so one is made from the call's seed. */
static void put_call(const struct api_call *c, struct json_out *o, int i, const char *id,
                     const char *name, const struct buf *arguments)
{
    out_object(o, NULL);
    put_id(o, id, choice_seed(c, 0), i);
    out_object(o, "function");
    out_int(o, "index", i);
    out_word(o, "name", name);
    put_arguments(o, arguments);
    out_end(o);
    out_end(o);
}

/* ---- the whole response ---- */

/* Append the answer to a body without a prompt. */
static void put_without(const struct api_call *c, struct json_out *o)
{
    const struct ollama *own = c->own;
    message_begin(c, o, "", 0);
    message_end(c, o, true);
    out_word(o, "done_reason", own->without);
    ollama_put_durations(c, o, 0);
    out_end(o);
}

/* Other members must be checked, which needs the model. */
bool ollama_unloads(const struct json *body, const char *input, struct buf *b)
{
    const struct json *content = body_field(body, input);
    const char *model = json_text(body_field(body, "model"), NULL);
    struct json_out o = {.b = b};
    struct err e = {0};
    double keep_s = NAN;
    size_t n = 0, n_known = 0;
    static const char *const known[] = {"model", "keep_alive", "stream"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        n_known += json_field(body, known[i]) != NULL;
    n_known += json_field(body, input) != NULL;
    if (json_text(content, &n) ? n > 0 : json_count(content) > 0) return false;
    if (!model || json_count(body) != n_known) return false;
    if (ollama_keep_alive(body, &keep_s, &e) != 0 || keep_s != 0) return false;
    out_object(&o, NULL);
    out_word(&o, "model", model);
    ollama_put_time(&o, "created_at", time_wall_us());
    if (strcmp(input, "messages") == 0) {
        out_object(&o, "message");
        out_word(&o, "role", "assistant");
        out_word(&o, "content", "");
        out_end(&o);
    } else {
        out_word(&o, "response", "");
    }
    out_flag(&o, "done", true);
    out_word(&o, "done_reason", "unload");
    out_end(&o);
    return true;
}

/* Append the members of the parsed text. */
static void put_message(const struct api_call *c, struct json_out *o, const struct chat_message *m)
{
    message_begin(c, o, m->content.data, m->content.n);
    if (m->reasoning.n) out_text(o, "thinking", m->reasoning.data, m->reasoning.n);
    if (m->n_call) out_list(o, "tool_calls");
    for (size_t i = 0; i < m->n_call; i++)
        put_call(c, o, (int)i, m->call[i].id, m->call[i].name, &m->call[i].arguments);
    if (m->n_call) out_end(o);
}

int ollama_put(const struct api_call *c, struct buf *b, struct err *e)
{
    const struct ollama *own = c->own;
    struct json_out o = {.b = b};
    struct chat_message m = {0};
    if (own->without) {
        put_without(c, &o);
        return 0;
    }
    const struct choice *a = &c->part->choice[0];
    int rc = own->plain ? 0 : choice_message(c, a, &m, e);
    if (own->plain)
        message_begin(c, &o, a->text.data, a->text.n);
    else
        put_message(c, &o, &m);
    message_end(c, &o, true);
    put_end_members(c, &o);
    put_logs(c, &o, &a->log);
    put_context(c, &o);
    out_end(&o);
    chat_message_deinit(&m);
    return rc;
}

/* ---- the response in lines ---- */

/* The stream that is written. All pointers are borrowed. */
struct line_writer {
    const struct api_call *c;
    struct choice *a;
    struct buf *b;
};

/* End a line with the log probabilities since the previous line. */
static void line_end(const struct line_writer *w, struct json_out *o)
{
    const struct answer_log log = log_unsent(w->a);
    message_end(w->c, o, false);
    put_logs(w->c, o, &log);
    out_end(o);
    buf_add_char(w->b, '\n');
}

/* Write the open call, which is complete. */
static void put_open_call(const struct line_writer *w)
{
    struct ollama *own = w->c->own;
    struct json_out o = {.b = w->b};
    if (!own->in_call) return;
    own->in_call = false;
    w->b->failed |= own->name.failed || own->id.failed || own->arguments.failed;
    if (w->b->failed) return;
    message_begin(w->c, &o, "", 0);
    out_list(&o, "tool_calls");
    put_call(w->c, &o, own->i_call, own->has_id ? own->id.data : NULL, own->name.data,
             &own->arguments);
    out_end(&o);
    line_end(w, &o);
}

/* Begin a call. The texts end with a NUL. */
static void open_call(struct ollama *own, const struct chat_delta *d)
{
    buf_clear(&own->name);
    buf_clear(&own->id);
    buf_clear(&own->arguments);
    buf_add(&own->name, d->name, strlen(d->name) + 1);
    own->has_id = d->id != NULL;
    if (d->id) buf_add(&own->id, d->id, strlen(d->id) + 1);
    own->in_call = true;
    own->i_call = d->i_call;
}

/* Append a delta (chat_delta_fn). */
static void put_delta(void *ctx, const struct chat_delta *d)
{
    const struct line_writer *w = ctx;
    struct ollama *own = w->c->own;
    struct json_out o = {.b = w->b};
    const bool content = d->kind == CHAT_CONTENT;
    if (d->n == 0 && !d->name) return;
    if (d->kind != CHAT_CALL || d->name) put_open_call(w);
    if (d->kind == CHAT_CALL) {
        if (d->name) open_call(own, d);
        if (d->n) buf_add(&own->arguments, d->text, d->n);
        return;
    }
    message_begin(w->c, &o, d->text, content ? d->n : 0);
    if (!content) out_text(&o, "thinking", d->text, d->n);
    line_end(w, &o);
}

/* Append the unsent part of a text that is not parsed. */
static void put_text(const struct line_writer *w)
{
    struct choice *a = w->a;
    struct json_out o = {.b = w->b};
    const size_t n = a->text.n - a->n_text_sent;
    if (n == 0) return;
    message_begin(w->c, &o, a->text.data + a->n_text_sent, n);
    a->n_text_sent = a->text.n;
    line_end(w, &o);
}

void ollama_put_pieces(const struct api_call *c, struct part *p, struct choice *a, int index,
                       struct buf *b)
{
    const struct ollama *own = c->own;
    const struct line_writer w = {c, a, b};
    (void)index;
    if (a->ids.n == 0 && !a->reply.finish) return;
    if (own->plain) {
        put_text(&w);
        return;
    }
    if (!choice_begin(c, a)) {
        p->no_memory = true;
        return;
    }
    if (!choice_deltas(c, a, put_delta, (void *)&w)) b->failed = true;
    if (a->reply.finish) put_open_call(&w);
}

void ollama_put_end(const struct api_call *c, struct buf *b)
{
    struct json_out o = {.b = b};
    struct choice *a = &c->part->choice[0];
    const struct answer_log log = log_unsent(a);
    message_begin(c, &o, "", 0);
    message_end(c, &o, true);
    put_end_members(c, &o);
    put_logs(c, &o, &log);
    put_context(c, &o);
    out_end(&o);
    buf_add_char(b, '\n');
}

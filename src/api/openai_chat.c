/* openai_chat.c - /v1/chat/completions: read a conversation and write the model's message.
 * Reasoning and tool calls are parsed from the model's output.
 *
 *    body -> params -> messages -> tools -> reasoning -> response_format -> constraint
 *    text -> chat parser -> message, or deltas: role, reasoning, content, calls, finish_reason
 *
 * Other dialects convert their bodies to this form and call openai_read_chat, so conversations have
 * one reader. Errors of this reader have the names of this form; each dialect replaces them
 * (dialect.name_error). */
#include "openai.h"

#include "base/json.h"

#include <string.h>

/* ---- the body ---- */

/* Return true if the request or the server's options enable reasoning. */
static bool requests_reasoning(const struct api_call *c, const struct json *body)
{
    const struct json *kwargs = body_field(body, "chat_template_kwargs");
    const char *effort = json_text(body_field(body, "reasoning_effort"), NULL);
    if (!kwargs) kwargs = c->api->chat->kwargs;
    return json_bool(body_field(kwargs, "enable_thinking"), false) ||
           json_bool(body_field(kwargs, "thinking"), false) ||
           (effort && strcmp(effort, "none") != 0);
}

/* Read the fields that enable the parsing and the return of reasoning. reasoning_format has the
 * values of llama.cpp's server. */
static int read_reasoning(struct api_call *c, const struct json *body, struct err *e)
{
    const char *format = "auto";
    bool include = true;
    int rc = body_flag(body, "include_reasoning", &include, e);
    if (rc == 0) rc = body_text(body, "reasoning_format", 40, &format, e);
    bool none = strcmp(format, "none") == 0;
    if (rc == 0 && !none && strcmp(format, "auto") != 0 && strcmp(format, "deepseek") != 0)
        rc = err_field(e, ERR_ARG, "reasoning_format",
                       ": must be \"none\", \"auto\" or \"deepseek\", got \"%.40s\"", format);
    c->reasoning_parser = none ? NULL : c->api->chat->reasoning_parser;
    c->no_reasoning = !include;
    c->requests_reasoning = requests_reasoning(c, body);
    c->is_message = true;
    if (rc == 0) rc = api_read_budget(c->api, body, &c->budget, e);
    if (rc == 0 && c->budget < 0) c->budget = effort_budget(c->api, body);
    return rc;
}

/* Check that only text output is requested. */
static int check_modalities(const struct json *body, struct err *e)
{
    char value[80];
    const struct json *list = body_field(body, "modalities");
    if (list && json_kind(list) != JK_LIST) return body_wrong("modalities", "a list", list, e);
    for (size_t i = 0; i < json_count(list); i++) {
        const char *word = json_text(json_item(list, i), NULL);
        if (!word || strcmp(word, "text") != 0)
            return err_field(e, ERR_UNSUPPORTED, "modalities", "[%zu]: must be \"text\", got %s", i,
                             json_value_text(json_item(list, i), value));
    }
    return 0;
}

/* Continue the last message if its role is assistant, as in vLLM. */
static int read_echo(struct api_call *c, const struct json *body, struct err *e)
{
    const struct json *list = body_field(body, "messages");
    const struct json *last = json_item(list, json_count(list) - 1);
    const char *role = json_text(json_field(last, "role"), NULL);
    int rc = body_flag(body, "echo", &c->echo, e);
    if (rc != 0 || !c->echo || !role || strcmp(role, "assistant") != 0) return rc;
    const char *text = json_text(json_field(last, "content"), &c->echoed.n);
    if (!text) return 0;
    c->echoed.text = arena_text(&c->arena, text, c->echoed.n);
    return c->echoed.text ? 0 : err_memory(e, "messages", c->echoed.n);
}

/* Read the fields of log probabilities. n_logprob is -1 without log probabilities, and 0 for the
 * chosen token only. */
static int read_chat_logprobs(struct api_call *c, struct request *r, const struct json *body,
                              struct err *e)
{
    int64_t top = 0;
    int rc = body_flag(body, "logprobs", &c->logprobs, e);
    if (rc == 0) rc = body_int(body, "top_logprobs", 0, TOP_LOGPROB_MAX, &top, e);
    if (rc == 0) rc = read_prompt_logprobs(c, r, body, e);
    if (rc == 0 && top > 0 && !c->logprobs)
        rc = err_field(e, ERR_ARG, "top_logprobs", ": must be 0 without logprobs true, got %lld",
                       (long long)top);
    r->params.n_logprob = c->logprobs ? (int32_t)top : -1;
    return rc ? rc : read_probs(c, r, body, e);
}

int openai_read_max_tokens(const struct api_call *c, struct request *r, const struct json *body,
                           struct err *e)
{
    int64_t n = api_max_tokens(c->api);
    int rc = body_int(body, "max_tokens", 0, INT32_MAX, &n, e);
    if (rc == 0) rc = body_int(body, "max_completion_tokens", 0, INT32_MAX, &n, e);
    if (rc == 0) rc = api_read_n_predict(c->api, body, &n, e);
    r->max_tokens = (int)n;
    api_settle_min_tokens(r, c->api, body);
    return rc;
}

int openai_check_generates(const struct api *a, struct err *e)
{
    const struct model_info *i = a->session->info;
    if (i->n_start > 0 && !a->chat->t)
        return err_field(e, ERR_UNSUPPORTED, "model",
                         ": \"%.80s\" is a model of encoder and decoder without a chat template; "
                         "send its source text to /v1/completions, or give a template with "
                         "--chat-template FILE",
                         i->name);
    return openai_check_text(a, e);
}

int openai_check_text(const struct api *a, struct err *e)
{
    const struct model_info *i = a->session->info;
    if (!i->headless) return 0;
    return err_field(e, ERR_UNSUPPORTED, "model",
                     ": \"%.80s\" is %s, which generates no text; it answers /v1/embeddings, "
                     "/rerank or /classify",
                     i->name, i->encoder ? "an encoder" : "a model without logits");
}

/* Use the template of the body in all steps of the call. The model's own template still selects the
 * parsers. */
static int read_template(struct api_call *c, const struct json *body, struct err *e)
{
    int rc = api_template(&c->template, c->api->chat->t, body, e);
    if (rc != 0 || !c->template) return rc;
    struct api *api = arena_push(&c->arena, sizeof *api, 16);
    struct chat *chat = arena_push(&c->arena, sizeof *chat, 16);
    if (!api || !chat) return err_memory(e, "chat_template", sizeof *api + sizeof *chat);
    *api = *c->api;
    *chat = *c->api->chat;
    chat->t = c->template;
    api->chat = chat;
    c->api = api;
    return 0;
}

/* The prompt is read before the tools, so that the error for a prompt that is too long has
 * precedence. Tools and reasoning select the parsers, which the constraint needs. */
int openai_read_chat(struct api_call *c, const struct json *body, const struct json *given,
                     struct err *e)
{
    struct tools_spec tools = {0};
    int rc = read_template(c, body, e);
    if (rc == 0) rc = openai_check_generates(c->api, e);
    if (rc == 0) rc = call_parts(c, 1, e);
    struct part *p = c->part;
    if (rc == 0) rc = part_read(p, c, body, e);
    if (rc == 0) rc = openai_read_max_tokens(c, p->request, body, e);
    if (rc == 0) rc = read_chat_logprobs(c, p->request, body, e);
    if (rc == 0) rc = read_messages(c, p, body, e);
    if (rc == 0) rc = openai_read_tools(c, &tools, body, given, e);
    if (rc == 0) rc = read_reasoning(c, body, e);
    if (rc == 0) rc = check_modalities(body, e);
    if (rc == 0) rc = read_echo(c, body, e);
    if (rc == 0) rc = openai_read_format(c, body, e);
    if (rc == 0 && !c->dialect->counts) rc = call_constrain_message(c, &tools, e);
    /* keep special tokens, which are the marks of reasoning and calls of some models */
    if (rc == 0 && (c->tool_parser || c->reasoning_parser)) p->reply.keep_marks = true;
    return rc;
}

/* Read a body of chat completions. A body with `functions`, or with custom tools, is converted to a
 * body with functions in `tools`. Errors then contain the client's names of the fields. */
static int read_body(struct api_call *c, const struct json *body, struct err *e)
{
    struct json *modern = NULL, *plain = NULL;
    int rc = openai_read(c, body, e);
    if (rc == 0) rc = openai_read_functions(&modern, body, e);
    c->function_call = modern != NULL;
    const struct json *now = modern ? modern : body;
    if (rc == 0) rc = openai_check_calls(now, e);
    if (rc == 0) rc = openai_read_custom(&plain, now, e);
    if (rc == 0) rc = openai_read_chat(c, plain ? plain : now, body_field(now, "tools"), e);
    json_drop(plain);
    if (modern && rc != 0)
        rc = err_rename(e, err_rename(e, rc, "tools", "functions"), "tool_choice", "function_call");
    json_drop(modern);
    return rc;
}

/* ---- the response ---- */

/* Append "logprobs" of the content, which may be an empty list. */
static void put_logprobs(const struct api_call *c, const struct answer_log *log, struct json_out *o)
{
    const struct token_names t = {c->api->session->tokenizer, c->tokens_as_ids};
    if (c->probs && log) {
        out_object(o, "logprobs");
        put_probs(o, "content", t.tokenizer, log, c->post);
        out_end(o);
    } else if (c->logprobs && log) {
        put_logprobs_chat(o, &t, log);
    } else {
        out_null(o, "logprobs");
    }
}

/* Append a call in the form of `functions`. name NULL: a later piece of the arguments. */
static void put_function_call(struct json_out *o, const char *name, const char *arguments, size_t n)
{
    out_object(o, "function_call");
    if (name) out_word(o, "name", name);
    out_text(o, "arguments", arguments, arguments ? n : 0);
    out_end(o);
}

/* Replace the arguments of calls of custom tools by their text. */
static void read_custom_calls(const struct api_call *c, struct chat_message *m)
{
    for (size_t i = 0; i < m->n_call; i++) {
        struct chat_call *call = &m->call[i];
        struct custom_text t = {0};
        struct buf text = {0};
        if (!call_is_custom(c, call->name)) continue;
        call->custom = true;
        if (call->arguments.n) custom_push(&t, call->arguments.data, call->arguments.n, &text);
        m->failed |= text.failed;
        buf_deinit(&call->arguments);
        call->arguments = text;
    }
}

/* Append the message of one choice (openai_form). *called: the answer has a call, which changes
 * finish_reason. */
static int put(const struct api_call *c, const struct part *p, const struct choice *a, bool *called,
               struct json_out *o, struct err *e)
{
    struct chat_message m = {0};
    int rc = choice_message(c, a, &m, e);
    read_custom_calls(c, &m);
    if (rc == 0 && m.failed) rc = err_memory(e, "a message", a->text.n);
    struct chat_message shown = m;
    if (c->one_tool_call && shown.n_call > 1) shown.n_call = 1;
    if (c->no_reasoning) shown.reasoning.n = 0;
    out_object(o, "message");
    if (rc == 0 && c->function_call && shown.n_call > 0) {
        put_function_call(o, shown.call[0].name, shown.call[0].arguments.data,
                          shown.call[0].arguments.n);
        shown.n_call = 0;
    }
    if (rc == 0) put_message_members(o, &shown, choice_seed(c, (int)(a - p->choice)));
    out_null(o, "refusal");
    out_end(o);
    put_logprobs(c, &a->log, o);
    *called = m.n_call > 0;
    chat_message_deinit(&m);
    return rc;
}

/* ---- the response in pieces ---- */

/* The choice whose frames are written. All pointers are borrowed. */
struct frame_writer {
    const struct api_call *c;
    const struct part *part;
    struct choice *a;
    int index;
    struct buf *b;
};

/* Begin a frame up to the members of its delta. delta_end ends both. */
static void delta_begin(const struct frame_writer *p, struct json_out *o)
{
    openai_frame_begin(p->c, p->index, o, p->b);
    out_object(o, "delta");
}

/* End the delta and its frame. log: log probabilities of the frame; NULL if none. */
static void delta_end(const struct frame_writer *p, const struct answer_log *log, bool last,
                      struct json_out *o)
{
    out_end(o);
    put_logprobs(p->c, log, o);
    openai_frame_end(p->c, p->part, p->a, last, o);
}

/* Return the log probabilities since the last frame; NULL if there are no new log probabilities. */
static const struct answer_log *unsent(const struct frame_writer *p, struct answer_log *log)
{
    *log = log_unsent(p->a);
    return log->n ? log : NULL;
}

/* Append a piece of a call. Id and name are only in the first piece of the call. */
static void put_delta_call(struct json_out *o, const struct chat_delta *d, bool custom,
                           uint64_t id_seed)
{
    const char *type = custom ? "custom" : "function";
    out_list(o, "tool_calls");
    out_object(o, NULL);
    out_int(o, "index", d->i_call);
    if (d->name) {
        put_call_id(o, "id", d->id, id_seed, d->i_call);
        /* OpenAI's clients join the pieces of a call by its index, and take id and type from the
         * first */
        out_word(o, "type", type);
    }
    out_object(o, type);
    if (d->name) out_word(o, "name", d->name);
    out_text(o, custom ? "input" : "arguments", d->text, d->text ? d->n : 0);
    out_end(o);
    out_end(o);
    out_end(o);
}

/* Append a frame for a piece of a call. A piece of a custom tool's arguments may contain no part of
 * the call's text. */
static void put_delta_of_call(const struct frame_writer *p, const struct chat_delta *d)
{
    struct choice *a = p->a;
    struct json_out o;
    struct answer_log log;
    struct buf text = {0};
    struct chat_delta piece = *d;
    if (d->name) a->in_custom = call_is_custom(p->c, d->name), a->custom = (struct custom_text){0};
    if (a->in_custom) {
        custom_push(&a->custom, d->text ? d->text : "", d->text ? d->n : 0, &text);
        piece.text = text.data, piece.n = text.n;
    }
    if (piece.name || piece.n || !a->in_custom) {
        delta_begin(p, &o);
        put_delta_call(&o, &piece, a->in_custom, choice_seed(p->c, p->index));
        delta_end(p, unsent(p, &log), false, &o);
    }
    p->b->failed |= text.failed;
    buf_deinit(&text);
}

/* Append one frame for a delta of the parser (chat_delta_fn). Log probabilities are in the first
 * frame after their tokens. */
static void put_delta(void *ctx, const struct chat_delta *d)
{
    const struct frame_writer *p = ctx;
    struct json_out o;
    struct answer_log log;
    if (d->kind == CHAT_CALL && !p->c->function_call) return put_delta_of_call(p, d);
    delta_begin(p, &o);
    if (d->kind == CHAT_CALL)
        put_function_call(&o, d->name, d->text, d->n);
    else
        out_text(&o, d->kind == CHAT_CONTENT ? "content" : "reasoning_content", d->text, d->n);
    delta_end(p, unsent(p, &log), false, &o);
}

/* Append the first frame, which contains the role and the echoed text. */
static bool put_role(const struct frame_writer *p)
{
    struct json_out o;
    if (p->a->begun) return true;
    if (!choice_begin(p->c, p->a)) return false;
    delta_begin(p, &o);
    out_word(&o, "role", "assistant");
    out_text(&o, "content", p->c->echoed.text, p->c->echoed.n);
    delta_end(p, NULL, false, &o);
    return p->a->begun = true;
}

/* Append the frames of the unsent part: role, deltas, and at the end a frame with finish_reason. */
static void put_pieces(const struct api_call *c, struct part *part, struct choice *a, int index,
                       struct buf *b)
{
    struct frame_writer p = {c, part, a, index, b};
    struct json_out o;
    struct answer_log log;
    if (a->ids.n == 0 && !a->reply.finish)
        return; /* the first frame marks the time of the first token */
    if (!put_role(&p)) {
        part->no_memory = true;
        return;
    }
    if (!choice_deltas(c, a, put_delta, &p)) b->failed = true; /* the stream ends with an error */
    if (!a->reply.finish) return;
    delta_begin(&p, &o);
    delta_end(&p, unsent(&p, &log), true, &o);
}

static const struct openai_form form = {
    .object = "chat.completion",
    .object_piece = "chat.completion.chunk",
    .list = "choices",
    .prompt_in_response = true,
    .put = put,
};

const struct dialect dialect_openai_chat = {
    .fields = ENDPOINT_CHAT,
    .id_prefix = "chatcmpl-",
    .prompt = "messages",
    .errors = &openai_errors,
    .form = &form,
    .read = read_body,
    .put = openai_put,
    .stream_type = "text/event-stream",
    .no_memory = openai_no_memory,
    .put_pieces = put_pieces,
    .put_progress = openai_put_progress,
    .put_end = openai_put_end,
};

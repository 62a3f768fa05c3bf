/* chat_completions.c - /v1/chat/completions: messages in, a message out, reasoning and tool calls
 * read from what the model writes. */
#include "api_impl.h"

#include "base/json.h"

#include <string.h>

/* ---- the body ---- */

/* Parts of a tool's or a format's contract that need a grammar are refused, not ignored. */
static int read_tool_choice(struct api_call *c, const struct json *body, struct err *e)
{
    const struct json *choice = body_field(body, "tool_choice");
    const char *word = json_text(choice, NULL);
    bool has_tools = json_count(body_field(body, "tools")) > 0,
         none = word && strcmp(word, "none") == 0;
    if (choice && !none && !(word && strcmp(word, "auto") == 0))
        return err_set(e, ERR_UNSUPPORTED, "tool_choice: only \"auto\" and \"none\" are supported");
    c->tool_parser = has_tools && !none ? chat_tool_parser_of(c->api->chat->t) : NULL;
    c->reasoning_parser = chat_reasoning_parser_of(c->api->chat->t);
    return 0;
}

static int read_format(const struct json *body, struct err *e)
{
    const struct json *format = body_field(body, "response_format");
    const char *type = json_text(json_field(format, "type"), NULL);
    if (!format || (type && strcmp(type, "text") == 0)) return 0;
    if (!type) return err_set(e, ERR_ARG, "response_format.type: expected a text");
    return err_set(e, ERR_UNSUPPORTED, "response_format: only \"text\" is supported");
}

static int read_chat_logprobs(struct api_call *c, struct request *r, const struct json *body,
                              struct err *e)
{
    int64_t top = 0, prompt = -1;
    int rc = body_flag(body, "logprobs", &c->logprobs, e);
    if (rc == 0) rc = body_int(body, "top_logprobs", 0, TOP_LOGPROB_MAX, &top, e);
    if (rc == 0) rc = body_int(body, "prompt_logprobs", 0, TOP_LOGPROB_MAX, &prompt, e);
    if (rc == 0 && top > 0 && !c->logprobs)
        rc = err_set(e, ERR_ARG, "top_logprobs: logprobs must be true with it");
    r->params.n_logprob = c->logprobs ? (int32_t)top : -1;
    r->n_prompt_logprob = (int)prompt;
    return rc;
}

/* As long as the context allows, unless told otherwise. */
static int read_max_tokens(const struct api_call *c, struct request *r, const struct json *body,
                           struct err *e)
{
    int64_t n = model_info(c->api->session->model)->context_max;
    int rc = body_int(body, "max_tokens", 0, INT32_MAX, &n, e);
    if (rc == 0) rc = body_int(body, "max_completion_tokens", 0, INT32_MAX, &n, e);
    r->max_tokens = (int)n;
    return rc;
}

static int read_messages(struct api_call *c, struct part *p, const struct json *body, struct err *e)
{
    struct buf prompt = {0};
    struct chat_turn turn = {0};
    int rc = api_render(c->api, body, &prompt, &turn, e);
    if (rc == 0)
        rc = api_prompt_text(p->request, c->api, prompt.data ? prompt.data : "", prompt.n, true, e);
    if (rc == 0 && turn.n_answer) {
        c->begun = arena_text(&c->arena, prompt.data + prompt.n - turn.n_answer, turn.n_answer);
        c->n_begun = turn.n_answer;
        if (!c->begun) rc = err_memory(e, "a prompt", turn.n_answer);
    }
    buf_deinit(&prompt);
    return rc;
}

static int read(struct api_call *c, const struct json *body, struct err *e)
{
    int rc = call_parts(c, 1, e);
    struct part *p = c->part;
    if (rc == 0) rc = part_open(p, c, body, e);
    if (rc == 0) rc = read_max_tokens(c, p->request, body, e);
    if (rc == 0) rc = read_chat_logprobs(c, p->request, body, e);
    if (rc == 0) rc = read_format(body, e);
    if (rc == 0) rc = read_messages(c, p, body, e);
    if (rc == 0) rc = read_tool_choice(c, body, e);
    /* the marks of reasoning and calls are special tokens of some models */
    if (rc == 0 && (c->tool_parser || c->reasoning_parser)) p->reply.keep_special = true;
    return rc;
}

/* ---- the response ---- */

static int read_answer(const struct api_call *c, const struct choice *a, struct chat_message *m,
                       struct err *e)
{
    struct chat_parser *parser;
    int rc = chat_parser_open(&parser, c->tool_parser, c->reasoning_parser, e);
    if (rc != 0) return rc;
    if (c->n_begun) chat_parser_push(parser, c->begun, c->n_begun, NULL, NULL);
    if (a->text.n) chat_parser_push(parser, a->text.data, a->text.n, chat_message_add, m);
    chat_parser_finish(parser, chat_message_add, m);
    chat_parser_close(parser);
    return 0;
}

static int put(const struct api_call *c, const struct part *p, const struct choice *a,
               struct buf *b, struct err *e)
{
    const struct tokenizer *t = c->api->session->tokenizer;
    struct chat_message m = {0};
    int rc = read_answer(c, a, &m, e);
    buf_add_text(b, ",\"message\":");
    message_put(b, &m);
    buf_add_text(b, ",\"logprobs\":");
    if (c->logprobs)
        put_logprobs_chat(b, t, &a->log);
    else
        buf_add_text(b, "null");
    if (p->prompt_log.n) {
        buf_add_text(b, ",\"prompt_logprobs\":");
        put_prompt_logprobs(b, t, &p->prompt_log);
    }
    put_finish(b, p, a, m.n_call > 0);
    chat_message_deinit(&m);
    return rc;
}

/* ---- the response in pieces ---- */

struct pieces {
    const struct api_call *c;
    struct choice *a;
    int index;
    struct buf *b;
};

static void put_delta_end(const struct pieces *p)
{
    struct answer_log log = log_unsent(p->a);
    buf_add_text(p->b, "},\"logprobs\":");
    if (p->c->logprobs && log.n)
        put_logprobs_chat(p->b, p->c->api->session->tokenizer, &log);
    else
        buf_add_text(p->b, "null");
}

static void put_delta_call(struct buf *b, const struct chat_delta *d, const char *call_id)
{
    buf_addf(b, "\"tool_calls\":[{\"index\":%d,", d->i_call);
    if (d->name) {
        buf_add_text(b, "\"id\":");
        if (d->id)
            json_put_text(b, d->id, strlen(d->id));
        else
            buf_addf(b, "\"call_%s_%d\"", call_id, d->i_call);
        buf_add_text(b, ",\"type\":\"function\",");
    }
    buf_add_text(b, "\"function\":{");
    if (d->name) {
        buf_add_text(b, "\"name\":");
        json_put_text(b, d->name, strlen(d->name));
        buf_add_char(b, ',');
    }
    buf_add_text(b, "\"arguments\":");
    json_put_text(b, d->text ? d->text : "", d->n);
    buf_add_text(b, "}}]");
}

static void put_delta(void *ctx, const struct chat_delta *d)
{
    const struct pieces *p = ctx;
    frame_begin(p->c, p->index, p->b);
    buf_add_text(p->b, ",\"delta\":{");
    if (d->kind == CHAT_CALL) {
        p->a->called = true;
        put_delta_call(p->b, d, p->c->id);
    } else {
        buf_add_text(p->b, d->kind == CHAT_CONTENT ? "\"content\":" : "\"reasoning_content\":");
        json_put_text(p->b, d->text, d->n);
    }
    put_delta_end(p);
    buf_add_text(p->b, ",\"finish_reason\":null");
    frame_end(p->c, p->b);
}

static bool begin_pieces(const struct pieces *p)
{
    struct choice *a = p->a;
    if (a->begun) return true;
    if (chat_parser_open(&a->parser, p->c->tool_parser, p->c->reasoning_parser, NULL) != 0)
        return false;
    if (p->c->n_begun) chat_parser_push(a->parser, p->c->begun, p->c->n_begun, NULL, NULL);
    frame_begin(p->c, p->index, p->b);
    buf_add_text(p->b, ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                       "\"finish_reason\":null");
    frame_end(p->c, p->b);
    return a->begun = true;
}

static void put_pieces(const struct api_call *c, struct part *part, struct choice *a, int index,
                       struct buf *b)
{
    struct pieces p = {c, a, index, b};
    if (a->ids.n == 0 && !a->reply.finish)
        return; /* the first frame says when the first token came */
    if (!begin_pieces(&p)) {
        part->no_memory = true;
        return;
    }
    if (a->text.n > a->n_text_sent)
        chat_parser_push(a->parser, a->text.data + a->n_text_sent, a->text.n - a->n_text_sent,
                         put_delta, &p);
    a->n_text_sent = a->text.n;
    if (!a->reply.finish) return;
    chat_parser_finish(a->parser, put_delta, &p);
    frame_begin(c, index, b);
    buf_add_text(b, ",\"delta\":{");
    put_delta_end(&p);
    put_finish(b, part, a, a->called);
    frame_end(c, b);
}

const struct endpoint endpoint_chat_completions = {
    .url = "/v1/chat/completions",
    .object = "chat.completion",
    .object_piece = "chat.completion.chunk",
    .id_prefix = "chatcmpl",
    .read = read,
    .put = put,
    .put_pieces = put_pieces,
};

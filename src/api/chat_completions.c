/* chat_completions.c - /v1/chat/completions: messages in, a message out, reasoning and tool calls
 * read from what the model writes. */
#include "api_impl.h"

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

const struct endpoint endpoint_chat_completions = {
    .url = "/v1/chat/completions",
    .object = "chat.completion",
    .id_prefix = "chatcmpl",
    .read = read,
    .put = put,
};

/* chat_completions.c - /v1/chat/completions: messages in, a message out, reasoning and tool calls
 * read from what the model writes. */
#include "api_impl.h"

#include "base/json.h"

#include <string.h>

/* ---- the body ---- */

/* Parts of a tool's contract that need a grammar are refused, not ignored. */
static int check_tools(const struct json *tools, struct err *e)
{
    for (size_t i = 0; i < json_count(tools); i++) {
        const struct json *tool = json_item(tools, i), *function = json_field(tool, "function");
        const char *type = json_text(json_field(tool, "type"), NULL);
        if (!type || strcmp(type, "function") != 0)
            return err_set(e, ERR_UNSUPPORTED, "tools[%zu]: only functions are supported", i);
        if (!json_text(json_field(function, "name"), NULL))
            return err_set(e, ERR_ARG, "tools[%zu].function.name: expected a text", i);
        if (json_bool(json_field(function, "strict"), false))
            return err_set(e, ERR_UNSUPPORTED, "tools[%zu].function.strict: this is not there yet",
                           i);
    }
    return 0;
}

static int read_tool_choice(struct api_call *c, const struct json *body, struct err *e)
{
    const struct json *choice = body_field(body, "tool_choice"), *tools = body_field(body, "tools");
    const char *word = json_text(choice, NULL);
    bool none = word && strcmp(word, "none") == 0, parallel = true;
    if (choice && !none && !(word && strcmp(word, "auto") == 0))
        return err_set(e, ERR_UNSUPPORTED, "tool_choice: only \"auto\" and \"none\" are supported");
    int rc = check_tools(tools, e);
    if (rc == 0) rc = body_flag(body, "parallel_tool_calls", &parallel, e);
    c->tool_parser = json_count(tools) && !none ? chat_tool_parser_of(c->api->chat->t) : NULL;
    c->one_tool_call = !parallel;
    return rc;
}

/* Is reasoning read, and is it told? reasoning_format as llama.cpp's server has it. */
static int read_reasoning(struct api_call *c, const struct json *body, struct err *e)
{
    const char *format = "auto";
    bool told = true;
    int rc = body_flag(body, "include_reasoning", &told, e);
    if (rc == 0) rc = body_text(body, "reasoning_format", 40, &format, e);
    bool none = strcmp(format, "none") == 0;
    if (rc == 0 && !none && strcmp(format, "auto") != 0 && strcmp(format, "deepseek") != 0)
        rc = err_set(e, ERR_ARG, "reasoning_format: it is \"none\", \"auto\" or \"deepseek\"");
    c->reasoning_parser = none ? NULL : chat_reasoning_parser_of(c->api->chat->t);
    c->no_reasoning = !told;
    return rc;
}

/* Only text comes out. */
static int check_modalities(const struct json *body, struct err *e)
{
    const struct json *list = body_field(body, "modalities");
    for (size_t i = 0; i < json_count(list); i++) {
        const char *word = json_text(json_item(list, i), NULL);
        if (!word || strcmp(word, "text") != 0)
            return err_set(e, ERR_UNSUPPORTED, "modalities[%zu]: only \"text\" is supported", i);
    }
    return 0;
}

/* The answer begins with the last message if that is the assistant's, as vLLM has it. */
static int read_echo(struct api_call *c, const struct json *body, struct err *e)
{
    const struct json *list = body_field(body, "messages");
    const struct json *last = json_item(list, json_count(list) - 1);
    const char *role = json_text(json_field(last, "role"), NULL);
    int rc = body_flag(body, "echo", &c->echo, e);
    if (rc != 0 || !c->echo || !role || strcmp(role, "assistant") != 0) return rc;
    const char *text = json_text(json_field(last, "content"), &c->told.n);
    if (!text) return 0;
    c->told.text = arena_text(&c->arena, text, c->told.n);
    return c->told.text ? 0 : err_memory(e, "messages", c->told.n);
}

static int read_chat_logprobs(struct api_call *c, struct request *r, const struct json *body,
                              struct err *e)
{
    int64_t top = 0;
    int rc = body_flag(body, "logprobs", &c->logprobs, e);
    if (rc == 0) rc = body_int(body, "top_logprobs", 0, TOP_LOGPROB_MAX, &top, e);
    if (rc == 0) rc = read_prompt_logprobs(c, r, body, e);
    if (rc == 0 && top > 0 && !c->logprobs)
        rc = err_set(e, ERR_ARG, "top_logprobs: logprobs must be true with it");
    r->params.n_logprob = c->logprobs ? (int32_t)top : -1;
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
    bool special = true;
    int rc = body_flag(body, "add_special_tokens", &special, e);
    if (rc == 0) rc = api_render(c->api, body, &prompt, &turn, e);
    if (rc == 0)
        rc = api_prompt_text(p->request, c->api, prompt.data ? prompt.data : "", prompt.n, special,
                             e);
    if (rc == 0) rc = cut_prompt(p->request, c->api, body, e);
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
    if (rc == 0) rc = read_reasoning(c, body, e);
    if (rc == 0) rc = check_modalities(body, e);
    if (rc == 0) rc = read_echo(c, body, e);
    /* the marks of reasoning and calls are special tokens of some models */
    if (rc == 0 && (c->tool_parser || c->reasoning_parser)) p->reply.keep_special = true;
    return rc;
}

/* ---- the response ---- */

static int read_answer(const struct api_call *c, const struct choice *a, struct chat_message *m,
                       struct err *e)
{
    struct chat_parser *parser;
    if (c->told.n)
        chat_message_add(
            m, &(struct chat_delta){.kind = CHAT_CONTENT, .text = c->told.text, .n = c->told.n});
    int rc = chat_parser_open(&parser, c->tool_parser, c->reasoning_parser, e);
    if (rc != 0) return rc;
    if (c->n_begun) chat_parser_push(parser, c->begun, c->n_begun, NULL, NULL);
    if (a->text.n) chat_parser_push(parser, a->text.data, a->text.n, chat_message_add, m);
    chat_parser_finish(parser, chat_message_add, m);
    chat_parser_close(parser);
    return 0;
}

/* "logprobs", of what may be nothing */
static void put_logprobs(const struct api_call *c, const struct answer_log *log, struct buf *b)
{
    buf_add_text(b, ",\"logprobs\":");
    if (c->logprobs && log)
        put_logprobs_chat(b, c->api->session->tokenizer, log);
    else
        buf_add_text(b, "null");
}

static int put(const struct api_call *c, const struct part *p, const struct choice *a, bool *called,
               struct buf *b, struct err *e)
{
    (void)p;
    struct chat_message m = {0};
    int rc = read_answer(c, a, &m, e);
    struct chat_message told = m;
    if (c->one_tool_call && told.n_call > 1) told.n_call = 1;
    if (c->no_reasoning) told.reasoning.n = 0;
    buf_add_text(b, ",\"message\":{");
    put_message_members(b, &told);
    buf_add_text(b, ",\"refusal\":null}");
    put_logprobs(c, &a->log, b);
    *called = m.n_call > 0;
    chat_message_deinit(&m);
    return rc;
}

/* ---- the response in pieces ---- */

struct pieces {
    const struct api_call *c;
    const struct part *part;
    struct choice *a;
    int index;
    struct buf *b;
};

static void put_delta_end(const struct pieces *p)
{
    struct answer_log log = log_unsent(p->a);
    buf_add_char(p->b, '}');
    put_logprobs(p->c, log.n ? &log : NULL, p->b);
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
    if (d->kind == CHAT_CALL && d->i_call > 0 && p->c->one_tool_call) return;
    if (d->kind == CHAT_REASONING && p->c->no_reasoning) return;
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
    frame_end(p->c, p->part, p->a, false, p->b);
}

static bool begin_pieces(const struct pieces *p)
{
    struct choice *a = p->a;
    if (a->begun) return true;
    if (chat_parser_open(&a->parser, p->c->tool_parser, p->c->reasoning_parser, NULL) != 0)
        return false;
    if (p->c->n_begun) chat_parser_push(a->parser, p->c->begun, p->c->n_begun, NULL, NULL);
    frame_begin(p->c, p->index, p->b);
    buf_add_text(p->b, ",\"delta\":{\"role\":\"assistant\",\"content\":");
    json_put_text(p->b, p->c->told.n ? p->c->told.text : "", p->c->told.n);
    buf_add_text(p->b, "},\"logprobs\":null");
    frame_end(p->c, p->part, p->a, false, p->b);
    return a->begun = true;
}

static void put_pieces(const struct api_call *c, struct part *part, struct choice *a, int index,
                       struct buf *b)
{
    struct pieces p = {c, part, a, index, b};
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
    frame_end(c, part, a, true, b);
}

const struct endpoint endpoint_chat_completions = {
    .kind = ENDPOINT_CHAT,
    .url = "/v1/chat/completions",
    .object = "chat.completion",
    .object_piece = "chat.completion.chunk",
    .id_prefix = "chatcmpl",
    .list = "choices",
    .prompt = "messages",
    .read = read,
    .put = put,
    .put_pieces = put_pieces,
};

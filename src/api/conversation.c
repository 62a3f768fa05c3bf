/* conversation.c - convert messages to a prompt, and the model's output to a message, for all
 * dialects of conversations. The message is complete or a series of deltas, with reasoning and tool
 * calls separate from the content. */
#include "dialect.h"

#include "base/check.h"

#include <string.h>

int read_messages(struct api_call *c, struct part *p, const struct json *body, struct err *e)
{
    struct buf prompt = {0};
    struct chat_turn turn = {0};
    bool special = true;
    int rc = body_flag(body, "add_special_tokens", &special, e);
    if (rc == 0) rc = api_render(c->api, body, &prompt, &turn, e);
    if (rc == 0) rc = check_text_fits(c, body, prompt.n, e);
    if (rc == 0)
        rc = api_prompt_text(p->request, c->api, prompt.data ? prompt.data : "", prompt.n, special,
                             e);
    if (rc == 0) rc = cut_prompt(p->request, c->api, body, e);
    if (rc == 0 && c->text_back) {
        buf_add(&p->text, prompt.data, prompt.n);
        if (p->text.failed) rc = err_memory(e, "the prompt's text", prompt.n);
    }
    if (rc == 0 && turn.n_answer) {
        c->begun = arena_text(&c->arena, prompt.data + prompt.n - turn.n_answer, turn.n_answer);
        c->n_begun = turn.n_answer;
        if (!c->begun) rc = err_memory(e, "a prompt", turn.n_answer);
    }
    buf_deinit(&prompt);
    return rc;
}

/* Set *out if the delta is content (chat_delta_fn). */
static void note_content(void *out, const struct chat_delta *d)
{
    *(bool *)out |= d->kind == CHAT_CONTENT;
}

/* Return in *out the place of the answer's beginning: before, inside or after reasoning. The parser
 * gives the place, so that marks are interpreted in one file. *content: true if the beginning
 * contains content. */
int begun_place(const struct api_call *c, enum chat_place *out, bool *content, struct err *e)
{
    struct chat_parser *parser;
    int rc = chat_parser_open(
        &parser, &(struct chat_parser_options){.reasoning_parser = c->api->chat->reasoning_parser},
        e);
    if (rc != 0) return rc;
    *content = false;
    if (c->n_begun) chat_parser_push(parser, c->begun, c->n_begun, note_content, content);
    *out = chat_parser_place(parser);
    if (chat_parser_failed(parser)) rc = err_memory(e, "a prompt", c->n_begun);
    chat_parser_close(parser);
    return rc;
}

/* Open a parser of a choice, which begins after the prompt's part of the answer. */
static int open_parser(const struct api_call *c, struct chat_parser **out, struct err *e)
{
    /* A model's family may put marks around content even if there are no calls. A constrained text
     * has no marks. */
    bool plain = !c->tool_parser && !c->constraint;
    const struct chat_parser_options o = {.tool_parser =
                                              plain ? c->api->chat->tool_parser : c->tool_parser,
                                          .reasoning_parser = c->reasoning_parser,
                                          .tools = c->tools,
                                          .no_calls = plain,
                                          .expected = c->expected};
    int rc = chat_parser_open(out, &o, e);
    if (rc == 0 && c->n_begun) chat_parser_push(*out, c->begun, c->n_begun, NULL, NULL);
    return rc;
}

/* ---- a whole message ---- */

/* Parse the whole text of a choice with a separate parser, because the parser of a stream may
 * exist. */
static int parse_text(const struct api_call *c, const struct choice *a, chat_delta_fn *fn,
                      void *ctx, struct err *e)
{
    struct chat_parser *parser;
    int rc = open_parser(c, &parser, e);
    if (rc != 0) return rc;
    if (a->text.n) chat_parser_push(parser, a->text.data, a->text.n, fn, ctx);
    chat_parser_finish(parser, fn, ctx);
    if (chat_parser_failed(parser)) rc = err_memory(e, "a message", a->text.n);
    chat_parser_close(parser);
    return rc;
}

/* Parse a complete choice. Echoed text precedes the message's content. */
int choice_message(const struct api_call *c, const struct choice *a, struct chat_message *m,
                   struct err *e)
{
    if (c->echoed.n)
        chat_message_add(m, &(struct chat_delta){
                                .kind = CHAT_CONTENT, .text = c->echoed.text, .n = c->echoed.n});
    const int rc = parse_text(c, a, chat_message_add, m, e);
    return rc == 0 && m->failed ? err_memory(e, "a message", a->text.n) : rc;
}

/* A token counts if the reasoning contains a part of its text, or its end. */
int choice_n_reasoning(const struct api_call *c, const struct choice *a)
{
    const struct tokenizer *t = c->api->session->tokenizer;
    struct chat_track track;
    int n = 0;
    if (!chat_track_begin(&track, c->reasoning_parser, false)) return 0;
    chat_track_push(&track, c->n_begun ? c->begun : "", c->n_begun);
    for (size_t i = 0; i < a->ids.n && !chat_track_ended(&track); i++) {
        size_t n_byte = 0;
        const char *text = tokenizer_bytes(t, a->ids.v[i], &n_byte);
        const bool before = chat_track_inside(&track);
        chat_track_push(&track, text ? text : "", text ? n_byte : 0);
        n += before || chat_track_inside(&track);
    }
    return n;
}

/* ---- deltas ---- */

/* Open the parser of a stream once. Return false if memory is exhausted. */
bool choice_begin(const struct api_call *c, struct choice *a)
{
    if (a->parser) return !chat_parser_failed(a->parser);
    return open_parser(c, &a->parser, NULL) == 0 && !chat_parser_failed(a->parser);
}

/* Receiver of the parser's deltas. All fields are borrowed. */
struct emitter {
    const struct api_call *c;
    struct choice *a;
    chat_delta_fn *fn;
    void *ctx;
};

/* Drop the deltas of kinds that the client did not request. The message is still parsed
 * completely. */
static void emit_delta(void *emitter, const struct chat_delta *d)
{
    const struct emitter *t = emitter;
    if (d->kind == CHAT_CALL && d->i_call > 0 && t->c->one_tool_call) return;
    if (d->kind == CHAT_REASONING && t->c->no_reasoning) return;
    if (d->kind == CHAT_CALL) t->a->called = true;
    t->fn(t->ctx, d);
}

int choice_parse(const struct api_call *c, struct choice *a, chat_delta_fn *fn, void *ctx,
                 struct err *e)
{
    return parse_text(c, a, emit_delta, &(struct emitter){c, a, fn, ctx}, e);
}

bool choice_deltas_to(const struct api_call *c, struct choice *a, size_t end, chat_delta_fn *fn,
                      void *ctx)
{
    CHECK(a->parser && a->n_text_sent <= end && end <= a->text.n, "%zu of %zu bytes are sent",
          a->n_text_sent, a->text.n);
    struct emitter t = {c, a, fn, ctx};
    if (end > a->n_text_sent)
        chat_parser_push(a->parser, a->text.data + a->n_text_sent, end - a->n_text_sent, emit_delta,
                         &t);
    a->n_text_sent = end;
    return !chat_parser_failed(a->parser);
}

/* Parse the text that has arrived since the last call. */
bool choice_deltas(const struct api_call *c, struct choice *a, chat_delta_fn *fn, void *ctx)
{
    struct emitter t = {c, a, fn, ctx};
    (void)choice_deltas_to(c, a, a->text.n, fn, ctx);
    if (a->reply.finish) chat_parser_finish(a->parser, emit_delta, &t);
    return !chat_parser_failed(a->parser);
}

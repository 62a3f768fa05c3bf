/* openai_completions.c - /v1/completions: texts (or ids) that the model continues. */
#include "llamacpp.h"
#include "openai.h"

#include "base/check.h"

#include <string.h>

/* Read the log probabilities. Tokens of an echoed prompt have as many alternatives as generated
 * tokens. */
static int read_text_logprobs(struct api_call *c, struct request *r, const struct json *body,
                              struct err *e)
{
    int64_t n = -1;
    int rc = body_int(body, "logprobs", 0, TOP_LOGPROB_MAX, &n, e);
    if (rc == 0) rc = read_prompt_logprobs(c, r, body, e);
    if (c->echo && r->n_prompt_logprob < n) r->n_prompt_logprob = (int)n;
    r->params.n_logprob = (int32_t)n;
    c->logprobs = n >= 0;
    return rc ? rc : read_probs(c, r, body, e);
}

/* Read the text after a gap, before the prompts are read. Without such a text, g stays zeroed. An
 * empty suffix is no gap, because some clients always send one. */
static int read_suffix(struct llamacpp_gap *g, struct api_call *c, const struct json *body,
                       struct err *e)
{
    const struct json *given = body_field(body, "suffix");
    size_t n = 0;
    const char *text = json_text(given, &n);
    if (!given || (text && n == 0)) return 0;
    if (!text) return body_wrong("suffix", "a string", given, e);
    if (c->echo) return err_field(e, ERR_ARG, "suffix", ": must not come with echo");
    if (body_field(body, "truncate_prompt_tokens"))
        return err_field(e, ERR_ARG, "suffix", ": must not come with truncate_prompt_tokens");
    const struct llamacpp_marks marks = llamacpp_marks(c->api->session->tokenizer);
    c->has_gap = true;
    return llamacpp_gap_open(g, c, &marks, text, n, e);
}

/* Open the request of one prompt (part_fn). */
static int open_part(struct api_call *c, struct part *p, const struct json *body, struct err *e)
{
    int rc = part_read(p, c, body, e);
    return rc ? rc : read_text_logprobs(c, p->request, body, e);
}

int openai_read_plain(struct api_call *c, const struct json *body, part_fn *open, struct err *e)
{
    int rc = openai_check_text(c->api, e);
    if (rc == 0) rc = read_prompts(c, body, open, e);
    if (rc == 0) rc = openai_read_format(c, body, e);
    return rc ? rc : call_constrain_text(c, e);
}

/* Read a body of completions. */
static int read_body(struct api_call *c, const struct json *body, struct err *e)
{
    struct llamacpp_gap gap = {0};
    int rc = openai_read(c, body, e);
    if (rc == 0) rc = body_flag(body, "echo", &c->echo, e);
    if (rc == 0) rc = read_suffix(&gap, c, body, e);
    if (rc == 0) rc = read_prompts(c, body, open_part, e);
    if (rc == 0 && c->has_gap) rc = llamacpp_fill(c, &gap, e);
    llamacpp_gap_close(&gap);
    if (rc == 0) rc = api_read_budget(c->api, body, &c->budget, e);
    if (rc == 0) rc = openai_read_format(c, body, e);
    return rc ? rc : call_constrain_text(c, e);
}

/* the log of a prompt that is not echoed */
static const struct answer_log nothing;

/* The unsent part of a choice. All pointers are borrowed. */
struct choice_piece {
    const char *text; /* [n] */
    size_t n;
    const struct answer_log *log;
    size_t log_offset; /* offset of the first token of `log` in the whole text, in bytes */
    bool begins;       /* true in the first piece of the choice */
};

/* Append "text" and "logprobs" of a piece. The echoed prompt precedes the first piece. */
static void put_text(const struct api_call *c, const struct part *p, const struct choice_piece *a,
                     struct json_out *o)
{
    const struct token_names t = {c->api->session->tokenizer, c->tokens_as_ids};
    struct buf whole = {0};
    if (a->begins && p->echo.n) {
        buf_add(&whole, p->echo.data, p->echo.n);
        buf_add(&whole, a->text, a->n);
        o->b->failed |= whole.failed;
        out_text(o, "text", whole.data, whole.n);
        buf_deinit(&whole);
    } else {
        out_text(o, "text", a->text, a->n);
    }
    if (c->probs) {
        out_object(o, "logprobs");
        put_probs(o, "content", t.tokenizer, a->log, c->post);
        out_end(o);
    } else if (c->logprobs) {
        put_logprobs_completion(o, &t, c->echo && a->begins ? &p->prompt_log : &nothing, a->log,
                                a->log_offset);
    } else {
        out_null(o, "logprobs");
    }
}

/* Append a whole choice as one piece. */
static int put(const struct api_call *c, const struct part *p, const struct choice *a, bool *called,
               struct json_out *o, struct err *e)
{
    (void)called, (void)e;
    const struct choice_piece whole = {
        .text = a->text.data, .n = a->text.n, .log = &a->log, .begins = true};
    put_text(c, p, &whole, o);
    return 0;
}

/* Append one frame with all unsent text. Send nothing if all text was sent, or if the next event
 * ends the answer. */
static void put_pieces(const struct api_call *c, struct part *p, struct choice *a, int index,
                       struct buf *b)
{
    CHECK(a->n_text_sent <= a->text.n && a->n_log_sent <= a->log.n, "%zu of %zu bytes are sent",
          a->n_text_sent, a->text.n);
    size_t n = a->text.n - a->n_text_sent, n_log = a->log.n - a->n_log_sent, offset = 0;
    /* the next frame also contains the reason for the end */
    bool last = a->reply.n_token == p->max_tokens;
    struct json_out o;
    if ((n == 0 && n_log == 0) || last)
        if (!a->reply.finish) return;
    if (c->echo && a->begun) offset = log_bytes(c->api->session->tokenizer, &p->prompt_log);
    offset += a->log_offset;
    struct answer_log log = log_unsent(a);
    openai_frame_begin(c, index, &o, b);
    const struct choice_piece unsent = {.text = n ? a->text.data + a->n_text_sent : "",
                                        .n = n,
                                        .log = &log,
                                        .log_offset = offset,
                                        .begins = !a->begun};
    put_text(c, p, &unsent, &o);
    a->n_text_sent = a->text.n;
    a->begun = true;
    openai_frame_end(c, p, a, a->reply.finish != FINISH_NONE, &o);
}

static const struct openai_form form = {
    .object = "text_completion",
    .object_piece = "text_completion",
    .list = "choices",
    .put = put,
};

const struct dialect dialect_openai_completions = {
    .fields = ENDPOINT_TEXT,
    .id_prefix = "cmpl-",
    .prompt = "prompt",
    .prompt_per_choice = true,
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

/* completions.c - /v1/completions: texts (or ids) that the model goes on with. */
#include "api_impl.h"

#include <string.h>

/* Echoed log probabilities are the prompt's too; so many of each token as of those behind it. */
static int read_text_logprobs(struct api_call *c, struct request *r, const struct json *body,
                              struct err *e)
{
    int64_t n = -1;
    int rc = body_int(body, "logprobs", 0, TOP_LOGPROB_MAX, &n, e);
    if (rc == 0) rc = read_prompt_logprobs(c, r, body, e);
    if (c->echo && r->n_prompt_logprob < n) r->n_prompt_logprob = (int)n;
    r->params.n_logprob = (int32_t)n;
    c->logprobs = n >= 0;
    return rc;
}

static int open_part(struct api_call *c, struct part *p, const struct json *body, struct err *e)
{
    int rc = part_open(p, c, body, e);
    return rc ? rc : read_text_logprobs(c, p->request, body, e);
}

static int read(struct api_call *c, const struct json *body, struct err *e)
{
    const struct json *suffix = body_field(body, "suffix");
    size_t n_suffix = 0;
    int rc = 0;
    if (suffix && (!json_text(suffix, &n_suffix) || n_suffix))
        rc = err_set(e, ERR_UNSUPPORTED, "suffix: the model does not fill in");
    if (rc == 0) rc = body_flag(body, "echo", &c->echo, e);
    if (rc == 0) rc = read_format(body, e);
    return rc ? rc : read_prompts(c, body, open_part, e);
}

static const struct answer_log nothing;

/* "text" and "logprobs" of what is new: of the prompt, if the choice has just begun and it is echoed, and text[0..n) and
 * `log` behind it. */
static void put_text(const struct api_call *c, const struct part *p, bool begins, const char *text,
                     size_t n, const struct answer_log *log, size_t log_offset, struct buf *b)
{
    const struct tokenizer *t = c->api->session->tokenizer;
    struct buf whole = {0};
    if (begins) buf_add(&whole, p->echo.data, p->echo.n);
    buf_add(&whole, text, n);
    buf_add_text(b, ",\"text\":");
    json_put_text(b, whole.data ? whole.data : "", whole.n);
    b->failed |= whole.failed;
    buf_deinit(&whole);
    buf_add_text(b, ",\"logprobs\":");
    if (c->logprobs)
        put_logprobs_completion(b, t, c->echo && begins ? &p->prompt_log : &nothing, log,
                                log_offset);
    else
        buf_add_text(b, "null");
}

static int put(const struct api_call *c, const struct part *p, const struct choice *a, bool *called,
               struct buf *b, struct err *e)
{
    (void)called, (void)e;
    put_text(c, p, true, a->text.data, a->text.n, &a->log, 0, b);
    return 0;
}

static void put_pieces(const struct api_call *c, struct part *p, struct choice *a, int index,
                       struct buf *b)
{
    size_t n = a->text.n - a->n_text_sent, n_log = a->log.n - a->n_log_sent, offset = 0;
    if (n == 0 && n_log == 0 && !a->reply.finish) return;
    if (c->echo && a->begun) offset = log_bytes(c->api->session->tokenizer, &p->prompt_log);
    offset += a->log_offset;
    struct answer_log log = log_unsent(a);
    frame_begin(c, index, b);
    put_text(c, p, !a->begun, n ? a->text.data + a->n_text_sent : "", n, &log, offset, b);
    a->n_text_sent = a->text.n;
    a->begun = true;
    frame_end(c, p, a, a->reply.finish != FINISH_NONE, b);
}

const struct endpoint endpoint_completions = {
    .kind = ENDPOINT_TEXT,
    .url = "/v1/completions",
    .object = "text_completion",
    .object_piece = "text_completion",
    .id_prefix = "cmpl",
    .list = "choices",
    .prompt = "prompt",
    .read = read,
    .put = put,
    .put_pieces = put_pieces,
};

/* completions.c - /v1/completions: texts (or ids) that the model goes on with. */
#include "api_impl.h"

#include <string.h>

/* "prompt" may be a text, a list of texts, a list of ids, or a list of lists of ids. */
static int n_prompt(const struct json *prompt, int *n, struct err *e)
{
    if (json_kind(prompt) == JK_NONE) return err_set(e, ERR_ARG, "prompt: it is missing");
    if (json_kind(prompt) != JK_TEXT && json_kind(prompt) != JK_LIST)
        return body_wrong("prompt", "a text, ids, or a list of them", prompt, e);
    if (json_kind(prompt) == JK_LIST && json_count(prompt) == 0)
        return err_set(e, ERR_ARG, "prompt: the list is empty");
    enum json_kind first = json_kind(json_item(prompt, 0));
    *n = first == JK_TEXT || first == JK_LIST ? (int)json_count(prompt) : 1;
    return 0;
}

static int read_ids(struct request *r, const struct json *list, int n_vocab, struct err *e)
{
    size_t n = json_count(list);
    if (!vec_reserve(&r->prompt, n)) return err_memory(e, "prompt", n * sizeof(int32_t));
    for (size_t i = 0; i < n; i++) {
        int64_t id = json_int(json_item(list, i), -1);
        if (id < 0 || id >= n_vocab)
            return err_set(e, ERR_ARG, "prompt[%zu]: expected a token id below %d", i, n_vocab);
        r->prompt.v[i] = (int32_t)id;
    }
    r->prompt.n = n;
    return 0;
}

static int read_prompt(struct part *p, const struct api_call *c, const struct json *prompt,
                       bool add_special, struct err *e)
{
    size_t n;
    const char *text = json_text(prompt, &n);
    const struct tokenizer *t = c->api->session->tokenizer;
    int rc;
    if (text)
        rc = api_prompt_text(p->request, c->api, text, n, add_special, e);
    else if (json_kind(prompt) == JK_LIST)
        rc = read_ids(p->request, prompt, model_info(c->api->session->model)->n_vocab, e);
    else
        rc = body_wrong("prompt", "a text or a list of ids", prompt, e);
    if (rc != 0 || !c->echo) return rc;
    if (text)
        buf_add(&p->echo, text, n);
    else if (!tokenizer_decode(t, p->request->prompt.v, p->request->prompt.n, 0, &p->echo))
        rc = err_memory(e, "the prompt's text", p->request->prompt.n);
    return rc;
}

static int read_part(struct api_call *c, int i, const struct json *prompt, const struct json *body,
                     struct err *e)
{
    struct part *p = &c->part[i];
    bool add_special = true;
    int rc = part_open(p, c, body, e);
    if (rc == 0) rc = api_read_logprobs(p->request, body, e);
    if (rc == 0) rc = body_flag(body, "add_special_tokens", &add_special, e);
    if (rc == 0)
        rc = read_prompt(p, c, c->n_part == 1 ? prompt : json_item(prompt, (size_t)i), add_special,
                         e);
    if (rc == 0) c->logprobs = p->request->params.n_logprob >= 0;
    return rc;
}

/* A list of one text or list is that one. */
static const struct json *unwrapped(const struct json *prompt)
{
    const struct json *first = json_item(prompt, 0);
    bool nested = json_kind(first) == JK_TEXT || json_kind(first) == JK_LIST;
    return json_count(prompt) == 1 && nested && json_kind(prompt) == JK_LIST ? first : prompt;
}

static int read(struct api_call *c, const struct json *body, struct err *e)
{
    const struct json *prompt = unwrapped(body_field(body, "prompt"));
    const struct json *suffix = body_field(body, "suffix");
    size_t n_suffix = 0;
    int n = 0, rc = n_prompt(prompt, &n, e);
    if (rc == 0 && suffix && (!json_text(suffix, &n_suffix) || n_suffix))
        rc = err_set(e, ERR_UNSUPPORTED, "suffix: the model does not fill in");
    if (rc == 0) rc = body_flag(body, "echo", &c->echo, e);
    if (rc == 0) rc = call_parts(c, n, e);
    for (int i = 0; rc == 0 && i < n; i++) rc = read_part(c, i, prompt, body, e);
    return rc;
}

/* "text" and "logprobs" of text[0..n) and `log`. */
static void put_text(const struct api_call *c, const char *echo, size_t n_echo, const char *text,
                     size_t n, const struct answer_log *log, size_t log_offset, struct buf *b)
{
    struct buf whole = {0};
    buf_add(&whole, echo, n_echo);
    buf_add(&whole, text, n);
    buf_add_text(b, ",\"text\":");
    json_put_text(b, whole.data ? whole.data : "", whole.n);
    b->failed |= whole.failed;
    buf_deinit(&whole);
    buf_add_text(b, ",\"logprobs\":");
    if (c->logprobs)
        put_logprobs_completion(b, c->api->session->tokenizer, log, log_offset);
    else
        buf_add_text(b, "null");
}

static int put(const struct api_call *c, const struct part *p, const struct choice *a,
               struct buf *b, struct err *e)
{
    (void)e;
    put_text(c, p->echo.data, p->echo.n, a->text.data, a->text.n, &a->log, p->echo.n, b);
    if (p->prompt_log.n) {
        buf_add_text(b, ",\"prompt_logprobs\":");
        put_prompt_logprobs(b, c->api->session->tokenizer, &p->prompt_log);
    }
    put_finish(b, p, a, false);
    return 0;
}

static void put_pieces(const struct api_call *c, struct part *p, struct choice *a, int index,
                       struct buf *b)
{
    size_t n = a->text.n - a->n_text_sent, n_log = a->log.n - a->n_log_sent;
    size_t n_echo = a->begun ? 0 : p->echo.n, offset = p->echo.n + a->log_offset;
    if (n == 0 && n_log == 0 && !a->reply.finish) return;
    struct answer_log log = log_unsent(a);
    frame_begin(c, index, b);
    put_text(c, p->echo.data, n_echo, n ? a->text.data + a->n_text_sent : "", n, &log, offset, b);
    a->n_text_sent = a->text.n;
    a->begun = true;
    if (a->reply.finish)
        put_finish(b, p, a, false);
    else
        buf_add_text(b, ",\"finish_reason\":null,\"stop_reason\":null");
    frame_end(c, b);
}

const struct endpoint endpoint_completions = {
    .url = "/v1/completions",
    .object = "text_completion",
    .object_piece = "text_completion",
    .id_prefix = "cmpl",
    .read = read,
    .put = put,
    .put_pieces = put_pieces,
};

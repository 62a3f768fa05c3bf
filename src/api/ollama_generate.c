/* ollama_generate.c - Ollama's /api/generate: one prompt, as a conversation of `system` and
 * `prompt`, or without the template:
 *
 *   raw                    the prompt's text
 *   no chat template       the prompt's text, with a context
 *   suffix                 the prompt's text and the suffix around a gap (llamacpp_infill.c)
 *   otherwise              the rendered conversation, with a context
 *
 * `context` is the tokens of earlier prompts and answers. These tokens precede the new prompt, so
 * that the cache finds their keys and values. */
#include "llamacpp.h"
#include "ollama.h"
#include "openai.h"

#include <math.h>
#include <string.h>

/* Open the part of a prompt without a conversation (part_fn). */
static int open_part(struct api_call *c, struct part *p, const struct json *body, struct err *e)
{
    int64_t top = 0;
    int rc = part_read(p, c, body, e);
    if (rc == 0) rc = openai_read_max_tokens(c, p->request, body, e);
    if (rc == 0) rc = body_flag(body, "logprobs", &c->logprobs, e);
    if (rc == 0) rc = body_int(body, "top_logprobs", 0, TOP_LOGPROB_MAX, &top, e);
    if (rc != 0) return rc;
    p->request->params.n_logprob = c->logprobs ? (int32_t)top : -1;
    return 0;
}

/* Put the context before the prompt. Drop the prompt's BOS, because the context begins with one.
 * With `truncate`, drop the first tokens of a context that is too long. */
static int put_context(struct api_call *c, const struct json *body, struct err *e)
{
    const struct ollama *own = c->own;
    const struct session *s = c->api->session;
    struct ids *prompt = &c->part->request->prompt;
    const int32_t *ids = NULL;
    int n = 0, rc = body_ids(body, "context", &c->arena, &ids, &n, e);
    for (int i = 0; rc == 0 && i < n; i++)
        if (ids[i] >= s->info->n_vocab)
            rc = err_field(e, ERR_ARG, "context",
                           "[%d]: out of vocabulary: expected a token id below %d, got %d", i,
                           s->info->n_vocab, ids[i]);
    if (rc != 0 || n == 0) return rc;
    const size_t n_drop = prompt->n && prompt->v[0] == tokenizer_bos(s->tokenizer);
    const size_t n_own = prompt->n - n_drop;
    const int64_t room = ollama_prompt_max(c) - (int64_t)n_own;
    if (own->truncate && n > room) ids += n - (room > 0 ? room : 0), n = room > 0 ? (int)room : 0;
    if (n == 0) return 0;
    if (!vec_reserve(prompt, n_own + (size_t)n)) return err_memory(e, "context", n_own);
    memmove(prompt->v + n, prompt->v + n_drop, n_own * sizeof *prompt->v);
    memcpy(prompt->v, ids, (size_t)n * sizeof *ids);
    prompt->n = n_own + (size_t)n;
    return 0;
}

/* Return true if the member is a text or list that is not empty. */
static bool has(const struct json *body, const char *name)
{
    return body_is_set(body_field(body, name));
}

/* Check the fields that exclude each other. The sentences are Ollama's. */
static int check(const struct api_call *c, const struct json *body, bool raw, struct err *e)
{
    const char *suffix;
    size_t n;
    int rc = ollama_text(body, "suffix", &suffix, &n, e);
    if (rc != 0) return rc;
    const struct llamacpp_marks marks = llamacpp_marks(c->api->session->tokenizer);
    if (n && marks.id[FIM_SUFFIX] < 0)
        return err_set(e, ERR_UNSUPPORTED, "\"%.100s\" does not support insert", c->model);
    if (n && (has(body, "system") || has(body, "context")))
        return err_field(e, ERR_ARG, "suffix", ": must not come with system or context");
    if (raw && (has(body, "system") || has(body, "context")))
        return err_set(e, ERR_ARG, "raw mode does not support template, system, or context");
    return 0;
}

/* Read the text after a gap. Without such a text, g stays zeroed. */
static int read_suffix(struct llamacpp_gap *g, struct api_call *c, const struct json *body,
                       struct err *e)
{
    const char *suffix;
    size_t n;
    int rc = ollama_text(body, "suffix", &suffix, &n, e);
    if (rc != 0 || n == 0) return rc;
    const struct llamacpp_marks marks = llamacpp_marks(c->api->session->tokenizer);
    c->has_gap = true;
    return llamacpp_gap_open(g, c, &marks, suffix, n, e);
}

/* Read a prompt that is not empty. */
static int read_prompt(struct api_call *c, const struct json *body, bool raw, struct err *e)
{
    struct ollama *own = c->own;
    const bool templated = c->api->chat && c->api->chat->t;
    struct llamacpp_gap gap = {0};
    struct json *neutral = NULL;
    own->plain = raw || !templated || has(body, "suffix");
    if (!raw && !templated && has(body, "system")) return api_no_template(c->api, "system", e);
    int rc = read_suffix(&gap, c, body, e);
    if (rc == 0)
        rc = ollama_neutral_generate(&neutral, c->api, body, own->plain,
                                     raw && own->truncate ? ollama_prompt_max(c) : 0, e);
    if (rc == 0 && own->plain) rc = openai_read_plain(c, neutral, open_part, e);
    if (rc == 0 && !own->plain) rc = openai_read_chat(c, neutral, NULL, e);
    if (rc == 0 && c->has_gap) rc = llamacpp_fill(c, &gap, e);
    if (rc == 0) rc = put_context(c, body, e);
    if (rc == 0) rc = ollama_limit(c, e);
    c->ids_back = !raw;
    llamacpp_gap_close(&gap);
    json_drop(neutral);
    return rc;
}

static int read_body(struct api_call *c, const struct json *body, struct err *e)
{
    const char *prompt;
    size_t n;
    double keep_s = NAN;
    bool raw = false;
    int rc = ollama_read_own(c, body, e);
    struct ollama *own = c->own;
    if (rc == 0) rc = ollama_keep_alive(body, &keep_s, e);
    if (rc == 0) ollama_keep(c, keep_s);
    if (rc == 0) rc = body_flag(body, "raw", &raw, e);
    if (rc == 0) rc = ollama_text(body, "prompt", &prompt, &n, e);
    if (rc == 0) rc = check(c, body, raw, e);
    if (rc != 0) return rc;
    if (n > 0 || has(body, "suffix")) return read_prompt(c, body, raw, e);
    own->without = keep_s == 0 ? "unload" : "load";
    c->stream = false;
    return ollama_check_options(body, e);
}

static bool streams(const struct json *body)
{
    size_t n = 0;
    (void)json_text(body_field(body, "prompt"), &n);
    return json_bool(body_field(body, "stream"), true) && (n > 0 || has(body, "suffix"));
}

static bool unloads(const struct json *body, struct buf *b)
{
    return ollama_unloads(body, "prompt", b);
}

static const struct ollama_form form = {.task = "generate", .text = "response"};

const struct dialect dialect_ollama_generate = {
    .fields = ENDPOINT_OLLAMA_GENERATE,
    .id_prefix = "ollama-",
    .prompt = "prompt",
    .errors = &ollama_errors,
    .form = &form,
    .name_error = ollama_name_error,
    .close = ollama_close,
    .read = read_body,
    .put = ollama_put,
    .stream_type = "application/x-ndjson",
    .streams = streams,
    .unloads = unloads,
    .no_memory = ollama_no_memory,
    .put_pieces = ollama_put_pieces,
    .put_end = ollama_put_end,
};

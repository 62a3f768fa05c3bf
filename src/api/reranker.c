/* reranker.c - the prompts of rerankers that are language models. A field of config.json, or of
 * --hf-overrides, selects the prompt. The prompt of Qwen3-Reranker, as its authors publish it:
 *
 *   head  <|im_start|>system ... <|im_start|>user
 *   pair  <Instruct>: INSTRUCTION
 *         <Query>: QUERY
 *         <Document>: DOCUMENT
 *   tail  <|im_end|> <|im_start|>assistant <think> </think>
 *
 * The three parts become tokens separately. Truncation removes the last tokens of the pair. A query
 * that begins with "<Instruct>:" has its own instruction. Query and document are the whole prompt
 * if a query begins with "<|im_start|>", as in vLLM's examples. */
#include "pooled.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

static const char head[] =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n";
static const char tail[] = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
static const char instruction[] =
    "Given a web search query, retrieve relevant passages that answer the query";

static bool begins(const struct text_span *x, const char *with)
{
    const size_t n = strlen(with);
    return x->n >= n && memcmp(x->text, with, n) == 0;
}

/* Append the ids of a text, in which marks such as <|im_end|> are special tokens. */
static int encode(const struct tokenizer *t, const char *text, size_t n, struct ids *out,
                  struct err *e)
{
    return tokenizer_encode(t, text, n, ENCODE_PARSE_SPECIAL, out, e);
}

/* Append the ids of a pair between head and tail, at most n_max. */
static int framed(const struct tokenizer *t, const struct buf *pair, int64_t n_max, struct ids *out,
                  struct err *e)
{
    struct ids end = {0};
    int rc = encode(t, head, sizeof head - 1, out, e);
    const size_t n_head = out->n;
    if (rc == 0) rc = encode(t, pair->data, pair->n, out, e);
    if (rc == 0) rc = encode(t, tail, sizeof tail - 1, &end, e);
    const int64_t n_frame = (int64_t)(n_head + end.n);
    if (rc == 0 && n_max >= 0 && n_max < n_frame)
        rc = err_field(e, ERR_ARG, "truncate_prompt_tokens",
                       ": must be at least the %lld tokens of the model's prompt, got %lld",
                       (long long)n_frame, (long long)n_max);
    if (rc == 0 && n_max >= 0 && (int64_t)(out->n + end.n) > n_max) out->n = (size_t)n_max - end.n;
    if (rc == 0 && !vec_reserve(out, out->n + end.n)) rc = err_memory(e, "a prompt", end.n);
    for (size_t i = 0; i < end.n && rc == 0; i++) out->v[out->n++] = end.v[i];
    vec_deinit(&end);
    return rc;
}

/* Append the ids of a prompt that the client wrote. */
static int whole(const struct tokenizer *t, const struct buf *text, int64_t n_max, struct ids *out,
                 struct err *e)
{
    int rc = encode(t, text->data, text->n, out, e);
    if (rc == 0 && n_max >= 0 && (int64_t)out->n > n_max)
        rc = err_field(e, ERR_ARG, "truncate_prompt_tokens",
                       ": must be at least %zu, the length of the prompt's end, got %lld", out->n,
                       (long long)n_max);
    return rc;
}

static int qwen3_prompt(const struct tokenizer *t, const struct text_span *query,
                        const struct text_span *document, int64_t n_max, struct ids *out,
                        struct err *e)
{
    struct buf b = {0};
    const bool written = begins(query, "<|im_start|>");
    if (!written && !begins(query, "<Instruct>:"))
        buf_addf(&b, "<Instruct>: %s\n<Query>: ", instruction);
    buf_add(&b, query->text, query->n);
    if (!written) buf_addf(&b, "\n<Document>: ");
    buf_add(&b, document->text, document->n);
    int rc = b.failed ? err_memory(e, "a prompt", b.n) : 0;
    if (rc == 0) rc = (written ? whole : framed)(t, &b, n_max, out, e);
    buf_deinit(&b);
    return rc;
}

pair_prompt_fn *pair_prompt_of(const struct session *s)
{
    static const struct {
        const char *field; /* name of a field of config.json whose value is true, static */
        pair_prompt_fn *prompt;
    } prompts[] = {{"is_original_qwen3_reranker", qwen3_prompt}};
    for (size_t i = 0; i < sizeof prompts / sizeof prompts[0]; i++)
        if (session_config_true(s, prompts[i].field)) return prompts[i].prompt;
    return NULL;
}

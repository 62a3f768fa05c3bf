/* picks.c - fields that change the samplers' order, and the logprobs of picked tokens.
 *
 *   samplers             llama.cpp's order: a list of names, or a string with a letter per sampler
 *   logprob_token_ids    vLLM's: tokens whose logprobs are returned instead of the most likely ones
 *   n_probs              llama.cpp's number of most likely tokens, in llama.cpp's form (put_probs)
 *   post_sampling_probs  llama.cpp's: probabilities after all samplers, not the model's own */
#include "openai.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* llama.cpp's letters of samplers. */
static const struct {
    char letter;
    const char *name;
} letters[] = {
    {'e', "penalties"},   {'d', "dry"},        {'s', "top_n_sigma"}, {'k', "top_k"},
    {'y', "typ_p"},       {'p', "top_p"},      {'m', "min_p"},       {'x', "xtc"},
    {'t', "temperature"}, {'a', "adaptive_p"}, {'i', "infill"},
};

/* Return the name of a letter; the letter itself if it is unknown. */
static struct text_span name_of(const char *letter)
{
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        if (letters[i].letter == *letter)
            return (struct text_span){letters[i].name, strlen(letters[i].name)};
    return (struct text_span){letter, 1};
}

/* Return true for llama.cpp's sampler of gaps, which llama.vim and llama.vscode name. It joins
 * tokens with a common prefix, and has no effect in quoth. */
static bool is_infill(const struct text_span *name)
{
    return name->n == strlen("infill") && memcmp(name->text, "infill", name->n) == 0;
}

int read_samplers(struct sample_params *p, const struct json *body, struct err *e)
{
    const struct json *list = body_field(body, "samplers");
    struct text_span name[SAMPLER_MAX + 1] = {0};
    size_t n = json_count(list), n_text = 0;
    const char *text = json_text(list, &n_text);
    if (!list) return 0;
    if (!text && json_kind(list) != JK_LIST)
        return body_wrong("samplers", "a list of names, or a string of letters", list, e);
    if (text) n = n_text;
    if (n > SAMPLER_MAX)
        return err_field(e, ERR_LIMIT, "samplers", ": must have at most %d samplers, got %zu",
                         SAMPLER_MAX, n);
    int n_name = 0;
    for (size_t i = 0; i < n; i++) {
        struct text_span *own = &name[n_name];
        if (text) *own = name_of(text + i);
        if (!text) own->text = json_text(json_item(list, i), &own->n);
        if (!own->text)
            return err_field(e, ERR_ARG, "samplers", "[%zu]: expected a string, got %s", i,
                             json_kind_name(json_kind(json_item(list, i))));
        n_name += !is_infill(own);
    }
    return sample_params_order(p, name, n_name, e);
}

/* Copy the ids without repetitions, because each id is one entry of the answer. */
static int copy_ids(struct sample_params *p, const int32_t *ids, int n, struct arena *a,
                    struct err *e)
{
    int32_t *own = arena_push0(a, (size_t)n, sizeof *own);
    if (!own) return err_memory(e, "logprob_token_ids", (size_t)n * sizeof *own);
    int n_own = 0;
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < n_own && own[k] != ids[i]) k++;
        if (k == n_own) own[n_own++] = ids[i];
    }
    p->logprob_id = own;
    p->n_logprob_id = p->n_logprob = n_own;
    return 0;
}

int read_logprob_ids(struct request *r, struct arena *a, const struct json *body, struct err *e)
{
    const int32_t *ids = NULL;
    int n = 0, rc = body_ids(body, "logprob_token_ids", a, &ids, &n, e);
    if (rc != 0 || !ids) return rc;
    if (n < 1 || n > TOP_LOGPROB_MAX)
        return err_field(e, ERR_ARG, "logprob_token_ids", ": must have 1 to %d entries, got %d",
                         TOP_LOGPROB_MAX, n);
    if (r->params.n_logprob < 0)
        return err_field(e, ERR_ARG, "logprob_token_ids", ": needs logprobs");
    if (r->params.post_logprob || r->beam_width)
        return err_field(e, ERR_ARG, "logprob_token_ids", ": must not come with %s",
                         r->beam_width ? "use_beam_search" : "post_sampling_probs");
    return copy_ids(&r->params, ids, n, a, e);
}

int read_probs(struct api_call *c, struct request *r, const struct json *body, struct err *e)
{
    int64_t n = 0;
    int rc = body_int(body, "n_probs", 0, TOP_LOGPROB_MAX, &n, e);
    if (rc == 0) rc = body_flag(body, "post_sampling_probs", &r->params.post_logprob, e);
    if (rc == 0 && r->params.post_logprob && r->beam_width)
        rc = err_field(e, ERR_ARG, "post_sampling_probs", ": must not come with use_beam_search");
    if (rc == 0 && n > 0 && c->logprobs)
        rc = err_field(e, ERR_ARG, "n_probs", ": must not come with logprobs");
    if (rc == 0) rc = body_flag(body, "return_tokens_as_token_ids", &c->tokens_as_ids, e);
    if (rc == 0) rc = read_logprob_ids(r, &c->lists, body, e);
    if (rc != 0 || n == 0) return rc;
    c->logprobs = c->probs = true;
    c->post = r->params.post_logprob;
    r->params.n_logprob = (int32_t)n;
    return 0;
}

/* ---- answers ---- */

/* Append a token's members. The logarithm of 0 is written as the minimum float, as in llama.cpp. */
static void put_token(struct json_out *o, const struct tokenizer *t, const struct logprob *p,
                      bool post)
{
    size_t n = 0;
    const char *text = tokenizer_bytes(t, p->id, &n);
    out_int(o, "id", p->id);
    out_text(o, "token", text, text ? n : 0);
    out_list(o, "bytes");
    for (size_t i = 0; text && i < n; i++) out_int(o, NULL, (unsigned char)text[i]);
    out_end(o);
    if (post)
        out_double(o, "prob", exp((double)p->logprob));
    else
        out_double(o, "logprob", p->logprob >= -FLT_MAX ? (double)p->logprob : (double)-FLT_MAX);
}

void put_probs(struct json_out *o, const char *key, const struct tokenizer *t,
               const struct answer_log *log, bool post)
{
    out_list(o, key);
    for (size_t i = 0; i < log->n; i++) {
        out_object(o, NULL);
        put_token(o, t, &log->v[i].chosen, post);
        out_list(o, post ? "top_probs" : "top_logprobs");
        for (int k = 0; k < log->v[i].n_top; k++) {
            out_object(o, NULL);
            put_token(o, t, &log->v[i].top[k], post);
            out_end(o);
        }
        out_end(o);
        out_end(o);
    }
    out_end(o);
}

/* params.c - sampling parameters of a body, under OpenAI's names, or vLLM's if OpenAI has no name.
 * The rows of sample/params.def read numbers. Functions read all other parameters. This file checks
 * types, and engine_submit checks ranges.
 *
 * The sizes of lists are limited, because the engine's thread uses the lists at each token. One
 * large list would delay the tokens of all clients.
 *
 * Lists that only the sampler reads are in the request's arena. Stop strings are in the arena
 * `keep`, because the reply reads them after the request has ended. */
#include "api_impl.h"

#include "base/hash.h"
#include "base/range.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* STOP_MAX: entries of `stop` and of stop_token_ids. WORD_MAX: entries of bad_words. BREAKER_MAX:
 * maximum number of breakers; the engine's thread searches for each breaker in each token that DRY
 * would penalize. HOLDER_MAX: bytes of `user` and cache_salt. LIST_BYTES_MAX: bytes of all texts of
 * a list. */
enum {
    STOP_MAX = 1024,
    WORD_MAX = 4096,
    BREAKER_MAX = 64,
    HOLDER_MAX = 64 << 10,
    LIST_BYTES_MAX = 64 << 10
};

/* Return the alias of a field (NULL if none) if the body has only the alias; else `name`. */
static const char *name_in(const struct json *body, const char *name, const char *alias)
{
    return alias && !body_field(body, name) && body_field(body, alias) ? alias : name;
}

/* Read one row of params.def. The value in *p is the default of the api or the model. */
static int read_number(struct sample_params *p, const struct sample_param *which,
                       const struct json *body, struct err *e)
{
    const char *name = name_in(body, which->name, which->alias);
    double real = sample_param_get(p, which);
    int64_t whole = (int64_t)real;
    bool flag = real != 0, is_real = which->kind == SAMPLE_REAL;
    int rc = is_real                     ? body_real(body, name, &real, e)
             : which->kind == SAMPLE_INT ? body_int(body, name, INT32_MIN, INT32_MAX, &whole, e)
                                         : body_flag(body, name, &flag, e);
    double value = is_real ? real : which->kind == SAMPLE_INT ? (double)whole : flag;
    sample_param_set(p, which, value);
    return rc;
}

/* Read the rows of sample/params.def that are numbers. */
static int read_numbers(struct sample_params *p, const struct json *body, struct err *e)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < N_SAMPLE_PARAM; i++)
        if (sample_param[i].kind != SAMPLE_OTHER) rc = read_number(p, &sample_param[i], body, e);
    return rc;
}

/* Read the seed. Any integer of 64 bits is a seed, also a negative integer. */
static int read_seed(struct sample_params *p, const struct json *body, struct err *e)
{
    int64_t seed = 0;
    int rc = body_int(body, "seed", INT64_MIN, INT64_MAX, &seed, e);
    if (rc != 0 || !body_field(body, "seed")) return rc;
    p->seed = (uint64_t)seed;
    p->seeded = true;
    return 0;
}

int api_read_numbers(struct sample_params *p, const struct json *body, struct err *e)
{
    int rc = read_numbers(p, body, e);
    return rc ? rc : read_seed(p, body, e);
}

/* Limit the size of texts that are tokenized or searched for in the vocabulary. This work blocks a
 * handler's thread. */
static int check_bytes(const char *field, size_t n_byte, struct err *e)
{
    if (n_byte <= LIST_BYTES_MAX) return 0;
    return err_field(e, ERR_LIMIT, field, ": must be at most %d bytes in all, got %zu",
                     LIST_BYTES_MAX, n_byte);
}

/* ---- logit_bias: OpenAI's {"id": bias}, and llama.cpp's forms ---- */

struct biases {
    struct token_bias *v; /* biases of tokens, owned */
    size_t n, cap;
    size_t n_byte; /* total size of texts so far */
};

/* Append the bias of a token. Only the engine knows the size of the vocabulary, so engine_submit
 * checks the upper limit of the id. */
static int add_bias(struct biases *b, int64_t id, float bias, struct err *e)
{
    if (id < 0 || id > INT32_MAX)
        return err_field(e, ERR_ARG, "logit_bias", ": expected a token id, got %lld",
                         (long long)id);
    struct token_bias one = {(int32_t)id, bias};
    return vec_push(b, one) ? 0 : err_memory(e, "logit_bias", (b->n + 1) * sizeof one);
}

/* Add the bias to each token of a text. */
static int add_text_bias(struct biases *b, const struct tokenizer *t, const char *text, size_t n,
                         float bias, struct err *e)
{
    struct ids ids = {0};
    int rc = check_bytes("logit_bias", b->n_byte += n, e);
    if (rc == 0) rc = tokenizer_encode(t, text, n, 0, &ids, e);
    if (rc == 0 && ids.n == 0)
        rc = err_field(e, ERR_ARG, "logit_bias",
                       ": expected a string with at least 1 token, got \"%.60s\"", text);
    for (size_t i = 0; rc == 0 && i < ids.n; i++) rc = add_bias(b, ids.v[i], bias, e);
    vec_deinit(&ids);
    return rc;
}

/* Read a bias: a number, or false, which forbids the token. */
static int read_bias_value(float *out, const struct json *value, struct err *e)
{
    bool never = json_kind(value) == JK_BOOL && !json_bool(value, true);
    if (!never && json_kind(value) != JK_INT && json_kind(value) != JK_REAL)
        return err_field(e, ERR_ARG, "logit_bias", ": expected a number or false as bias, got %s",
                         json_kind_name(json_kind(value)));
    /* -100 is OpenAI's value for a forbidden token */
    *out = never ? -100 : to_float(json_real(value, 0));
    return 0;
}

/* Add the bias of a key. A number is a token's id; any other key is a text. */
static int add_key_bias(struct biases *b, const struct tokenizer *t, const char *key, size_t n,
                        float bias, struct err *e)
{
    char *end;
    long id = strtol(key, &end, 10);
    bool number = n > 0 && end == key + n;
    /* accept only the canonical spelling, because a map could contain a token many times */
    if (number && (!isdigit((unsigned char)*key) || (*key == '0' && n > 1)))
        return err_field(e, ERR_ARG, "logit_bias", ": expected a token id, got \"%.40s\"", key);
    return number ? add_bias(b, id, bias, e) : add_text_bias(b, t, key, n, bias, e);
}

/* Add the bias of a pair: [token id or text, bias]. */
static int add_pair_bias(struct biases *b, const struct tokenizer *t, const struct json *pair,
                         struct err *e)
{
    const struct json *token = json_item(pair, 0);
    size_t n;
    const char *text = json_text(token, &n);
    float bias = 0;
    if (json_kind(pair) != JK_LIST || json_count(pair) != 2 ||
        (!text && json_kind(token) != JK_INT))
        return err_field(e, ERR_ARG, "logit_bias",
                         ": expected pairs of a token id or string and a bias, got %s",
                         json_kind_name(json_kind(pair)));
    int rc = read_bias_value(&bias, json_item(pair, 1), e);
    if (rc != 0) return rc;
    return text ? add_text_bias(b, t, text, n, bias, e) : add_bias(b, json_int(token, -1), bias, e);
}

/* Read {"id or text": bias, ...} or [[id or text, bias], ...]. */
static int read_biases(struct biases *b, const struct tokenizer *t, int n_vocab,
                       const struct json *list, struct err *e)
{
    int rc = 0;
    bool map = json_kind(list) == JK_OBJECT;
    for (size_t i = 0; !map && rc == 0 && i < json_count(list) && b->n <= (size_t)n_vocab; i++)
        rc = add_pair_bias(b, t, json_item(list, i), e);
    for (void *it = map ? json_first(list) : NULL; it && rc == 0 && b->n <= (size_t)n_vocab;
         it = json_next(list, it)) {
        size_t n;
        float bias = 0;
        const char *key = json_it_key(it, &n);
        rc = read_bias_value(&bias, json_it_value(it), e);
        if (rc == 0) rc = add_key_bias(b, t, key, n, bias, e);
    }
    if (rc == 0 && b->n > (size_t)n_vocab) /* further entries would be repetitions */
        rc =
            err_field(e, ERR_LIMIT, "logit_bias",
                      ": must have at most %d entries, one for each token, got %zu", n_vocab, b->n);
    return rc;
}

/* Read logit_bias. A growing list collects the biases, because their number is not known before
 * texts are tokenized. */
static int read_bias(struct sample_params *p, const struct api *api, const struct json *body,
                     struct arena *a, struct err *e)
{
    const struct json *list = body_field(body, "logit_bias");
    struct biases b = {0};
    if (!list) return 0;
    if (json_kind(list) != JK_OBJECT && json_kind(list) != JK_LIST)
        return body_wrong("logit_bias", "an object or a list of pairs", list, e);
    int rc = read_biases(&b, api->session->tokenizer, api->session->info->n_vocab, list, e);
    struct token_bias *copy = rc == 0 ? arena_push0(a, b.n + 1, sizeof *copy) : NULL;
    if (rc == 0 && !copy) rc = err_memory(e, "logit_bias", b.n * sizeof *copy);
    if (rc == 0 && b.n) memcpy(copy, b.v, b.n * sizeof *copy);
    p->bias = copy;
    p->n_bias = rc == 0 ? (int)b.n : 0;
    vec_deinit(&b);
    return rc;
}

int api_bad_word(struct ids word[2], const struct tokenizer *t, const char *text, size_t n,
                 struct arena *a, struct err *e)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < 2; i++) {
        struct buf spaced = {0};
        struct ids ids = {0};
        if (i) buf_add_char(&spaced, ' ');
        buf_add(&spaced, text, n);
        rc = spaced.failed
                 ? err_memory(e, "a bad word", n)
                 : tokenizer_encode(t, spaced.data ? spaced.data : "", spaced.n, 0, &ids, e);
        buf_deinit(&spaced);
        word[i] = (struct ids){.v = arena_push0(a, ids.n + 1, sizeof *ids.v), .n = ids.n};
        if (rc == 0 && !word[i].v) rc = err_memory(e, "a bad word", ids.n * sizeof *ids.v);
        if (rc == 0 && ids.n) memcpy(word[i].v, ids.v, ids.n * sizeof *ids.v);
        vec_deinit(&ids);
    }
    return rc;
}

/* Limit the total size of a list of texts. */
static int check_texts(const char *field, const struct text_span *text, int n, struct err *e)
{
    size_t n_byte = 0;
    for (int i = 0; i < n; i++) n_byte += text[i].n;
    return check_bytes(field, n_byte, e);
}

/* Read bad_words. Each word has two tokenizations (api_bad_word). */
static int read_bad_words(struct sample_params *p, const struct tokenizer *t,
                          const struct json *body, struct arena *a, struct err *e)
{
    const struct text_span *text = NULL;
    int n = 0, rc = body_texts(body, "bad_words", WORD_MAX, a, &text, &n, e);
    if (rc == 0) rc = check_texts("bad_words", text, n, e);
    if (rc != 0 || n == 0) return rc;
    struct ids *word = arena_push0(a, (size_t)n * 2, sizeof *word);
    if (!word) return err_memory(e, "bad_words", (size_t)n * 2 * sizeof *word);
    for (int i = 0; rc == 0 && i < n; i++) {
        if (text[i].n == 0)
            return err_field(e, ERR_ARG, "bad_words", "[%d]: must have at least 1 byte, got 0", i);
        rc = api_bad_word(word + 2 * i, t, text[i].text, text[i].n, a, e);
    }
    p->bad_word = word;
    p->n_bad_word = n * 2;
    return rc;
}

/* Read the lists of tokens and texts. All lists are in the arena a. */
static int read_lists(struct sample_params *p, const struct api *api, const struct json *body,
                      struct arena *a, struct err *e)
{
    int n_vocab = api->session->info->n_vocab;
    int rc = body_ids(body, "stop_token_ids", a, &p->stop_id, &p->n_stop_id, e);
    if (rc == 0 && p->n_stop_id > STOP_MAX) /* each entry is compared with each token */
        rc = err_field(e, ERR_LIMIT, "stop_token_ids", ": must have at most %d entries, got %d",
                       STOP_MAX, p->n_stop_id);
    if (rc == 0) rc = body_ids(body, "allowed_token_ids", a, &p->allowed, &p->n_allowed, e);
    /* reject an empty list, as vLLM does, because it would allow all tokens */
    if (rc == 0 && p->allowed && p->n_allowed == 0)
        rc = err_field(e, ERR_ARG, "allowed_token_ids", ": must allow at least 1 token, got 0");
    if (rc == 0 && p->n_allowed > n_vocab) /* further entries would be repetitions */
        rc = err_field(e, ERR_LIMIT, "allowed_token_ids", ": must have at most %d entries, got %d",
                       n_vocab, p->n_allowed);
    if (rc == 0)
        rc = body_texts(body, "dry_sequence_breakers", BREAKER_MAX, a, &p->dry_breaker,
                        &p->n_dry_breaker, e);
    if (rc == 0) rc = check_texts("dry_sequence_breakers", p->dry_breaker, p->n_dry_breaker, e);
    if (rc == 0) rc = read_bias(p, api, body, a, e);
    if (rc == 0) rc = read_bad_words(p, api->session->tokenizer, body, a, e);
    return rc;
}

/* Reject an empty stop string, because it would match immediately. */
static int read_stop(struct reply_options *ro, const struct json *body, const struct api *api,
                     struct arena *a, struct err *e)
{
    bool skip = !ro->keep_special;
    int rc = body_texts(body, "stop", STOP_MAX, a, &ro->stop, &ro->n_stop, e);
    if (!body_field(body, "stop")) ro->stop = api->stop, ro->n_stop = api->n_stop;
    for (int i = 0; rc == 0 && i < ro->n_stop; i++)
        if (ro->stop[i].n == 0)
            rc = err_field(e, ERR_ARG, "stop", "[%d]: must have at least 1 byte, got 0", i);
    if (rc == 0) rc = body_flag(body, "include_stop_str_in_output", &ro->include_stop, e);
    if (rc == 0) rc = body_flag(body, "skip_special_tokens", &skip, e);
    ro->keep_special = !skip;
    return rc;
}

/* Read llama.cpp's limits of lines. Negative numbers mean no limit. */
static int read_lines(struct reply_options *ro, const struct json *body, struct err *e)
{
    int64_t n_indent = 0, ms = 0;
    int rc = body_int(body, "n_indent", INT32_MIN, INT32_MAX, &n_indent, e);
    if (rc == 0) rc = body_int(body, "t_max_predict_ms", INT32_MIN, INT32_MAX, &ms, e);
    ro->indent_min = n_indent > 0 ? (int)n_indent : 0;
    ro->lines_us = ms > 0 ? ms * 1000 : 0;
    return rc;
}

/* Read n and best_of. best_of has an effect only if it is larger than n. */
static int read_choices(struct request *r, const struct json *body, struct err *e)
{
    int64_t n = 1, best_of = 0;
    int rc = body_int(body, name_in(body, "n", "n_cmpl"), 1, CHOICES_MAX, &n, e);
    if (rc == 0) rc = body_int(body, "best_of", n, CHOICES_MAX, &best_of, e);
    r->n = (int)n;
    r->best_of = best_of > n ? (int)best_of : 0;
    return rc;
}

/* Read the fields of beam search. The number of beams is best_of, or else n, as in vLLM's
 * servers. */
static int read_beams(struct request *r, const struct json *body, struct err *e)
{
    const struct json *stop = body_field(body, "early_stopping");
    const char *word = json_text(stop, NULL);
    bool beams = false;
    double penalty = (double)r->length_penalty;
    int rc = body_flag(body, "use_beam_search", &beams, e);
    if (rc == 0) rc = body_real(body, "length_penalty", &penalty, e);
    if (rc == 0 && !(penalty >= -100 && penalty <= 100))
        rc = err_field(e, ERR_ARG, "length_penalty", ": must be in [-100, 100], got %g", penalty);
    if (rc == 0 && stop && json_kind(stop) != JK_BOOL && !(word && strcmp(word, "never") == 0))
        rc = body_wrong("early_stopping", "true, false or \"never\"", stop, e);
    if (rc != 0 || !beams) return rc;
    r->length_penalty = (float)penalty;
    r->beam_stop = word ? BEAM_NEVER : json_bool(stop, false) ? BEAM_STOP : BEAM_HEURISTIC;
    r->beam_width = r->best_of ? r->best_of : r->n;
    r->best_of = 0;
    return 0;
}

/* Read the holder, the salt of shared prefixes, and the priority for policies that use it. Holder
 * and salt may be any strings; only their hashes are kept. */
int read_holder(struct request *r, const struct json *body, struct err *e)
{
    static const char *const name[2] = {"user", "cache_salt"};
    uint64_t *const hash[2] = {&r->holder, &r->cache_salt};
    int64_t priority = 0;
    bool shared = true;
    int rc = body_int(body, "priority", INT32_MIN, INT32_MAX, &priority, e);
    if (rc == 0) rc = body_flag(body, "cache_prompt", &shared, e);
    if (rc != 0) return rc;
    r->priority = (int)priority;
    for (int i = 0; i < 2; i++) {
        const struct json *j = body_field(body, name[i]);
        size_t n;
        const char *text = json_text(j, &n);
        if (j && !text) return body_wrong(name[i], "a string", j, e);
        if (j && n > HOLDER_MAX)
            return err_field(e, ERR_ARG, name[i], ": must have at most %d bytes, got %zu",
                             HOLDER_MAX, n);
        if (text && n) *hash[i] = hash_bytes(text, n, 0);
    }
    if (!shared) r->cache_salt ^= hash_bytes(&r->id, sizeof r->id, 1);
    return 0;
}

/* Read the number of seconds until an answer ends with the text generated so far. */
static int read_timeout(struct request *r, const struct json *body, struct err *e)
{
    double s = 0;
    int rc = body_real(body, "timeout", &s, e);
    if (rc != 0 || !body_field(body, "timeout")) return rc;
    if (!(s >= 1e-6 && s <= 1e9))
        return err_field(e, ERR_ARG, "timeout", ": must be at least 0.000001 seconds, got %g", s);
    r->deadline_us = (int64_t)(s * 1e6);
    return 0;
}

/* Read vLLM's repetition_detection. The smallest pattern has one token by default. */
static int read_repetition(struct request *r, const struct json *body, struct err *e)
{
    const struct json *given = body_field(body, "repetition_detection");
    int64_t max = 0, min = 0, count = 0;
    struct err why = {0};
    if (!given) return 0;
    if (json_kind(given) != JK_OBJECT)
        return body_wrong("repetition_detection", "an object", given, e);
    int rc = body_int(given, "max_pattern_size", 0, INT32_MAX, &max, &why);
    if (rc == 0) rc = body_int(given, "min_pattern_size", 0, INT32_MAX, &min, &why);
    if (rc == 0) rc = body_int(given, "min_count", 0, INT32_MAX, &count, &why);
    if (rc != 0) return err_field(e, rc, "repetition_detection", ".%s", why.text);
    r->repetition = (struct repetition){
        .size_min = min ? (int)min : 1, .size_max = (int)max, .count = (int)count};
    return 0;
}

int api_max_tokens(const struct api *a)
{
    const int context = a->session->info->context_max;
    return a->max_tokens > 0 && a->max_tokens < context ? a->max_tokens : context;
}

/* n_predict is llama.cpp's name of max_tokens. -1 means no limit. */
int api_read_n_predict(const struct api *a, const struct json *body, int64_t *n, struct err *e)
{
    int64_t got = -1;
    int rc = body_int(body, "n_predict", -1, INT32_MAX, &got, e);
    if (rc == 0 && body_field(body, "n_predict"))
        *n = got < 0 ? a->session->info->context_max : got;
    return rc;
}

void api_settle_min_tokens(struct request *r, const struct api *a, const struct json *body)
{
    const int own = a->defaults.min_tokens;
    if (!body_field(body, "min_tokens"))
        r->params.min_tokens = own < r->max_tokens ? own : r->max_tokens;
}

/* keep: arena for the stop strings, which outlive the request. The other lists of the request are
 * in the request's arena. */
int api_read_params(struct request *r, struct reply_options *ro, struct arena *keep,
                    const struct api *a, const struct json *body, struct err *e)
{
    const struct tokenizer *t = a->session->tokenizer;
    int64_t max_tokens = r->max_tokens;
    if (a->max_tokens > 0 && max_tokens > a->max_tokens) max_tokens = a->max_tokens;
    *ro = (struct reply_options){.tokenizer = t};
    r->params = a->defaults;
    int rc = api_read_numbers(&r->params, body, e);
    if (rc == 0) rc = read_samplers(&r->params, body, e);
    if (rc == 0) rc = read_choices(r, body, e);
    if (rc == 0) rc = read_beams(r, body, e);
    if (rc == 0) rc = read_holder(r, body, e);
    if (rc == 0) rc = read_timeout(r, body, e);
    if (rc == 0) rc = read_repetition(r, body, e);
    if (rc == 0) rc = body_int(body, "max_tokens", 0, INT32_MAX, &max_tokens, e);
    if (rc == 0) rc = api_read_n_predict(a, body, &max_tokens, e);
    r->max_tokens = (int)max_tokens;
    api_settle_min_tokens(r, a, body);
    if (rc == 0) rc = read_lists(&r->params, a, body, &r->arena, e);
    if (rc == 0) rc = read_stop(ro, body, a, keep, e);
    if (rc == 0) rc = read_lines(ro, body, e);
    return rc;
}

/* Read prompt_logprobs. The field must not come with `stream`, because a stream begins before the
 * prompt is computed completely. */
int read_prompt_logprobs(struct api_call *c, struct request *r, const struct json *body,
                         struct err *e)
{
    int64_t n = -1;
    int rc = body_int(body, "prompt_logprobs", 0, TOP_LOGPROB_MAX, &n, e);
    if (rc == 0 && n >= 0 && c->stream)
        rc = err_field(e, ERR_ARG, "prompt_logprobs", ": must not come with stream true, got %lld",
                       (long long)n);
    c->prompt_logprobs = n >= 0;
    r->n_prompt_logprob = (int)n;
    return rc;
}

int api_read_logprobs(struct request *r, const struct json *body, struct err *e)
{
    int64_t n = -1, n_prompt = -1;
    int rc = body_int(body, "logprobs", 0, TOP_LOGPROB_MAX, &n, e);
    if (rc == 0) rc = body_int(body, "prompt_logprobs", 0, TOP_LOGPROB_MAX, &n_prompt, e);
    r->params.n_logprob = (int32_t)n;
    r->n_prompt_logprob = (int)n_prompt;
    return rc ? rc : read_logprob_ids(r, &r->arena, body, e);
}

/* params.c - sampling parameters of a body, under OpenAI's names and vLLM's beyond them. Kinds are
 * checked here; ranges by sample_params_check, the one place that knows them. */
#include "api_impl.h"

#include "base/hash.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* BREAKER_MAX: each is looked for in each token that DRY would penalize, on the engine's thread. */
enum { STOP_MAX = 1024, WORD_MAX = 4096, BREAKER_MAX = 64, OWNER_MAX = 64 << 10 };

#define FIELD(name) #name, offsetof(struct sample_params, name)

static const struct param {
    const char *name;
    size_t at;
} reals[] =
    {
        {FIELD(temperature)},
        {FIELD(top_p)},
        {FIELD(min_p)},
        {FIELD(typical_p)},
        {FIELD(top_n_sigma)},
        {FIELD(xtc_probability)},
        {FIELD(xtc_threshold)},
        {FIELD(dry_multiplier)},
        {FIELD(dry_base)},
        {FIELD(mirostat_tau)},
        {FIELD(mirostat_eta)},
        {FIELD(repetition_penalty)},
        {FIELD(frequency_penalty)},
        {FIELD(presence_penalty)},
},
  ints[] = {
      {FIELD(top_k)},    {FIELD(dry_allowed_length)}, {FIELD(dry_penalty_last_n)},
      {FIELD(mirostat)}, {FIELD(repeat_last_n)},      {FIELD(min_tokens)},
};

/* What a float cannot hold becomes an infinity, which no range has. */
static float narrow(double x)
{
    return x > FLT_MAX ? INFINITY : x < -FLT_MAX ? -INFINITY : (float)x;
}

static int read_scalars(struct sample_params *p, const struct json *body, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof reals / sizeof reals[0]; i++) {
        float *field = (float *)(void *)((char *)p + reals[i].at);
        double x = (double)*field;
        rc = body_real(body, reals[i].name, &x, e);
        *field = narrow(x);
    }
    for (size_t i = 0; rc == 0 && i < sizeof ints / sizeof ints[0]; i++) {
        int32_t *field = (int32_t *)(void *)((char *)p + ints[i].at);
        int64_t v = *field;
        rc = body_int(body, ints[i].name, INT32_MIN, INT32_MAX, &v, e);
        *field = (int32_t)v;
    }
    return rc;
}

static int read_seed(struct sample_params *p, const struct json *body, struct err *e)
{
    int64_t seed = 0;
    int rc = body_int(body, "seed", INT64_MIN, INT64_MAX, &seed, e);
    if (rc != 0 || !body_field(body, "seed")) return rc;
    p->seed = (uint64_t)seed;
    p->seeded = true;
    return 0;
}

/* {"id": bias}, as OpenAI writes it. */
static int read_bias(struct sample_params *p, const struct json *body, struct arena *a,
                     struct err *e)
{
    const struct json *map = body_field(body, "logit_bias");
    if (!map) return 0;
    if (json_kind(map) != JK_OBJECT)
        return body_wrong("logit_bias", "an object of token ids and numbers", map, e);
    struct token_bias *b = arena_push0(a, json_count(map) + 1, sizeof *b);
    if (!b) return err_memory(e, "logit_bias", json_count(map) * sizeof *b);
    int n = 0;
    for (void *it = json_first(map); it; it = json_next(map, it), n++) {
        size_t n_key;
        const char *key = json_it_key(it, &n_key);
        const struct json *value = json_it_value(it);
        char *end;
        long id = strtol(key, &end, 10);
        /* spelled in one way alone: else a map could name a token again and again */
        bool plain = isdigit((unsigned char)*key) && (*key != '0' || n_key == 1);
        if (!plain || end != key + n_key || id > INT32_MAX)
            return err_set(e, ERR_ARG, "logit_bias: \"%.40s\" is not a token id", key);
        if (json_kind(value) != JK_INT && json_kind(value) != JK_REAL)
            return err_set(e, ERR_ARG, "logit_bias: the bias of token %ld is not a number", id);
        b[n] = (struct token_bias){(int32_t)id, narrow(json_real(value, 0))};
    }
    p->bias = b;
    p->n_bias = n;
    return 0;
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
        rc = tokenizer_encode(t, spaced.data ? spaced.data : "", spaced.n, 0, &ids, e);
        buf_deinit(&spaced);
        word[i] = (struct ids){.v = arena_push0(a, ids.n + 1, sizeof *ids.v), .n = ids.n};
        if (rc == 0 && !word[i].v) rc = err_memory(e, "a bad word", ids.n * sizeof *ids.v);
        if (rc == 0 && ids.n) memcpy(word[i].v, ids.v, ids.n * sizeof *ids.v);
        vec_deinit(&ids);
    }
    return rc;
}

static int read_bad_words(struct sample_params *p, const struct tokenizer *t,
                          const struct json *body, struct arena *a, struct err *e)
{
    const struct text_span *text = NULL;
    int n = 0, rc = body_texts(body, "bad_words", WORD_MAX, a, &text, &n, e);
    if (rc != 0 || n == 0) return rc;
    struct ids *word = arena_push0(a, (size_t)n * 2, sizeof *word);
    if (!word) return err_memory(e, "bad_words", (size_t)n * 2 * sizeof *word);
    for (int i = 0; rc == 0 && i < n; i++) {
        if (text[i].n == 0) return err_set(e, ERR_ARG, "bad_words[%d]: it is empty", i);
        rc = api_bad_word(word + 2 * i, t, text[i].text, text[i].n, a, e);
    }
    p->bad_word = word;
    p->n_bad_word = n * 2;
    return rc;
}

static int read_lists(struct sample_params *p, const struct api *api, const struct json *body,
                      struct arena *a, struct err *e)
{
    int n_vocab = model_info(api->session->model)->n_vocab;
    int rc = body_ids(body, "stop_token_ids", a, &p->stop_id, &p->n_stop_id, e);
    if (rc == 0 && p->n_stop_id > STOP_MAX) /* each is compared with each token */
        rc = err_set(e, ERR_LIMIT, "stop_token_ids: %d entries are above the limit of %d",
                     p->n_stop_id, STOP_MAX);
    if (rc == 0) rc = body_ids(body, "allowed_token_ids", a, &p->allowed, &p->n_allowed, e);
    if (rc == 0 && p->n_allowed > n_vocab) /* the same ones again and again */
        rc = err_set(e, ERR_LIMIT, "allowed_token_ids: %d entries, and there are %d tokens",
                     p->n_allowed, n_vocab);
    if (rc == 0)
        rc = body_texts(body, "dry_sequence_breakers", BREAKER_MAX, a, &p->dry_breaker,
                        &p->n_dry_breaker, e);
    if (rc == 0) rc = read_bias(p, body, a, e);
    if (rc == 0) rc = read_bad_words(p, api->session->tokenizer, body, a, e);
    return rc;
}

static int read_stop(struct reply_options *ro, const struct json *body, struct arena *a,
                     struct err *e)
{
    bool skip = !ro->keep_special;
    int rc = body_texts(body, "stop", STOP_MAX, a, &ro->stop, &ro->n_stop, e);
    for (int i = 0; rc == 0 && i < ro->n_stop; i++)
        if (ro->stop[i].n == 0) rc = err_set(e, ERR_ARG, "stop[%d]: it is empty", i);
    if (rc == 0) rc = body_flag(body, "include_stop_str_in_output", &ro->include_stop, e);
    if (rc == 0) rc = body_flag(body, "skip_special_tokens", &skip, e);
    ro->keep_special = !skip;
    return rc;
}

static int read_choices(struct request *r, const struct json *body, struct err *e)
{
    int64_t n = 1, best_of = 0;
    int rc = body_int(body, "n", 1, CHOICES_MAX, &n, e);
    if (rc == 0) rc = body_int(body, "best_of", n, CHOICES_MAX, &best_of, e);
    r->n = (int)n;
    r->best_of = best_of > n ? (int)best_of : 0;
    return rc;
}

/* Beam search as vLLM's servers ask for it: so many beams as answers are wanted (or best_of). */
static int read_beams(struct request *r, const struct json *body, struct err *e)
{
    const struct json *stop = body_field(body, "early_stopping");
    const char *word = json_text(stop, NULL);
    bool beams = false;
    double penalty = (double)r->length_penalty;
    int rc = body_flag(body, "use_beam_search", &beams, e);
    if (rc == 0) rc = body_real(body, "length_penalty", &penalty, e);
    if (rc == 0 && !(penalty >= -100 && penalty <= 100))
        rc = err_set(e, ERR_ARG, "length_penalty: %g is not in [-100, 100]", penalty);
    if (rc == 0 && stop && json_kind(stop) != JK_BOOL && !(word && strcmp(word, "never") == 0))
        rc = body_wrong("early_stopping", "true, false or \"never\"", stop, e);
    if (rc != 0 || !beams) return rc;
    r->length_penalty = (float)penalty;
    r->beam_stop = word ? BEAM_NEVER : json_bool(stop, false) ? BEAM_STOP : BEAM_HOPE;
    r->beam_width = r->best_of ? r->best_of : r->n;
    r->best_of = 0;
    return 0;
}

/* Who pays, and with whom prefixes may be shared (texts of any kind, known by their hashes), and who comes
 * first where policies ask. */
int read_owner(struct request *r, const struct json *body, struct err *e)
{
    static const char *const name[2] = {"user", "cache_salt"};
    uint64_t *const hash[2] = {&r->share_id, &r->cache_salt};
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
        if (j && !text) return body_wrong(name[i], "a text", j, e);
        if (j && n > OWNER_MAX)
            return err_set(e, ERR_ARG, "%s: expected a text of at most %d bytes", name[i], OWNER_MAX);
        if (text && n) *hash[i] = hash_bytes(text, n, 0);
    }
    if (!shared) r->cache_salt ^= hash_bytes(&r->id, sizeof r->id, 1);
    return 0;
}

/* Seconds after which an answer ends with what it has. */
static int read_timeout(struct request *r, const struct json *body, struct err *e)
{
    double s = 0;
    int rc = body_real(body, "timeout", &s, e);
    if (rc != 0 || !body_field(body, "timeout")) return rc;
    if (!(s >= 1e-6 && s <= 1e9))
        return err_set(e, ERR_ARG, "timeout: %g is not a number of seconds from 0.000001 on", s);
    r->deadline_us = (int64_t)(s * 1e6);
    return 0;
}

int api_read_params(struct request *r, struct reply_options *ro, struct arena *keep,
                    const struct api *a, const struct json *body, struct err *e)
{
    const struct tokenizer *t = a->session->tokenizer;
    int64_t max_tokens = r->max_tokens;
    *ro = (struct reply_options){.tokenizer = t};
    r->params = a->defaults;
    int rc = read_scalars(&r->params, body, e);
    if (rc == 0) rc = body_flag(body, "ignore_eos", &r->params.ignore_eos, e);
    if (rc == 0) rc = read_seed(&r->params, body, e);
    if (rc == 0) rc = read_choices(r, body, e);
    if (rc == 0) rc = read_beams(r, body, e);
    if (rc == 0) rc = read_owner(r, body, e);
    if (rc == 0) rc = read_timeout(r, body, e);
    if (rc == 0) rc = body_int(body, "max_tokens", 0, INT32_MAX, &max_tokens, e);
    r->max_tokens = (int)max_tokens;
    if (rc == 0) rc = read_lists(&r->params, a, body, &r->arena, e);
    if (rc == 0) rc = read_stop(ro, body, keep, e);
    if (rc == 0) rc = sample_params_check(&r->params, model_info(a->session->model)->n_vocab, e);
    return rc;
}

int read_prompt_logprobs(struct api_call *c, struct request *r, const struct json *body,
                         struct err *e)
{
    int64_t n = -1;
    int rc = body_int(body, "prompt_logprobs", 0, TOP_LOGPROB_MAX, &n, e);
    if (rc == 0 && n >= 0 && c->stream)
        rc = err_set(e, ERR_ARG, "prompt_logprobs: they do not come in a stream");
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
    return rc;
}

/* Formats that need a grammar are refused, not ignored. */
int read_format(const struct json *body, struct err *e)
{
    const struct json *format = body_field(body, "response_format");
    const char *type = json_text(json_field(format, "type"), NULL);
    if (!format || (type && strcmp(type, "text") == 0)) return 0;
    if (!type) return err_set(e, ERR_ARG, "response_format.type: expected a text");
    return err_set(e, ERR_UNSUPPORTED, "response_format: only \"text\" is supported");
}

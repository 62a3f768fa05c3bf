/* sampling.c - the sampling flags of quoth run: numbers (option/sampling.c) and lists. The value of
 * a missing flag is that of the model's generation_config, or else the default.
 *
 *    flag       "--logit-bias 5:-100" --bias_form--> list of texts --read_bias--> sample_params
 *
 * The forms check values while the command line is parsed. Each request converts the lists, because
 * they are in its arena and bad words need the tokenizer. */
#include "answer.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

static int64_t seed = -1;
static bool include_stop, keep_special;
static struct text_list stop_text, stop_id, bias_text, bad_word, allowed_id;

/* Return the id at the beginning of a text, before end_char. Set *rest to the text after end_char.
 * -1 if there is no id. */
static int32_t id_of(const char *text, char end_char, const char **rest)
{
    char *end;
    long v = strtol(text, &end, 10);
    bool ok = end != text && *end == end_char && v >= 0 && v <= INT32_MAX;
    *rest = ok && end_char ? end + 1 : "";
    return ok ? (int32_t)v : -1;
}

/* Check a token id (form_fn). The range of the vocabulary is not known before the model is
 * opened. */
static int id_form(const char *text, struct err *e)
{
    const char *rest;
    return id_of(text, 0, &rest) < 0 ? form_wrong(e, "a token id", text) : 0;
}

/* Check ID:BIAS. The range is that of OpenAI's API. */
static int bias_form(const char *text, struct err *e)
{
    const char *rest;
    char *end;
    bool id = id_of(text, ':', &rest) >= 0;
    float bias = strtof(rest, &end);
    bool ok = id && end != rest && !*end && bias >= -100 && bias <= 100;
    return ok ? 0 : form_wrong(e, "ID:BIAS, a token id and a number between -100 and 100", text);
}

const struct option sample_options[] = {
    OPTIONS_OF(sampling_options),
    OPTIONS_OF(sampling_one_options),
    INT_OPTION("seed", "N", &seed, -1, 9e18,
               "seed of sampling; equal seeds give equal tokens (default -1: random)"),
    LIST_OPTION("stop", "TEXT", &stop_text, "text that ends the answer (may be repeated)"),
    LIST_OPTION("stop-token-id", "ID", &stop_id, "token that ends the answer (may be repeated)",
                .form = id_form),
    FLAG_OPTION("include-stop-str-in-output", &include_stop, "include the stop text in the answer"),
    LIST_OPTION("logit-bias", "ID:BIAS", &bias_text,
                "BIAS in [-100, 100] to add to a token's logit (may be "
                "repeated)",
                .form = bias_form),
    LIST_OPTION("bad-word", "TEXT", &bad_word,
                "text whose usual tokens are never generated (may be repeated)"),
    LIST_OPTION("allowed-token-id", "ID", &allowed_id,
                "allowed token; all other tokens are forbidden (may be repeated)", .form = id_form),
    FLAG_OPTION("show-special", &keep_special, "print special tokens too"),
    OPTIONS_END,
};

/* Set *out to the ids of a list, in the arena. id_form has checked them. */
static int read_ids(const struct text_list *list, const int32_t **out, int *n, struct arena *a,
                    struct err *e)
{
    const char *rest;
    int32_t *ids = arena_push0(a, list->n, sizeof *ids);
    if (!ids) return err_memory(e, "token ids", list->n * sizeof *ids);
    for (size_t i = 0; i < list->n; i++) ids[i] = id_of(list->v[i], 0, &rest);
    *out = ids;
    *n = (int)list->n;
    return 0;
}

/* Set the biases, in the arena. bias_form has checked them. */
static int read_bias(struct sample_params *p, struct arena *a, struct err *e)
{
    const char *rest;
    struct token_bias *b = arena_push0(a, bias_text.n, sizeof *b);
    if (!b) return err_memory(e, "biases", bias_text.n * sizeof *b);
    for (size_t i = 0; i < bias_text.n; i++) {
        b[i].id = id_of(bias_text.v[i], ':', &rest);
        b[i].bias = strtof(rest, NULL);
    }
    p->bias = b;
    p->n_bias = (int)bias_text.n;
    return 0;
}

/* Convert the texts of --bad-word to token sequences. The array has two items per text, because a
 * text has two tokenizations: alone, and after a space. */
static int read_bad_words(struct sample_params *p, const struct session *s, struct arena *a,
                          struct err *e)
{
    struct ids *word = arena_push0(a, bad_word.n * 2, sizeof *word);
    int rc = word ? 0 : err_memory(e, "bad words", bad_word.n * sizeof *word);
    for (size_t i = 0; rc == 0 && i < bad_word.n; i++)
        rc = api_bad_word(word + 2 * i, s->tokenizer, bad_word.v[i], strlen(bad_word.v[i]), a, e);
    p->bad_word = word;
    p->n_bad_word = (int)bad_word.n * 2;
    return rc;
}

/* Print the values of /set: the model's defaults with the flags given so far. */
int sample_show(const struct session *s, FILE *out)
{
    struct sample_params p = session_sample_defaults(s->checkpoint, 0.8f);
    sampling_read(&p);
    sampling_show(&p, answer_options, out);
    return 0;
}

/* Flags override generation_config. The temperature of quoth run is 0.8 if neither source gives a
 * temperature. */
int sample_params_read(struct sample_params *p, const struct session *s, int max_tokens,
                       struct arena *a, struct err *e)
{
    *p = session_sample_defaults(s->checkpoint, 0.8f);
    if (p->min_tokens > max_tokens) p->min_tokens = max_tokens;
    sampling_read(p);
    if (seed >= 0) p->seed = (uint64_t)seed, p->seeded = true;
    int rc = read_ids(&stop_id, &p->stop_id, &p->n_stop_id, a, e);
    if (rc == 0) rc = read_ids(&allowed_id, &p->allowed, &p->n_allowed, a, e);
    if (rc == 0) rc = read_bias(p, a, e);
    if (rc == 0) rc = read_bad_words(p, s, a, e);
    return rc;
}

/* Return the reply options. There are no stop texts if memory runs out. */
struct reply_options reply_options_read(const struct session *s, struct arena *a)
{
    struct text_span *stop = arena_push0(a, stop_text.n, sizeof *stop);
    for (size_t i = 0; stop && i < stop_text.n; i++)
        stop[i] = (struct text_span){stop_text.v[i], strlen(stop_text.v[i])};
    return (struct reply_options){.tokenizer = s->tokenizer,
                                  .stop = stop,
                                  .n_stop = stop ? (int)stop_text.n : 0,
                                  .include_stop = include_stop,
                                  .keep_special = keep_special};
}

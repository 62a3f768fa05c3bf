/* sampling.c - the sampling flags. What is not given comes from the model's generation_config,
 * then from the defaults. */
#include "answer.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

static const double UNSET = -1e9;
static double temperature = -1e9, top_p = -1e9, min_p = -1e9, typical_p = -1e9, top_n_sigma = -1e9,
              xtc_probability = -1e9, xtc_threshold = -1e9, dry_multiplier = -1e9, dry_base = -1e9,
              mirostat_tau = -1e9, mirostat_eta = -1e9, repetition_penalty = -1e9,
              frequency_penalty = -1e9, presence_penalty = -1e9;
static int64_t top_k = INT64_MIN, dry_allowed = INT64_MIN, dry_last_n = INT64_MIN, mirostat,
               repeat_last_n = INT64_MIN, min_tokens, seed = -1;
static bool ignore_eos, include_stop, keep_special;
static struct text_list stop_text, stop_id, bias_text, bad_word, allowed_id;

const struct option sample_options[] = {
    REAL_OPTION("temperature", "X", &temperature, 0, 100,
                "0: always the most likely token (default: the model's, else 0.8)"),
    INT_OPTION("top-k", "N", &top_k, -1, 1 << 30, "only the K most likely (-1: off)"),
    REAL_OPTION("top-p", "X", &top_p, 0, 1, "only the most likely that together reach P (1: off)"),
    REAL_OPTION("min-p", "X", &min_p, 0, 1,
                "only those at least P times as likely as the best (0: off)"),
    REAL_OPTION("typical-p", "X", &typical_p, 0, 1, "locally typical sampling (1: off)"),
    REAL_OPTION("top-n-sigma", "X", &top_n_sigma, -1, 1e6,
                "only logits within N standard deviations of the best (-1: off)"),
    REAL_OPTION("xtc-probability", "X", &xtc_probability, 0, 1,
                "exclude top choices with this probability (0: off)"),
    REAL_OPTION("xtc-threshold", "X", &xtc_threshold, 0, 1,
                "exclude top choices above this probability (0.1)"),
    REAL_OPTION("dry-multiplier", "X", &dry_multiplier, 0, 1e6,
                "penalty on repeated sequences (0: off)"),
    REAL_OPTION("dry-base", "X", &dry_base, 1, 1e6, "its growth with the repeated length (1.75)"),
    INT_OPTION("dry-allowed-length", "N", &dry_allowed, 0, 1 << 30,
               "repeated tokens without penalty (2)"),
    INT_OPTION("dry-penalty-last-n", "N", &dry_last_n, -1, 1 << 30, "tokens looked back (-1: all)"),
    INT_OPTION("mirostat", "N", &mirostat, 0, 2, "2: mirostat 2 in place of the cuts (0)"),
    REAL_OPTION("mirostat-tau", "X", &mirostat_tau, 0, 1e6, "its target surprise in bits (5)"),
    REAL_OPTION("mirostat-eta", "X", &mirostat_eta, 0, 1, "its learning rate (0.1)"),
    REAL_OPTION("repetition-penalty", "X", &repetition_penalty, 0, 1e6,
                "divides the logits of tokens already seen (1: off)"),
    REAL_OPTION("frequency-penalty", "X", &frequency_penalty, -2, 2,
                "per occurrence in the answer (0)"),
    REAL_OPTION("presence-penalty", "X", &presence_penalty, -2, 2,
                "once for tokens in the answer (0)"),
    INT_OPTION("repeat-last-n", "N", &repeat_last_n, -1, 1 << 30,
               "tokens that the three penalties look back (-1: all)"),
    INT_OPTION("min-tokens", "N", &min_tokens, 0, 1 << 30, "no end before this many tokens (0)"),
    FLAG_OPTION("ignore-eos", &ignore_eos, "go on past the model's end token"),
    INT_OPTION("seed", "N", &seed, -1, 9e18, "the same seed gives the same tokens (-1: random)"),
    LIST_OPTION("stop", "TEXT", &stop_text, "end before this text (may be repeated)"),
    LIST_OPTION("stop-token-id", "ID", &stop_id, "end at this token (may be repeated)"),
    FLAG_OPTION("include-stop-str-in-output", &include_stop, "show the stop text too"),
    LIST_OPTION("logit-bias", "ID:BIAS", &bias_text,
                "add BIAS (-100 .. 100) to a token's logit (may be repeated)"),
    LIST_OPTION("bad-word", "TEXT", &bad_word, "never write this (may be repeated)"),
    LIST_OPTION("allowed-token-id", "ID", &allowed_id,
                "write only tokens given so (may be repeated)"),
    FLAG_OPTION("show-special", &keep_special, "print special tokens too"),
    OPTIONS_END,
};

static void real(float *field, double flag)
{
    if (flag != UNSET) *field = (float)flag;
}

static void integer(int32_t *field, int64_t flag)
{
    if (flag != INT64_MIN) *field = (int32_t)flag;
}

static int read_id(const char *text, char end_char, int32_t *id, const char **rest, struct err *e)
{
    char *end;
    long v = strtol(text, &end, 10);
    if (end == text || *end != end_char || v < 0 || v > INT32_MAX)
        return err_set(e, ERR_ARG, "\"%s\" is not a token id%s", text, end_char ? ":bias" : "");
    *id = (int32_t)v;
    if (rest) *rest = end + 1;
    return 0;
}

static int read_ids(const struct text_list *list, const int32_t **out, int *n, struct arena *a,
                    struct err *e)
{
    int32_t *ids = arena_push0(a, list->n, sizeof *ids);
    if (!ids) return err_memory(e, "token ids", list->n * sizeof *ids);
    for (size_t i = 0; i < list->n; i++) {
        int rc = read_id(list->v[i], 0, &ids[i], NULL, e);
        if (rc != 0) return rc;
    }
    *out = ids;
    *n = (int)list->n;
    return 0;
}

static int read_bias(struct sample_params *p, struct arena *a, struct err *e)
{
    struct token_bias *b = arena_push0(a, bias_text.n, sizeof *b);
    if (!b) return err_memory(e, "biases", bias_text.n * sizeof *b);
    for (size_t i = 0; i < bias_text.n; i++) {
        const char *rest = "";
        int rc = read_id(bias_text.v[i], ':', &b[i].id, &rest, e);
        if (rc != 0) return err_prefix(e, rc, "--logit-bias");
        b[i].bias = strtof(rest, NULL);
    }
    p->bias = b;
    p->n_bias = (int)bias_text.n;
    return 0;
}

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

int sample_params_read(struct sample_params *p, const struct session *s, struct arena *a,
                       struct err *e)
{
    *p = session_sample_defaults(s->checkpoint, 0.8f);
    real(&p->temperature, temperature);
    real(&p->top_p, top_p);
    real(&p->min_p, min_p);
    real(&p->repetition_penalty, repetition_penalty);
    integer(&p->top_k, top_k);
    real(&p->typical_p, typical_p);
    real(&p->top_n_sigma, top_n_sigma);
    real(&p->xtc_probability, xtc_probability);
    real(&p->xtc_threshold, xtc_threshold);
    real(&p->dry_multiplier, dry_multiplier);
    real(&p->dry_base, dry_base);
    integer(&p->dry_allowed_length, dry_allowed);
    integer(&p->dry_penalty_last_n, dry_last_n);
    p->mirostat = (int32_t)mirostat;
    real(&p->mirostat_tau, mirostat_tau);
    real(&p->mirostat_eta, mirostat_eta);
    real(&p->frequency_penalty, frequency_penalty);
    real(&p->presence_penalty, presence_penalty);
    integer(&p->repeat_last_n, repeat_last_n);
    p->min_tokens = (int32_t)min_tokens;
    p->ignore_eos = ignore_eos;
    if (seed >= 0) p->seed = (uint64_t)seed, p->seeded = true;
    int rc = read_ids(&stop_id, &p->stop_id, &p->n_stop_id, a, e);
    if (rc == 0) rc = read_ids(&allowed_id, &p->allowed, &p->n_allowed, a, e);
    if (rc == 0) rc = read_bias(p, a, e);
    if (rc == 0) rc = read_bad_words(p, s, a, e);
    return rc;
}

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

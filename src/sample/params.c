/* params.c - the table of sampling parameters, and their validation.
 *
 * The range of a row (params.def) validates a number. Each list has a function that validates
 * it. */
#include "sample_impl.h"

#include "base/check.h"

#include <stddef.h>

const struct sample_params sample_params_default = {
#define REAL(name, fallback, ...)    .name = (float)(fallback),
#define INT(name, fallback, ...)     .name = fallback,
#define ONE_INT(name, fallback, ...) .name = fallback,
#include "sample/params.def"
    .n_dry_breaker = -1,
    .n_order = -1,
    .n_logprob = -1,
};

#define IN(low, high)                                                                              \
    {                                                                                              \
        low, high, high, false, "in [" #low ", " #high "]"                                         \
    }
#define OVER(low, high)                                                                            \
    {                                                                                              \
        low, high, high, true, "in (" #low ", " #high "]"                                          \
    }
#define ABOVE(low)                                                                                 \
    {                                                                                              \
        low, FLT_MAX, FLT_MAX, true, "above " #low                                                 \
    }
#define FROM(low)                                                                                  \
    {                                                                                              \
        low, FLT_MAX, FLT_MAX, false, "at least " #low                                             \
    }
#define COUNT(low)                                                                                 \
    {                                                                                              \
        low, INT32_MAX, INT32_MAX, false, "at least " #low                                         \
    }
#define ALSO_ABOVE(also, low)                                                                      \
    {                                                                                              \
        low, FLT_MAX, also, true, #also " or above " #low                                          \
    }
#define EITHER(a, b)                                                                               \
    {                                                                                              \
        b, b, a, false, #a " or " #b                                                               \
    }

#define AT(name) #name, .at = offsetof(struct sample_params, name)

const struct sample_param sample_param[N_SAMPLE_PARAM] = {
#define REAL(name_, fallback_, range_, flag, key_, alias_, help_)                                  \
    {AT(name_),       .kind = SAMPLE_REAL, .type = "number", .fallback = fallback_,                \
     .range = range_, .key = key_,         .alias = alias_,  .help = help_},
#define INT(name_, fallback_, range_, flag, key_, alias_, help_)                                   \
    {AT(name_),       .kind = SAMPLE_INT, .type = "integer", .fallback = fallback_,                \
     .range = range_, .key = key_,        .alias = alias_,   .help = help_},
#define ONE_INT(name_, fallback_, range_, flag, help_)                                             \
    {AT(name_),       .kind = SAMPLE_INT, .type = "integer", .fallback = fallback_,                \
     .range = range_, .help = help_},
#define ONE_FLAG(name_, flag, help_)                                                               \
    {AT(name_), .kind = SAMPLE_FLAG, .type = "boolean", .help = help_},
#define OTHER(name_, type_, items_, help_)                                                         \
    {#name_, .kind = SAMPLE_OTHER, .type = type_, .items = items_, .help = help_},
#include "sample/params.def"
};

/* ---- numbers --------------------------------------------------------------------------------- */

double sample_param_get(const struct sample_params *p, const struct sample_param *which)
{
    const void *at = (const char *)p + which->at;
    CHECK(which->kind != SAMPLE_OTHER, "%s is no number", which->name);
    return which->kind == SAMPLE_REAL  ? (double)*(const float *)at
           : which->kind == SAMPLE_INT ? *(const int32_t *)at
                                       : *(const bool *)at;
}

void sample_param_set(struct sample_params *p, const struct sample_param *which, double value)
{
    void *at = (char *)p + which->at;
    CHECK(which->kind != SAMPLE_OTHER, "%s is no number", which->name);
    if (which->kind == SAMPLE_REAL)
        *(float *)at = to_float(value);
    else if (which->kind == SAMPLE_INT)
        *(int32_t *)at = value <= INT32_MIN   ? INT32_MIN
                         : value >= INT32_MAX ? INT32_MAX
                                              : (int32_t)value;
    else
        *(bool *)at = value != 0;
}

static int check_numbers(const struct sample_params *p, struct err *e)
{
    for (int i = 0; i < N_SAMPLE_PARAM; i++) {
        const struct sample_param *which = &sample_param[i];
        if (which->kind != SAMPLE_REAL && which->kind != SAMPLE_INT) continue;
        double x = sample_param_get(p, which);
        if (!range_has(&which->range, x))
            return err_field(e, ERR_ARG, which->name, ": must be %s, got %.9g", which->range.text,
                             x);
    }
    return 0;
}

/* Validate the lengths of the lists, and n_logprob. */
static int check_counts(const struct sample_params *p, struct err *e)
{
    const struct {
        const char *name; /* static */
        int n, low, high;
    } count[] = {
        {"dry_sequence_breakers", p->n_dry_breaker, -1, INT32_MAX},
        {"logit_bias", p->n_bias, 0, INT32_MAX},
        {"allowed_token_ids", p->n_allowed, 0, INT32_MAX},
        {"bad_words", p->n_bad_word, 0, INT32_MAX},
        {"stop_token_ids", p->n_stop_id, 0, INT32_MAX},
        {"logprob_token_ids", p->n_logprob_id, 0, 100},
        {"logprobs", p->n_logprob, -1, 100},
    };
    for (size_t i = 0; i < sizeof count / sizeof count[0]; i++)
        if (count[i].n < count[i].low || count[i].n > count[i].high)
            return err_field(e, ERR_ARG, count[i].name, ": must be in [%d, %d], got %d",
                             count[i].low, count[i].high, count[i].n);
    return 0;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static int check_id(const char *field, int at, int32_t id, int n_vocab, struct err *e)
{
    if (id >= 0 && id < n_vocab) return 0;
    return err_field(e, ERR_ARG, field, "[%d]: must be in [0, %d], got %d", at, n_vocab - 1, id);
}

static int check_ids(const char *field, const int32_t *ids, int n, int n_vocab, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < n && rc == 0; i++) rc = check_id(field, i, ids[i], n_vocab, e);
    return rc;
}

static int check_bias(const struct sample_params *p, int n_vocab, struct err *e)
{
    for (int i = 0; i < p->n_bias; i++) {
        int rc = check_id("logit_bias", i, p->bias[i].id, n_vocab, e);
        if (rc != 0) return rc;
        float bias = p->bias[i].bias;
        if (!(bias >= -100 && bias <= 100))
            return err_field(e, ERR_ARG, "logit_bias", "[%d]: must be in [-100, 100], got %g", i,
                             (double)bias);
    }
    return 0;
}

static int check_bad_words(const struct sample_params *p, int n_vocab, struct err *e)
{
    for (int i = 0; i < p->n_bad_word; i++) {
        const struct ids *word = &p->bad_word[i];
        if (word->n < 1 || word->n > INT32_MAX)
            return err_field(e, ERR_ARG, "bad_words", "[%d]: must have at least 1 token, got %zu",
                             i, word->n);
        for (int k = 0; k < (int)word->n; k++)
            if (word->v[k] < 0 || word->v[k] >= n_vocab)
                return err_field(e, ERR_ARG, "bad_words", "[%d][%d]: must be in [0, %d], got %d", i,
                                 k, n_vocab - 1, word->v[k]);
    }
    return 0;
}

static int check_breakers(const struct sample_params *p, struct err *e)
{
    for (int i = 0; i < p->n_dry_breaker; i++)
        if (p->dry_breaker[i].n < 1 || p->dry_breaker[i].n > 1000)
            return err_field(e, ERR_ARG, "dry_sequence_breakers",
                             "[%d]: must have 1 to 1000 bytes, got %zu", i, p->dry_breaker[i].n);
    return 0;
}

int sample_params_check(const struct sample_params *p, int n_vocab, struct err *e)
{
    if (p->lists) return 0; /* sample_lists_open has checked the lists */
    int rc = check_numbers(p, e);
    if (rc == 0) rc = check_counts(p, e);
    if (rc == 0) rc = check_bias(p, n_vocab, e);
    if (rc == 0) rc = check_ids("allowed_token_ids", p->allowed, p->n_allowed, n_vocab, e);
    if (rc == 0) rc = check_bad_words(p, n_vocab, e);
    if (rc == 0) rc = check_ids("stop_token_ids", p->stop_id, p->n_stop_id, n_vocab, e);
    if (rc == 0) rc = check_ids("logprob_token_ids", p->logprob_id, p->n_logprob_id, n_vocab, e);
    if (rc == 0) rc = check_breakers(p, e);
    return rc;
}

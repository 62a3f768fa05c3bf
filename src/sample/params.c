/* params.c - the defaults of a request, and the check of what a client asked for.
 *
 * Scalars are checked by two tables of ranges, lists by a function each. Every sentence names the
 * field as sample.h calls it, the value found and what is legal. */
#include "sample_impl.h"

#include <stddef.h>
#include <stdio.h>

const struct sample_params sample_params_default = {
    .temperature = 1,
    .top_k = -1,
    .top_p = 1,
    .typical_p = 1,
    .top_n_sigma = -1,
    .xtc_threshold = 0.1f,
    .dry_base = 1.75f,
    .dry_allowed_length = 2,
    .dry_penalty_last_n = -1,
    .n_dry_breaker = -1,
    .mirostat_tau = 5,
    .mirostat_eta = 0.1f,
    .repetition_penalty = 1,
    .repeat_last_n = -1,
    .n_logprob = -1,
};

/* ---- scalars --------------------------------------------------------------------------------- */

#define FIELD(name) #name, offsetof(struct sample_params, name)

static const struct real_rule {
    const char *field;
    size_t at;
    float low, high;
    bool above_low; /* low itself is not legal */
    const char *range;
} real_rules[] = {
    {FIELD(temperature), 0, 100, false, "in [0, 100]"},
    {FIELD(top_p), 0, 1, true, "above 0 and at most 1"},
    {FIELD(min_p), 0, 1, false, "in [0, 1]"},
    {FIELD(typical_p), 0, 1, true, "above 0 and at most 1"},
    {FIELD(xtc_probability), 0, 1, false, "in [0, 1]"},
    {FIELD(xtc_threshold), 0, 1, false, "in [0, 1]"},
    {FIELD(dry_multiplier), 0, FLT_MAX, false, "at least 0"},
    {FIELD(dry_base), 1, FLT_MAX, false, "at least 1"},
    {FIELD(mirostat_tau), 0, FLT_MAX, true, "above 0"},
    {FIELD(mirostat_eta), 0, 1, true, "above 0 and at most 1"},
    {FIELD(repetition_penalty), 0, FLT_MAX, true, "above 0"},
    {FIELD(frequency_penalty), -2, 2, false, "in [-2, 2]"},
    {FIELD(presence_penalty), -2, 2, false, "in [-2, 2]"},
};

static const struct int_rule {
    const char *field;
    size_t at;
    int low, high;
    const char *range;
} int_rules[] = {
    {FIELD(top_k), -1, INT32_MAX, "-1 or 0 (off), or at least 1"},
    {FIELD(dry_allowed_length), 0, INT32_MAX, "at least 0"},
    {FIELD(dry_penalty_last_n), -1, INT32_MAX, "-1 (whole context), 0 (off), or more"},
    {FIELD(n_dry_breaker), -1, INT32_MAX, "-1 (the usual ones) or more"},
    {FIELD(repeat_last_n), -1, INT32_MAX, "-1 (all), 0 (off), or more"},
    {FIELD(n_bias), 0, INT32_MAX, "at least 0"},
    {FIELD(n_allowed), 0, INT32_MAX, "at least 0"},
    {FIELD(n_bad_word), 0, INT32_MAX, "at least 0"},
    {FIELD(n_stop_id), 0, INT32_MAX, "at least 0"},
    {FIELD(min_tokens), 0, INT32_MAX, "at least 0"},
    {FIELD(n_logprob), -1, 100, "-1 (none) to 100"},
};

static int check_reals(const struct sample_params *p, struct err *e)
{
    for (size_t i = 0; i < sizeof real_rules / sizeof *real_rules; i++) {
        const struct real_rule *r = &real_rules[i];
        float x;
        memcpy(&x, (const char *)p + r->at, sizeof x);
        if (!(x >= r->low && x <= r->high) || (r->above_low && x == r->low))
            return err_set(e, ERR_ARG, "%s is %g, must be %s", r->field, (double)x, r->range);
    }
    float n_sigma = p->top_n_sigma;
    if (n_sigma != -1 && !(n_sigma > 0 && n_sigma <= FLT_MAX))
        return err_set(e, ERR_ARG, "top_n_sigma is %g, must be -1 (off) or above 0",
                       (double)n_sigma);
    return 0;
}

static int check_ints(const struct sample_params *p, struct err *e)
{
    for (size_t i = 0; i < sizeof int_rules / sizeof *int_rules; i++) {
        const struct int_rule *r = &int_rules[i];
        int x;
        memcpy(&x, (const char *)p + r->at, sizeof x);
        if (x < r->low || x > r->high)
            return err_set(e, ERR_ARG, "%s is %d, must be %s", r->field, x, r->range);
    }
    if (p->mirostat != 0 && p->mirostat != 2)
        return err_set(e, ERR_ARG, "mirostat is %d, must be 0 (off) or 2", p->mirostat);
    return 0;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static int check_id(const char *field, int at, int32_t id, int n_vocab, struct err *e)
{
    if (id >= 0 && id < n_vocab) return 0;
    return err_set(e, ERR_ARG, "%s[%d] names token %d, must be in [0, %d]", field, at, id,
                   n_vocab - 1);
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
            return err_set(e, ERR_ARG, "logit_bias of token %d is %g, must be in [-100, 100]",
                           p->bias[i].id, (double)bias);
    }
    return 0;
}

static int check_bad_words(const struct sample_params *p, int n_vocab, struct err *e)
{
    for (int i = 0; i < p->n_bad_word; i++) {
        const struct ids *word = &p->bad_word[i];
        if (word->n < 1 || word->n > INT32_MAX)
            return err_set(e, ERR_ARG, "bad_words[%d] has %zu tokens, must have at least 1", i,
                           word->n);
        char field[32];
        snprintf(field, sizeof field, "bad_words[%d]", i);
        int rc = check_ids(field, word->v, (int)word->n, n_vocab, e);
        if (rc != 0) return rc;
    }
    return 0;
}

static int check_breakers(const struct sample_params *p, struct err *e)
{
    for (int i = 0; i < p->n_dry_breaker; i++)
        if (p->dry_breaker[i].n < 1 || p->dry_breaker[i].n > 1000)
            return err_set(e, ERR_ARG,
                           "dry_sequence_breakers[%d] has %zu bytes, must have 1 to 1000", i,
                           p->dry_breaker[i].n);
    return 0;
}

int sample_params_check(const struct sample_params *p, int n_vocab, struct err *e)
{
    int rc = check_reals(p, e);
    if (rc == 0) rc = check_ints(p, e);
    if (rc == 0) rc = check_bias(p, n_vocab, e);
    if (rc == 0) rc = check_ids("allowed_token_ids", p->allowed, p->n_allowed, n_vocab, e);
    if (rc == 0) rc = check_bad_words(p, n_vocab, e);
    if (rc == 0) rc = check_ids("stop_token_ids", p->stop_id, p->n_stop_id, n_vocab, e);
    if (rc == 0) rc = check_breakers(p, e);
    return rc;
}

/* params_test.c - goal: the defaults are legal. Every illegal value is rejected with the field's
 * name. Method: one illegal value per field. */
#include "sample_test.h"

static void expect_refused(const struct sample_params *p, const char *field)
{
    struct err e = {0};
    EXPECT_INT(sample_params_check(p, 10, &e), ERR_ARG);
    if (strncmp(e.text, field, strlen(field)) != 0)
        test_fail(__FILE__, __LINE__, "\"%s\" does not begin with %s", e.text, field);
}

#define REFUSED(name, value)                                                                       \
    do {                                                                                           \
        struct sample_params p_ = sample_params_default;                                           \
        p_.name = (value);                                                                         \
        expect_refused(&p_, #name);                                                                \
    } while (0)

TEST(sample_params_refuses_scalars_out_of_range)
{
    struct err e;
    EXPECT_INT(sample_params_check(&sample_params_default, 1, &e), 0);
    REFUSED(temperature, -0.1f);
    REFUSED(temperature, NAN);
    REFUSED(temperature, INFINITY);
    REFUSED(top_k, -2);
    REFUSED(top_p, 0);
    REFUSED(top_p, 1.01f);
    REFUSED(min_p, -1);
    REFUSED(typical_p, 0);
    REFUSED(top_n_sigma, 0);
    REFUSED(top_n_sigma, NAN);
    REFUSED(xtc_probability, 2);
    REFUSED(xtc_threshold, -1);
    REFUSED(dry_multiplier, -1);
    REFUSED(dry_base, 0.5f);
    REFUSED(dry_allowed_length, -1);
    REFUSED(dry_penalty_last_n, -2);
    REFUSED(mirostat, 1);
    REFUSED(mirostat_tau, 0);
    REFUSED(mirostat_eta, 0);
    REFUSED(repetition_penalty, 0);
    REFUSED(frequency_penalty, 2.5f);
    REFUSED(presence_penalty, -2.5f);
    REFUSED(repeat_last_n, -2);
    REFUSED(min_tokens, -1);
}

/* Goal: each row's default is legal, and each number is accessible by its name. */
TEST(sample_params_are_rows)
{
    for (int i = 0; i < N_SAMPLE_PARAM; i++) {
        const struct sample_param *which = &sample_param[i];
        struct sample_params p = sample_params_default;
        EXPECT(which->name && which->type && which->help);
        if (which->kind == SAMPLE_OTHER) continue;
        EXPECT(sample_param_get(&p, which) ==
               (which->kind == SAMPLE_REAL ? (double)(float)which->fallback : which->fallback));
        if (which->kind == SAMPLE_FLAG) continue;
        EXPECT(range_has(&which->range, which->fallback) &&
               range_has(&which->range, which->range.high) &&
               range_has(&which->range, which->range.also) && !range_has(&which->range, NAN));
        EXPECT(range_has(&which->range, which->range.low) == !which->range.open);
        sample_param_set(&p, which, -1e12);
        expect_refused(&p, which->name);
        sample_param_set(&p, which, which->fallback);
        EXPECT_INT(sample_params_check(&p, 10, NULL), 0);
    }
}

TEST(sample_params_refuses_counts_out_of_range)
{
#define COUNT_REFUSED(member, n, field)                                                            \
    do {                                                                                           \
        struct sample_params p_ = sample_params_default;                                           \
        p_.member = n;                                                                             \
        expect_refused(&p_, field);                                                                \
    } while (0)
    COUNT_REFUSED(n_logprob, 101, "logprobs");
    COUNT_REFUSED(n_bias, -1, "logit_bias");
    COUNT_REFUSED(n_dry_breaker, -2, "dry_sequence_breakers");
}

TEST(sample_params_refuses_bad_lists)
{
    const int32_t ids[] = {3, 10};
    struct sample_params p = sample_params_default;
    p.bias = (struct token_bias[]){{9, 100}, {10, 0}};
    p.n_bias = 2;
    expect_refused(&p, "logit_bias[1]");
    p.bias = (struct token_bias[]){{9, NAN}};
    p.n_bias = 1;
    expect_refused(&p, "logit_bias[0]");
    p = sample_params_default;
    p.allowed = ids;
    p.n_allowed = 2;
    expect_refused(&p, "allowed_token_ids[1]");
    p = sample_params_default;
    p.stop_id = ids;
    p.n_stop_id = 2;
    expect_refused(&p, "stop_token_ids[1]");
    p = sample_params_default;
    p.bad_word = (struct ids[]){{0}};
    p.n_bad_word = 1;
    expect_refused(&p, "bad_words[0]");
    p.bad_word = (struct ids[]){{(int32_t *)ids, 2, 2}};
    expect_refused(&p, "bad_words[0][1]");
    p = sample_params_default;
    p.dry_breaker = (struct text_span[]){{"", 0}};
    p.n_dry_breaker = 1;
    expect_refused(&p, "dry_sequence_breakers[0]");
}

/* Goal: sampler_open also validates, so no illegal value reaches a stage. */
TEST(sampler_open_checks_its_parameters)
{
    struct err e;
    struct sampler *s;
    struct sample_params p = sample_params_default;
    p.top_p = 2;
    EXPECT_INT(sampler_open(&s, &p, &(struct sample_vocab){.n_vocab = 4}, 0, 8, &e), ERR_ARG);
    EXPECT(s == NULL);
    sampler_close(s);
}

/* race_test.c - goal: draws have the distribution of the chain's result, and similar distributions
 * usually draw the same token. Method: compare many draws with exp in double by chi-square. Measure
 * the agreement of two Zipf distributions. Use masks. */
#include "sample_test.h"

enum { N_ID = 300 };

/* Add the probabilities of the candidates, `share` times, to p[N_ID]. */
static void add_expected(const struct sample_params *p, const struct sample_vocab *v,
                         const int32_t *prompt, int n_prompt, const float *logits, double share,
                         double *expected)
{
    struct rig r = {.v = *v};
    if (share <= 0 || !rig_open(&r, p, N_ID)) return;
    sampler_accept_prompt(r.s, prompt, n_prompt);
    NEED(chain_candidates(r.s, r.w, logits, NULL));
    const float *logit = r.w->row ? r.w->row : r.w->logit;
    double total = 0;
    for (int i = 0; i < r.w->n; i++) total += exp((logit[i] - r.w->max) / p->temperature);
    for (int i = 0; i < r.w->n; i++)
        expected[cand_id(r.w, i)] += share * exp((logit[i] - r.w->max) / p->temperature) / total;
    rig_close(&r);
}

/* Return the probability of a chi-square of at least x with k degrees of freedom (Wilson and
 * Hilferty). */
static double chi_square_tail(double x, int k)
{
    double v = 2.0 / (9.0 * k);
    return 0.5 * erfc((cbrt(x / k) - (1 - v)) / sqrt(2 * v));
}

/* Return the chi-square of the counts of n draws. All ids with an expected count below 10 are one
 * class. */
static double chi_square(const int *count, const double *p, int n, int *k)
{
    double chi2 = 0, rare_p = 0;
    int rare = 0, n_class = 0;
    for (int i = 0; i < N_ID; i++) {
        if (p[i] == 0) EXPECT_INT(count[i], 0);
        if (p[i] * n < 10) {
            rare_p += p[i];
            rare += count[i];
            continue;
        }
        chi2 += pow(count[i] - p[i] * n, 2) / (p[i] * n);
        n_class++;
    }
    if (rare_p * n >= 1) chi2 += pow(rare - rare_p * n, 2) / (rare_p * n), n_class++;
    *k = n_class - 1;
    return chi2;
}

static void expect_distribution(const char *name, const struct sample_params *p)
{
    const int32_t prompt[] = {5, 6, 7, 8, 9, 5, 6, 7}, eog[] = {3};
    struct sample_vocab v = {.eog = eog, .n_eog = 1};
    float logits[N_ID];
    uint64_t rng = 21;
    int count[N_ID] = {0}, n_draw = test_long() ? 1000000 : 10000, k;
    double expected[N_ID] = {0};
    for (int i = 0; i < N_ID; i++) logits[i] = 5 * rng_float(&rng);
    struct sample_params with = *p, without = *p;
    with.xtc_probability = 1;
    without.xtc_probability = 0;
    add_expected(&with, &v, prompt, 8, logits, p->xtc_probability, expected);
    add_expected(&without, &v, prompt, 8, logits, 1 - p->xtc_probability, expected);
    struct rig r = {.v = v};
    if (!rig_open(&r, p, N_ID)) return;
    struct pick out;
    sampler_accept_prompt(r.s, prompt, 8);
    for (int i = 0; i < n_draw; i++) {
        r.s->key.position = (uint32_t)i;
        sampler_pick(r.s, r.w, logits, NULL, &out);
        count[out.id]++;
    }
    double chi2 = chi_square(count, expected, n_draw, &k), tail = chi_square_tail(chi2, k);
    test_note("%-18s %d draws: chi-square %.1f, %d degrees of freedom, p = %.3f", name, n_draw,
              chi2, k, tail);
    EXPECT(tail > 0.001);
    rig_close(&r);
}

TEST(race_draws_follow_the_distribution_after_every_stage)
{
    const struct token_bias bias[] = {{4, 3}, {9, -100}, {200, 2}};
    const int32_t allowed[] = {1, 2, 3, 60, 63, 64, 65, 127, 128, 250, 299}, word[] = {11},
                  pair[] = {7, 12};
    const struct ids words[] = {{(int32_t *)word, 1, 1}, {(int32_t *)pair, 2, 2}};
#define CASE(name, ...)                                                                            \
    do {                                                                                           \
        struct sample_params p = sample_params_default;                                            \
        p.seed = 1234;                                                                             \
        __VA_ARGS__;                                                                               \
        expect_distribution(name, &p);                                                             \
    } while (0)
    CASE("plain", (void)0);
    CASE("temperature 0.5", p.temperature = 0.5f);
    CASE("temperature 2", p.temperature = 2);
    CASE("top_k", p.top_k = 20);
    CASE("top_k, all", p.top_k = N_ID - 1);
    CASE("top_p", p.top_p = 0.9f);
    CASE("min_p", p.min_p = 0.1f);
    CASE("typical_p", p.typical_p = 0.8f);
    CASE("top_n_sigma", p.top_n_sigma = 1);
    CASE("xtc", p.temperature = 0.2f; p.xtc_probability = 0.4f; p.xtc_threshold = 0.02f);
    CASE("mirostat", p.mirostat = 2; p.mirostat_tau = 3.5f);
    CASE("logit_bias", p.bias = bias; p.n_bias = 3);
    CASE("bad_words", p.bad_word = words; p.n_bad_word = 2);
    CASE("allowed_token_ids", p.allowed = allowed; p.n_allowed = 11);
    CASE("min_tokens", p.min_tokens = 1);
    CASE("penalties", p.repetition_penalty = 1.3f; p.frequency_penalty = 0.5f;
         p.presence_penalty = 1);
    CASE("dry", p.dry_multiplier = 1; p.dry_allowed_length = 1);
    CASE("together", p.temperature = 0.7f; p.top_k = 100; p.top_p = 0.95f; p.min_p = 0.01f;
         p.typical_p = 0.99f; p.xtc_probability = 0.5f; p.xtc_threshold = 0.03f;
         p.repetition_penalty = 1.1f; p.bias = bias; p.n_bias = 3);
#undef CASE
}

/* ---- coupling -------------------------------------------------------------------------------- */

enum { N_ZIPF = 32000 };

/* Set a and b to logits of two Zipf distributions of exponent 1.1, over ids in random order.
 * Add normally distributed numbers of standard deviation 0.3 to b. */
static void zipf_pair(float *a, float *b)
{
    static int rank[N_ZIPF];
    uint64_t rng = 5;
    for (int i = 0; i < N_ZIPF; i++) rank[i] = i + 1;
    for (int i = N_ZIPF; i > 1; i--) {
        int k = (int)rng_below(&rng, (uint64_t)i), other = rank[k];
        rank[k] = rank[i - 1];
        rank[i - 1] = other;
    }
    for (int i = 0; i < N_ZIPF; i++) {
        float normal = -6;
        for (int k = 0; k < 12; k++) normal += rng_float(&rng);
        a[i] = -1.1f * (float)log(rank[i]);
        b[i] = a[i] + 0.3f * normal;
    }
}

/* Return the highest possible agreement of a coupling. */
static double overlap(const float *a, const float *b)
{
    double sum_a = 0, sum_b = 0, sum = 0;
    for (int i = 0; i < N_ZIPF; i++) sum_a += exp(a[i]), sum_b += exp(b[i]);
    for (int i = 0; i < N_ZIPF; i++) sum += fmin(exp(a[i]) / sum_a, exp(b[i]) / sum_b);
    return sum;
}

TEST(race_of_similar_distributions_mostly_agrees)
{
    static float a[N_ZIPF], b[N_ZIPF];
    int n_draw = test_long() ? 100000 : 5000, n_same = 0;
    struct sample_params p = sample_params_default;
    struct pick x, y;
    struct rig r = {0};
    p.seed = 77;
    if (!rig_open(&r, &p, N_ZIPF)) return;
    zipf_pair(a, b);
    for (int i = 0; i < n_draw; i++) {
        r.s->key.position = (uint32_t)i;
        sampler_pick(r.s, r.w, a, NULL, &x);
        sampler_pick(r.s, r.w, b, NULL, &y);
        n_same += x.id == y.id;
    }
    double possible = overlap(a, b), same = (double)n_same / n_draw;
    test_note("%.1f %% of %d picks agree, %.1f %% are possible", 100 * same, n_draw,
              100 * possible);
    EXPECT(possible < 0.9);
    EXPECT(same >= 0.8);
    rig_close(&r);
}

/* ---- independence of a draw ---------------------------------------------------------------- */

/* Pick at a position with a mask, after a cut that keeps all tokens if as_list is true. */
static int32_t pick_at(uint32_t position, const float *logits, const uint32_t *mask, bool as_list)
{
    struct sample_params p = sample_params_default;
    p.seed = 3;
    p.min_p = as_list ? 1e-30f : 0;
    struct pick out = {.id = -2};
    struct rig r = {0};
    if (!rig_open(&r, &p, N_ID)) return -2;
    r.s->key.position = position;
    sampler_pick(r.s, r.w, logits, mask, &out);
    rig_close(&r);
    return out.id;
}

TEST(race_does_not_depend_on_losing_blocks)
{
    float logits[N_ID];
    uint32_t mask[10];
    uint64_t rng = 4;
    for (uint32_t v = 0; v < 500; v++) {
        for (int i = 0; i < N_ID; i++) logits[i] = 5 * rng_float(&rng);
        int32_t id = pick_at(v, logits, NULL, false);
        EXPECT_INT(pick_at(v, logits, NULL, true), id);
        for (int i = 0; i < 10; i++)
            mask[i] = i / 2 == id / ROW_BLOCK ? ~0u : (uint32_t)rng_next(&rng);
        EXPECT_INT(pick_at(v, logits, mask, false), id);
        EXPECT_INT(pick_at(v, logits, mask, true), id);
    }
}

/* Goal: draws are correct with the lowest and highest results of exp as weights, and with ids up to
 * the end of a block. */
TEST(race_survives_extreme_weights)
{
    float logits[N_ID];
    for (int i = 0; i < N_ID; i++) logits[i] = i % 64 == 63 ? 0 : -87;
    logits[N_ID - 1] = 0;
    for (uint32_t v = 0; v < 200; v++) {
        int32_t id = pick_at(v, logits, NULL, v % 2);
        EXPECT(id % 64 == 63 || id == N_ID - 1);
    }
}

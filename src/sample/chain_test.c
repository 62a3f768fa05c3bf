/* chain_test.c - goal: the picks of a seed do not depend on other samplers, any logits are
 * accepted, and a pick does not allocate. race_test.c tests the distribution of picks. Method:
 * interleave samplers, and test corner cases. */
#include "sample_test.h"

#include "base/hash.h"

#include <time.h>

TEST(sample_greedy_takes_the_highest_and_the_lower_id)
{
    static float logits[1000];
    uint64_t rng = 3;
    struct pick out;
    struct sample_params p = sample_params_default;
    p.temperature = 0;
    p.top_k = 5; /* greedy ignores cuts */
    p.xtc_probability = 1;
    for (int v = 0; v < 1000; v++) {
        int n = 1 + (int)rng_below(&rng, 1000);
        struct rig r = {0};
        if (!rig_open(&r, &p, n)) return;
        random_logits(logits, n, &rng);
        struct dist d = dist_of(logits, n, 1);
        sampler_pick(r.s, r.w, logits, NULL, &out);
        EXPECT_INT(out.id, d.at[0].id);
        free(d.at);
        rig_close(&r);
    }
}

enum { N_LONE = 500, N_TOKEN = 60 };

static struct sample_params busy_params(void)
{
    struct sample_params p = sample_params_default;
    p.seed = 99;
    p.top_p = 0.98f;
    p.min_p = 0.001f;
    p.repetition_penalty = 1.1f;
    p.xtc_probability = 0.3f;
    p.dry_multiplier = 0.5f;
    p.dry_allowed_length = 1;
    return p;
}

static void random_row(float *logits, int row)
{
    uint64_t rng = 1000 + (uint64_t)row;
    for (int i = 0; i < N_LONE; i++) logits[i] = 6 * rng_float(&rng);
}

/* Pick the tokens of `choice`. Between these picks, `n_other` other samplers pick with the same
 * scratch. */
static void pick_among(uint32_t choice, uint64_t seed, int n_other, int32_t *ids)
{
    static float logits[N_LONE];
    struct err e;
    struct sample_params p = busy_params(), q = busy_params();
    struct sample_vocab v = {.n_vocab = N_LONE};
    struct sample_work *w;
    struct sampler *s[8] = {0};
    struct pick out;
    p.seed = seed;
    q.mirostat = 2;
    q.n_logprob = 5;
    NEED_OK(sample_work_open(&w, N_LONE, NULL, &e), &e);
    for (int i = 0; i <= n_other; i++)
        NEED_OK(sampler_open(&s[i], i == 0 ? &p : &q, &v, i == 0 ? choice : 7, 100, &e), &e);
    for (int t = 0; t < N_TOKEN; t++) {
        for (int i = 0; i <= n_other; i++) {
            random_row(logits, i == 0 ? t : 77 * t + i);
            sampler_pick(s[i], w, logits, NULL, &out);
            /* a repeated pick */
            if (i == 0 && t % 3 == 0) sampler_pick(s[i], w, logits, NULL, &out);
            if (i == 0) ids[t] = out.id;
            sampler_accept(s[i], out.id);
        }
    }
    for (int i = 0; i <= n_other; i++) sampler_close(s[i]);
    sample_work_close(w);
}

TEST(sample_seed_gives_the_same_tokens_whatever_else_runs)
{
    int32_t alone[N_TOKEN], among[N_TOKEN], choice[N_TOKEN], seed[N_TOKEN];
    pick_among(0, 99, 0, alone);
    pick_among(0, 99, 5, among);
    pick_among(1, 99, 0, choice);
    pick_among(0, 100, 0, seed);
    EXPECT_BITS(alone, among, sizeof alone);
    EXPECT(memcmp(alone, choice, sizeof alone) != 0);
    EXPECT(memcmp(alone, seed, sizeof alone) != 0);
}

/* Return a hash of 300 picks and of their weights, to compare kernel levels. */
static uint64_t hash_of_picks(const struct sample_params *p, const char *level)
{
    static float logits[N_LONE];
    struct rig r = {.level = level};
    if (!rig_open(&r, p, N_LONE)) return 0;
    uint64_t hash = 0;
    struct pick out;
    for (int t = 0; t < 300; t++) {
        random_row(logits, t);
        sampler_pick(r.s, r.w, logits, NULL, &out);
        hash = hash_bytes(r.w->weight, (size_t)r.w->n * sizeof *r.w->weight, hash);
        hash = hash_bytes(&out.id, sizeof out.id, hash);
        hash = hash_bytes(&r.w->total, sizeof r.w->total, hash);
        sampler_accept(r.s, out.id);
    }
    rig_close(&r);
    return hash;
}

/* Goal: the bits of the weights and the tokens equal these recorded constants, on every machine and
 * every level of kernels. */
TEST(sample_gives_the_same_bits_on_every_machine)
{
    struct sample_params busy = busy_params(), typical = busy, mirostat = busy;
    busy.temperature = 0.8f;
    typical.typical_p = 0.97f;
    mirostat.mirostat = 2;
    for (const char *const *level = kern_levels(); *level; level++) {
        EXPECT_INT(hash_of_picks(&busy, *level), (int64_t)0x8f103f641196d2d4);
        EXPECT_INT(hash_of_picks(&typical, *level), 0x7fb0e8e8c6b28829);
        EXPECT_INT(hash_of_picks(&mirostat, *level), 0x73bc22e888559090);
    }
}

/* Pick from `logits` with `mask`. kind is 0 (plain), 1 (top_k, top_p and the other cuts), 2
 * (greedy) or 3 (mirostat). */
static int32_t pick_kind(int kind, const float *logits, const uint32_t *mask, int n)
{
    struct sample_params p = kind == 1 ? busy_params() : sample_params_default;
    if (kind == 1) p.top_k = 5;
    if (kind == 1) p.typical_p = 0.9f;
    if (kind == 1) p.top_n_sigma = 1;
    if (kind == 2) p.temperature = 0;
    if (kind == 3) p.mirostat = 2;
    p.n_logprob = 100;
    struct pick out = {.id = -2};
    struct rig r = {0};
    if (!rig_open(&r, &p, n)) return -2;
    sampler_pick(r.s, r.w, logits, mask, &out);
    EXPECT(out.n_top <= n);
    EXPECT_INT(out.chosen.id, out.id);
    rig_close(&r);
    return out.id;
}

TEST(sample_survives_any_logits)
{
    const float inf = INFINITY;
    const float none[3] = {-inf, NAN, -inf}, one[3] = {NAN, -inf, -FLT_MAX},
                top[3] = {FLT_MAX, inf, NAN};
    const float single[1] = {0}, wide[3] = {-FLT_MAX, NAN, FLT_MAX}, two[3] = {inf, -3, inf};
    const uint32_t nothing = 0, first = 1;
    for (int kind = 0; kind < 4; kind++) {
        EXPECT_INT(pick_kind(kind, none, NULL, 3), -1);
        EXPECT_INT(pick_kind(kind, one, NULL, 3), 2);
        EXPECT(pick_kind(kind, top, NULL, 3) <= 1);
        EXPECT_INT(pick_kind(kind, single, NULL, 1), 0);
        EXPECT_INT(pick_kind(kind, wide, NULL, 3), 2);
        EXPECT(pick_kind(kind, two, NULL, 3) != 1);
        EXPECT_INT(pick_kind(kind, wide, &nothing, 3), -1);
        EXPECT_INT(pick_kind(kind, wide, &first, 3), 0);
    }
}

/* Goal: for random bits as logits, every pick is a permitted token, and a second pick gives an
 * equal token. */
TEST(sample_survives_random_bits)
{
    float logits[300];
    uint32_t mask[10];
    uint64_t rng = 8;
    for (int v = 0; v < (test_long() ? 20000 : 1000); v++) {
        int n = 1 + (int)rng_below(&rng, 300);
        for (int i = 0; i < n; i++) {
            uint32_t bits = (uint32_t)rng_next(&rng);
            memcpy(&logits[i], &bits, sizeof bits);
        }
        for (int i = 0; i < 10; i++) mask[i] = (uint32_t)(rng_next(&rng) & rng_next(&rng));
        for (int kind = 0; kind < 4; kind++) {
            int32_t id = pick_kind(kind, logits, mask, n);
            EXPECT(id >= -1 && id < n);
            EXPECT(id < 0 || (mask[id / 32] >> id % 32 & 1 && logits[id] >= -FLT_MAX));
            EXPECT_INT(pick_kind(kind, logits, mask, n), id);
        }
    }
}

/* Goal: extreme legal parameters on equal logits leave at least one candidate. */
TEST(sample_cuts_never_leave_nothing)
{
    float logits[777];
    struct pick out;
    for (int i = 0; i < 777; i++) logits[i] = 0.1f;
    logits[776] = 0.2f;
    for (int kind = 0; kind < 6; kind++) {
        struct sample_params p = sample_params_default;
        p.temperature = kind & 1 ? 1e-38f : 100;
        p.typical_p = kind < 2 ? 1e-38f : 1;
        p.top_p = kind < 4 ? 1e-38f : 1;
        p.min_p = kind >= 4 ? 1 : 0;
        p.top_n_sigma = kind >= 4 ? 1e-38f : -1;
        p.xtc_probability = 1;
        p.xtc_threshold = 0;
        struct rig r = {0};
        if (!rig_open(&r, &p, 777)) return;
        sampler_pick(r.s, r.w, logits, NULL, &out);
        EXPECT(out.id >= 0);
        rig_close(&r);
    }
}

TEST(sample_pick_and_accept_allocate_nothing)
{
    static float logits[N_LONE];
    const int32_t eog[] = {1}, word[] = {2, 3};
    struct token_bias bias = {4, 2};
    struct sample_params p = busy_params();
    p.bias = &bias;
    p.n_bias = 1;
    p.bad_word = &(struct ids){(int32_t *)word, 2, 2};
    p.n_bad_word = 1;
    p.min_tokens = 5;
    p.typical_p = 0.99f;
    p.n_logprob = 20;
    struct rig r = {.v = {.eog = eog, .n_eog = 1}};
    if (!rig_open(&r, &p, N_LONE)) return;
    struct pick out;
    uint64_t before = test_n_malloc();
    sampler_accept_prompt(r.s, word, 2);
    for (int t = 0; t < 1000; t++) {
        random_row(logits, t);
        sampler_pick(r.s, r.w, logits, NULL, &out);
        sampler_accept(r.s, out.id);
    }
    EXPECT_INT(test_n_malloc() - before, 0);
    rig_close(&r);
}

/* ---- speed ----------------------------------------------------------------------------------- */

/* Return the processor time in microseconds. Processor time does not depend on other load of the
 * machine. */
static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static double us_per_pick(const struct sample_params *p, const float *logits, int n, int n_pick)
{
    struct rig r = {0};
    struct pick out;
    if (!rig_open(&r, p, n)) return 0;
    for (int i = 0; i < 3; i++) sampler_pick(r.s, r.w, logits, NULL, &out);
    double start = cpu_us();
    for (int i = 0; i < n_pick; i++) sampler_pick(r.s, r.w, logits, NULL, &out);
    double us = cpu_us() - start;
    rig_close(&r);
    return us / n_pick;
}

/* Measure picks on logits like those of a language model. Most logits have a standard deviation of
 * 2.5. Some hundreds of logits are far higher. */
static void speed_at(int n)
{
    float *logits = malloc((size_t)n * sizeof *logits);
    uint64_t rng = 4;
    for (int i = 0; i < n; i++)
        logits[i] = 5 * (rng_float(&rng) + rng_float(&rng) + rng_float(&rng) - 1.5f);
    for (int i = 0; i < 300; i++) logits[rng_below(&rng, (uint64_t)n)] = 8 + 8 * rng_float(&rng);
    struct sample_params plain = sample_params_default, greedy = plain, top_k = plain,
                         top_p = plain, flat = plain;
    struct sample_params min_p = plain, penalty = plain, typical = plain, sigma = plain,
                         logprob = plain;
    greedy.temperature = 0;
    top_k.top_k = 40;
    top_p.top_p = 0.95f;
    flat.top_p = 0.95f;
    flat.temperature = 20;
    min_p.min_p = 0.05f;
    typical.typical_p = 0.95f;
    sigma.top_n_sigma = 1;
    penalty.temperature = 0;
    penalty.repetition_penalty = 1.1f;
    logprob.temperature = 0;
    logprob.n_logprob = 5;
    const struct {
        const char *name;
        const struct sample_params *p;
    } rows[] = {{"greedy", &greedy},
                {"temperature alone", &plain},
                {"top-k 40", &top_k},
                {"top-p 0.95", &top_p},
                {"top-p 0.95, all but flat", &flat},
                {"min-p 0.05", &min_p},
                {"typical-p 0.95", &typical},
                {"top-n-sigma 1", &sigma},
                {"greedy, repetition penalty", &penalty},
                {"greedy, 5 logprobs", &logprob}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        test_note("%d tokens: %-28s %6.1f us", n, rows[i].name,
                  us_per_pick(rows[i].p, logits, n, 50));
    free(logits);
}

TEST(sample_speed)
{
    speed_at(128256);
    speed_at(151936);
}

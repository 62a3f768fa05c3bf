/* bias_test.c - goal: forbidden tokens are not picked, and other logits do not change. Method:
 * compare the edited random logits with edits written by hand. Corner cases have tests by name. */
#include "sample_test.h"

static bool forbidden(float x)
{
    return !(x >= -FLT_MAX);
}

/* Return true if the edited logits equal `want`. All forbidden values compare equal. */
static bool edits_to(const float *got, const float *want, int n)
{
    for (int i = 0; i < n; i++)
        if (!(forbidden(got[i]) && forbidden(want[i])) && got[i] != want[i]) return false;
    return true;
}

/* Apply the biases and the allowed tokens of p to logits x [n]. */
static void edit(float *x, int n, const struct sample_params *p)
{
    for (int i = 0; i < p->n_bias; i++)
        x[p->bias[i].id] += p->bias[i].bias == -100 ? -INFINITY : p->bias[i].bias;
    for (int i = 0; i < n && p->n_allowed > 0; i++) {
        bool in = false;
        for (int j = 0; j < p->n_allowed; j++) in |= p->allowed[j] == i;
        if (!in) x[i] = -INFINITY;
    }
}

/* Return true if p forbids all n tokens. */
static bool forbids_all(int n, const struct sample_params *p)
{
    float x[200] = {0};
    bool all = true;
    edit(x, n, p);
    for (int i = 0; i < n; i++) all &= forbidden(x[i]);
    return all;
}

TEST(sample_bias_and_allowed_match_reference)
{
    /* Goal: biases and allowed tokens change logits as the reference does. Parameters that forbid
     * every token are rejected. */
    enum { N = 200 };
    float logits[N], want[N];
    uint64_t rng = 1;
    for (int v = 0; v < (test_long() ? 10000 : 500); v++) {
        int n = 1 + (int)rng_below(&rng, N);
        struct token_bias bias[5];
        int32_t allowed[9];
        struct sample_params p = sample_params_default;
        p.bias = bias;
        p.n_bias = (int)rng_below(&rng, 6);
        p.allowed = allowed;
        p.n_allowed = (int)rng_below(&rng, 10);
        random_logits(logits, n, &rng);
        memcpy(want, logits, sizeof want);
        for (int i = 0; i < p.n_bias; i++) {
            bias[i].id = (int32_t)rng_below(&rng, (uint64_t)n);
            bias[i].bias = (float)rng_below(&rng, 201) - 100;
        }
        for (int i = 0; i < p.n_allowed; i++) allowed[i] = (int32_t)rng_below(&rng, (uint64_t)n);
        edit(want, n, &p);
        struct rig r = {0};
        if (forbids_all(n, &p)) {
            struct err e = {0};
            r.v.n_vocab = n;
            EXPECT_INT(sampler_open(&r.s, &p, &r.v, 0, 4096, &e), ERR_ARG);
            continue;
        }
        if (!rig_open(&r, &p, n)) return;
        EXPECT(edits_to(chain_edit(r.s, r.w, logits, NULL), want, n));
        rig_close(&r);
    }
}

TEST(sample_bias_of_100_forces_and_forbids)
{
    float logits[4] = {0, 60, 10, 5};
    struct token_bias bias[] = {{0, 100}, {1, -100}};
    struct sample_params p = sample_params_default;
    p.temperature = 0;
    p.bias = bias;
    p.n_bias = 2;
    struct rig r = {0};
    struct pick out;
    if (!rig_open(&r, &p, 4)) return;
    sampler_pick(r.s, r.w, logits, NULL, &out);
    EXPECT_INT(out.id, 0);
    logits[0] = NAN;
    sampler_pick(r.s, r.w, logits, NULL, &out);
    EXPECT_INT(out.id, 2);
    rig_close(&r);
}

static int32_t next_pick(struct rig *r, const float *logits, const int32_t *accept, int n_accept)
{
    struct pick out;
    for (int i = 0; i < n_accept; i++) sampler_accept(r->s, accept[i]);
    sampler_pick(r->s, r->w, logits, NULL, &out);
    return out.id;
}

/* Goal: a bad word is never completed. The bad words are {7}, {1 2 9} and {2 9}. Token 9 has the
 * highest logit, but is not picked after "2" or "1 2", even if these end the prompt. */
TEST(sample_bad_words_are_never_completed)
{
    float logits[10] = {0, 0, 0, 0, 0, 0, 0, 10, 0, 9};
    int32_t one[] = {7}, three[] = {1, 2, 9};
    struct ids word[] = {{one, 1, 1}, {three, 3, 3}};
    struct sample_params p = sample_params_default;
    p.temperature = 0;
    p.bad_word = word;
    p.n_bad_word = 2;
    struct rig r = {0};
    if (!rig_open(&r, &p, 10)) return;
    EXPECT_INT(next_pick(&r, logits, NULL, 0), 9);
    sampler_accept_prompt(r.s, (int32_t[]){1, 2}, 2);
    EXPECT_INT(next_pick(&r, logits, NULL, 0), 0);
    EXPECT_INT(next_pick(&r, logits, (int32_t[]){2}, 1), 9);
    EXPECT_INT(next_pick(&r, logits, (int32_t[]){1}, 1), 9);
    EXPECT_INT(next_pick(&r, logits, (int32_t[]){2}, 1), 0);
    EXPECT_INT(next_pick(&r, logits, (int32_t[]){9}, 1), 9);
    rig_close(&r);
}

/* Goal: the forbidden tokens equal the result of a plain check of each word. Method: use random
 * words over few tokens, and histories of these tokens. */
TEST(sample_bad_words_match_reference)
{
    enum { N_WORD = 60, N_VOCAB = 6, N_HISTORY = 12 };
    const float logits[N_VOCAB] = {0};
    uint64_t rng = 11;
    for (int round = 0; round < 200; round++) {
        struct sample_params p = sample_params_default;
        int32_t id[N_WORD][4], history[N_HISTORY];
        struct ids word[N_WORD];
        p.bad_word = word;
        p.n_bad_word = 1 + (int)rng_below(&rng, N_WORD);
        for (int i = 0; i < p.n_bad_word; i++) {
            word[i] = (struct ids){id[i], i % 16 ? 2 + rng_below(&rng, 3) : 1, 4};
            for (size_t k = 0; k < word[i].n; k++) id[i][k] = (int32_t)rng_below(&rng, N_VOCAB);
        }
        struct rig r = {0};
        if (!rig_open(&r, &p, N_VOCAB)) return;
        for (int n = 0; n < N_HISTORY; n++) {
            bool bad[N_VOCAB] = {false};
            for (int i = 0; i < p.n_bad_word; i++) {
                int before = (int)word[i].n - 1;
                bool ends =
                    before <= n && memcmp(history + n - before, id[i], (size_t)before * 4) == 0;
                if (ends) bad[id[i][before]] = true;
            }
            const float *edited = chain_edit(r.s, r.w, logits, NULL);
            for (int i = 0; i < N_VOCAB; i++) EXPECT(bad[i] == (edited[i] == -INFINITY));
            sampler_accept(r.s, history[n] = (int32_t)rng_below(&rng, N_VOCAB));
        }
        rig_close(&r);
    }
}

/* Goal: samplers of one request share one copy of its lists. The copy outlives the sampler that
 * created it. min_tokens may be lower for one of the samplers. */
TEST(sample_lists_are_shared)
{
    enum { N = 8, N_WORD = 1000 };
    static int32_t token[N_WORD * 10];
    static struct ids word[N_WORD];
    const float logits[10] = {0, 0, 0, 0, 1, 0, 0, 0, 0, 9};
    const struct sample_vocab v = {.n_vocab = 10};
    struct sample_params p = sample_params_default;
    struct sample_lists *lists;
    struct sampler *alone, *s[N];
    struct err e;
    for (int i = 0; i < N_WORD * 10; i++) token[i] = i / 10 ? i % 10 : 9;
    for (int i = 0; i < N_WORD; i++) word[i] = (struct ids){token + i * 10, i ? 10 : 1, 10};
    p.temperature = 0;
    p.bad_word = word;
    p.n_bad_word = N_WORD;
    p.stop_id = (int32_t[]){4};
    p.n_stop_id = 1;
    p.min_tokens = 1;
    NEED_OK(sampler_open(&alone, &p, &v, 0, 100, &e), &e);
    NEED_OK(sample_lists_open(&lists, &p, &v, &e), &e);
    EXPECT(sampler_bytes(alone) >= sample_lists_bytes(lists));
    EXPECT(sample_lists_bytes(lists) >= (int64_t)sizeof token);
    p.lists = lists;
    p.bad_word = NULL; /* the sampler does not reread the list */
    for (int i = 0; i < N; i++) {
        p.min_tokens = i == 0 ? 0 : 1;
        NEED_OK(sampler_open(&s[i], &p, &v, (uint32_t)i, 100, &e), &e);
        EXPECT(sampler_bytes(s[i]) < sampler_bytes(alone) / 10);
    }
    sample_lists_drop(lists);
    struct rig r = {.v = v};
    NEED_OK(sample_work_open(&r.w, 10, NULL, &e), &e);
    for (int i = 0; i < N; i++) {
        r.s = s[i];
        /* 9 is a bad word; 4 is a stop token */
        EXPECT_INT(next_pick(&r, logits, NULL, 0), i == 0 ? 4 : 0);
        sampler_close(s[i]);
    }
    sampler_close(alone);
    sample_work_close(r.w);
}

/* Goal: min_tokens forbids token 3, which ends the model's answer, and token 4, the request's stop
 * token. ignore_eos forbids neither. */
TEST(sample_min_tokens_and_ignore_eos)
{
    const float logits[6] = {0, 0, 1, 9, 8, 0};
    const int32_t eog[] = {3, -1, 99}, stop[] = {4};
    struct sample_params p = sample_params_default;
    p.temperature = 0;
    p.stop_id = stop;
    p.n_stop_id = 1;
    for (int ignore = 0; ignore < 2; ignore++) {
        struct rig r = {.v = {.eog = eog, .n_eog = 3}};
        p.min_tokens = 2;
        p.ignore_eos = ignore;
        if (!rig_open(&r, &p, 6)) return;
        sampler_accept_prompt(r.s, (int32_t[]){0, 0, 0}, 3);
        EXPECT_INT(next_pick(&r, logits, NULL, 0), 2);
        EXPECT_INT(next_pick(&r, logits, (int32_t[]){2}, 1), 2);
        EXPECT_INT(next_pick(&r, logits, (int32_t[]){2}, 1), 3);
        rig_close(&r);
    }
}

/* bias_test.c - goal: what may not be picked is not, and nothing else changes. Method: the edited
 * logits compared with edits written out by hand on random logits; the corners by name. */
#include "sample_test.h"

static bool forbidden(float x)
{
    return !(x >= -FLT_MAX);
}

/* chain_edit's answer for token id is as `want`, both forbidden counting as equal. */
static bool edits_to(const float *got, const float *want, int n)
{
    for (int i = 0; i < n; i++)
        if (!(forbidden(got[i]) && forbidden(want[i])) && got[i] != want[i]) return false;
    return true;
}

TEST(sample_bias_and_allowed_match_reference)
{
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
            want[bias[i].id] += bias[i].bias == -100 ? -INFINITY : bias[i].bias;
        }
        for (int i = 0; i < p.n_allowed; i++) allowed[i] = (int32_t)rng_below(&rng, (uint64_t)n);
        for (int i = 0; i < n && p.n_allowed > 0; i++) {
            bool in = false;
            for (int j = 0; j < p.n_allowed; j++) in |= allowed[j] == i;
            if (!in) want[i] = -INFINITY;
        }
        struct rig r = {0};
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

/* Words {7}, {1 2 9} and {2 9}: 9 is best, but not after "2" nor after "1 2", also when they end
 * the prompt. */
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

/* Token 3 ends the model's answer, token 4 is the request's stop token. */
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
        EXPECT_INT(next_pick(&r, logits, (int32_t[]){2}, 1), ignore ? 4 : 3);
        rig_close(&r);
    }
}

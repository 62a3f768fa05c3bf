/* penalty_test.c - goal: the three penalties equal vLLM's, with and without a window. Method:
 * recount the whole history at every token of random histories. */
#include "sample_test.h"

static float ref_penalty(const struct sample_params *p, float logit, const int32_t *history, int n,
                         int n_prompt, int32_t id)
{
    int n_any = 0, n_out = 0;
    int from = p->repeat_last_n > 0 && p->repeat_last_n < n ? n - p->repeat_last_n : 0;
    for (int i = from; i < n; i++) {
        n_any += history[i] == id;
        n_out += history[i] == id && i >= n_prompt;
    }
    if (n_any > 0)
        logit = logit > 0 ? logit / p->repetition_penalty : logit * p->repetition_penalty;
    logit -= p->frequency_penalty * (float)n_out;
    if (n_out > 0) logit -= p->presence_penalty;
    return logit;
}

static void random_penalties(struct sample_params *p, uint64_t *rng)
{
    *p = sample_params_default;
    if (rng_below(rng, 3)) p->repetition_penalty = 0.5f + rng_float(rng);
    if (rng_below(rng, 3)) p->frequency_penalty = 4 * rng_float(rng) - 2;
    if (rng_below(rng, 3)) p->presence_penalty = 4 * rng_float(rng) - 2;
    p->repeat_last_n = rng_below(rng, 2) ? -1 : (int)rng_below(rng, 20);
}

static bool penalties_agree(const struct sample_params *p, const float *logits, int n,
                            uint64_t *rng)
{
    int32_t history[60];
    int n_prompt = (int)rng_below(rng, 30), n_all = n_prompt + (int)rng_below(rng, 30);
    for (int i = 0; i < n_all; i++) history[i] = (int32_t)rng_below(rng, (uint64_t)n);
    struct rig r = {0};
    if (!rig_open(&r, p, n)) return false;
    sampler_accept_prompt(r.s, history, n_prompt);
    for (int i = n_prompt; i < n_all; i++) sampler_accept(r.s, history[i]);
    const float *got = chain_edit(r.s, r.w, logits, NULL);
    bool same = true;
    for (int i = 0; i < n && p->repeat_last_n != 0; i++) {
        float want = ref_penalty(p, logits[i], history, n_all, n_prompt, i);
        same &= got[i] == want || (got[i] != got[i] && want != want);
    }
    same &= p->repeat_last_n != 0 || got == logits;
    rig_close(&r);
    return same;
}

TEST(sample_penalties_match_reference)
{
    float logits[50];
    uint64_t rng = 1;
    struct sample_params p;
    for (int v = 0; v < (test_long() ? 10000 : 1500); v++) {
        int n = 1 + (int)rng_below(&rng, 50);
        random_logits(logits, n, &rng);
        random_penalties(&p, &rng);
        NEED(penalties_agree(&p, logits, n, &rng));
    }
}

/* Goal: a penalty of any size makes a token unlikely, never impossible. Ids outside the vocabulary
 * have no effect. */
TEST(sample_huge_penalties_forbid_nothing)
{
    const float logits[3] = {FLT_MAX, -FLT_MAX, -INFINITY};
    struct sample_params p = sample_params_default;
    p.repetition_penalty = FLT_MAX;
    p.frequency_penalty = 2;
    struct rig r = {0};
    if (!rig_open(&r, &p, 3)) return;
    sampler_accept_prompt(r.s, (int32_t[]){-1, 3, INT32_MAX}, 3);
    for (int i = 0; i < 3; i++) sampler_accept(r.s, i);
    const float *got = chain_edit(r.s, r.w, logits, NULL);
    EXPECT(isfinite(got[0]) && got[1] == -FLT_MAX && got[2] == -INFINITY);
    struct pick out;
    sampler_pick(r.s, r.w, logits, NULL, &out);
    EXPECT_INT(out.id, 0);
    rig_close(&r);
}

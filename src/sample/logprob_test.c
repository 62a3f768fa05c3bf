/* logprob_test.c - goal: logprobs are the ranked log-softmax of the raw logits. Method: compare
 * with libm's results on sorted random logits. */
#include "sample_test.h"

static void expect_logprobs(struct sample_work *w, const float *logits, int n, int32_t id,
                            int n_top)
{
    struct pick out;
    struct dist d = dist_of(logits, n, 1);
    sample_logprobs(w, logits, n, NULL, id, n_top, &out);
    EXPECT_INT(out.n_top, n_top < d.n ? n_top : d.n);
    for (int i = 0; i < out.n_top; i++) {
        EXPECT_INT(out.top[i].id, d.at[i].id);
        EXPECT_INT(out.top[i].rank, i + 1);
        EXPECT(fabs(out.top[i].logprob - log(d.at[i].p)) < 1e-5);
    }
    EXPECT_INT(out.chosen.id, id);
    int at = 0;
    while (at < d.n && d.at[at].id != id) at++;
    EXPECT_INT(out.chosen.rank, at < d.n ? at + 1 : 0);
    if (at < d.n) EXPECT(fabs(out.chosen.logprob - log(d.at[at].p)) < 1e-5);
    if (at == d.n) EXPECT(out.chosen.logprob == -INFINITY);
    free(d.at);
}

TEST(sample_logprobs_match_reference)
{
    enum { N = 3000 };
    static float logits[N];
    uint64_t rng = 1;
    struct err e;
    struct sample_work *w;
    NEED_OK(sample_work_open(&w, N, NULL, &e), &e);
    for (int v = 0; v < (test_long() ? 10000 : 500); v++) {
        int n = 1 + (int)rng_below(&rng, v % 10 ? 200 : N);
        random_logits(logits, n, &rng);
        expect_logprobs(w, logits, n, (int32_t)rng_below(&rng, (uint64_t)n),
                        (int)rng_below(&rng, 101));
    }
    sample_work_close(w);
}

/* Goal: all probabilities sum to 1, and the picked token is in the list. The mask and the penalties
 * have no effect. */
TEST(sample_logprobs_are_of_the_raw_distribution)
{
    enum { N = 90 };
    float logits[N];
    uint64_t rng = 5;
    uint32_t mask[3] = {0, 0xff00, 0};
    struct sample_params p = sample_params_default;
    p.n_logprob = 100;
    p.temperature = 2;
    p.top_k = 1;
    struct rig r = {0};
    if (!rig_open(&r, &p, N)) return;
    for (int i = 0; i < N; i++) logits[i] = 8 * rng_float(&rng);
    struct pick out;
    sampler_pick(r.s, r.w, logits, mask, &out);
    EXPECT(out.id >= 40 && out.id < 48);
    EXPECT_INT(out.n_top, N);
    double sum = 0;
    for (int i = 0; i < N; i++) sum += exp(out.top[i].logprob);
    EXPECT(fabs(sum - 1) < 1e-5);
    EXPECT_INT(out.chosen.id, out.id);
    EXPECT_INT(out.top[out.chosen.rank - 1].id, out.id);
    EXPECT(out.top[out.chosen.rank - 1].logprob == out.chosen.logprob);
    rig_close(&r);
}

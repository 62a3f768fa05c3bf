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

/* Goal: post_logprob gives the distribution of the draw: it sums to 1 over the tokens that the cuts
 * keep, and changes no pick. A greedy pick has probability 1. */
TEST(sample_post_logprobs_are_those_of_the_draw)
{
    static float logits[500];
    uint64_t rng = 11;
    for (int v = 0; v < 500; v++) {
        int n = 1 + (int)rng_below(&rng, 500);
        random_logits(logits, n, &rng);
        struct sample_params p = sample_params_default;
        struct rig raw = {0}, post = {0};
        struct pick a, b;
        p.temperature = v % 5 ? 0.3f + rng_float(&rng) : 0;
        p.top_k = v % 3 ? 1 + (int)rng_below(&rng, 90) : 0;
        p.n_logprob = 100;
        if (!rig_open(&raw, &p, n)) return;
        p.post_logprob = true;
        if (!rig_open(&post, &p, n)) return;
        sampler_pick(raw.s, raw.w, logits, NULL, &a);
        sampler_pick(post.s, post.w, logits, NULL, &b);
        EXPECT_INT(b.id, a.id);
        double sum = 0;
        bool has = false;
        for (int i = 0; i < b.n_top; i++) {
            sum += exp((double)b.top[i].logprob);
            EXPECT(i == 0 || b.top[i].logprob <= b.top[i - 1].logprob);
            EXPECT_INT(b.top[i].rank, i + 1);
            if (b.top[i].id != b.id) continue;
            has = true;
            EXPECT(b.top[i].logprob == b.chosen.logprob && b.chosen.rank == i + 1);
        }
        if (p.top_k > 0 || p.temperature == 0) EXPECT(fabs(sum - 1) < 1e-5 && has);
        if (p.temperature == 0) EXPECT(b.n_top == 1 && b.chosen.logprob == 0);
        rig_close(&raw);
        rig_close(&post);
    }
}

/* Goal: logprob_id selects the tokens of top[], best first, with their ranks among all tokens. */
TEST(sample_logprobs_of_named_tokens)
{
    float logits[6] = {1, 5, -INFINITY, 3, 4, 2};
    const int32_t ids[] = {0, 2, 4};
    struct sample_params p = sample_params_default;
    struct rig r = {0};
    struct pick out;
    p.logprob_id = ids;
    p.n_logprob_id = p.n_logprob = 3;
    if (!rig_open(&r, &p, 6)) return;
    sampler_pick(r.s, r.w, logits, NULL, &out);
    EXPECT(out.n_top == 3 && out.top[0].id == 4 && out.top[1].id == 0 && out.top[2].id == 2);
    EXPECT(out.top[0].rank == 2 && out.top[1].rank == 5 && out.top[2].logprob == -INFINITY);
    struct dist d = dist_of(logits, 6, 1);
    EXPECT(fabs(out.top[0].logprob - log(d.at[1].p)) < 1e-5);
    free(d.at);
    rig_close(&r);
}

/* adaptive_test.c - goal: adaptive-p draws tokens with more probability for a higher target.
 * Method: make thousands of picks from one fixed distribution, and compare the weights of a pick
 * with the definition in libm's arithmetic. */
#include "sample_test.h"

enum { N = 200 };

static void zipf(float *logits)
{
    for (int i = 0; i < N; i++) logits[i] = -1.5f * logf((float)(i + 1));
}

/* Return the mean probability of n picks with a target. */
static double mean_probability(float target, int n_pick)
{
    float logits[N];
    struct sample_params p = sample_params_default;
    struct rig r = {0};
    double sum = 0;
    zipf(logits);
    p.adaptive_target = target;
    p.min_p = 0.08f; /* without the tail, whose many tokens are far from any target */
    if (!rig_open(&r, &p, N)) return NAN;
    r.s->context_max = INT32_MAX; /* no stage of this sampler keeps a history */
    struct dist d = dist_of(logits, N, 1);
    for (int i = 0; i < n_pick; i++) {
        struct pick out;
        sampler_pick(r.s, r.w, logits, NULL, &out);
        sum += d.at[out.id].p / n_pick;
        sampler_accept(r.s, out.id);
    }
    free(d.at);
    rig_close(&r);
    return sum;
}

TEST(sample_adaptive_follows_its_target)
{
    const float targets[] = {0.05f, 0.1f, 0.2f, 0.3f, 0.4f};
    double before = 0;
    for (int i = 0; i < 5; i++) {
        double mean = mean_probability(targets[i], 4000);
        test_note("target %.2f: mean probability %.3f", (double)targets[i], mean);
        EXPECT(mean > before + 0.01);
        before = mean;
    }
}

/* Goal: the weights after the stage are those of the definition, and post_logprob returns them. A
 * pick that is not accepted changes nothing. */
TEST(sample_adaptive_weights_are_those_of_the_definition)
{
    float logits[N];
    struct sample_params p = sample_params_default;
    struct rig r = {0};
    struct pick out, again;
    double sum = 0.25 / 0.1, weight = 1 / 0.1;
    zipf(logits);
    p.adaptive_target = 0.25f;
    p.post_logprob = true;
    p.n_logprob = 3;
    if (!rig_open(&r, &p, N)) return;
    struct dist d = dist_of(logits, N, 1);
    for (int i = 0; i < 50; i++) {
        double target = fmin(1, fmax(0, 2 * 0.25 - sum / weight)), total = 0, chosen = 0;
        sampler_pick(r.s, r.w, logits, NULL, &out);
        sampler_pick(r.s, r.w, logits, NULL, &again);
        EXPECT_INT(again.id, out.id);
        for (int k = 0; k < N; k++) {
            double off = fabs(d.at[k].p - target) / 0.3, w = exp(-10 * off * off / (1 + off));
            total += w;
            if (k == out.id) chosen = w;
        }
        EXPECT(fabs(out.chosen.logprob - log(chosen / total)) < 1e-3);
        EXPECT(out.n_top == 3 && out.top[0].logprob >= out.top[1].logprob);
        sampler_accept(r.s, out.id);
        sum = d.at[out.id].p + 0.9 * sum;
        weight = 1 + 0.9 * weight;
    }
    free(d.at);
    rig_close(&r);
}

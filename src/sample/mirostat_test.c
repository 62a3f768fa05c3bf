/* mirostat_test.c - goal: the surprise of picked tokens converges to tau. Method: make thousands of
 * picks from one fixed Zipf distribution. The entropy of the untruncated distribution is well above
 * each tau. */
#include "sample_test.h"

static double mean_surprise(float tau, int n_pick)
{
    enum { N = 2000 };
    static float logits[N];
    for (int i = 0; i < N; i++) logits[i] = -logf((float)(i + 1));
    struct sample_params p = sample_params_default;
    p.mirostat = 2;
    p.mirostat_tau = tau;
    p.top_k = 1; /* mirostat replaces top_k */
    struct rig r = {0};
    if (!rig_open(&r, &p, N)) return NAN;
    r.s->context_max = INT32_MAX; /* no stage of this sampler keeps a history */
    double sum = 0;
    for (int i = 0; i < 2 * n_pick; i++) {
        struct pick out;
        sampler_pick(r.s, r.w, logits, NULL, &out);
        double total = 0;
        for (int j = 0; j < r.w->n; j++) total += exp(logits[r.w->id[j]]);
        if (i >= n_pick) sum -= log2(exp(logits[out.id]) / total) / n_pick;
        sampler_accept(r.s, out.id);
    }
    rig_close(&r);
    return sum;
}

TEST(sample_mirostat_settles_at_tau)
{
    for (int tau = 2; tau <= 6; tau += 2) {
        double surprise = mean_surprise((float)tau, test_long() ? 20000 : 3000);
        test_note("tau %d: mean surprise %.3f", tau, surprise);
        EXPECT(fabs(surprise - tau) < 0.1);
    }
}

/* Goal: mu does not change if a pick is not accepted, or if another token replaces it. */
TEST(sample_mirostat_learns_only_from_accepted_picks)
{
    const float logits[4] = {3, 2, 1, 0};
    struct sample_params p = sample_params_default;
    p.mirostat = 2;
    p.mirostat_tau = 0.3f;
    struct rig r = {0};
    if (!rig_open(&r, &p, 4)) return;
    struct pick out, again;
    sampler_pick(r.s, r.w, logits, NULL, &out);
    int n = r.w->n;
    for (int i = 0; i < 100; i++) {
        sampler_pick(r.s, r.w, logits, NULL, &again);
        sampler_accept(r.s, (again.id + 1) % 4);
        EXPECT_INT(r.w->n, n);
    }
    rig_close(&r);
}

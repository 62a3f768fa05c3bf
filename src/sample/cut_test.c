/* cut_test.c - goal: every cut keeps exactly the tokens of its definition. Method: compare with
 * short references that sort, in double precision with libm's exp. The vectors are random logits
 * (10,000 vectors with QUOTH_LONG=1). Each cut is tested alone, then all cuts together. Weights are
 * f32, within 1e-6 of exact. A prefix that misses its target by less may differ, but these vectors
 * have no such prefix. */
#include "sample_test.h"

static void ref_top_n_sigma(struct dist *d, const struct sample_params *p)
{
    double mean = 0, sum = 0;
    for (int i = 0; i < d->n; i++) mean += d->at[i].logit / d->n;
    for (int i = 0; i < d->n; i++) sum += pow(d->at[i].logit - mean, 2);
    double floor = d->at[0].logit - p->top_n_sigma * sqrt(sum / d->n);
    while (d->n > 0 && d->at[d->n - 1].logit < floor) d->n--;
}

static void ref_top_k(struct dist *d, const struct sample_params *p)
{
    if (p->top_k < d->n) d->n = p->top_k;
}

static double typical_middle;

static int typical_order(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    float dx = (float)fabs(typical_middle - x->logit), dy = (float)fabs(typical_middle - y->logit);
    if (dx != dy) return dx < dy ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Truncate by |-ln p - entropy| = |E[logit] - logit| / temperature. */
static void ref_typical_p(struct dist *d, const struct sample_params *p)
{
    double sum = 0;
    int n = 0;
    typical_middle = 0;
    for (int i = 0; i < d->n; i++) typical_middle += d->at[i].p * d->at[i].logit;
    qsort(d->at, (size_t)d->n, sizeof *d->at, typical_order);
    while (n < d->n && (sum < p->typical_p || n < p->min_keep)) sum += d->at[n++].p;
    d->n = n;
    qsort(d->at, (size_t)d->n, sizeof *d->at, entry_order);
}

static void ref_top_p(struct dist *d, const struct sample_params *p)
{
    double sum = 0;
    int n = 0;
    while (n < d->n && (sum < p->top_p || n < p->min_keep)) sum += d->at[n++].p;
    d->n = n;
}

static void ref_min_p(struct dist *d, const struct sample_params *p)
{
    while (d->n > p->min_keep && d->at[d->n - 1].p < p->min_p * d->at[0].p) d->n--;
}

static void ref_xtc(struct dist *d, const struct sample_params *p)
{
    int n_top = 0;
    while (n_top < d->n && d->at[n_top].p >= p->xtc_threshold) n_top++;
    if (n_top < 2 || d->n - (n_top - 1) < p->min_keep) return;
    d->n -= n_top - 1;
    memmove(d->at, d->at + n_top - 1, (size_t)d->n * sizeof *d->at);
}

typedef void cut_fn(struct dist *d, const struct sample_params *p);
static cut_fn *const refs[] = {ref_top_n_sigma, ref_top_k, ref_typical_p,
                               ref_top_p,       ref_min_p, ref_xtc};
enum { N_CUT = 6 };

static void random_params(struct sample_params *p, unsigned cuts, int n, uint64_t *rng)
{
    *p = sample_params_default;
    p->temperature = 0.2f + 2 * rng_float(rng);
    if (cuts & 1) p->top_n_sigma = 0.1f + 3 * rng_float(rng);
    if (cuts & 2) p->top_k = 1 + (int)rng_below(rng, rng_below(rng, 2) ? 10 : (uint64_t)n + 2);
    if (cuts & 4) p->typical_p = 0.05f + 0.9f * rng_float(rng);
    if (cuts & 8) p->top_p = 0.01f + 0.98f * rng_float(rng);
    if (cuts & 16) p->min_p = 0.001f + 0.9f * rng_float(rng) * rng_float(rng);
    if (cuts & 64) p->min_keep = 1 + (int)rng_below(rng, 12);
    if (cuts & 32) p->xtc_probability = 1;
    if (cuts & 32) p->xtc_threshold = 0.3f * rng_float(rng);
}

static bool cuts_agree(unsigned cuts, const float *logits, int n, uint64_t *rng)
{
    struct rig r = {0};
    struct sample_params p;
    random_params(&p, cuts, n, rng);
    if (!rig_open(&r, &p, n)) return false;
    chain_candidates(r.s, r.w, logits, NULL), cand_gather(r.w, -FLT_MAX);
    struct dist d = dist_of(logits, n, p.temperature);
    for (int c = 0; c < N_CUT; c++) {
        if (!(cuts >> c & 1)) continue;
        refs[c](&d, &p);
        dist_normalize(&d, p.temperature);
    }
    bool same = same_tokens(r.w, &d);
    if (!same)
        test_fail(__FILE__, __LINE__, "cuts %#x of %d logits: %d tokens, not %d", cuts, n, r.w->n,
                  d.n);
    cand_weigh(r.w, r.w->temperature_inverse);
    for (int i = 0; i < r.w->n && same; i++)
        for (int j = 0; j < d.n && d.n < 50; j++)
            if (d.at[j].id == r.w->id[i] &&
                fabs(r.w->weight[i] / r.w->total - d.at[j].p) > 2e-6 * d.at[j].p + 1e-12)
                test_fail(__FILE__, __LINE__, "cuts %#x: p of token %d is off", cuts, d.at[j].id);
    free(d.at);
    rig_close(&r);
    return same;
}

static void compare_cuts(unsigned cuts, uint64_t seed)
{
    static float logits[6000];
    int n_vector = test_long() ? 10000 : 700;
    for (int v = 0; v < n_vector; v++) {
        int n = 1 + (int)rng_below(&seed, v % 50 == 0 ? 6000 : v % 3 ? 300 : 8);
        random_logits(logits, n, &seed);
        if (!cuts_agree(cuts, logits, n, &seed)) return;
    }
}

TEST(sample_top_n_sigma_matches_reference)
{
    compare_cuts(1, 1);
}
TEST(sample_top_k_matches_reference)
{
    compare_cuts(2, 2);
}
TEST(sample_typical_p_matches_reference)
{
    compare_cuts(4, 3);
}
TEST(sample_top_p_matches_reference)
{
    compare_cuts(8, 4);
}
TEST(sample_min_p_matches_reference)
{
    compare_cuts(16, 5);
}
TEST(sample_xtc_matches_reference)
{
    compare_cuts(32, 6);
}

TEST(sample_any_cuts_together_match_references)
{
    uint64_t rng = 7;
    static float logits[600];
    for (int v = 0; v < (test_long() ? 10000 : 2000); v++) {
        int n = 1 + (int)rng_below(&rng, 600);
        random_logits(logits, n, &rng);
        if (!cuts_agree((unsigned)rng_below(&rng, 128), logits, n, &rng)) return;
    }
}

/* Return the temperature that dynatemp_range chooses for the candidates. */
static double ref_temperature(struct dist *d, const struct sample_params *p)
{
    double entropy = 0, low = fmax(0, (double)p->temperature - p->dynatemp_range),
           high = (double)p->temperature + p->dynatemp_range;
    if (p->dynatemp_range == 0) return p->temperature;
    dist_normalize(d, 1);
    for (int i = 0; i < d->n; i++) entropy -= d->at[i].p > 0 ? d->at[i].p * log(d->at[i].p) : 0;
    double h = d->n > 1 ? fmin(1, entropy / log(d->n)) : 0;
    return low + (high - low) * pow(h, p->dynatemp_exponent);
}

/* Compare the candidates after samplers in a random order with the references, applied in that
 * order. `typ_p` is 2 and `temperature` 6. */
static bool order_agrees(const float *logits, int n, uint64_t *rng)
{
    static const char *const name[] = {"top_n_sigma", "top_k", "typ_p",      "top_p",
                                       "min_p",       "xtc",   "temperature"};
    struct text_span list[SAMPLER_MAX];
    int which[SAMPLER_MAX], n_list = (int)rng_below(rng, 9);
    struct sample_params p;
    struct rig r = {0};
    struct err e = {0};
    random_params(&p, 127, n, rng);
    if (rng_below(rng, 2)) p.dynatemp_range = rng_float(rng) * 2;
    p.dynatemp_exponent = rng_float(rng) * 2;
    for (int i = 0; i < n_list; i++) {
        which[i] = (int)rng_below(rng, 7);
        list[i] = (struct text_span){name[which[i]], strlen(name[which[i]])};
    }
    if (sample_params_order(&p, list, n_list, &e) != 0 || !rig_open(&r, &p, n)) return false;
    chain_candidates(r.s, r.w, logits, NULL), cand_gather(r.w, -FLT_MAX);
    struct dist d = dist_of(logits, n, 1);
    double temperature = 1;
    for (int i = 0; i < n_list; i++) {
        if (which[i] == 6)
            temperature = ref_temperature(&d, &p);
        else
            refs[which[i]](&d, &p);
        dist_normalize(&d, temperature);
    }
    bool same = same_tokens(r.w, &d) && fabs(r.w->temperature - temperature) < 1e-4;
    if (!same)
        test_fail(__FILE__, __LINE__, "%d samplers of %d logits: %d tokens at %g, not %d at %g",
                  n_list, n, r.w->n, r.w->temperature, d.n, temperature);
    free(d.at);
    rig_close(&r);
    return same;
}

TEST(sample_any_order_matches_references)
{
    uint64_t rng = 8;
    static float logits[600];
    for (int v = 0; v < (test_long() ? 10000 : 2000); v++) {
        int n = 1 + (int)rng_below(&rng, 600);
        random_logits(logits, n, &rng);
        if (!order_agrees(logits, n, &rng)) return;
    }
}

/* Goal: exactly the k lowest ids of equal logits remain. */
TEST(sample_cut_ties_go_to_the_lower_id)
{
    static float logits[1000];
    struct sample_params p = sample_params_default;
    for (int cut = 0; cut < 2; cut++) {
        struct rig r = {0};
        p.top_k = cut == 0 ? 7 : -1;
        p.top_p = cut == 1 ? 0.007f : 1; /* the float is slightly above 7/1000 */
        if (!rig_open(&r, &p, 1000)) return;
        chain_candidates(r.s, r.w, logits, NULL), cand_gather(r.w, -FLT_MAX);
        EXPECT_INT(r.w->n, cut == 0 ? 7 : 0.007f > 0.007 ? 8 : 7);
        for (int i = 0; i < r.w->n; i++) EXPECT_INT(r.w->id[i], i);
        rig_close(&r);
    }
}

/* Goal: XTC acts with its probability, independently of the token's draw. */
TEST(sample_xtc_acts_with_its_probability)
{
    const float logits[4] = {3, 3, 3, 0};
    struct rig r = {0};
    struct sample_params p = sample_params_default;
    p.xtc_probability = 0.3f;
    if (!rig_open(&r, &p, 4)) return;
    int n_acted = 0;
    for (int i = 0; i < 4000; i++) {
        chain_candidates(r.s, r.w, logits, NULL), cand_gather(r.w, -FLT_MAX);
        n_acted += r.w->n == 2 && r.w->id[0] == 2 && r.w->id[1] == 3;
        EXPECT(r.w->n == 2 || r.w->n == 4);
        sampler_accept(r.s, 0);
    }
    EXPECT(n_acted > 1200 - 130 && n_acted < 1200 + 130); /* within 4.5 standard deviations */
    rig_close(&r);
}

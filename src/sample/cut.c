/* cut.c - the cuts that keep the best part of the distribution.
 *
 * p is the softmax of logit / temperature over the candidates that earlier cuts left. Each cut
 * keeps at least one; among equal tokens the lower ids stay.
 *
 *   top_n_sigma  (Tang et al. 2024) logit >= max - n * sigma; sigma: standard deviation
 * (population) of the logits that are not forbidden. Temperature cancels. top_k        (Fan et al.
 * 2018) the k most likely typical_p    (Meister et al. 2022) in ascending order of |-ln p -
 * entropy|, taken in float: the shortest prefix whose probabilities sum to at least typical_p top_p
 * (Holtzman et al. 2019) in descending order of p: the shortest prefix that sums to at least top_p
 *   min_p        (Nguyen et al. 2024) p >= min_p * max p
 *
 * None of them sorts: top_k, typical_p and top_p search their last token by radix (rank.c), the
 * others are a threshold from the start. */
#include "sample_impl.h"
#include "sample_math.h"

/* ---- top_n_sigma ----------------------------------------------------------------------------- */

static bool top_n_sigma_wanted(const struct sample_params *p)
{
    return p->top_n_sigma > 0;
}

/* weight[] serves as scratch: the first cut has no weights yet. */
static double logit_sigma(struct sample_work *w)
{
    double *x = w->weight;
    for (int i = 0; i < w->n; i++) x[i] = w->logit[i];
    double mean = sum_lanes(x, w->n) / w->n;
    for (int i = 0; i < w->n; i++) x[i] = (x[i] - mean) * (x[i] - mean);
    w->weighed = false;
    return sqrt(sum_lanes(x, w->n) / w->n);
}

static void top_n_sigma_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    (void)state;
    cand_keep_logit(w, w->max - (double)s->p.top_n_sigma * logit_sigma(w));
}

const struct stage stage_top_n_sigma = {
    .kind = STAGE_CUT, .wanted = top_n_sigma_wanted, .apply = top_n_sigma_apply};

/* ---- top_k ----------------------------------------------------------------------------------- */

static bool top_k_wanted(const struct sample_params *p)
{
    return p->top_k > 0;
}

static float top_k_floor(const struct sampler *s, struct sample_work *w)
{
    return cand_floor_of_k(w, s->v.n_vocab, s->p.top_k);
}

static void top_k_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    (void)state;
    if (w->n <= s->p.top_k) return;
    cand_rank_by_logit(w);
    cand_keep_cut(w, rank_cut(w, NULL, w->n, s->p.top_k));
}

const struct stage stage_top_k = {
    .kind = STAGE_CUT, .wanted = top_k_wanted, .floor = top_k_floor, .apply = top_k_apply};

/* ---- typical_p ------------------------------------------------------------------------------- */

static bool typical_p_wanted(const struct sample_params *p)
{
    return p->typical_p < 1;
}

/* With x = logit / temperature and p = e^x / Z: -ln p - entropy = (ln Z - x) - (ln Z - E[x]) = E[x]
 * - x. So the order needs no logarithm, and no division by the temperature either. */
static double expected_logit(const struct sample_work *w)
{
    double sum = 0, product[CHUNK_CANDS];
    for (int from = 0; from < w->n; from += CHUNK_CANDS) {
        int n = w->n - from < CHUNK_CANDS ? w->n - from : CHUNK_CANDS;
        for (int i = 0; i < n; i++)
            product[i] = w->weight[from + i] * ((double)w->logit[from + i] - w->max);
        sum += sum_lanes(product, n);
    }
    return sum / w->total;
}

static void typical_p_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    (void)state;
    cand_weigh(w, s->temperature_inverse);
    double expected = expected_logit(w);
    for (int i = 0; i < w->n; i++) {
        float distance = (float)fabs(expected - ((double)w->logit[i] - w->max));
        memcpy(&w->rank[i], &distance,
               sizeof distance); /* not negative: its bits are in its order */
    }
    cand_keep_cut(w, rank_cut(w, w->weight, w->n, s->p.typical_p * w->total));
}

const struct stage stage_typical_p = {
    .kind = STAGE_CUT, .wanted = typical_p_wanted, .apply = typical_p_apply};

/* ---- top_p ----------------------------------------------------------------------------------- */

static bool top_p_wanted(const struct sample_params *p)
{
    return p->top_p < 1;
}

/* Tokens lighter than (1 - p) total / n weigh less than (1 - p) total together, so without them the
 * rest still reaches p: none of them is in the prefix. That leaves hundreds of 150 k to search.
 * (Half of that bound, so that rounding cannot drop equal tokens all at once.) */
static void top_p_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    (void)state;
    cand_weigh(w, s->temperature_inverse);
    double target = s->p.top_p * w->total;
    cand_keep_weight(w, 0.5 * (w->total - target) / w->n);
    cand_rank_by_logit(w);
    cand_keep_cut(w, rank_cut(w, w->weight, w->n, target));
}

const struct stage stage_top_p = {.kind = STAGE_CUT, .wanted = top_p_wanted, .apply = top_p_apply};

/* ---- min_p ----------------------------------------------------------------------------------- */

static bool min_p_wanted(const struct sample_params *p)
{
    return p->min_p > 0;
}

/* p / max p = exp((logit - max logit) / temperature): no weights needed. */
static double min_p_logit(const struct sampler *s, double max)
{
    return max + sample_log(s->p.min_p) * s->p.temperature;
}

static float min_p_floor(const struct sampler *s, struct sample_work *w)
{
    double floor = min_p_logit(s, w->max);
    return floor >= -FLT_MAX ? nextafterf((float)floor, -FLT_MAX) : -FLT_MAX;
}

static void min_p_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    (void)state;
    float max = w->logit[0];
    for (int i = 1; i < w->n; i++) max = w->logit[i] > max ? w->logit[i] : max;
    cand_keep_logit(w, min_p_logit(s, max));
}

const struct stage stage_min_p = {
    .kind = STAGE_CUT, .wanted = min_p_wanted, .floor = min_p_floor, .apply = min_p_apply};

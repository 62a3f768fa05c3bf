/* cut.c - the cuts that keep the most likely part of the distribution.
 *
 * p is the softmax of logit / temperature over the candidates of the earlier cuts. Each cut keeps
 * at least one candidate, and the last three cuts keep at least min_keep. Lower ids go first in
 * ties.
 *
 *   top_n_sigma  (Tang et al. 2024) logit >= max - n * sigma; sigma is the standard deviation
 *                (population) of the logits that are not forbidden. The result does not depend on
 *                the temperature.
 *   top_k        (Fan et al. 2018) the k most likely tokens
 *   typical_p    (Meister et al. 2022) in ascending order of |-ln p - entropy|, computed in float:
 *                the shortest prefix whose probabilities sum to at least typical_p
 *   top_p        (Holtzman et al. 2019) in descending order of p: the shortest prefix that sums to
 *                at least top_p
 *   min_p        (Nguyen et al. 2024) p >= min_p * max p
 *
 * No cut sorts all candidates. top_k, typical_p and top_p search for their last token (rank.c). The
 * other cuts only compare with a threshold. */
#include "sample_impl.h"
#include "sample_math.h"

/* ---- top_n_sigma ----------------------------------------------------------------------------- */

static bool top_n_sigma_wanted(const struct sample_params *p)
{
    return p->top_n_sigma > 0;
}

static double logit_sigma(const struct sample_work *w)
{
    const struct kern *k = &w->kern;
    float mean = w->max + (float)(k->row_product(w->logit, w->max, NULL, 0, w->n) / w->n);
    return sqrt(k->row_product(w->logit, mean, w->logit, mean, w->n) / w->n);
}

static void top_n_sigma_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    (void)state;
    cand_gather(w, -FLT_MAX);
    const double max = w->kern.row_max(w->block_sum, w->logit, w->n);
    cand_gather(w, max - (double)s->p.top_n_sigma * logit_sigma(w));
}

const struct stage stage_top_n_sigma = {
    .kind = STAGE_CUT, .wanted = top_n_sigma_wanted, .apply = top_n_sigma_apply};

/* ---- top_k ----------------------------------------------------------------------------------- */

static bool top_k_wanted(const struct sample_params *p)
{
    return p->top_k > 0;
}

static void top_k_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    (void)state;
    cand_keep_top(w, s->p.top_k);
}

const struct stage stage_top_k = {.kind = STAGE_CUT, .wanted = top_k_wanted, .apply = top_k_apply};

/* ---- typical_p ------------------------------------------------------------------------------- */

static bool typical_p_wanted(const struct sample_params *p)
{
    return p->typical_p < 1;
}

/* Compute the keys of the order. With x = logit / temperature and p = e^x / Z: -ln p - entropy =
 * (ln Z - x) - (ln Z - E[x]) = E[x] - x. Therefore a key needs neither a logarithm nor a division
 * by the temperature. The loop processes whole blocks, for SIMD. The arrays have room for whole
 * blocks. */
static void typical_keys(struct sample_work *w)
{
    double expected = w->kern.row_product(w->logit, w->max, w->weight, 0, w->n) / w->total;
    for (int from = 0; from < w->n; from += ROW_BLOCK)
        for (int i = from; i < from + ROW_BLOCK; i++)
            w->key[i] = (float)-fabs(expected - ((double)w->logit[i] - w->max));
}

static void typical_p_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    (void)state;
    cand_gather(w, -FLT_MAX);
    cand_weigh(w, w->temperature_inverse);
    typical_keys(w);
    struct cut cut = rank_cut(w, w->key, w->weight, w->n, s->p.typical_p * w->total);
    cand_keep_cut(w, w->key, cand_cut_at_least(w, w->key, cut, s->p.min_keep));
}

const struct stage stage_typical_p = {
    .kind = STAGE_CUT, .wanted = typical_p_wanted, .apply = typical_p_apply};

/* ---- top_p ----------------------------------------------------------------------------------- */

static bool top_p_wanted(const struct sample_params *p)
{
    return p->top_p < 1;
}

/* Gather the tokens of the row with the highest weights until they reach the target. First gather
 * the tokens within 4 temperatures of the highest logit (e^-4 of its weight), then within 8, then
 * 16, and so on. The search then processes only hundreds of 150 k tokens. */
static void gather_mass(struct sample_work *w, const struct sampler *s, double target)
{
    const float *row = w->row;
    int n = w->n;
    for (double depth = 4; row; depth *= 2) {
        cand_restart(w, row, n);
        cand_gather(w, depth < 105 ? w->max - depth * w->temperature : -FLT_MAX);
        cand_weigh(w, w->temperature_inverse);
        if ((w->total >= target && w->n >= s->p.min_keep) || depth >= 105) return;
    }
}

static void top_p_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    (void)state;
    cand_weigh(w, w->temperature_inverse);
    double target = s->p.top_p * w->total;
    gather_mass(w, s, target);
    struct cut cut = rank_cut(w, w->logit, w->weight, w->n, target);
    cand_keep_cut(w, w->logit, cand_cut_at_least(w, w->logit, cut, s->p.min_keep));
}

const struct stage stage_top_p = {.kind = STAGE_CUT, .wanted = top_p_wanted, .apply = top_p_apply};

/* ---- min_p ----------------------------------------------------------------------------------- */

static bool min_p_wanted(const struct sample_params *p)
{
    return p->min_p > 0;
}

/* Gather the candidates. No weights are needed, because p / max p = exp((logit - max logit) /
 * temperature). */
static void min_p_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    (void)state;
    float max = w->row ? w->max : w->kern.row_max(w->block_sum, w->logit, w->n);
    double floor = max + sample_log(s->p.min_p) * w->temperature;
    if (s->p.min_keep > 1) {
        cand_gather(w, -FLT_MAX);
        struct cut cut = {.floor = cand_float_at_least(floor), .n_tie = w->n};
        cand_keep_cut(w, w->logit, cand_cut_at_least(w, w->logit, cut, s->p.min_keep));
    } else {
        cand_gather(w, floor);
    }
}

const struct stage stage_min_p = {.kind = STAGE_CUT, .wanted = min_p_wanted, .apply = min_p_apply};

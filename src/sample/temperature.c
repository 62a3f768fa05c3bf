/* temperature.c - the temperature of later stages, and its choice by the entropy.
 *
 *   temperature      the weights are exp((logit - max) / temperature)
 *   dynatemp_range   (llama.cpp's dynamic temperature) with r the range: the temperature is
 *                    low + (high - low) * h ^ dynatemp_exponent, with low = max(0, temperature -
 * r),
 *                    high = temperature + r, and h the entropy of the candidates at temperature 1,
 *                    divided by its maximum, the logarithm of their number
 *
 * Without an order, this stage is the first stage after the edits, and all cuts use its
 * temperature. Without a dynamic temperature, the stage is not needed in this case. */
#include "sample_impl.h"
#include "sample_math.h"

static void set(struct sample_work *w, double temperature)
{
    w->temperature = temperature;
    w->temperature_inverse = temperature > 0 ? 1 / temperature : INFINITY;
}

static bool temperature_wanted(const struct sample_params *p)
{
    return p->n_order >= 0 || p->dynatemp_range > 0;
}

void temperature_begin(const struct sampler *s, struct sample_work *w)
{
    set(w, temperature_wanted(&s->p) ? 1 : (double)s->p.temperature);
}

/* Return the entropy of the candidates at temperature 1, divided by its maximum, in [0, 1]. With
 * x = logit - max and p = e^x / Z, the entropy is ln Z - E[x]. */
static double relative_entropy(struct sample_work *w)
{
    cand_gather(w, -FLT_MAX);
    if (w->n < 2) return 0;
    cand_weigh(w, 1);
    double mean = w->kern.row_product(w->logit, w->max, w->weight, 0, w->n) / w->total,
           h = (sample_log(w->total) - mean) / sample_log(w->n);
    return h > 1 ? 1 : h > 0 ? h : 0;
}

static double power(double x, double exponent)
{
    return exponent == 0 ? 1 : x > 0 ? sample_exp(exponent * sample_log(x)) : 0;
}

static void temperature_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    const double t = s->p.temperature, range = s->p.dynatemp_range;
    (void)state;
    cand_raise(w);
    if (!(range > 0)) {
        set(w, t);
        return;
    }
    const double low = t > range ? t - range : 0;
    set(w, low + (t + range - low) * power(relative_entropy(w), s->p.dynatemp_exponent));
}

const struct stage stage_temperature = {
    .kind = STAGE_SCALE, .wanted = temperature_wanted, .apply = temperature_apply};

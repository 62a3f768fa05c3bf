/* xtc.c - XTC, "exclude top choices" (p-e-w, text-generation-webui pull request 6335). The stage
 * acts with probability xtc_probability. In this case it removes the candidates with p >=
 * xtc_threshold, except the least likely of these. XTC prefers a good but less usual token. Of
 * equal candidates, the last in order is kept, which has the highest id. A single candidate above
 * the threshold is kept. The stage removes no candidate if fewer than min_keep would remain. The
 * stage is off if the threshold is above 0.5, because two candidates cannot reach it. */
#include "sample_impl.h"

static bool xtc_wanted(const struct sample_params *p)
{
    return p->xtc_probability > 0 && p->xtc_threshold <= 0.5f;
}

/* Return the last candidate, by descending weight and ascending id, that reaches `floor`; -1 if
 * none. */
static int least_choice(const struct sample_work *w, double floor)
{
    int least = -1;
    for (int i = 0; i < w->n; i++)
        if (w->weight[i] >= floor && (least < 0 || w->logit[i] <= w->logit[least])) least = i;
    return least;
}

static void xtc_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    (void)state;
    if (!(rng_unit(&s->key, (uint64_t)RANDOM_XTC << 32) < s->p.xtc_probability)) return;
    cand_gather(w, -FLT_MAX);
    cand_weigh(w, w->temperature_inverse);
    double floor = s->p.xtc_threshold * w->total;
    int least = least_choice(w, floor);
    if (least < 0) return;
    int n_kept = 0;
    for (int i = 0; i < w->n; i++) {
        bool kept = i == least || w->weight[i] < floor;
        w->key[i] = kept ? 1 : -1;
        n_kept += kept;
    }
    if (n_kept < s->p.min_keep) return;
    cand_keep_cut(w, w->key, (struct cut){.floor = 0});
}

const struct stage stage_xtc = {.kind = STAGE_CUT, .wanted = xtc_wanted, .apply = xtc_apply};

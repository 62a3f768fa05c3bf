/* mirostat.c - keep the surprise (-log2 p) of the picked tokens at tau bits. The algorithm is
 * mirostat 2 (Basu et al. 2021, "Mirostat: a neural text decoding algorithm that directly controls
 * perplexity").
 *
 *   cut    remove candidates with a surprise above mu, except the most likely candidate
 *   draw   draw from the remaining candidates; s = surprise of the picked token, with p
 *          renormalized over the remaining candidates (as in llama.cpp)
 *   learn  mu -= eta * (s - tau), from mu = 2 tau
 *
 * mu changes when the picked token is accepted, not at the pick. Therefore a repeated pick, or a
 * pick whose token is replaced, has no effect. */
#include "sample_impl.h"
#include "sample_math.h"

static const double ln_2 = 0x1.62e42fefa39efp-1;

struct mirostat {
    double mu;
    int32_t drawn_id;
    double drawn_surprise;
};

static bool mirostat_wanted(const struct sample_params *p)
{
    return p->mirostat == 2;
}

static void *mirostat_open(struct sampler *s)
{
    struct mirostat *m = arena_push(&s->mem, sizeof *m, 16);
    if (m) *m = (struct mirostat){.mu = 2.0 * s->p.mirostat_tau, .drawn_id = -1};
    return m;
}

static int heaviest(const struct sample_work *w)
{
    int best = 0;
    for (int i = 1; i < w->n; i++)
        if (w->logit[i] > w->logit[best]) best = i;
    return best;
}

/* Remove candidates with surprise > mu, which is p < 2^-mu. Only the most likely candidate remains
 * if mu is below 0, because eta is too large for tau. */
static void mirostat_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    const struct mirostat *m = state;
    (void)s;
    cand_weigh(w, w->temperature_inverse);
    double floor = w->total * (m->mu > 0 ? sample_exp(-m->mu * ln_2) : 1);
    /* gather only the row's tokens that may have this weight, with a margin for rounding */
    cand_gather(w, w->max + (sample_log(floor < 1 ? floor : 1) - 0.01) * w->temperature);
    cand_weigh(w, w->temperature_inverse);
    int best = heaviest(w);
    if (w->weight[best] >= floor)
        cand_keep_weight(w, floor);
    else
        cand_keep_one(w, best);
}

static void mirostat_drawn(void *state, const struct sampler *s, const struct sample_work *w,
                           int at)
{
    (void)s;
    struct mirostat *m = state;
    m->drawn_id = cand_id(w, at);
    m->drawn_surprise = sample_log(w->total / w->weight[at]) / ln_2;
}

static void mirostat_accept(void *state, const struct sampler *s, int32_t id)
{
    struct mirostat *m = state;
    if (id == m->drawn_id) m->mu -= s->p.mirostat_eta * (m->drawn_surprise - s->p.mirostat_tau);
    m->drawn_id = -1;
}

const struct stage stage_mirostat = {.kind = STAGE_STEER,
                                     .wanted = mirostat_wanted,
                                     .open = mirostat_open,
                                     .accept = mirostat_accept,
                                     .apply = mirostat_apply,
                                     .drawn = mirostat_drawn};

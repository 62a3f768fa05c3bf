/* adaptive.c - adaptive-p: prefer tokens whose probability is near a target (MrJackSpade; llama.cpp
 * pull request 17927).
 *
 *   target  t = 2 * adaptive_target - mean, in [0, 1]; mean is the mean probability of earlier
 *           tokens, in which each token has adaptive_decay times the weight of the next token
 *   change  with p the probability of a candidate and d = |p - t| / 0.3:
 *           its weight becomes exp(-10 d^2 / (1 + d))
 *   learn   the mean receives the probability p of the accepted token; the initial mean is the
 *           target, with the weight 1 / (1 - adaptive_decay)
 *
 * The stage is the last stage, because its weights are not a function of the logits. The mean
 * changes when the picked token is accepted, as in mirostat.c. */
#include "sample_impl.h"
#include "sample_math.h"

struct adaptive {
    double sum, weight; /* weighted sum of probabilities, and sum of the weights */
    double total;       /* sum of the candidates' weights before their change */
    int32_t drawn_id;
    double drawn_p; /* probability of the drawn token before the change */
};

static bool adaptive_wanted(const struct sample_params *p)
{
    return p->adaptive_target >= 0;
}

static void *adaptive_open(struct sampler *s)
{
    struct adaptive *a = arena_push(&s->mem, sizeof *a, 16);
    const double weight = 1 / (1 - (double)s->p.adaptive_decay);
    if (a)
        *a = (struct adaptive){
            .sum = s->p.adaptive_target * weight, .weight = weight, .drawn_id = -1};
    return a;
}

/* Return the sum of the list's weights, in ascending order of ids. */
static double sum_of(const struct sample_work *w)
{
    double sum = 0;
    for (int i = 0; i < w->n; i++) sum += (double)w->weight[i];
    return sum;
}

/* Change the weights of the list in place. The old weights are kept in w->key until the draw. */
static void adaptive_apply(void *state, const struct sampler *s, struct sample_work *w)
{
    struct adaptive *a = state;
    double target = 2 * (double)s->p.adaptive_target - a->sum / a->weight;
    if (target < 0) target = 0;
    if (target > 1) target = 1;
    cand_gather(w, -FLT_MAX);
    cand_weigh(w, w->temperature_inverse);
    a->total = w->total;
    for (int i = 0; i < w->n; i++) {
        const double d = fabs((double)w->weight[i] / a->total - target) / 0.3;
        w->key[i] = w->weight[i];
        if (w->weight[i] > 0) w->weight[i] = (float)sample_exp(-10 * d * d / (1 + d));
    }
    w->total = sum_of(w);
}

static void adaptive_drawn(void *state, const struct sampler *s, const struct sample_work *w,
                           int at)
{
    struct adaptive *a = state;
    (void)s;
    a->drawn_id = cand_id(w, at);
    a->drawn_p = (double)w->key[at] / a->total;
}

static void adaptive_accept(void *state, const struct sampler *s, int32_t id)
{
    struct adaptive *a = state;
    const double decay = s->p.adaptive_decay;
    if (id == a->drawn_id) {
        a->sum = a->drawn_p + decay * a->sum;
        a->weight = 1 + decay * a->weight;
    }
    a->drawn_id = -1;
}

const struct stage stage_adaptive_p = {.kind = STAGE_CUT,
                                       .wanted = adaptive_wanted,
                                       .open = adaptive_open,
                                       .accept = adaptive_accept,
                                       .apply = adaptive_apply,
                                       .drawn = adaptive_drawn};

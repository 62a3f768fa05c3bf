/* fit_scale.c - encoders for formats without minimums: x ~ d * scale[j] * q.
 *
 * Weighted least squares in three levels:
 *
 * (1) For each sub-block alone, try several starting steps. Alternate between the nearest integers
 * for a step and the best step for these integers. Keep the step with the least error.
 *
 * (2) Find one d whose admissible multiples are close to all steps of (1). The error of d is the
 *     sum
 * of the parabolas of the steps' errors near their minimums.
 *
 * (3) With d rounded to f16, try each scale and its neighbours on the values. Then solve d again
 * for these integers, and repeat.
 *
 * The coder defines the admissible integers: a range, a table, or a code book with signs. */
#include "quant_impl.h"

static float clamp(float v, float lo, float hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

void uniform_nearest(const struct coder *c, int8_t *q, const float *x, const float *w, int n,
                     float step)
{
    (void)w;
    float per_step = fabsf(step) > 1e-30f ? 1.0f / step : 0.0f;
    for (int i = 0; i < n; i++)
        q[i] = (int8_t)lrintf(clamp(x[i] * per_step, (float)c->lo, (float)c->hi));
}

void level_nearest(const struct coder *c, int8_t *q, const float *x, const float *w, int n,
                   float step)
{
    (void)w;
    float per_step = fabsf(step) > 1e-30f ? 1.0f / step : 0.0f;
    float middle[16];
    for (int k = 0; k < 15; k++) middle[k] = 0.5f * (float)(c->level[k] + c->level[k + 1]);
    middle[15] = INFINITY;
    for (int i = 0; i < n; i++) {
        float target = x[i] * per_step;
        int n_below = 0;
        for (int k = 0; k < 16; k++) n_below += middle[k] < target;
        q[i] = c->level[n_below];
    }
}

/* Optimum of a sub-block. Near the optimum `step`, the error grows as curve * (step' - step)^2. */
struct target {
    float step, curve;
};

/* Find the integers for the given step, then the best step for these integers. Return the part of
 * sum w x^2 that the integers explain. */
static float step_improve(const struct coder *c, struct target *s, const float *x, const float *w,
                          int n)
{
    int8_t q[BLOCK_MAX];
    float xq = 0.0f, qq = 0.0f;
    c->nearest(c, q, x, w, n, s->step);
    for (int i = 0; i < n; i++) {
        xq += w[i] * x[i] * (float)q[i];
        qq += w[i] * (float)(q[i] * q[i]);
    }
    *s = (struct target){qq > 0.0f ? xq / qq : 0.0f, qq};
    return s->step * xq;
}

/* Find the step with the least weighted error. Steps in a fan around the largest value are tried
 * and improved twice. Both signs are tried if the range of codes is asymmetric. */
static struct target step_search(const struct coder *c, const float *x, const float *w, int n)
{
    struct target best = {0};
    float gain_best = 0.0f, max = 0.0f;
    int n_sign = c->lo == -c->hi ? 1 : 2;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > max) max = fabsf(x[i]);
    for (int t = 0; t < c->fan.n * n_sign; t++) {
        float multiple =
            c->fan.from + (c->fan.to - c->fan.from) * (float)(t / n_sign) / (float)(c->fan.n - 1);
        struct target s = {max / multiple * (t % n_sign ? -1.0f : 1.0f), 0.0f};
        step_improve(c, &s, x, w, n);
        float gain = step_improve(c, &s, x, w, n);
        if (gain <= gain_best) continue;
        gain_best = gain;
        best = s;
    }
    return best;
}

/* Return the admissible scale nearest to `ratio`. */
static int scale_near(const struct coder *c, float ratio)
{
    float k = (ratio - (float)c->scale.lo) / (float)c->scale.by;
    return c->scale.lo +
           c->scale.by *
               (int)lrintf(clamp(k, 0, (float)((c->scale.hi - c->scale.lo) / c->scale.by)));
}

static float target_error(const struct coder *c, const struct target *s, int n_sub, float d)
{
    float sum = 0.0f;
    for (int j = 0; j < n_sub; j++) {
        float e = s[j].step - d * (float)scale_near(c, d != 0.0f ? s[j].step / d : 0.0f);
        sum += s[j].curve * e * e;
    }
    return sum;
}

/* Find a first d. With this d, the scale of the largest step is at an end of the range, or up to 32
 * % above or below that end. */
static float d_search(const struct coder *c, const struct target *s, int n_sub)
{
    enum { N_TRY = 16 }; /* 4 or 64 tries change the RMSE by at most 0.1 % */
    float extreme = 0.0f, best = 0.0f, least = INFINITY;
    for (int j = 0; j < n_sub; j++)
        if (fabsf(s[j].step) > fabsf(extreme)) extreme = s[j].step;
    for (int t = -N_TRY; t <= N_TRY; t++) {
        float bend = 1.0f + 0.02f * (float)t;
        for (int end = 0; end < 2; end++) {
            int scale = end ? c->scale.hi : c->scale.lo;
            if (end == 0 && c->scale.lo >= 0) continue;
            float d = extreme / (float)scale * bend, e = target_error(c, s, n_sub, d);
            if (e >= least) continue;
            least = e;
            best = d;
        }
    }
    return best;
}

/* Choose scale and integers of sub-block j for the block's d (in units of v->unit). Return the
 * error. */
static float scale_choose(struct block *b, const struct values *v, const struct coder *c, int sub,
                          int j, int first, float d)
{
    float least = INFINITY;
    const float *x = v->x + j * sub, *w = v->w + j * sub;
    for (int k = -1; k <= 1; k++) {
        int8_t q[BLOCK_MAX];
        int scale = first + k * c->scale.by;
        if (scale < c->scale.lo || scale > c->scale.hi) continue;
        c->nearest(c, q, x, w, sub, d * (float)scale);
        float e = step_error(q, x, w, sub, d * (float)scale);
        if (e >= least) continue;
        least = e;
        b->scale[j] = (int16_t)scale;
        memcpy(b->q + j * sub, q, (size_t)sub);
    }
    return least;
}

/* Return the best d for the integers of b, in units of v->unit. */
static float d_solve(const struct block *b, const struct values *v, int sub)
{
    float xq = 0.0f, qq = 0.0f;
    for (int i = 0; i < v->n; i++) {
        float q = (float)(b->scale[i / sub] * b->q[i]);
        xq += v->w[i] * v->x[i] * q;
        qq += v->w[i] * q * q;
    }
    return qq > 0.0f ? xq / qq : 0.0f;
}

void fit_scales(struct block *b, const struct values *v, const struct format *f)
{
    enum { N_ROUND = 3 }; /* relative RMSE of IQ1_M: 1.009 with 1 round, 1.000 with 6 rounds */
    struct target target[SUB_MAX];
    struct block now = {0};
    const struct coder *c = f->coder;
    int sub = f->sub, n_sub = f->n / sub;
    float least = INFINITY;
    for (int j = 0; j < n_sub; j++) target[j] = step_search(c, v->x + j * sub, v->w + j * sub, sub);
    float d = d_search(c, target, n_sub);
    for (int round = 0; round < N_ROUND; round++) {
        float e = 0.0f;
        now.d = half_near(d * v->unit * (float)c->d_factor) / (float)c->d_factor;
        float d_near = now.d / v->unit;
        for (int j = 0; j < n_sub; j++) {
            int first = scale_near(c, d_near != 0.0f ? target[j].step / d_near : 0.0f);
            e += scale_choose(&now, v, c, sub, j, first, d_near);
        }
        if (e < least) {
            least = e;
            *b = now;
        }
        d = d_solve(&now, v, sub);
    }
}

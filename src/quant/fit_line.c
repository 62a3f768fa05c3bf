/* fit_line.c - encoders for formats with minimums: x ~ step * q - low, q in [0, hi].
 *
 * The search has the same three levels as fit_scale.c, but fits lines with an offset.
 *
 * (1) Each sub-block tries several starting lines. A line is the values' span, shortened by a
 * factor, at the lower end, the middle or the upper end. Two steps alternate to improve the line:
 * choice of the nearest integers, and weighted linear regression.
 *
 * (2) d and dmin are chosen so that their multiples fit these lines.
 *
 * (3) Neighbours of every scale and minimum are tried on the values, with a joint regression for d
 * and dmin. low is at least 0 for k-quants, because these formats store minimums without a sign. */
#include "quant_impl.h"

struct fit_line {
    float step, low;
};

static void line_nearest(int8_t *q, const float *x, int n, struct fit_line l, int hi)
{
    float per_step = l.step > 1e-30f ? 1.0f / l.step : 0.0f;
    for (int i = 0; i < n; i++) {
        float v = (x[i] + l.low) * per_step;
        v = v < 0.0f ? 0.0f : v > (float)hi ? (float)hi : v;
        q[i] = (int8_t)lrintf(v);
    }
}

static float line_error(const int8_t *q, const float *x, const float *w, int n, struct fit_line l)
{
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        float e = x[i] - (l.step * (float)q[i] - l.low);
        sum += w[i] * e * e;
    }
    return sum;
}

/* Weighted regression of x [n] on u [n] and v [n]: x ~ a u + b v. The result uses u alone or v
 * alone if the second variable gives no improvement. */
struct regression {
    double uu, uv, vv, xu, xv;
};

static void regression_add(struct regression *r, float w, float x, float u, float v)
{
    r->uu += (double)w * u * u;
    r->uv += (double)w * u * v;
    r->vv += (double)w * v * v;
    r->xu += (double)w * x * u;
    r->xv += (double)w * x * v;
}

static void regression_solve(const struct regression *r, float *a, float *b)
{
    double det = r->uu * r->vv - r->uv * r->uv;
    if (det > 1e-9 * r->uu * r->vv) {
        *a = (float)((r->xu * r->vv - r->xv * r->uv) / det);
        *b = (float)((r->xv * r->uu - r->xu * r->uv) / det);
    } else {
        *a = r->uu > 0.0 ? (float)(r->xu / r->uu) : 0.0f;
        *b = r->uu == 0.0 && r->vv > 0.0 ? (float)(r->xv / r->vv) : 0.0f;
    }
}

/* Return the best line for given integers, with low >= 0 if low_positive is true. */
static struct fit_line line_solve(const int8_t *q, const float *x, const float *w, int n,
                                  bool low_positive)
{
    float one = 0.0f, x1 = 0.0f, q1 = 0.0f, qq = 0.0f, xq = 0.0f;
    for (int i = 0; i < n; i++) {
        float wq = w[i] * (float)q[i];
        one += w[i];
        x1 += w[i] * x[i];
        q1 += wq;
        qq += wq * (float)q[i];
        xq += wq * x[i];
    }
    struct regression r = {.uu = qq, .uv = -q1, .vv = one, .xu = xq, .xv = -x1};
    struct fit_line l;
    regression_solve(&r, &l.step, &l.low);
    if (low_positive && l.low < 0.0f) {
        l.low = 0.0f;
        l.step = qq > 0.0f ? xq / qq : 0.0f;
    }
    if (l.step < 0.0f) l.step = 0.0f;
    return l;
}

/* Improve l in place by some alternations. Return the error of l with the nearest integers. */
static float line_improve(struct fit_line *l, const float *x, const float *w, int n, int hi,
                          bool low_positive)
{
    enum { N_ROUND = 2 }; /* relative RMSE of Q4_1: 1.001 with 1 round, 0.999 with 4 rounds */
    int8_t q[BLOCK_MAX];
    for (int round = 0; round < N_ROUND; round++) {
        line_nearest(q, x, n, *l, hi);
        *l = line_solve(q, x, w, n, low_positive);
    }
    line_nearest(q, x, n, *l, hi);
    return line_error(q, x, w, n, *l);
}

/* Find step and low with the least weighted error. Try several spans and places, because the error
 * has many local minima. Improve each line by least squares. */
static struct fit_line line_search(const float *x, const float *w, int n, int hi, bool low_positive)
{
    /* RMSE relative to these constants: 3 spans 1.009 (Q5_1), 1.010 (Q5_K), 12 spans 1.000. 1 place
     * has 1.19 (Q4_1), 1.18 (Q4_K); 5 places have 0.999, but 1.08 for Q2_K (measurements.md,
     * "Constants"). */
    enum { N_SPAN = 6, N_PLACE = 3 };
    struct fit_line best = {0};
    float least = INFINITY, min = x[0], max = x[0];
    for (int i = 1; i < n; i++) {
        min = fminf(min, x[i]);
        max = fmaxf(max, x[i]);
    }
    if (low_positive) min = fminf(min, 0.0f);
    for (int t = 0; t < N_SPAN * N_PLACE; t++) {
        /* Formats with fewer levels gain more from clipping. 4 levels use as little as half of the
         * span, 32 levels at least 0.93. */
        float part =
            1.0f + 0.4f / (float)hi - 2.0f / (float)(hi + 1) * (float)(t / N_PLACE) / (N_SPAN - 1);
        float left_out = (max - min) * (1.0f - part);
        struct fit_line l = {(max - min) * part / (float)hi,
                             -(min + left_out * 0.5f * (float)(t % N_PLACE))};
        float e = line_improve(&l, x, w, n, hi, low_positive);
        if (e >= least) continue;
        least = e;
        best = l;
    }
    return best;
}

void fit_line(struct block *b, const struct values *v, const struct format *f)
{
    int hi = f->coder->hi;
    struct fit_line l = line_search(v->x, v->w, v->n, hi, false);
    b->d = half_near(l.step * v->unit);
    b->dmin = half_near(-l.low * v->unit);
    b->scale[0] = 1;
    b->min[0] = -1;
    line_nearest(b->q, v->x, v->n, (struct fit_line){b->d / v->unit, -b->dmin / v->unit}, hi);
}

/* ---- k-quants ---- */

struct lines {
    const struct values *v; /* values of the block, borrowed */
    struct fit_line target[SUB_MAX];
    int n_sub, sub, hi, scale_max;
    struct fit_line unit; /* d and dmin in units of v->unit */
};

static int near_multiple(float x, float unit, int max)
{
    float k = unit > 1e-30f ? x / unit : 0.0f;
    return (int)lrintf(k < 0.0f ? 0.0f : k > (float)max ? (float)max : k);
}

/* Choose scale, minimum and integers of sub-block j. Candidates are the scale and minimum nearest
 * to the target of the sub-block, and the neighbours of these two numbers. Without the neighbours
 * the RMSE is larger by a factor of 1.03 (Q2_K) and 1.01 (Q5_K). Return the error. */
static float sub_choose(struct block *b, const struct lines *s, int j)
{
    const float *x = s->v->x + j * s->sub, *w = s->v->w + j * s->sub;
    int scale = near_multiple(s->target[j].step, s->unit.step, s->scale_max);
    int min = near_multiple(s->target[j].low, s->unit.low, s->scale_max);
    float least = INFINITY;
    for (int t = 0; t < 9; t++) {
        int8_t q[BLOCK_MAX];
        int ks = scale + t / 3 - 1, km = min + t % 3 - 1;
        if (ks < 0 || ks > s->scale_max || km < 0 || km > s->scale_max) continue;
        struct fit_line l = {s->unit.step * (float)ks, s->unit.low * (float)km};
        line_nearest(q, x, s->sub, l, s->hi);
        float e = line_error(q, x, w, s->sub, l);
        if (e >= least) continue;
        least = e;
        b->scale[j] = (int16_t)ks;
        b->min[j] = (int16_t)km;
        memcpy(b->q + j * s->sub, q, (size_t)s->sub);
    }
    return least;
}

/* Round the unit to f16 and choose all sub-blocks for this unit. Return the error of the block. */
static float block_choose(struct block *b, struct lines *s)
{
    float e = 0.0f, unit = s->v->unit;
    b->d = half_near(s->unit.step * unit);
    b->dmin = half_near(s->unit.low * unit);
    s->unit = (struct fit_line){b->d / unit, b->dmin / unit};
    for (int j = 0; j < s->n_sub; j++) e += sub_choose(b, s, j);
    return e;
}

/* Write the best d and dmin for the integers of b to s->unit. */
static void unit_solve(struct lines *s, const struct block *b)
{
    struct regression r = {0};
    for (int i = 0; i < s->v->n; i++) {
        int j = i / s->sub;
        regression_add(&r, s->v->w[i], s->v->x[i], (float)(b->scale[j] * b->q[i]),
                       (float)-b->min[j]);
    }
    regression_solve(&r, &s->unit.step, &s->unit.low);
    s->unit.step = fmaxf(s->unit.step, 0.0f);
    s->unit.low = fmaxf(s->unit.low, 0.0f);
}

void fit_lines(struct block *b, const struct values *v, const struct format *f)
{
    enum { N_ROUND = 3 }; /* relative RMSE of Q2_K: 1.008 with 1 round, 1.000 with 6 rounds */
    int sub = f->sub, hi = f->coder->hi, scale_max = f->coder->scale.hi;
    struct lines s = {.v = v, .n_sub = f->n / sub, .sub = sub, .hi = hi, .scale_max = scale_max};
    struct block now = {0};
    float least = INFINITY;
    for (int j = 0; j < s.n_sub; j++) {
        s.target[j] = line_search(v->x + j * sub, v->w + j * sub, sub, hi, true);
        s.unit.step = fmaxf(s.unit.step, s.target[j].step / (float)scale_max);
        s.unit.low = fmaxf(s.unit.low, s.target[j].low / (float)scale_max);
    }
    for (int round = 0; round < N_ROUND; round++) {
        float e = block_choose(&now, &s);
        if (e < least) {
            least = e;
            *b = now;
        }
        unit_solve(&s, &now);
    }
}

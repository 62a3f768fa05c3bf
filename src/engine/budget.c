/* budget.c - an online model of a step's time; budget.h describes its use.
 *
 *   time = speed * (w0 + w1 [prompts and decodes mixed]
 *                   + w2 rows up to 32 + w3 rows from 33 to 256 + w4 rows beyond
 *                   + w5 positions read + w6 pairs of a prompt's row and a position before it)
 *
 * A step reads all weights once, however few its rows are: w0. Further rows cost little until
 * arithmetic takes longer than reading the weights, so the slope changes at that number of rows. No
 * slope is negative. A slope without observations equals the previous slope.
 *
 * The weights are a least squares fit of relative errors over the last steps. Coordinate descent
 * starts from the last weights, so a direction without information stays unchanged. The weights of
 * three kinds of steps decay separately. With a common decay, an hour of decoding would erase the
 * cost of prompts. A sudden change of the machine, such as another process, changes `speed` within
 * a few steps. A sudden change does not change the weights, because a step whose time is far from
 * the estimate has a lower weight in the fit. For `speed` the ratio is clamped to [0.5, 2].
 *
 * Steps without prompts are not observed if all steps mix prompts and decodes. Therefore one step
 * in 64 gets no prompts. It is one step in 16 if the sequences that decode have changed since the
 * last such step. A step without prompts has its full weight, even if its time is far from the
 * estimate. The estimate of a count's cost is unreliable if the count is almost equal in all recent
 * steps. The two rules were measured with 1 to 32 sequences of 64 to 8 k tokens, which changed
 * every 500 steps. With a target of 2, the 99th percentile was 3.6 to 4.0 times the idle time
 * without the rules, and 2.1 times with the rules. Separate sums for decodes of each size had no
 * effect.
 *
 * The target must hold for 99 steps in 100, not on average. Therefore `margin` follows the 99th
 * percentile of time / estimate, and 5 % of the target is kept in reserve.
 *
 * The default target is twice the time of a step without prompts. With this target, a prompt gets
 * half of the time. The step's fixed part is a part of the decodes' half. The prompt therefore has
 * more than a quarter of the rows per second that it would have alone. Streams never slow down by
 * more than a factor of 2. The maximum target is 4 times the time of a step without prompts, so a
 * prompt gets at most three quarters of the time. For a model whose steps take a millisecond,
 * us_min is the target, because 2 ms are stricter than needed.
 *
 * Half of the time for prompts is unfair if many requests arrive together. For example, 31 requests
 * would wait for their first token, and one request would get its next tokens sooner. Therefore
 * time is shared per sequence, 1 + prompts / decodes, and `multiple_max` limits the delay of the
 * decodes. */
#include "budget.h"

#include "base/check.h"

#include <math.h>
#include <string.h>

enum { DECODES, MIXED, PROMPTS };
enum { ONE, MIX, FEW, SOME, MANY, READ, PAIR };
/* Limits of a step of prompts only, while other requests arrive. ALONE_US: time of the step in
 * microseconds. ALONE_ROWS: number of rows that keeps the arithmetic units busy. A step of 64 rows
 * has 493 tokens/s, and steps of 512 rows have 590 tokens/s (Q4_0; docs/measurements.md). */
enum { ALONE_US = 30 * 1000, ALONE_ROWS = 64 };
enum {
    /* The slope of time by rows changes twice. From 32 rows on, reading the weights is no longer
     * the bound. From 256 rows on, attention over a prompt's own rows takes a relevant time. */
    KNOT_FEW = 32,
    KNOT_SOME = 256,
    N_SWEEP = 4,     /* Gauss-Seidel sweeps per step, warm-started: 4 x 49 multiply-adds */
    N_FIRST = 8,     /* number of terms + 1, because fewer steps do not determine the estimate */
    ROWS_FIRST = 16, /* rows of a step before any estimate: half of the curve's first part */
    IDLE_EVERY = 64, /* a step without prompts costs prompts 1 / 64 = 1.6 % of their steps */
    /* while the decodes change, these steps cost prompts 1 / 16 = 6 % of their steps */
    IDLE_CHANGED = 16
};

/* The constants of learning. docs/measurements.md, "Constants", has the figures of smaller and
 * larger values on the machines of budget_test.c. Each value is between two others: with the first,
 * steps exceed the target. With the second, the model learns more slowly or prompts get less time.
 *   fade         factor on the past of a kind of steps, for the last 8 decodes and 32 other steps
 *   quick        share of a deviation that moves `speed`, for 5 late steps after a sudden slowdown
 *   aim          share of the target that is planned: 5 % in reserve
 *   floor_share  prompts have at least this share of an idle step, even with a stricter target
 *   off_scale    deviation that halves a step's weight in the fit, three times the noise of 5 %
 *   tie_share    weight of "neighbouring slopes are equal", as a share of the observations
 *   to_one       factor on the logarithm of `speed` at each step, which halves in 693 steps
 *   margin_step  step of `margin`; up in 1 step of 100, down by 1/99 of it, so it stays at p99
 *   margin_max   maximum of `margin`: larger deviations are attributed to `speed` */
static const double fade[BUDGET_N_KIND] = {7.0 / 8, 31.0 / 32, 31.0 / 32}, quick = 0.3, aim = 0.95,
                    floor_share = 0.125, off_scale = 0.15, tie_share = 1e-3, to_one = 0.999,
                    margin_step = 0.02, margin_max = 1.5;

void step_load_add(struct step_load *l, int pos, int n_row, bool prompt)
{
    CHECK(pos >= 0 && n_row >= 0, "%d rows from position %d", n_row, pos);
    l->n_row += n_row;
    l->n_kv += pos + n_row;
    if (!prompt) return;
    l->n_prompt_row += n_row;
    l->n_prompt_kv += pos + n_row;
    l->n_pair += (double)n_row * pos + (double)n_row * (n_row + 1) / 2;
}

static double clip(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

void budget_init(struct budget *b, const struct budget_options *o)
{
    *b = (struct budget){.options = *o, .speed = 1, .margin = 1};
    if (!(b->options.multiple > 0)) b->options.multiple = 2;
    if (b->options.multiple_max < b->options.multiple)
        b->options.multiple_max = b->options.multiple;
    b->multiple = b->options.multiple;
}

void budget_share(struct budget *b, int n_decode, int n_prompt)
{
    double fair = n_decode > 0 ? 1 + (double)n_prompt / n_decode : 1;
    b->multiple = clip(fair, b->options.multiple, b->options.multiple_max);
}

void budget_contended(struct budget *b, bool contended)
{
    b->contended = contended;
}

static int kind_of(const struct step_load *l)
{
    return l->n_prompt_row == 0 ? DECODES : l->n_prompt_row < l->n_row ? MIXED : PROMPTS;
}

/* Return the length of [0, n) within [lo, hi). */
static double overlap(int n, int lo, int hi)
{
    return n <= lo ? 0 : (n < hi ? n : hi) - lo;
}

/* Compute the terms of a step. The units of the terms give similar sizes in a busy step. */
static void terms(double x[BUDGET_N_TERM], const struct step_load *l)
{
    x[ONE] = 1;
    x[MIX] = kind_of(l) == MIXED;
    x[FEW] = overlap(l->n_row, 0, KNOT_FEW) / 32;
    x[SOME] = overlap(l->n_row, KNOT_FEW, KNOT_SOME) / 32;
    x[MANY] = overlap(l->n_row, KNOT_SOME, l->n_row) / 32;
    x[READ] = l->n_kv / 8192;
    x[PAIR] = l->n_pair / (32 * 8192);
}

static double estimate(const struct budget *b, const double x[BUDGET_N_TERM])
{
    double us = 0;
    for (int i = 0; i < BUDGET_N_TERM; i++) us += b->weight[i] * x[i];
    return us;
}

double budget_us(const struct budget *b, const struct step_load *l)
{
    double x[BUDGET_N_TERM];
    terms(x, l);
    return b->speed * estimate(b, x);
}

bool budget_is_fitted(const struct budget *b)
{
    return b->n_observed[DECODES] + b->n_observed[MIXED] + b->n_observed[PROMPTS] >= N_FIRST;
}

/* ---- queries ---- */

static double with_rows(const struct budget *b, const struct step_load *l, int pos, int n_row)
{
    struct step_load more = *l;
    step_load_add(&more, pos, n_row, true);
    return b->margin * budget_us(b, &more);
}

static struct step_load decodes_of(const struct step_load *l)
{
    return (struct step_load){.n_row = l->n_row - l->n_prompt_row,
                              .n_kv = l->n_kv - l->n_prompt_kv};
}

/* Return the estimated microseconds of the step without its prompts. */
static double idle_us(const struct budget *b, const struct step_load *l)
{
    struct step_load decodes = decodes_of(l);
    return budget_us(b, &decodes);
}

static double target_us(const struct budget *b, double idle)
{
    const struct budget_options *o = &b->options;
    return o->target_us > 0 ? o->target_us : fmax(b->multiple * idle, o->us_min);
}

static bool differs(double a, double b)
{
    return a > 1.5 * b || b > 1.5 * a;
}

/* Return true if the load of decodes differs from the load of the last step without prompts. */
static bool changed_since_idle(const struct budget *b, const struct step_load *l)
{
    struct step_load now = decodes_of(l);
    return differs(now.n_row, b->idle.n_row) || differs(now.n_kv, b->idle.n_kv);
}

/* Return true if a step without prompts must be observed. A target in microseconds does not need
 * these observations. */
static bool needs_idle_step(const struct budget *b, const struct step_load *l)
{
    int every = changed_since_idle(b, l) ? IDLE_CHANGED : IDLE_EVERY;
    return !(b->options.target_us > 0) &&
           (b->n_observed[DECODES] == 0 || b->n_since_idle >= every - 1);
}

int budget_rows(const struct budget *b, const struct step_load *l, int pos, int row_min,
                int row_max)
{
    bool alone = l->n_row == l->n_prompt_row;
    if ((alone && !b->contended) || isinf(b->options.target_us)) return row_max;
    if (!alone && needs_idle_step(b, l)) return 0;
    int least = alone ? ALONE_ROWS - l->n_row : l->n_prompt_row == 0;
    if (least < row_min) least = row_min;
    if (least > row_max) least = row_max;
    /* the time of many more rows than observed cannot be estimated */
    int n_estimable = 2 * b->prompt_row_max > ROWS_FIRST ? 2 * b->prompt_row_max : ROWS_FIRST;
    if (row_max > n_estimable - l->n_prompt_row) row_max = n_estimable - l->n_prompt_row;
    if (row_max < least) row_max = least;
    double idle = alone ? 0 : idle_us(b, l);
    double target = aim * (alone ? fmax(b->options.target_us, ALONE_US) : target_us(b, idle));
    if (target < (1 + floor_share) * idle) target = (1 + floor_share) * idle;
    int lo = least, hi = row_max;
    while (lo < hi) {
        int mid = lo + (hi - lo + 1) / 2;
        if (with_rows(b, l, pos, mid) <= target)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

/* ---- learning ---- */

static void accumulate(struct budget *b, int kind, const double x[BUDGET_N_TERM], double us,
                       double trust)
{
    double scale = trust / (us * us); /* the fit is of relative errors */
    for (int i = 0; i < BUDGET_N_TERM; i++) {
        for (int j = 0; j < BUDGET_N_TERM; j++)
            b->xx[kind][i][j] = b->xx[kind][i][j] * fade[kind] + x[i] * x[j] * scale;
        b->xy[kind][i] = b->xy[kind][i] * fade[kind] + x[i] * us * scale;
    }
}

/* Return the weight of a step. A large deviation is attributed to the machine (`speed`). */
static double trust_of(double ratio)
{
    double off = log(ratio) / off_scale;
    return 1 / (1 + off * off);
}

/* Couple neighbouring slopes of rows weakly. */
static void tie(double xx[BUDGET_N_TERM][BUDGET_N_TERM], int i, int j)
{
    double k = tie_share * xx[FEW][FEW];
    xx[i][i] += k, xx[j][j] += k;
    xx[i][j] -= k, xx[j][i] -= k;
}

/* Solve the least squares by coordinate descent. The weights begin with the weights of the last
 * step and stay >= 0, because a negative cost would reward larger steps. */
static void solve_weights(struct budget *b)
{
    double xx[BUDGET_N_TERM][BUDGET_N_TERM] = {{0}}, xy[BUDGET_N_TERM] = {0};
    for (int kind = 0; kind < BUDGET_N_KIND; kind++)
        for (int i = 0; i < BUDGET_N_TERM; i++) {
            for (int j = 0; j < BUDGET_N_TERM; j++) xx[i][j] += b->xx[kind][i][j];
            xy[i] += b->xy[kind][i];
        }
    tie(xx, FEW, SOME);
    tie(xx, SOME, MANY);
    for (int sweep = 0; sweep < N_SWEEP; sweep++)
        for (int i = 0; i < BUDGET_N_TERM; i++) {
            double rest = xy[i];
            for (int j = 0; j < BUDGET_N_TERM; j++)
                if (j != i) rest -= xx[i][j] * b->weight[j];
            if (xx[i][i] > 0) b->weight[i] = rest > 0 ? rest / xx[i][i] : 0;
        }
}

static void update_speed(struct budget *b, int kind, double ratio)
{
    b->speed *= pow(clip(ratio, 0.5, 2), quick);
    /* over many steps, the weights adapt to the slowdown */
    b->speed = clip(pow(b->speed, to_one), 1e-3, 1e3);
    if (kind == MIXED)
        b->margin =
            clip(b->margin + (ratio > b->margin ? 0.99 : -0.01) * margin_step, 1, margin_max);
}

void budget_observe(struct budget *b, const struct step_load *l, int64_t us)
{
    if (l->n_row < 1 || us < 1) return;
    int kind = kind_of(l);
    double x[BUDGET_N_TERM];
    terms(x, l);
    double known = b->speed * estimate(b, x), took = (double)us, trust = 1;
    bool counted_in_full =
        b->n_observed[kind]++ < N_FIRST || (kind == DECODES && changed_since_idle(b, l));
    if (!counted_in_full && known > 0) {
        trust = trust_of(took / known);
        update_speed(b, kind, took / known);
    }
    if (kind == DECODES) b->idle = *l;
    b->n_since_idle = kind == DECODES ? 0 : b->n_since_idle + (kind == MIXED);
    if (l->n_prompt_row > b->prompt_row_max) b->prompt_row_max = l->n_prompt_row;
    accumulate(b, kind, x, took / b->speed, trust);
    solve_weights(b);
}

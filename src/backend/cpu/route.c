/* route.c - a mixture of experts on the CPU: assignment of rows to experts, and the weighted sum of
 * their results. linear.c multiplies by the matrices.
 *
 *   logits [n_row, n_expert] --route--> expert, weight [n_row, n_used]  of each row
 *                                       first [n_expert + 1]     first entry of each expert
 *                                       entry [n_row, n_used]    number of the pair's entry
 *                                       row [n_row * n_used]     row of each entry
 *
 * An entry is a pair (row, expert). Entries of one expert are consecutive, so its matrix multiplies
 * them in one pass.
 *
 * The loops take little time. In a mixture of 128 experts with 8 per token, route takes 0.5 % and
 * combine 1.3 % of the kernels' time (docs/measurements.md, "AVX-VNNI, and shares of small
 * ops"). */
#include "cpu_impl.h"

#include <math.h>
#include <string.h>

/* ---- selection of experts ---- */

/* Arguments of route. All pointers are borrowed for the op. */
struct route_job {
    struct kern *kern;
    const struct route *r;
    float *logits; /* [n_row, n_expert], replaced by the scores */
};

/* Return the value by which expert i is selected. */
static float choice(const struct route_spec *s, const float *p, int i)
{
    return s->bias ? p[i] + s->bias[i] : p[i];
}

/* Return the score of the group of n experts from `first` on. A group of one expert has no pair. */
static float group_score(const struct route_spec *s, const float *p, int first, int n)
{
    float most = -INFINITY, second = -INFINITY;
    for (int i = first; i < first + n; i++) {
        const float v = choice(s, p, i);
        if (v > most)
            second = most, most = v;
        else if (v > second)
            second = v;
    }
    return s->group_pairs && n > 1 ? most + second : most;
}

/* Return the set of the selected groups, as bits. The lower group is selected from equal scores. */
static uint64_t groups(const struct route *r, const float *p)
{
    const struct route_spec *s = &r->spec;
    float score[ROUTE_GROUPS_MAX];
    const int n = s->n_group > 0 ? r->n_expert / s->n_group : r->n_expert;
    uint64_t set = 0;
    if (s->n_group <= s->n_group_used) return UINT64_MAX;
    for (int g = 0; g < s->n_group; g++) score[g] = group_score(s, p, g * n, n);
    for (int k = 0; k < s->n_group_used; k++) {
        int best = -1;
        for (int g = 0; g < s->n_group; g++)
            if (!(set >> g & 1) && (best < 0 || score[g] > score[best])) best = g;
        set |= UINT64_C(1) << best;
    }
    return set;
}

/* Select the experts of the n_used largest values of p [n_expert]. The lower expert is selected
 * from equal values. `expert` ascends. NaNs may have any order. The groups have at least n_used
 * experts. */
static void largest(int32_t *expert, const struct route *r, const float *p)
{
    const struct route_spec *s = &r->spec;
    const uint64_t set = groups(r, p);
    const int per_group = s->n_group > 0 ? r->n_expert / s->n_group : r->n_expert;
    for (int n = 0; n < r->n_used; n++) {
        int best = -1, at = 0;
        float most = 0;
        for (int i = 0; i < r->n_expert; i++) {
            while (at < n && expert[at] < i) at++;
            if ((at < n && expert[at] == i) || !(set >> (i / per_group) & 1)) continue;
            const float v = choice(s, p, i);
            if (best < 0 || v > most) best = i, most = v;
        }
        int k = n;
        for (; k > 0 && expert[k - 1] > best; k--) expert[k] = expert[k - 1];
        expert[k] = best;
    }
}

static bool is_taken(const int32_t *expert, int n, int i)
{
    for (int k = 0; k < n; k++)
        if (expert[k] == i) return true;
    return false;
}

/* Return the share of expert `best` in the softmax of the logits p near p[best]. Experts before
 * `best` in the order of selection, expert [n], have no share. */
static float near_share(const struct route *r, const float *p, const int32_t *expert, int n,
                        int best)
{
    float sum = 0;
    for (int i = 0; i < r->n_expert; i++) {
        const float size = fabsf(p[i]) > p[best] ? fabsf(p[i]) : p[best];
        if (!is_taken(expert, n, i) && !((p[best] - p[i]) / size > r->spec.near))
            sum += kern_exp(p[i] - p[best]);
    }
    return 1 / sum;
}

/* Select experts one after the other, and compute their scores. The experts are then sorted. */
static void sparsemixer(int32_t *expert, float *weight, const struct route *r, const float *p)
{
    for (int n = 0; n < r->n_used; n++) {
        int best = -1;
        for (int i = 0; i < r->n_expert; i++)
            if (!is_taken(expert, n, i) && (best < 0 || p[i] > p[best])) best = i;
        weight[n] = near_share(r, p, expert, n, best);
        expert[n] = best;
    }
    for (int n = 1; n < r->n_used; n++)
        for (int k = n; k > 0 && expert[k - 1] > expert[k]; k--) {
            const int32_t e = expert[k];
            const float w = weight[k];
            expert[k] = expert[k - 1], expert[k - 1] = e;
            weight[k] = weight[k - 1], weight[k - 1] = w;
        }
}

/* Apply the factors of the weights. */
static void weigh_row(float *weight, const int32_t *expert, const struct route *r)
{
    const struct route_spec *s = &r->spec;
    float sum = 0;
    for (int k = 0; k < r->n_used; k++) sum += weight[k];
    sum += s->sum_add;
    if (sum < s->sum_least) sum = s->sum_least;
    for (int k = 0; k < r->n_used && s->normalize; k++) weight[k] /= sum;
    for (int k = 0; k < r->n_used && s->factor != 0; k++) weight[k] *= s->factor;
    for (int k = 0; k < r->n_used && s->scale; k++) weight[k] *= s->scale[expert[k]];
}

static void route_row(void *ctx, int i, int worker)
{
    (void)worker;
    const struct route_job *j = ctx;
    const struct route *r = j->r;
    int32_t *expert = r->expert + (int64_t)i * r->n_used;
    float *weight = r->weight + (int64_t)i * r->n_used, *p = j->logits + (int64_t)i * r->n_expert;
    const enum route_score score = r->spec.score;
    if (score == ROUTE_SOFTMAX) j->kern->softmax(p, p, r->n_expert);
    if (score == ROUTE_SIGMOID) j->kern->curve[CURVE_sigmoid](p, p, r->n_expert);
    if (score == ROUTE_SPARSEMIXER) {
        sparsemixer(expert, weight, r, p);
    } else {
        largest(expert, r, p);
        for (int k = 0; k < r->n_used; k++) weight[k] = p[expert[k]];
        if (score == ROUTE_CHOSEN) j->kern->softmax(weight, weight, r->n_used);
        if (score == ROUTE_CHOSEN_SIGMOID) j->kern->curve[CURVE_sigmoid](weight, weight, r->n_used);
    }
    weigh_row(weight, expert, r);
}

/* Number the entries by expert, then by row, by a counting sort. The steps are counting, prefix
 * sums and placement. Placement advances first[e] to the end of expert e, and the last loop shifts
 * the values back. */
static void number_entries(const struct route *r, int n_row)
{
    const int n = n_row * r->n_used;
    memset(r->first, 0, (size_t)(r->n_expert + 1) * sizeof *r->first);
    for (int i = 0; i < n; i++) r->first[r->expert[i] + 1]++;
    for (int e = 0; e < r->n_expert; e++) r->first[e + 1] += r->first[e];
    for (int i = 0; i < n; i++) {
        r->entry[i] = r->first[r->expert[i]]++;
        r->row[r->entry[i]] = i / r->n_used;
    }
    for (int e = r->n_expert; e > 0; e--) r->first[e] = r->first[e - 1];
    r->first[0] = 0;
}

void cpu_route(struct backend *b, const struct route *r, float *logits, int n_row)
{
    struct cpu_backend *c = cpu_of(b);
    struct route_job j = {&c->kern, r, logits};
    pool_run(c->pool, route_row, &j, n_row);
    number_entries(r, n_row);
}

/* ---- the sum ---- */

/* Arguments of combine. All pointers are borrowed for the op. */
struct combine_job {
    const struct route *r;
    float *y;       /* f32 [n_row, n] */
    const float *x; /* f32 [n_entry, n]: results of the experts */
    int64_t n;
    bool add;
};

/* Add the weighted results of a row's experts. Experts are added in ascending order of their
 * numbers, so the sum does not depend on their weights' order. */
static void combine_row(void *ctx, int i, int worker)
{
    (void)worker;
    const struct combine_job *j = ctx;
    const struct route *r = j->r;
    const int64_t first = (int64_t)i * r->n_used;
    float *y = j->y + i * j->n;
    for (int64_t d = 0; d < j->n; d++) {
        float sum = 0;
        for (int k = 0; k < r->n_used; k++) {
            const float v = j->x[r->entry[first + k] * j->n + d];
            sum = r->spec.weighs_input ? sum + v : __builtin_fmaf(r->weight[first + k], v, sum);
        }
        y[d] = j->add ? y[d] + sum : sum;
    }
}

void cpu_combine(struct backend *b, float *y, const float *x, const struct route *r, int n_row,
                 int64_t n, bool add)
{
    struct combine_job j = {r, y, x, n, add};
    pool_run(cpu_of(b)->pool, combine_row, &j, n_row);
}

/* Arguments of weigh. All pointers are borrowed for the op. */
struct weigh_job {
    const struct route *r;
    float *y; /* f32 [n_entry, n] */
    int64_t n;
};

static void weigh_pair(void *ctx, int i, int worker)
{
    (void)worker;
    const struct weigh_job *j = ctx;
    float *y = j->y + j->r->entry[i] * j->n;
    for (int64_t d = 0; d < j->n; d++) y[d] *= j->r->weight[i];
}

void cpu_weigh(struct backend *b, float *y, const struct route *r, int n_row, int64_t n)
{
    struct weigh_job j = {r, y, n};
    pool_run(cpu_of(b)->pool, weigh_pair, &j, n_row * r->n_used);
}

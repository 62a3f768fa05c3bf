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

#include <string.h>

/* ---- selection of experts ---- */

/* Arguments of route. All pointers are borrowed for the op. */
struct route_job {
    struct kern *kern;
    const struct route *r;
    float *logits; /* [n_row, n_expert], replaced by the softmax */
};

/* Select the experts of the n_used largest values of p [n_expert]. The lower expert is selected
 * from equal values. `expert` ascends. NaNs may have any order. */
static void largest(int32_t *expert, const float *p, int n_expert, int n_used)
{
    for (int n = 0; n < n_used; n++) {
        int best = -1, at = 0;
        for (int i = 0; i < n_expert; i++) {
            while (at < n && expert[at] < i) at++;
            const bool taken = at < n && expert[at] == i;
            if (!taken && (best < 0 || p[i] > p[best])) best = i;
        }
        int k = n;
        for (; k > 0 && expert[k - 1] > best; k--) expert[k] = expert[k - 1];
        expert[k] = best;
    }
}

static void route_row(void *ctx, int i, int worker)
{
    (void)worker;
    const struct route_job *j = ctx;
    const struct route *r = j->r;
    int32_t *expert = r->expert + (int64_t)i * r->n_used;
    float *weight = r->weight + (int64_t)i * r->n_used, *p = j->logits + (int64_t)i * r->n_expert;
    float sum = 0;
    j->kern->softmax(p, p, r->n_expert);
    largest(expert, p, r->n_expert, r->n_used);
    for (int k = 0; k < r->n_used; k++) sum += weight[k] = p[expert[k]];
    for (int k = 0; k < r->n_used && r->normalize; k++) weight[k] /= sum;
    for (int k = 0; k < r->n_used && r->scale; k++) weight[k] *= r->scale[expert[k]];
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
        for (int k = 0; k < r->n_used; k++)
            sum = __builtin_fmaf(r->weight[first + k], j->x[r->entry[first + k] * j->n + d], sum);
        y[d] = j->add ? y[d] + sum : sum;
    }
}

void cpu_combine(struct backend *b, float *y, const float *x, const struct route *r, int n_row,
                 int64_t n, bool add)
{
    struct combine_job j = {r, y, x, n, add};
    pool_run(cpu_of(b)->pool, combine_row, &j, n_row);
}

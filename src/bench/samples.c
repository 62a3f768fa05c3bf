/* samples.c - means, deviations and percentiles of samples, for quoth bench; see measure.h.
 *
 * There are two kinds of percentiles, because other tools use different kinds. samples_percentile
 * interpolates between neighbours. samples_nearest returns a measured value, the nearest rank from
 * 1:
 *
 *   rank = ceil(percent / 100 * n), and rank 1 for 0 % */
#include "measure.h"

#include "base/histogram.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Return the mean; 0 for an empty list, so that reports of runs without results contain no NaN. */
double samples_mean(const struct samples *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->n; i++) sum += s->v[i];
    return s->n ? sum / (double)s->n : 0;
}

/* Return the deviation of a sample, with n - 1 in the denominator; 0 for fewer than two values. */
double samples_sd(const struct samples *s)
{
    double mean = samples_mean(s), sum = 0;
    for (size_t i = 0; i < s->n; i++) sum += (s->v[i] - mean) * (s->v[i] - mean);
    return s->n > 1 ? sqrt(sum / (double)(s->n - 1)) : 0;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void samples_sort(struct samples *s)
{
    if (s->n) qsort(s->v, s->n, sizeof *s->v, by_size);
}

double samples_percentile(const struct samples *sorted, double percent)
{
    return quantile_of_sorted(sorted->v, sorted->n, percent / 100);
}

double samples_nearest(const struct samples *sorted, double percent)
{
    size_t rank = (size_t)ceil(percent / 100 * (double)sorted->n);
    return sorted->n ? sorted->v[rank ? rank - 1 : 0] : 0;
}

double samples_median(struct samples *s)
{
    samples_sort(s);
    return samples_percentile(s, 50);
}

/* histogram.c - counts between fixed bounds; see histogram.h. */
#include "histogram.h"
#include "check.h"

void histogram_init(struct histogram *h, const int64_t *bound, int n_bound)
{
    CHECK(n_bound >= 1 && n_bound <= HISTOGRAM_BOUNDS_MAX, "%d bounds", n_bound);
    *h = (struct histogram){.bound = bound, .n_bound = n_bound};
}

int64_t histogram_bucket(const struct histogram *h, int64_t x)
{
    int64_t lo = 0, hi = h->n_bound;
    while (lo < hi) {
        int64_t mid = (lo + hi) / 2;
        if (x <= h->bound[mid])
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

void histogram_add(struct histogram *h, int64_t x)
{
    h->count[histogram_bucket(h, x)]++;
    h->n++;
    h->sum += x;
}

double histogram_mean(const struct histogram *h)
{
    return h->n ? (double)h->sum / (double)h->n : 0;
}

/* Interpolate linearly within the bucket of the rank, as Prometheus' histogram_quantile does.
 * Values above the last bound are treated as equal to the last bound. */
double histogram_quantile(const struct histogram *h, double q)
{
    CHECK(q >= 0 && q <= 1, "quantile %g", q);
    if (h->n == 0) return 0;
    double rank = q * (double)h->n, below = 0;
    int64_t i = 0;
    while (i < h->n_bound && (below + (double)h->count[i] < rank || h->count[i] == 0))
        below += (double)h->count[i++];
    if (i == h->n_bound) return (double)h->bound[h->n_bound - 1];
    double lo = i ? (double)h->bound[i - 1] : 0, hi = (double)h->bound[i];
    if (hi < lo) lo = hi;
    return lo + (hi - lo) * (rank - below) / (double)h->count[i];
}

double quantile_of_sorted(const double *v, size_t n, double q)
{
    if (n == 0) return 0;
    double at = q * (double)(n - 1);
    size_t i = at > 0 ? (size_t)at : 0;
    if (i + 1 >= n) return v[n - 1];
    return v[i] + (v[i + 1] - v[i]) * (at - (double)i);
}

/* histogram.h - counts of values between fixed bounds, and their exact sum, in constant memory.
 * Values are whole numbers of one unit (microseconds, tokens). Only one thread at a time may write.
 * A copy of the struct is also a histogram. */
#ifndef QUOTH_BASE_HISTOGRAM_H
#define QUOTH_BASE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum { HISTOGRAM_BOUNDS_MAX = 24 };

struct histogram {
    const int64_t *bound; /* [n_bound] ascending; borrowed                                */
    int64_t n_bound;      /* <= HISTOGRAM_BOUNDS_MAX                                      */
    int64_t sum;          /* sum of all values */
    uint64_t n;           /* number of values; the sum of count[] */
    /* [n_bound + 1] number of values in (bound[i - 1], bound[i]]; the last element counts values
     * above all bounds */
    uint64_t count[HISTOGRAM_BOUNDS_MAX + 1];
};

/* Empty h. Set the upper bounds of its buckets, which are borrowed. */
void histogram_init(struct histogram *h, const int64_t *bound, int n_bound);
/* Return the index of the first bound >= x, or n_bound if x exceeds all bounds. */
int64_t histogram_bucket(const struct histogram *h, int64_t x);
/* Count a value. */
void histogram_add(struct histogram *h, int64_t x);
double histogram_mean(const struct histogram *h); /* return sum / n; 0 if empty */

/* Return the quantile q in [0, 1] as Prometheus' histogram_quantile computes it. The result is
 * interpolated linearly inside a bucket. The first bucket begins at 0. The result is the highest
 * bound if q is in the last bucket, and 0 if there are no values. */
double histogram_quantile(const struct histogram *h, double q);

/* Return the exact quantile q of v [n], which is ascending; 0 if n is 0. The quantile is
 * interpolated linearly between two neighbours, as by numpy's percentile(v, 100 q). */
double quantile_of_sorted(const double *v, size_t n, double q);

#endif

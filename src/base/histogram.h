/* histogram.h - counts of values between fixed bounds, and their exact sum, in constant memory.
 * Values are whole numbers of one unit (microseconds, tokens). One writer at a time. Plain data: a
 * copy of the struct is a histogram. */
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
    /* [n_bound + 1] number of values in (bound[i - 1], bound[i]]; the last: above all bounds */
    uint64_t count[HISTOGRAM_BOUNDS_MAX + 1];
};

void histogram_init(struct histogram *h, const int64_t *bound, int n_bound);
/* Return the index of the first bound >= x, n_bound if x exceeds all. */
int64_t histogram_bucket(const struct histogram *h, int64_t x);
void histogram_add(struct histogram *h, int64_t x);
double histogram_mean(const struct histogram *h); /* 0 if empty */

/* Return the quantile q in [0, 1] as Prometheus' histogram_quantile computes it: linear inside its
 * bucket (the first one begins at 0), the highest bound if it is above that. 0 if empty. */
double histogram_quantile(const struct histogram *h, double q);

/* Return the exact quantile q of v [n], ascending, as numpy's percentile(v, 100 q): linear between
 * two neighbours. 0 if n is 0. */
double quantile_of_sorted(const double *v, size_t n, double q);

#endif

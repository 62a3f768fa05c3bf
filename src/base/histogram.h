/* histogram.h - how often a quantity fell between fixed bounds, and its exact sum: what can be kept
 * for ever in constant memory. Whole numbers of one unit (microseconds, tokens). One writer at a
 * time; plain words, so that a copy of one is one. */
#ifndef QUOTH_BASE_HISTOGRAM_H
#define QUOTH_BASE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum { HISTOGRAM_BOUNDS_MAX = 24 };

struct histogram {
    const int64_t *bound; /* [n_bound] ascending; borrowed                                */
    int64_t n_bound;      /* <= HISTOGRAM_BOUNDS_MAX                                      */
    int64_t sum;          /* of all values                                                */
    uint64_t n;           /* values; the sum of count[]                                   */
    /* [n_bound + 1] values in (bound[i - 1], bound[i]], as Prometheus counts; the last: above all */
    uint64_t count[HISTOGRAM_BOUNDS_MAX + 1];
};

void histogram_init(struct histogram *h, const int64_t *bound, int n_bound);
void histogram_add(struct histogram *h, int64_t x);
double histogram_mean(const struct histogram *h); /* 0 of none */

/* The value that a part q in [0, 1] of the values does not exceed, as Prometheus' histogram_quantile
 * answers it: linear inside its bucket (which begins at 0 for the first one), the highest bound if it
 * lies above that. 0 of none. */
double histogram_quantile(const struct histogram *h, double q);

/* The exact one: of v [n] ascending, between two neighbours linear, as numpy's percentile(v, 100 q).
 * 0 of none. */
double quantile_of_sorted(const double *v, size_t n, double q);

#endif

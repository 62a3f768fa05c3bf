/* histogram_test.c - goal: values are counted in Prometheus' buckets, and quantiles equal the
 * quantiles of a sorted list, up to a bucket's width. Method: fixed bounds, and random values
 * compared with their sorted list. */
#include "histogram.h"
#include "rng.h"
#include "../../tests/unit.h"

#include <math.h>
#include <stdlib.h>

TEST(histogram_bounds_are_inclusive)
{
    static const int64_t bound[] = {1, 10, 100};
    struct histogram h;
    histogram_init(&h, bound, 3);
    EXPECT(histogram_quantile(&h, 0.5) == 0 && histogram_mean(&h) == 0);
    const int64_t v[] = {0, 1, 2, 10, 11, 100, 101, 5000};
    for (int i = 0; i < 8; i++) histogram_add(&h, v[i]);
    for (int i = 0; i < 4; i++) EXPECT_INT(h.count[i], 2);
    EXPECT_INT(h.n, 8);
    EXPECT_INT(h.sum, 5225);
    EXPECT(histogram_quantile(&h, 0.25) == 1);    /* end of the first bucket */
    EXPECT(histogram_quantile(&h, 0.375) == 5.5); /* middle of the second bucket */
    EXPECT(histogram_quantile(&h, 1) == 100);     /* the highest bound */
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

TEST(histogram_quantiles_lie_in_the_bucket_of_the_exact_ones)
{
    static const int64_t bound[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000};
    enum { N = 5000, N_BOUND = 13 };
    static double v[N];
    struct histogram h;
    histogram_init(&h, bound, N_BOUND);
    uint64_t rng = 7;
    for (int i = 0; i < N; i++) {
        int64_t x = (int64_t)exp(9.0 * rng_float(&rng));
        v[i] = (double)x;
        histogram_add(&h, x);
    }
    qsort(v, N, sizeof *v, ascending);
    for (int p = 1; p < 100; p++) {
        double exact = v[(p * N + 99) / 100 - 1], got = histogram_quantile(&h, p / 100.0);
        int i = 0;
        while (i < N_BOUND - 1 && exact > (double)bound[i]) i++;
        EXPECT(got <= (double)bound[i] && got >= (i ? (double)bound[i - 1] : 0));
    }
}

TEST(exact_quantiles_are_numpys)
{
    static const double v[] = {1, 2, 4, 8, 16};
    EXPECT(quantile_of_sorted(v, 5, 0) == 1 && quantile_of_sorted(v, 5, 1) == 16);
    EXPECT(quantile_of_sorted(v, 5, 0.5) == 4);
    EXPECT(fabs(quantile_of_sorted(v, 5, 0.9) - 12.8) < 1e-12); /* np.percentile(v, 90) */
    EXPECT(fabs(quantile_of_sorted(v, 5, 0.1) - 1.4) < 1e-12);
    EXPECT(quantile_of_sorted(v, 1, 0.99) == 1 && quantile_of_sorted(v, 0, 0.5) == 0);
}

/* sample_math_test.c - goal: exp and log differ from libm's by far less than a float's ulp in the
 * used range. Both functions have the documented exact values. Method: test random arguments over
 * the whole range, and corner cases. */
#include "sample_math.h"
#include "sample_test.h"

TEST(sample_exp_is_close_to_libm)
{
    uint64_t rng = 1;
    double worst = 0;
    for (int i = 0; i < 200000; i++) {
        double x =
            (i & 1 ? -660.0 : -20.0) * rng_float(&rng) + (i % 3 == 0 ? 709 * rng_float(&rng) : 0);
        worst = fmax(worst, fabs(sample_exp(x) / exp(x) - 1));
    }
    test_note("worst relative error of exp %.1e", worst);
    EXPECT(worst < 4e-10);
    EXPECT(sample_exp(0) == 1);
    EXPECT(sample_exp(-708.5) == 0 && sample_exp(-1e300) == 0 && sample_exp(-INFINITY) == 0);
}

TEST(sample_log_is_close_to_libm)
{
    uint64_t rng = 2;
    double worst = 0;
    for (int i = 0; i < 200000; i++) {
        double x = exp(i & 1 ? 1400.0 * rng_float(&rng) - 700 : rng_float(&rng) - 0.5);
        worst = fmax(worst, fabs(sample_log(x) - log(x)) / fmax(fabs(log(x)), 1e-3));
    }
    test_note("worst relative error of log %.1e", worst);
    EXPECT(worst < 1e-12);
    EXPECT(sample_log(1) == 0 && sample_log(0) == -INFINITY);
    EXPECT(fabs(sample_log(2) - log(2)) < 1e-16);
}

/* Goal: the small arithmetic under the measurements is right. */
#include "measure.h"
#include "../../tests/unit.h"

#include <math.h>
#include <stdlib.h>

TEST(bench_lists_of_numbers)
{
    struct ids list = {0};
    struct err e = {""};
    EXPECT_INT(bench_numbers(&list, "batch", "1,2,64", 1, 64, &e), 0);
    EXPECT(list.n == 3 && list.v[0] == 1 && list.v[1] == 2 && list.v[2] == 64);
    EXPECT_INT(bench_most(&list, 5), 64);
    EXPECT_INT(bench_numbers(&list, "batch", "none", 1, 64, &e), 0);
    EXPECT_INT(list.n, 3);
    EXPECT(bench_numbers(&list, "batch", "1,", 1, 64, &e) != 0 && strstr(e.text, "--batch"));
    EXPECT(bench_numbers(&list, "batch", "1 2", 1, 64, &e) != 0);
    EXPECT(bench_numbers(&list, "batch", "65", 1, 64, &e) != 0 && strstr(e.text, "1 and 64"));
    vec_deinit(&list);
    EXPECT_INT(bench_most(&list, 5), 5);
}

TEST(bench_mean_and_spread)
{
    double v[] = {1, 2, 3, 6};
    struct bench_samples s = {.v = v, .n = 4};
    EXPECT(bench_mean(&s) == 3 && fabs(bench_sd(&s) - sqrt(14.0 / 3)) < 1e-12);
    s.n = 1;
    EXPECT(bench_mean(&s) == 1 && bench_sd(&s) == 0);
    s.n = 0;
    EXPECT(bench_mean(&s) == 0 && bench_sd(&s) == 0);
}

TEST(bench_median_and_max)
{
    double v[] = {6, 1, 3, 2};
    struct bench_samples s = {.v = v, .n = 4};
    EXPECT(bench_max(&s) == 6 && bench_median(&s) == 2.5);
    s.n = 3; /* of 1 2 3 */
    EXPECT(bench_max(&s) == 3 && bench_median(&s) == 2);
    s.n = 0;
    EXPECT(bench_max(&s) == 0 && bench_median(&s) == 0);
}

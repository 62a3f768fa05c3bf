/* Goal: the arithmetic of measurements is correct. */
#include "measure.h"
#include "../../tests/unit.h"

#include <math.h>
#include <stdlib.h>

TEST(bench_lists_of_numbers)
{
    struct ids list = {0};
    struct err e = {0};
    EXPECT_INT(list_read_ints(&list, "1,2,64", 1, 64, &e), 0);
    EXPECT(list.n == 3 && list.v[0] == 1 && list.v[1] == 2 && list.v[2] == 64);
    EXPECT_INT(list_max_int(&list, 5), 64);
    EXPECT_INT(list_read_ints(&list, "none", 1, 64, &e), 0);
    EXPECT_INT(list.n, 3);
    EXPECT(list_read_ints(&list, "1,", 1, 64, &e) != 0 &&
           strstr(e.text, "integers N,N,... in [1, 64], got \"1,\""));
    EXPECT(list_read_ints(&list, "1 2", 1, 64, &e) != 0);
    EXPECT(list_read_ints(&list, "65", 1, 64, &e) != 0 && strstr(e.text, "[1, 64]"));
    vec_deinit(&list);
    EXPECT_INT(list_max_int(&list, 5), 5);
}

TEST(bench_lists_of_words)
{
    EXPECT(list_has("a,bc,d", "a") && list_has("a,bc,d", "bc") && list_has("a,bc,d", "d"));
    EXPECT(!list_has("a,bc,d", "b") && !list_has("a,bc,d", "c") && !list_has("", "a"));
}

TEST(bench_mean_and_spread)
{
    double v[] = {1, 2, 3, 6};
    struct samples s = {.v = v, .n = 4};
    EXPECT(samples_mean(&s) == 3 && fabs(samples_sd(&s) - sqrt(14.0 / 3)) < 1e-12);
    s.n = 1;
    EXPECT(samples_mean(&s) == 1 && samples_sd(&s) == 0);
    s.n = 0;
    EXPECT(samples_mean(&s) == 0 && samples_sd(&s) == 0);
}

TEST(bench_median_and_nearest)
{
    double v[] = {6, 1, 3, 2};
    struct samples s = {.v = v, .n = 4};
    EXPECT(samples_median(&s) == 2.5);
    /* the samples are 1 2 3 6 */
    EXPECT(samples_nearest(&s, 50) == 2 && samples_nearest(&s, 51) == 3);
    EXPECT(samples_nearest(&s, 99) == 6 && samples_nearest(&s, 0) == 1);
    s.n = 3; /* the samples are 1 2 3 */
    EXPECT(samples_median(&s) == 2);
    s.n = 0;
    EXPECT(samples_median(&s) == 0 && samples_nearest(&s, 99) == 0);
}

TEST(bench_lists_of_percentages)
{
    struct samples p = {0};
    struct err e = {0};
    NEED_OK(list_read_reals(&p, "25,50,99.9", 0, 100, &e), &e);
    EXPECT(p.n == 3 && p.v[2] == 99.9);
    NEED_OK(list_read_reals(&p, "", 0, 100, &e), &e);
    EXPECT_INT(p.n, 3);
    const char *wrong[] = {"101", "-1", "50,", "a", "50;60", "nan"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        e.text[0] = '\0';
        if (list_read_reals(&p, wrong[i], 0, 100, &e) == 0 ||
            !strstr(e.text, "numbers N,N,... in [0, 100]"))
            test_fail(__FILE__, __LINE__, "%s: %s", wrong[i], e.text);
    }
    vec_deinit(&p);
}

TEST(shares_above_a_limit_are_named_not_printed)
{
    /* Goal: a rate above a limit is reported as not limited. */
    char out[16];
    EXPECT(strcmp(share_text(out, 5, 9, 11, IN_CACHE), "50.0%") == 0);
    EXPECT(strcmp(share_text(out, 10, 9, 11, IN_CACHE), "100.0%") == 0);
    EXPECT(strcmp(share_text(out, 10.1, 9, 11, IN_CACHE), "in cache") == 0);
    EXPECT(strcmp(share_text(out, 10.1, 9, 11, ABOVE_PEAK), "> peak") == 0);
    EXPECT(strcmp(share_text(out, 5, 0, 0, IN_CACHE), "-") == 0);
    EXPECT(strcmp(share_text(out, 0, 9, 11, IN_CACHE), "-") == 0);
}

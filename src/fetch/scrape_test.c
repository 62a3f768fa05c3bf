/* scrape_test.c - goal: samples, labels and histograms of a metrics page are read correctly.
 * Method: parse handwritten pages with the variants that the format allows. */
#include "scrape.h"
#include "../../tests/unit.h"

#include <math.h>

static const char page_text[] =
    "# HELP vllm:num_requests_running Sequences.\n"
    "# TYPE vllm:num_requests_running gauge\n"
    "vllm:num_requests_running{engine=\"0\",model_name=\"a \\\"b\\\", c}\"} 2\n"
    "vllm:num_requests_running{engine=\"1\",model_name=\"x\"} 3 1700000000000\n"
    "x:done_total{reason=\"stop\"} 4\n"
    "x:done_total{reason=\"length\",more=\"}\"} 5e1\r\n"
    "plain_total 1.5\n"
    "plain 7\n"
    "no_value \n"
    "x:t_bucket{le=\"0.1\",engine=\"0\"} 1\n"
    "x:t_bucket{le=\"1\",engine=\"0\"} 3\n"
    "x:t_bucket{le=\"+Inf\",engine=\"0\"} 4\n"
    "x:t_bucket{handle=\"9\",le=\"0.1\",engine=\"1\"} 10\n"
    "x:t_bucket{le=\"1\",engine=\"1\"} 10\n"
    "x:t_bucket{le=\"+Inf\",engine=\"1\"} 10\n"
    "x:t_sum{engine=\"0\"} 2.5\n"
    "x:t_sum{engine=\"1\"} 0.5";

TEST(scrape_finds_samples_sums_and_histograms)
{
    struct scrape s = {0};
    struct scrape_times t;
    char text[32];
    NEED(scrape_read(&s, page_text, sizeof page_text - 1));
    EXPECT_INT(s.row.n, 14);
    EXPECT_INT(scrape_sum(&s, "vllm:num_requests_running", NULL), 5);
    EXPECT_INT(scrape_sum(&s, "vllm:num_requests_running", "engine=\"1\""), 3);
    EXPECT_INT(scrape_sum(&s, "x:done_total", NULL), 54);
    EXPECT_INT(scrape_sum(&s, "x:done_total", "reason=\"length\""), 50);
    EXPECT(isnan(scrape_sum(&s, "x:done_total", "reason=\"abort\"")));
    EXPECT_INT(scrape_sum(&s, "plain", NULL), 7);
    EXPECT(isnan(scrape_sum(&s, "plai", NULL)) && isnan(scrape_sum(&s, "zzz", NULL)));
    EXPECT(scrape_label(&s, "vllm:num_requests_running", "model_name", text, sizeof text));
    EXPECT_TEXT(text, "a \\\"b\\\", c}");
    EXPECT(!scrape_label(&s, "vllm:num_requests_running", "name", text, sizeof text));
    EXPECT(scrape_times(&s, "x:t", &t));
    struct histogram h = scrape_histogram(&t);
    EXPECT_INT(h.n, 14);
    EXPECT_INT(h.n_bound, 2);
    EXPECT_INT(h.bound[0], 100000);
    EXPECT_INT(h.count[0], 11);
    EXPECT_INT(h.count[1], 2);
    EXPECT_INT(h.count[2], 1);
    EXPECT_INT(h.sum, 3000000);
    struct scrape_times zero = scrape_since(&t, &t);
    h = scrape_histogram(&zero);
    EXPECT_INT(h.n + (uint64_t)h.sum, 0);
    EXPECT(!scrape_times(&s, "x:u", &t));
    scrape_deinit(&s);
    NEED(scrape_read(&s, "", 0));
    EXPECT(isnan(scrape_sum(&s, "plain", NULL)));
    scrape_deinit(&s);
}

TEST(scrape_passes_over_what_is_no_sample)
{
    static const char text[] = "# TYPE a counter\n"
                               "a_total 3\n"
                               "a{x=\"1\"} 2.5\n"
                               "a{x=\"quoted \\\" } 9\",y=\"}\"} 4 1700000000\n"
                               "ab 100\n"
                               "b{x=\"1\"} NaN\n"
                               "c{x=\"1\"\n"
                               "d\n"
                               "e 1e3";
    struct scrape s = {0};
    NEED(scrape_read(&s, text, sizeof text - 1));
    EXPECT(scrape_sum(&s, "a", NULL) == 6.5 && scrape_sum(&s, "a_total", NULL) == 3);
    EXPECT(isnan(scrape_sum(&s, "b", NULL)) && isnan(scrape_sum(&s, "c", NULL)));
    EXPECT(isnan(scrape_sum(&s, "d", NULL)) && scrape_sum(&s, "e", NULL) == 1000);
    scrape_deinit(&s);
}

/* Goal: figures equal figures computed by hand.
 * Method: use three handwritten requests. One of them failed. */
#include "client_trace.h"
#include "../../tests/unit.h"

#include "base/json.h"

#include <math.h>
#include <stdlib.h>

/* Two overlapping requests. The second waits 30 ms at its client, and its last two tokens arrive
 * together. */
static int64_t first_times[] = {200000, 300000, 450000}, second_times[] = {1300000, 1400000};
static const struct client_trace three[] = {
    {.arrive_us = 100000,
     .submit_us = 100000,
     .done_us = 450000,
     .token_us = first_times,
     .n_time = 3,
     .n_token = 3,
     .n_input = 10,
     .n_output = 6},
    {.arrive_us = 300000,
     .submit_us = 300000,
     .done_us = 350000,
     .n_input = 99,
     .error = "refused"},
    {.arrive_us = 370000,
     .submit_us = 400000,
     .done_us = 1400000,
     .token_us = second_times,
     .n_time = 2,
     .n_token = 3,
     .n_input = 20,
     .n_output = 3},
};

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-9 * fmax(1, fabs(b));
}

TEST(client_figures_match_those_by_hand)
{
    struct client_figures f;
    struct slo slo = {.ms = {[TTFT] = 500, [TPOT] = 150}};
    struct err e;
    NEED_OK(client_figures(&f, three, 3, &slo, &e), &e);
    EXPECT(f.n_completed == 2 && f.n_failed == 1 && f.n_good == 1 && f.has_slo);
    EXPECT(f.n_input == 30 && f.n_output == 9 && near(f.seconds, 1.3) && f.begin_us == 100000);
    EXPECT(near(f.request_rate, 2 / 1.3) && near(f.good_rate, 1 / 1.3));
    EXPECT(near(f.output_rate, 9 / 1.3) && near(f.total_rate, 39 / 1.3));
    EXPECT(near(f.offered_rate, 2 / 0.27) && near(goodput_share(&f), 1.0 / 3));
    EXPECT_INT(f.under_way_max, 2);
    /* tokens at 0.2, 0.3 and 0.45 are in the second that begins at 0.1; later tokens are at 1.3 and
     * 1.4 */
    EXPECT(near(f.token_rate_max, 3));
    static const double mean[N_LATENCY] = {
        [TTFT] = (100 + 900) / 2.0,       [TPOT] = (125 + 50) / 2.0,
        [ITL] = (100 + 150 + 100) / 3.0,  [E2EL] = (350 + 1000) / 2.0,
        [PER_TOKEN] = (350 + 1000) / 6.0, [QUEUE] = 15,
        [E2EL_QUEUE] = (350 + 1030) / 2.0};
    for (int k = 0; k < N_LATENCY; k++)
        if (!near(samples_mean(&f.ms[k]), mean[k]))
            test_fail(__FILE__, __LINE__, "%s: %g, not %g", latency_kind[k].name,
                      samples_mean(&f.ms[k]), mean[k]);
    EXPECT(near(latency_sd(&f.ms[TTFT]), 400) && near(samples_percentile(&f.ms[TTFT], 75), 700));
    client_figures_close(&f);
}

TEST(client_figures_of_nothing_do_not_divide_by_zero)
{
    struct client_figures f;
    struct buf b = {0};
    struct samples percent = {0};
    struct slo none = {{0}};
    struct json *j = NULL;
    struct err e;
    NEED_OK(client_figures(&f, three + 1, 1, &none, &e), &e);
    EXPECT(f.seconds == 0 && f.request_rate == 0 && f.n_failed == 1 && !f.has_slo);
    NEED_OK(list_read_reals(&percent, "50,99.9", 0, 100, &e), &e);
    client_figures_json(&f, &percent, &b);
    client_plots(&b, three + 1, 1, &f);
    EXPECT(!strstr(b.data, "nan") && !strstr(b.data, "inf"));
    buf_clear(&b);
    client_figures_json(&f, &percent, &b);
    client_trace_json(three, 3, &b);
    buf_add_char(&b, '}');
    b.data[0] = '{';
    NEED_OK(json_parse(&j, b.data, b.n, NULL, &e), &e);
    EXPECT(json_field(j, "p99.9_e2el_ms") && json_field(j, "p50_client_queue_time_ms"));
    EXPECT_INT(json_kind(json_field(j, "request_goodput")), JK_NULL);
    EXPECT_TEXT(json_text(json_item(json_field(j, "errors"), 1), NULL), "refused");
    EXPECT(near(json_real(json_item(json_field(j, "queue_times"), 2), 0), 0.03));
    json_drop(j);
    buf_deinit(&b);
    vec_deinit(&percent);
    client_figures_close(&f);
}

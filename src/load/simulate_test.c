/* Goal: the scheduler meets its criteria on traces of real requests:
 * - feedback queues give lower latencies than first come, first served;
 * - no request waits longer than the bound;
 * - a flood by one key does not reduce the share of other keys;
 * - continuous batching is faster than static batching;
 * - a pool of moderate size has nearly as many hits as an unlimited pool.
 * Method: run the engine on a virtual clock (simulate.h). QUOTH_LONG=1 uses the whole traces. */
#include "../../tests/unit.h"
#include "simulate.h"

#include <math.h>

static const char azure[] = "traces/AzureLLMInferenceTrace_conv.csv",
                  mooncake[] = "traces/mooncake_synthetic.jsonl";

static struct sim_options options(void)
{
    return (struct sim_options){.cost = sim_cost_default,
                                .n_seq = 32,
                                .n_row = 512,
                                .n_page = 8192,
                                .page_rows = 16,
                                .n_host_page = 8192};
}

static double mean_s(const struct sim_result *r)
{
    double sum = 0;
    for (size_t i = 0; i < r->n; i++)
        sum += (double)(r->trace[i].done_us - r->trace[i].arrival_us) * 1e-6;
    return sum / (double)r->n;
}

static int64_t longest_wait(const struct sim_result *r)
{
    int64_t us = 0;
    for (size_t i = 0; i < r->n; i++)
        if (r->trace[i].wait_us > us) us = r->trace[i].wait_us;
    return us;
}

/* Make a trace: n jobs, one per second. */
static void even(struct traffic *t, int n, int n_prompt, int n_output)
{
    *t = (struct traffic){.seed = 7};
    for (int i = 0; i < n; i++) {
        struct traffic_job j = {
            .arrival_us = i * 1000000, .n_prompt = n_prompt, .n_output = n_output};
        if (!vec_push(t, j)) test_fail(__FILE__, __LINE__, "no memory");
    }
}

TEST(a_simulation_is_exact_where_nothing_interferes)
{
    struct traffic t;
    struct sim_result r;
    struct err e;
    even(&t, 3, 100, 5); /* each job ends before the next job arrives */
    struct sim_options o = options();
    o.cost = (struct sim_cost){.step = 1000, .row = 100, .kv = 1, .pair = 0.5};
    NEED_OK(simulate(&r, &t, &o, &e), &e);
    /* prompt: 1000 + 100 * 100 + 100 + 0.5 * 100 * 50; then 4 steps at [101, 104] */
    int64_t first = 1000 + 10000 + 100 + 2500, rest = 4 * 1100 + 101 + 102 + 103 + 104;
    for (int i = 0; i < 3; i++) {
        EXPECT_INT(r.trace[i].arrival_us, i * 1000000);
        EXPECT_INT(r.trace[i].first_us - r.trace[i].arrival_us, first);
        EXPECT_INT(r.trace[i].done_us - r.trace[i].arrival_us, first + rest);
    }
    EXPECT_INT(r.n_output, 15);
    EXPECT_INT(r.n_step, 15);
    EXPECT_INT(r.n_hit, 0);
    sim_result_close(&r);
    /* two jobs together in a rectangle, then the last job alone */
    o.n_seq = 2;
    double two = 5 * 1000 + 200 * 100 + 8 * 100 + 200 * 50 * 0.5 + 8 * 102.5,
           one = 5 * 1000 + 100 * 100 + 4 * 100 + 100 * 50 * 0.5 + 4 * 102.5;
    EXPECT_INT(sim_padded_us(&t, &o), (int64_t)(two + one));
    traffic_close(&t);
}

TEST(policies_meet_their_bars_on_real_arrivals)
{
    struct traffic t = {.seed = 1};
    struct sim_options o = options();
    struct sim_result r;
    struct err e;
    int64_t all_us;
    if (!data_path(azure)) SKIP("%s is not here", azure);
    NEED_OK(traffic_read(&t, data_path(azure), test_long() ? 2000 : 150, &e), &e);
    NEED_OK(sim_capacity(&all_us, &t, &o, &e), &e);
    traffic_faster(&t, 1.2 * (double)t.v[t.n - 1].arrival_us / (double)all_us);
    o.starvation_us = all_us / 4;
    double fcfs = 0;
    for (int i = 0; policy_name(i); i++) {
        o.scheduler = policy_name(i);
        NEED_OK(simulate(&r, &t, &o, &e), &e);
        double mean = mean_s(&r), wait = (double)longest_wait(&r) * 1e-6,
               bound = (double)o.starvation_us * 1e-6;
        bool joins = strcmp(o.scheduler, "static") != 0 && strcmp(o.scheduler, "window") != 0;
        test_note("%s: mean completion %.0f s, longest wait %.0f s, bound %.0f s", o.scheduler,
                  mean, wait, bound);
        if (i == 0) fcfs = mean;
        if (strcmp(o.scheduler, "mlfq") == 0) EXPECT(mean * 1.5 <= fcfs);
        /* a job waits at most until the end of the running job */
        if (joins) EXPECT(wait <= bound + 60);
        sim_result_close(&r);
    }
    traffic_close(&t);
}

TEST(a_key_that_floods_costs_others_little_more_than_their_share)
{
    struct traffic t = {.seed = 1};
    struct sim_options o = options();
    struct sim_fairness f;
    struct err e;
    if (!data_path(azure)) SKIP("%s is not here", azure);
    NEED_OK(traffic_read(&t, data_path(azure), test_long() ? 2000 : 200, &e), &e);
    o.scheduler = "fair";
    NEED_OK(sim_flood(&f, &t, &o, &e), &e);
    test_note("first token %.2f, completion %.2f times the fair share's",
              f.first_s / f.fair_first_s, f.done_s / f.fair_done_s);
    EXPECT(f.done_s <= 1.2 * f.fair_done_s);
    EXPECT(f.first_s <= 1.2 * f.fair_first_s);
    o.scheduler = "fcfs"; /* check that the test can detect starvation */
    NEED_OK(sim_flood(&f, &t, &o, &e), &e);
    EXPECT(f.done_s > 2 * f.fair_done_s);
    traffic_close(&t);
}

TEST(continuous_batching_beats_static_twice)
{
    struct traffic t = {.seed = 1};
    struct sim_options o = options();
    struct err e;
    int64_t us;
    if (!data_path(azure)) SKIP("%s is not here", azure);
    NEED_OK(traffic_read(&t, data_path(azure), test_long() ? 2000 : 400, &e), &e);
    NEED_OK(sim_capacity(&us, &t, &o, &e), &e);
    double gain = (double)sim_padded_us(&t, &o) / (double)us;
    test_note("%.2f times the throughput of static batches, padded", gain);
    EXPECT(gain >= 2);
    traffic_close(&t);
}

TEST(a_moderate_pool_hits_as_an_unlimited_one)
{
    struct traffic t = {.seed = 1};
    struct sim_options o = options();
    struct sim_result r;
    struct err e;
    double rate[2];
    if (!data_path(mooncake)) SKIP("%s is not here", mooncake);
    NEED_OK(traffic_read(&t, data_path(mooncake), 1 << 20, &e), &e);
    o.cost = (struct sim_cost){.step = 10000};
    o.shrink = BLOCK_TOKENS / 16;
    o.n_row = 1 << 14;
    o.itl_multiple = 1e6;
    for (int i = 0; i < 2; i++) {
        o.n_page = i ? 100000 : 30000; /* blocks of 512 tokens */
        NEED_OK(simulate(&r, &t, &o, &e), &e);
        rate[i] = (double)r.n_hit / (double)r.n_query;
        sim_result_close(&r);
    }
    test_note("%.1f %% of prompt tokens, %.1f %% without a limit", rate[0] * 100, rate[1] * 100);
    EXPECT(rate[0] >= 0.95 * rate[1]);
    EXPECT(rate[0] >= 0.95 * 0.64);
    traffic_close(&t);
}

/* traffic_test.c - goal: traces are read correctly, random jobs follow the parameters, and every
 * figure of a run equals the figure computed by hand. Method: use handwritten files, and an
 * executor with steps of known duration. The clients advance a virtual clock. */
#include "traffic.h"
#include "../../tests/unit.h"

#include "base/json.h"
#include "base/os.h"

#include <math.h>
#include <stdlib.h>

static int read_text(struct traffic *t, const char *text, struct err *e)
{
    const char *path = temp_path("trace");
    *t = (struct traffic){0};
    int rc = file_write(path, text, strlen(text), e);
    return rc ? rc : traffic_read(t, path, 100, e);
}

TEST(traces_are_read_in_their_three_forms)
{
    struct traffic t;
    struct err e;
    NEED_OK(read_text(&t,
                      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                      "2023-11-16 23:59:59.5000000,374,44\n2023-11-17 00:00:01.2500000,396,109\n",
                      &e),
            &e);
    EXPECT_INT(t.n, 2);
    EXPECT_INT(t.v[1].arrival_us, 1750000);
    EXPECT(t.v[1].n_prompt == 396 && t.v[1].n_output == 109 && t.v[0].arrival_us == 0);
    traffic_close(&t);
    NEED_OK(read_text(&t, "num_prefill_tokens,num_decode_tokens,x\r\n3772,54,3826\r\n7,0,7", &e),
            &e);
    EXPECT(t.n == 2 && t.v[0].n_prompt == 3772 && t.v[1].n_prompt == 7 && t.v[1].n_output == 1);
    traffic_close(&t);
    NEED_OK(read_text(&t,
                      "{\"timestamp\": 500, \"input_length\": 600, \"output_length\": 6, "
                      "\"hash_ids\": [5, 9]}\n"
                      "{\"timestamp\": 3500, \"input_length\": 700, \"output_length\": 2, "
                      "\"hash_ids\": [5, 8]}\n",
                      &e),
            &e);
    EXPECT(t.n == 2 && t.v[1].arrival_us == 3000000 && t.v[1].n_block == 2);
    struct ids a = {0}, b = {0};
    NEED_OK(traffic_prompt(&t, 0, 1000, &a, &e), &e);
    NEED_OK(traffic_prompt(&t, 1, 1000, &b, &e), &e);
    EXPECT(a.n == 600 && b.n == 700);
    EXPECT_BITS(a.v, b.v, BLOCK_TOKENS * sizeof(int32_t));
    EXPECT(memcmp(a.v + BLOCK_TOKENS, b.v + BLOCK_TOKENS, 80 * sizeof(int32_t)) != 0);
    vec_deinit(&a), vec_deinit(&b);
    traffic_close(&t);
}

TEST(traces_begin_at_their_earliest_line)
{
    struct traffic t;
    struct err e;
    NEED_OK(read_text(&t,
                      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-17 00:00:01.5,1,4\n"
                      "2023-11-16 23:59:59.5,2,5\n2023-11-17 00:00:00.5,3,6\n",
                      &e),
            &e);
    NEED(t.n == 3);
    EXPECT(t.v[0].n_prompt == 2 && t.v[0].arrival_us == 0);
    EXPECT(t.v[1].n_prompt == 3 && t.v[1].arrival_us == 1000000);
    EXPECT(t.v[2].n_prompt == 1 && t.v[2].arrival_us == 2000000);
    traffic_close(&t);
}

TEST(traces_that_are_none_are_refused_by_line)
{
    static const struct {
        const char *text, *word;
    } bad[] = {
        {"", "first line"},
        {"a,b\n1,2\n", "first line"},
        {"num_prefill_tokens,num_decode_tokens\n", "requests"},
        {"num_prefill_tokens,num_decode_tokens\n5,6\nfive,6\n", ":3"},
        {"num_prefill_tokens,num_decode_tokens\n2147483647,2147483647\n", ":2"},
        {"num_prefill_tokens,num_decode_tokens\n5,16777217\n", ":2"},
        {"{\"timestamp\": 0, \"input_length\": 4294967297, \"output_length\": 6, \"hash_ids\": "
         "[5]}\n",
         ":1"},
        {"{\"timestamp\": 9e18, \"input_length\": 5, \"output_length\": 6, \"hash_ids\": [5]}\n",
         ":1"},
        {"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16,374,44\n", ":2"},
        {"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374,-1\n", ":2"},
        {"{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 6, \"hash_ids\": [5]}\n",
         ":1"},
        {"{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 6, \"hash_ids\": [\"a\"]}\n",
         ":1: expected hash_ids"},
        {"{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 6, \"hash_ids\": "
         "[2147483648]}\n",
         ":1: expected hash_ids"},
        {"{\"timestamp\": 0", ":1"},
        {"{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 6, \"hash_ids\": [5]}\n[]\n",
         ":2"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct traffic t;
        struct err e = {0};
        if (read_text(&t, bad[i].text, &e) == 0 || !strstr(e.text, bad[i].word))
            test_fail(__FILE__, __LINE__, "case %zu: %s", i, e.text);
        traffic_close(&t);
    }
}

TEST(real_traces_are_read)
{
    static const struct {
        const char *path;
        size_t n;
    } trace[] = {{"traces/AzureLLMInferenceTrace_conv.csv", 19366},
                 {"traces/mooncake_synthetic.jsonl", 3993},
                 {"traces/arxiv_summarization_stats_llama2.csv", 28257}};
    if (!data_path("traces")) SKIP("the traces are not here");
    for (int i = 0; i < 3; i++) {
        struct traffic t = {0};
        struct err e;
        NEED_OK(traffic_read(&t, data_path(trace[i].path), SIZE_MAX, &e), &e);
        EXPECT_INT(t.n, trace[i].n);
        for (size_t k = 1; k < t.n; k++) EXPECT(t.v[k].arrival_us >= t.v[k - 1].arrival_us);
        traffic_close(&t);
    }
}

TEST(random_traffic_is_as_requested)
{
    struct traffic t = {.seed = 3, .n_prefix = 10};
    struct err e;
    double sum = 0, square = 0;
    NEED_OK(traffic_random(&t, 20000, 100, 50, 0.2, &e), &e);
    for (size_t i = 0; i < t.n; i++) {
        EXPECT(t.v[i].n_prompt >= 10 + 80 && t.v[i].n_prompt <= 10 + 120);
        EXPECT(t.v[i].n_output >= 40 && t.v[i].n_output <= 60);
        sum += t.v[i].n_prompt - 10;
    }
    EXPECT(fabs(sum / 20000 - 100) < 0.5);
    for (int k = 0; k < 3; k++) { /* a gap's variance is mean^2 / burstiness */
        double shape = (double[]){0.25, 1, 4}[k], mean;
        traffic_arrive(&t, &(struct traffic_arrivals){8, 8, shape, false});
        sum = square = 0;
        for (size_t i = 1; i < t.n; i++) {
            double gap = (double)(t.v[i].arrival_us - t.v[i - 1].arrival_us) * 1e-6;
            sum += gap, square += gap * gap;
        }
        mean = sum / 19999;
        EXPECT(fabs(mean - 0.125) < 0.125 * 0.05);
        EXPECT(fabs((square / 19999 - mean * mean) * shape / (mean * mean) - 1) < 0.15);
    }
    traffic_arrive(&t, &(struct traffic_arrivals){INFINITY, INFINITY, 1, false});
    EXPECT_INT(t.v[t.n - 1].arrival_us, 0);
    struct ids a = {0}, b = {0};
    NEED_OK(traffic_prompt(&t, 4, 50, &a, &e), &e);
    NEED_OK(traffic_prompt(&t, 5, 50, &b, &e), &e);
    EXPECT_BITS(a.v, b.v, 10 * sizeof(int32_t));
    EXPECT(memcmp(a.v + 10, b.v + 10, 60 * sizeof(int32_t)) != 0);
    vec_deinit(&a), vec_deinit(&b);
    EXPECT_INT(traffic_fit(&t, 1000), 0);
    int whole = t.v[7].n_prompt + t.v[7].n_output;
    int output = t.v[7].n_output;
    EXPECT(traffic_fit(&t, whole) < t.n && t.v[7].n_output == output &&
           t.v[7].n_prompt + t.v[7].n_output == whole);
    EXPECT(traffic_fit(&t, 100) > 0 && t.v[7].n_prompt + t.v[7].n_output == 100);
    traffic_close(&t);
}

TEST(ramps_rise_as_requested)
{
    /* Goal: in the middle of a ramp from 2 to 18 per second, the rate is 10 if it is linear, and 6
     * if exponential. */
    for (int k = 0; k < 2; k++) {
        struct traffic t = {.seed = 5};
        struct err e;
        NEED_OK(traffic_random(&t, 40000, 10, 10, 0, &e), &e);
        traffic_arrive(&t, &(struct traffic_arrivals){2, 18, 1, k == 1});
        double us = (double)(t.v[21000].arrival_us - t.v[19000].arrival_us);
        EXPECT(fabs(2000 / (us * 1e-6) / (k ? 6 : 10) - 1) < 0.1);
        EXPECT(t.v[39999].arrival_us - t.v[38000].arrival_us < t.v[2000].arrival_us / 5);
        traffic_close(&t);
    }
}

/* ---- runs ---- */

enum { N_VOCAB = 16 };

struct slow { /* executor with steps of 10 ms and 1 ms per row */
    struct batch_limits limits;
    float logits[64 * N_VOCAB];
    int64_t now_us;
    struct engine *engine;
};

static struct model_out slow_forward(void *ctx, const struct batch *b)
{
    struct slow *s = ctx;
    s->now_us += 10000 + 1000 * b->n_row;
    return (struct model_out){.logits = s->logits};
}

static int64_t slow_now(void *ctx)
{
    return ((struct slow *)ctx)->now_us;
}

static void slow_pass(void *ctx, int64_t until_us)
{
    struct slow *s = ctx;
    if (!engine_step(s->engine) && s->now_us < until_us) s->now_us = until_us;
}

/* Open an engine on a virtual clock. A step's time is known, so all figures have exact values. */
static int slow_open(struct slow *s, int queue_max, struct err *e)
{
    *s = (struct slow){.now_us = 5000000};
    s->limits =
        (struct batch_limits){.n_row = 64, .n_seq = 8, .n_out = 8, .page_stride = 8, .n_copy = 8};
    struct executor x = {.ctx = s,
                         .n_vocab = N_VOCAB,
                         .n_page = 64,
                         .page_rows = 16,
                         .context_max = 128,
                         .limits = &s->limits,
                         .cost = {.row_macs = 1000, .layer_bytes = 500},
                         .forward = slow_forward,
                         .now_us = slow_now};
    struct engine_options eo = {.executor = x, .queue_max = queue_max, .no_prefix_cache = true};
    return engine_open(&s->engine, &eo, e);
}

static int run_slow(struct slow *s, const struct traffic *t, int max_concurrency,
                    struct traffic_result *r, struct err *e)
{
    struct traffic_clock clock = {s, slow_now, slow_pass};
    struct traffic_options o = {
        .clock = &clock, .n_vocab = N_VOCAB, .max_concurrency = max_concurrency};
    return traffic_run(r, s->engine, t, &o, e);
}

#define EXPECT_NEAR(got, want)                                                                     \
    do {                                                                                           \
        double g_ = (got), w_ = (want);                                                            \
        if (!(fabs(g_ - w_) <= 0.02 * fabs(w_)))                                                   \
            test_fail(__FILE__, __LINE__, "%s is %g, not %g", #got, g_, w_);                       \
    } while (0)

enum { N_JOB = 12 };
static const struct traffic_peaks peaks = {.flops = 1e6, .bytes = 1e5, .n_thread = 2};

/* Compare the figures of all latencies with their exact values. */
static void check_figures(const struct traffic_figures *figures)
{
    const struct client_figures *f = &figures->client;
    /* a prompt of 40 tokens takes 50 ms, then 9 tokens take 11 ms each; one arrives every 500 ms */
    const double seconds = (N_JOB - 1) * 0.5 + 0.149, want[] = {50, 11, 11, 149, 14.9};
    for (int k = 0; k < 5; k++) {
        EXPECT_NEAR(samples_mean(&f->ms[k]), want[k]);
        EXPECT_NEAR(samples_percentile(&f->ms[k], 99), want[k]);
    }
    EXPECT_INT(f->ms[ITL].n, N_JOB * 9);
    EXPECT(samples_mean(&f->ms[QUEUE]) < 1 && f->under_way_max == 1 && f->n_completed == N_JOB);
    EXPECT_NEAR(samples_mean(&f->ms[E2EL_QUEUE]), 149);
    EXPECT_NEAR(f->seconds, seconds);
    EXPECT_NEAR(f->request_rate, N_JOB / seconds);
    EXPECT_NEAR(f->output_rate, N_JOB * 10 / seconds);
    EXPECT_NEAR(f->total_rate, N_JOB * 50 / seconds);
    EXPECT_NEAR(f->offered_rate, 2);
    EXPECT_NEAR(f->token_rate_max, 20);
    EXPECT_NEAR(figures->flops, 2.0 * 1000 * N_JOB * 49 / seconds);
    EXPECT_NEAR(figures->mfu, 2.0 * 1000 * N_JOB * 49 / seconds / 1e6);
    EXPECT_NEAR(figures->mbu, 500.0 * N_JOB * 10 / seconds / 1e5);
    EXPECT(figures->host_share == 0 && figures->hit_rate == 0);
}

TEST(figures_of_a_run_are_those_worked_out_by_hand)
{
    struct slow s;
    struct traffic t = {0};
    struct traffic_result r;
    struct traffic_figures f;
    struct err e;
    NEED_OK(slow_open(&s, 64, &e), &e);
    for (int i = 0; i < N_JOB; i++)
        NEED(vec_push(
            &t, ((struct traffic_job){.arrival_us = i * 500000, .n_prompt = 40, .n_output = 10})));
    NEED_OK(run_slow(&s, &t, 0, &r, &e), &e);
    struct slo slo = {{0}};
    const char *kept[] = {"ttft:51", "tpot:12", "e2el:150"}, *missed[] = {"e2el:148"},
               *wrong[] = {"itl:5", "ttft", "ttft:", "ttft:x", "tpot:-1", ":5"};
    NEED_OK(slo_read(&slo, &(struct text_list){kept, 3, 3}, &e), &e);
    NEED_OK(traffic_figures(&f, &r, &slo, &peaks, &e), &e);
    check_figures(&f);
    EXPECT_INT(f.client.n_good, N_JOB);
    traffic_figures_close(&f);
    NEED_OK(slo_read(&slo, &(struct text_list){missed, 1, 1}, &e), &e);
    NEED_OK(traffic_figures(&f, &r, &slo, &peaks, &e), &e);
    EXPECT_INT(f.client.n_good, 0);
    for (int i = 0; i < 6; i++)
        EXPECT_INT(slo_read(&slo, &(struct text_list){wrong + i, 1, 1}, &e), ERR_ARG);
    traffic_figures_close(&f);
    traffic_result_close(&r);
    engine_close(s.engine);
    traffic_close(&t);
}

TEST(concurrency_is_held_and_refusals_are_counted)
{
    struct slow s;
    struct traffic t = {0};
    struct traffic_result r;
    struct traffic_figures f;
    struct err e;
    for (int i = 0; i < 20; i++)
        NEED(vec_push(&t, ((struct traffic_job){.n_prompt = 10, .n_output = 5})));
    NEED_OK(slow_open(&s, 64, &e), &e);
    NEED_OK(run_slow(&s, &t, 2, &r, &e), &e);
    NEED_OK(traffic_figures(&f, &r, &(struct slo){{0}}, &peaks, &e), &e);
    EXPECT_INT(f.client.under_way_max, 2);
    EXPECT_INT(f.client.n_completed, 20);
    /* ten times: two prompts in a step of 30 ms, four steps of 12 ms */
    EXPECT_NEAR(f.client.seconds, 10 * (0.030 + 4 * 0.012));
    EXPECT_NEAR(samples_mean(&f.client.ms[TTFT]), 30);
    traffic_figures_close(&f);
    traffic_result_close(&r);
    engine_close(s.engine);
    NEED_OK(slow_open(&s, 8, &e), &e); /* a queue of 8 for 20 simultaneous requests */
    NEED_OK(run_slow(&s, &t, 0, &r, &e), &e);
    NEED_OK(traffic_figures(&f, &r, &(struct slo){{0}}, &peaks, &e), &e);
    EXPECT_INT(f.client.n_completed, 8);
    EXPECT_INT(f.client.n_failed, 12);
    EXPECT_INT(r.stats.value[STAT_done_length], 8);
    traffic_figures_close(&f);
    traffic_result_close(&r);
    engine_close(s.engine);
    traffic_close(&t);
}

/* Five requests and their figures. */
struct measured {
    struct slow slow;
    struct traffic t;
    struct traffic_result r;
    struct traffic_figures f;
};

static int measure(struct measured *m, struct err *e)
{
    *m = (struct measured){0};
    int rc = slow_open(&m->slow, 64, e);
    for (int i = 0; i < 5 && rc == 0; i++)
        if (!vec_push(&m->t, ((struct traffic_job){
                                 .arrival_us = i * 900000, .n_prompt = 20, .n_output = 7})))
            rc = ERR_MEMORY;
    if (rc == 0) rc = run_slow(&m->slow, &m->t, 0, &m->r, e);
    return rc ? rc : traffic_figures(&m->f, &m->r, &(struct slo){{0}}, &peaks, e);
}

static void measured_close(struct measured *m)
{
    traffic_figures_close(&m->f);
    traffic_result_close(&m->r);
    engine_close(m->slow.engine);
    traffic_close(&m->t);
}

TEST(bench_json_has_every_key)
{
    static const char keys[] =
        "duration completed failed total_input_tokens total_output_tokens request_throughput "
        "request_goodput output_throughput total_token_throughput max_output_tokens_per_s "
        "max_concurrent_requests mean_ttft_ms median_ttft_ms std_ttft_ms p50_ttft_ms p90_ttft_ms "
        "p99_ttft_ms mean_tpot_ms p99_tpot_ms mean_itl_ms p99_itl_ms mean_e2el_ms p99_e2el_ms "
        "mean_e2el_per_token_ms requests_per_minute request_rate_offered goodput_share mfu "
        "bandwidth_share cpu_share watts prefix_cache_hit_rate host_share memory_bytes_max "
        "memory_growth_bytes stats input_lens output_lens ttfts itls errors";
    struct measured m;
    struct samples percent = {0};
    struct buf b = {0};
    struct json *j = NULL;
    struct err e;
    int n_key = 0;
    NEED_OK(measure(&m, &e), &e);
    NEED_OK(list_read_reals(&percent, "50,90,99", 0, 100, &e), &e);
    traffic_json(&m.f, &m.r, &percent, &b);
    client_trace_json(m.r.trace, m.r.n, &b);
    buf_add_char(&b, '}');
    b.data[0] = '{';
    NEED_OK(json_parse(&j, b.data, b.n, NULL, &e), &e);
    for (const char *at = keys; *at; at += strspn(at, " "), n_key++) {
        char key[40];
        size_t n = strcspn(at, " ");
        snprintf(key, sizeof key, "%.*s", (int)n, at);
        if (!json_field(j, key)) test_fail(__FILE__, __LINE__, "no \"%s\"", key);
        at += n;
    }
    EXPECT_INT(n_key, 41);
    EXPECT_INT(json_count(json_item(json_field(j, "itls"), 3)), 6);
    EXPECT_NEAR(json_real(json_field(j, "mean_ttft_ms"), 0), 30);
    EXPECT(json_real(json_field(json_field(j, "stats"), "steps_total"), 0) == 35);
    json_drop(j);
    buf_deinit(&b);
    vec_deinit(&percent);
    measured_close(&m);
}

TEST(bench_page_has_the_table_and_curves)
{
    struct measured m;
    struct buf b = {0};
    struct err e;
    const char *path = temp_path("page.html");
    NEED_OK(measure(&m, &e), &e);
    struct client_page page = {.title = "a <title>",
                               .table = "a & b",
                               .trace = m.r.trace,
                               .n_trace = m.r.n,
                               .figures = &m.f.client,
                               .load = m.r.sample.v,
                               .n_load = m.r.sample.n};
    NEED_OK(client_page_write(&page, path, &e), &e);
    NEED_OK(file_read(&b, path, 1 << 20, &e), &e);
    EXPECT(strstr(b.data, "a &lt;title&gt;") && strstr(b.data, "<svg") &&
           strstr(b.data, "a &amp; b") && strstr(b.data, "</html>"));
    EXPECT(!strstr(b.data, "nan") && !strstr(b.data, "inf") && !strstr(b.data, "src="));
    buf_deinit(&b);
    measured_close(&m);
}

/* stats_test.c - goal: every figure is correct. Method: an engine over an executor without a model,
 * whose steps take a known time on a virtual clock. Therefore every time and count can be computed
 * by hand. Further tests use a parser of Prometheus' format, readers that race the writer, and the
 * events of a golden model. */
#include "../../tests/unit.h"

#include "base/json.h"
#include "base/os.h"
#include "rig_test.h"

#include <math.h>
#include <stdlib.h>

static bool near(double got, double want)
{
    return fabs(got - want) <= 0.02 * fabs(want);
}

#define EXPECT_NEAR(got, want)                                                                     \
    do {                                                                                           \
        if (!near(got, want))                                                                      \
            test_fail(__FILE__, __LINE__, "%s is %g, not %g", #got, (double)(got),                 \
                      (double)(want));                                                             \
    } while (0)

TEST(stats_of_one_request_are_those_worked_out_by_hand)
{
    struct slow_rig r;
    struct err e;
    NEED_OK(slow_open(&r, 20, 32, 2, &e), &e);
    /* prompt in chunks of 32, 32, 16 rows, then 10 decodes */
    NEED_OK(slow_submit(&r, 0, 80, 11, &e), &e);
    r.slow.now_us += 5000; /* the request waits 5 ms */
    slow_run(&r);
    const struct histogram *t = r.view.times;
    const int64_t *v = r.view.value;
    const double prefill = 3 * SLOW_STEP_US + 80 * SLOW_ROW_US, gap = SLOW_STEP_US + SLOW_ROW_US;
    EXPECT_NEAR(t[TIMES_queue].sum, 5000);
    EXPECT_NEAR(t[TIMES_prefill].sum, prefill);
    EXPECT_NEAR(t[TIMES_ttft].sum, 5000 + prefill);
    EXPECT_NEAR(histogram_mean(&t[TIMES_itl]), gap);
    EXPECT_INT(t[TIMES_itl].n, 10);
    EXPECT_NEAR(t[TIMES_tpot].sum, gap);
    EXPECT_NEAR(t[TIMES_decode].sum, 10 * gap);
    EXPECT_NEAR(t[TIMES_inference].sum, prefill + 10 * gap);
    EXPECT_NEAR(t[TIMES_e2el].sum, 5000 + prefill + 10 * gap);
    EXPECT_NEAR(t[TIMES_e2el_per_token].sum, (5000 + prefill + 10 * gap) / 11);
    EXPECT_INT(v[STAT_steps], 13);
    EXPECT_INT(v[STAT_rows], 90);
    EXPECT_INT(v[STAT_outputs], 11);
    EXPECT_INT(t[TIMES_step_rows].sum, 90);
    EXPECT_INT(t[TIMES_step_tokens].n, 13);
    EXPECT_INT(t[TIMES_step_tokens].sum, 80 + 11); /* as in vLLM, the first token is counted */
    EXPECT_INT(t[TIMES_step_us].n, 13);
    EXPECT_NEAR(v[STAT_forward_us], prefill + 10 * gap);
    EXPECT_INT(v[STAT_schedule_us] + v[STAT_sample_us] + v[STAT_commit_us], 0);
    EXPECT(stats_host_share(&r.view) == 0);
    EXPECT_INT(v[STAT_generation_tokens], 11);
    EXPECT_INT(v[STAT_prompt_tokens], 80);
    EXPECT_INT(v[STAT_done_length], 1);
    EXPECT_INT(t[TIMES_generation].sum, 11);
    EXPECT_INT(t[TIMES_params_max_tokens].sum, 11);
    /* rows attend to 1 + 2 + ... + 90 positions; KV held: 32, 64, 80, 81 ... 90 */
    EXPECT_INT(v[STAT_flops], 2 * (100 * 90 + 10 * 11 + 90 * 91 / 2));
    EXPECT_INT(v[STAT_read_bytes], 13 * 1000 + 11 * 100 + 8 * (32 + 64 + 80 + 10 * (81 + 90) / 2));
    EXPECT_INT(v[STAT_write_bytes], 90 * 8);
    slow_close(&r);
}

TEST(stats_latencies_count_from_arrival_not_from_submission)
{
    /* goal: TTFT, queue time, E2E time and `timeout` include the time before submission. An
     * arrival later than the clock is ignored. */
    struct slow_rig r;
    struct err e;
    const int64_t early = 70000;
    NEED_OK(slow_open(&r, 20, 32, 2, &e), &e);
    for (int i = 0; i < 3; i++) {
        struct request *q = slow_request(&r, i, 8, 1, &e);
        NEED(q != NULL);
        q->arrival_us = i == 1 ? r.slow.now_us + early : r.slow.now_us - early;
        if (i == 2) q->deadline_us = early / 2;
        NEED_OK(engine_submit(r.engine, q, &e), &e);
        slow_run(&r);
    }
    const struct histogram *t = r.view.times;
    const double step = SLOW_STEP_US + 8 * SLOW_ROW_US;
    EXPECT_INT(t[TIMES_ttft].n, 2);
    EXPECT_NEAR(t[TIMES_ttft].sum, (double)early + 2 * step);
    EXPECT_NEAR(t[TIMES_queue].sum, (double)early);
    EXPECT_NEAR(t[TIMES_e2el].sum, 2 * (double)early + 2 * step);
    EXPECT_INT(r.view.value[STAT_done_timeout], 1);
    slow_close(&r);
}

TEST(stats_times_before_submission_are_counted_at_once)
{
    struct stats *st;
    struct stats_view v;
    struct err e;
    NEED_OK(stats_open(&st, &(struct stats_options){.context_max = 100}, &e), &e);
    stats_time(st, TIMES_body, 150);
    stats_time(st, TIMES_tokenize, 1500);
    stats_time(st, TIMES_tokenize, 600000000);
    stats_read(st, &v);
    EXPECT_INT(v.times[TIMES_body].n, 1);
    EXPECT_INT(v.times[TIMES_body].count[1], 1);
    EXPECT_INT(v.times[TIMES_tokenize].n, 2);
    EXPECT_INT(v.times[TIMES_tokenize].sum, 600001500);
    EXPECT_INT(v.times[TIMES_tokenize].count[v.times[TIMES_tokenize].n_bound], 1);
    EXPECT_INT(v.times[TIMES_render].n, 0);
    stats_close(st);
}

TEST(stats_of_a_batch_queue_and_levels)
{
    struct slow_rig r;
    struct err e;
    NEED_OK(slow_open(&r, 8, 64, 2, &e), &e); /* 128 tokens of pages, two sequences */
    for (int i = 0; i < 3; i++) NEED_OK(slow_submit(&r, i, 16, 32, &e), &e);
    /* requests 0 and 1 share a step of 32 rows; request 2 waits for them */
    EXPECT(engine_step(r.engine));
    stats_read(engine_stats(r.engine), &r.view);
    EXPECT_INT(r.view.value[STAT_running], 2);
    EXPECT_INT(r.view.value[STAT_waiting], 1);
    EXPECT_INT(r.view.value[STAT_waiting_capacity], 1);
    EXPECT_INT(r.view.value[STAT_waiting_deferred], 0);
    EXPECT(r.view.value[STAT_kv_usage] > 0 && r.view.value[STAT_kv_usage] <= 1000000);
    slow_run(&r);
    const struct histogram *t = r.view.times;
    const double first = SLOW_STEP_US + 32 * SLOW_ROW_US, both = SLOW_STEP_US + 2 * SLOW_ROW_US,
                 done = first + 31 * both, alone = SLOW_STEP_US + 16 * SLOW_ROW_US,
                 gap = SLOW_STEP_US + SLOW_ROW_US;
    EXPECT_NEAR(t[TIMES_queue].sum, done);
    EXPECT_NEAR(t[TIMES_ttft].sum, 2 * first + done + alone);
    EXPECT_NEAR(t[TIMES_itl].sum, 2 * 31 * both + 31 * gap);
    EXPECT_NEAR(t[TIMES_tpot].sum, 2 * both + gap);
    EXPECT_NEAR(t[TIMES_e2el].sum, 2 * done + done + alone + 31 * gap);
    EXPECT_NEAR(histogram_quantile(&t[TIMES_itl], 0.5),
                17500); /* the middle of (10, 25] ms, which contains all times */
    EXPECT_INT(r.view.value[STAT_running] + r.view.value[STAT_waiting], 0);
    EXPECT_INT(r.view.value[STAT_kv_usage], 0);
    EXPECT_INT(r.view.value[STAT_done_length], 3);
    slow_close(&r);
}

TEST(stats_marks_are_the_most_of_a_window)
{
    /* goal: a mark includes levels that rose and fell within a step, and falls after the window has
     * passed it. */
    struct slow_rig r;
    struct err e;
    NEED_OK(slow_open(&r, 8, 64, 2, &e), &e);
    const struct stats *st = engine_stats(r.engine);
    const int64_t begin = r.slow.now_us;
    for (int i = 0; i < 3; i++) NEED_OK(slow_submit(&r, i, 16, 1, &e), &e);
    slow_run(&r); /* each request runs for one step, so it is not running at any step's end */
    EXPECT_INT(r.view.value[STAT_running], 0);
    struct stats_marks m = stats_marks(st, r.slow.now_us, r.slow.now_us - begin);
    EXPECT_INT(m.n_running, 2);
    EXPECT_INT(m.n_waiting, 1);
    EXPECT_INT(m.n_swapped, 0);
    EXPECT_INT(m.kv_ppm, 2 * 1000000 / 8);
    r.slow.now_us += 5000000;
    m = stats_marks(st, r.slow.now_us, 1000000);
    EXPECT_INT(m.n_running + m.n_waiting + m.kv_ppm, 0);
    EXPECT_INT(stats_marks(st, r.slow.now_us, 6000000).n_running, 2);
    r.slow.now_us += 10 * (int64_t)STATS_WINDOW_US;
    NEED_OK(slow_submit(&r, 0, 16, 1, &e), &e);
    slow_run(&r); /* all slots are rewritten */
    m = stats_marks(st, r.slow.now_us, INT64_MAX);
    EXPECT_INT(m.n_running, 1);
    EXPECT_INT(m.n_waiting, 0);
    slow_close(&r);
}

TEST(stats_rates_are_of_a_window)
{
    struct slow_rig r;
    struct err e;
    NEED_OK(slow_open(&r, 20, 64, 2, &e), &e);
    const struct stats *st = engine_stats(r.engine);
    EXPECT(stats_rates(st, &r.view, r.slow.now_us, 1000000).flops == 0);
    NEED_OK(slow_submit(&r, 0, 64, 1, &e), &e);
    slow_run(&r);
    const int64_t *v = r.view.value;
    r.slow.now_us += 400000;
    struct stats_rates all = stats_rates(st, &r.view, r.slow.now_us, 60000000);
    const double s = 0.4 + (SLOW_STEP_US + 64 * SLOW_ROW_US) * 1e-6, slot = STATS_SLOT_US * 1e-6;
    EXPECT(all.flops * s <= (double)v[STAT_flops] &&
           all.flops * (s + slot) >= (double)v[STAT_flops]);
    EXPECT(all.read_bytes * (s + slot) >= (double)v[STAT_read_bytes]);
    EXPECT(all.busy * s <= s - 0.4 && all.busy * (s + slot) >= 0.99 * (s - 0.4));
    /* the work ended before the window */
    EXPECT(stats_rates(st, &r.view, r.slow.now_us, 300000).flops == 0);
    slow_close(&r);
}

TEST(stats_count_what_was_found_refused_and_cut_short)
{
    struct slow_rig r;
    struct err e;
    NEED_OK(slow_open(&r, 20, 64, 4, &e), &e);
    NEED_OK(slow_submit(&r, 0, 64, 8, &e), &e);
    slow_run(&r);
    r.slow.now_us += 250000;
    NEED_OK(slow_submit(&r, 0, 64, 8, &e), &e); /* three of its four pages are cached */
    slow_run(&r);
    /* the pages were dropped in the last step; the fourth page is also found, because its last
     * token is computed in a copy */
    EXPECT_INT(r.view.times[TIMES_page_gap].n, 4);
    EXPECT_NEAR(r.view.times[TIMES_page_gap].sum, 4 * (250000 + SLOW_STEP_US + SLOW_ROW_US));
    EXPECT_INT(r.view.value[STAT_cache_queries], 128);
    EXPECT_INT(r.view.value[STAT_cache_hits], 48);
    EXPECT_INT(r.view.value[STAT_prompt_computed], 80);
    EXPECT_INT(r.view.value[STAT_prompt_found], 48);
    EXPECT_INT(r.view.value[STAT_prompt_tokens], 128);
    EXPECT_INT(r.view.times[TIMES_computed].sum, 80);
    struct stats_view before = r.view;
    EXPECT_INT(slow_submit(&r, 1, 400, 8, &e), ERR_LIMIT);
    for (int i = 2; i < 10; i++) NEED_OK(slow_submit(&r, i, 5, 4, &e), &e);
    EXPECT_INT(slow_submit(&r, 10, 5, 4, &e), ERR_BUSY);
    for (int i = 0; i < SLOW_VOCAB; i++) r.slow.logits[i] = NAN;
    slow_run(&r);
    struct stats_view d = stats_since(&before, &r.view);
    EXPECT_INT(r.view.value[STAT_refused_full], 1);
    EXPECT_INT(r.view.value[STAT_refused_long], 1);
    EXPECT_INT(d.value[STAT_done_error], d.value[STAT_corrupted]);
    EXPECT_INT(d.value[STAT_done_error] + d.value[STAT_done_length], 8);
    EXPECT(d.value[STAT_done_error] > 0);
    EXPECT_INT(d.times[TIMES_e2el].n, 8);
    slow_close(&r);
}

TEST(stats_have_the_age_of_evicted_pages)
{
    struct slow_rig r;
    struct err e;
    NEED_OK(slow_open(&r, 8, 64, 1, &e), &e);
    NEED_OK(slow_submit(&r, 0, 48, 1, &e), &e); /* three full pages, 58 ms */
    slow_run(&r);
    EXPECT_INT(r.view.value[STAT_pages_cached], 3);
    EXPECT_INT(r.view.times[TIMES_page_life].n, 0);
    r.slow.now_us += 100000;
    /* seven pages: two of the cached pages are evicted */
    NEED_OK(slow_submit(&r, 1, 112, 1, &e), &e);
    slow_run(&r);
    EXPECT_INT(r.view.times[TIMES_page_life].n, 2);
    EXPECT_INT(r.view.times[TIMES_page_idle].n, 2);
    EXPECT(r.view.times[TIMES_page_idle].sum >= 2 * 100000);
    EXPECT(r.view.times[TIMES_page_life].sum >= r.view.times[TIMES_page_idle].sum);
    EXPECT(r.view.times[TIMES_page_life].sum <=
           2 * (58000 + 100000 + 2 * (SLOW_STEP_US + 64 * SLOW_ROW_US)));
    slow_close(&r);
}

/* ---- Prometheus' text format ---- */

struct sample {
    char name[128], labels[256];
    double value;
};

/* Parse a sample line. Return NULL or the error. */
static const char *read_sample(const char *line, size_t n, struct sample *s)
{
    const char *open = memchr(line, '{', n), *end = line + n;
    if (!open || (size_t)(open - line) >= sizeof s->name) return "no labels";
    snprintf(s->name, sizeof s->name, "%.*s", (int)(open - line), line);
    for (const char *c = s->name; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789_:", *c)) return "a name's letter";
    const char *at = open + 1;
    for (bool quoted = false; at < end && (quoted || *at != '}'); at++) {
        if (quoted && *at == '\\')
            at++;
        else if (*at == '"')
            quoted = !quoted;
    }
    if (at + 2 >= end || at[1] != ' ') return "labels do not end";
    snprintf(s->labels, sizeof s->labels, "%.*s", (int)(at - open - 1), open + 1);
    char *stop;
    s->value = strtod(at + 2, &stop);
    return stop == end ? NULL : "a value is not a number";
}

/* Check that each name of a page has HELP and TYPE once, before its first sample. Check that
 * buckets ascend to +Inf, which equals _count. Return the number of samples, or -1 and the error in
 * *wrong. */
static int check_page(const char *text, const char **wrong)
{
    char typed[128] = "", all[16384] = "";
    double below = 0, inf = -1;
    int n = 0;
    for (const char *line = text, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        if (!end) return *wrong = "no newline at the end", -1;
        struct sample s;
        if (strncmp(line, "# TYPE ", 7) == 0) {
            sscanf(line + 7, "%127s", typed);
            char word[140];
            snprintf(word, sizeof word, " %s ", typed);
            if (strstr(all, word)) return *wrong = "a name has two TYPE lines", -1;
            strncat(all, word, sizeof all - strlen(all) - 1);
        } else if (*line != '#') {
            *wrong = read_sample(line, (size_t)(end - line), &s);
            if (*wrong) return -1;
            if (strncmp(s.name, typed, strlen(typed)) != 0) return *wrong = "no type", -1;
            n++;
            if (strstr(s.name, "_bucket")) {
                if (strstr(s.labels, "le=\"0.") == NULL && s.value < below)
                    return *wrong = "buckets fall", -1;
                below = s.value;
                if (strstr(s.labels, "le=\"+Inf\"")) inf = s.value, below = 0;
            }
            size_t len = strlen(s.name);
            if (len > 6 && strcmp(s.name + len - 6, "_count") == 0 && s.value != inf)
                return *wrong = "_count is not the last bucket", -1;
        }
    }
    return n;
}

TEST(prometheus_page_is_well_formed_and_has_vllms_names)
{
    static const char *const line[] = {
        "vllm:num_requests_running{engine=\"0\",model_name=\"slow \\\"quoted\\\" \\\\ model\"} 0\n",
        "vllm:request_success_total{engine=\"0\",model_name=\"slow \\\"quoted\\\" \\\\ "
        "model\",finished_reason=\"length\"} 1\n",
        "vllm:time_to_first_token_seconds_bucket{engine=\"0\",model_name=\"slow \\\"quoted\\\" "
        "\\\\ model\",le=\"0.001\"} 0\n",
        "le=\"2560\"} 1\n",
        "vllm:time_to_first_token_seconds_sum{engine=\"0\",model_name=\"slow \\\"quoted\\\" \\\\ "
        "model\"} 0.026\n",
        "block_size=\"16\",num_gpu_blocks=\"20\",enable_prefix_caching=\"True\",kv_cache_size_"
        "tokens=\"320\",kv_cache_max_"
        "concurrency=\"0.32\"} 1\n",
        "quoth:step_seconds_total{",
    };
    struct slow_rig r;
    struct err e;
    NEED_OK(slow_open(&r, 20, 64, 4, &e), &e);
    NEED_OK(slow_submit(&r, 0, 16, 3, &e), &e);
    slow_run(&r);
    struct buf page = {0};
    const char *wrong = NULL;
    struct stats_engine shown = {.st = engine_stats(r.engine), .view = r.view};
    stats_prometheus(&shown, 1, NULL, &page);
    int n = check_page(page.data, &wrong);
    if (wrong) test_fail(__FILE__, __LINE__, "%s", wrong);
    EXPECT(n > STAT_COUNT + TIMES_COUNT * 8);
    for (size_t i = 0; i < sizeof line / sizeof line[0]; i++)
        if (!strstr(page.data, line[i])) test_fail(__FILE__, __LINE__, "missing: %s", line[i]);
    buf_clear(&page);
    stats_prometheus(&shown, 1, "x:", &page);
    EXPECT(strstr(page.data, "\nx:num_requests_running{") && !strstr(page.data, "vllm:"));
    buf_deinit(&page);
    slow_close(&r);
}

TEST(stats_json_has_every_name_once)
{
    struct slow_rig r;
    struct err e;
    NEED_OK(slow_open(&r, 20, 64, 4, &e), &e);
    NEED_OK(slow_submit(&r, 0, 16, 3, &e), &e);
    slow_run(&r);
    struct buf text = {0};
    struct json *j = NULL;
    stats_json(&r.view, &text);
    NEED_OK(json_parse(&j, text.data, text.n, NULL, &e), &e);
    EXPECT_INT(json_count(j), STAT_COUNT + TIMES_COUNT + 1);
    EXPECT_INT(json_int(json_field(j, "generation_tokens_total"), -1), 3);
    EXPECT_INT(json_int(json_field(j, "request_success_total:length"), -1), 1);
    const struct json *ttft = json_field(j, "time_to_first_token_seconds");
    EXPECT_INT(json_int(json_field(ttft, "count"), -1), 1);
    EXPECT_NEAR(json_real(json_field(ttft, "mean"), -1), 0.026);
    EXPECT_NEAR(json_real(json_field(j, "step_seconds_total:forward"), -1), 0.026 + 2 * 0.011);
    json_drop(j);
    buf_deinit(&text);
    slow_close(&r);
}

/* ---- readers concurrent with the writer ---- */

static void *read_on(void *arg)
{
    struct slow_rig *r = arg;
    static _Thread_local struct stats_view v;
    for (int i = 0; i < 20000; i++) {
        stats_read(engine_stats(r->engine), &v);
        /* At the end of every step of this engine: */
        if (v.times[TIMES_step_rows].n != (uint64_t)v.value[STAT_steps] ||
            v.times[TIMES_step_rows].sum != v.value[STAT_rows] ||
            v.times[TIMES_e2el].n != (uint64_t)v.value[STAT_done_length] ||
            v.times[TIMES_ttft].n + v.times[TIMES_itl].n !=
                (uint64_t)v.value[STAT_generation_tokens])
            return "a reading from the middle of a step";
    }
    return NULL;
}

TEST(stats_readings_are_of_whole_steps)
{
    struct slow_rig r;
    struct err e;
    NEED_OK(slow_open(&r, 200, 64, 4, &e), &e);
    pthread_t reader[2];
    for (int i = 0; i < 2; i++) NEED(pthread_create(&reader[i], NULL, read_on, &r) == 0);
    struct event ev;
    for (int k = 0; k < 300; k++) {
        for (int i = 0; i < 4; i++) (void)slow_submit(&r, i, 8, 12, &e);
        while (engine_step(r.engine)) {
        }
        for (int i = 0; i < 4; i++)
            while (queue_pop(r.queue[i], &ev, 0)) {
            }
    }
    for (int i = 0; i < 2; i++) {
        void *wrong;
        pthread_join(reader[i], &wrong);
        if (wrong) test_fail(__FILE__, __LINE__, "%s", (const char *)wrong);
    }
    slow_close(&r);
}

/* ---- a real model's events ---- */

TEST(stats_agree_with_the_events_of_a_run)
{
    if (!repo_path("tests/golden/llama3")) SKIP("tests/golden is not here");
    struct err e;
    struct checkpoint *c;
    struct backend *b;
    struct model *m;
    struct engine *en;
    NEED_OK(checkpoint_open(&c, repo_path("tests/golden/llama3/model.gguf"), &e), &e);
    NEED_OK(backend_open(&b, "cpu", &(struct backend_options){.n_thread = 2}, &e), &e);
    struct model_options mo = {.backend = b,
                               .page_rows = 16,
                               .n_page = 64,
                               .context_max = 256,
                               .batch = {.n_row = 32, .n_seq = 4, .n_out = 16}};
    NEED_OK(model_open(&m, c, &mo, &e), &e);
    NEED_OK(engine_open(&en, &(struct engine_options){.executor = executor_of_model(m)}, &e), &e);
    struct queue *q[12];
    uint64_t id = 0;
    for (int i = 0; i < 12; i++) {
        struct request *r = request_open(&e);
        for (int k = 0; k < 20 + 3 * i; k++) (void)!vec_push(&r->prompt, (k * 7 + i / 2) % 200);
        r->max_tokens = 4 + 3 * i;
        r->params.seed = 1;
        r->params.seeded = true;
        r->reply = q[i] = engine_reply_queue();
        id = r->id;
        NEED_OK(engine_submit(en, r, &e), &e);
    }
    for (int i = 0; i < 3; i++) engine_step(en);
    engine_cancel(en, id);
    while (engine_step(en)) {
    }
    struct stats_view v;
    stats_read(engine_stats(en), &v);
    int64_t n_token = 0, n_out = 0, n_found = 0, n_done[5] = {0}, last_us[12] = {0};
    for (int i = 0; i < 12; i++) {
        struct event ev;
        while (queue_pop(q[i], &ev, 0)) {
            EXPECT(ev.time_us >= last_us[i]);
            last_us[i] = ev.time_us;
            if (ev.kind == EVENT_TOKEN) n_token++;
            if (ev.kind != EVENT_DONE) continue;
            n_done[ev.finish]++;
            n_out += ev.usage.n_output;
            n_found += ev.usage.n_cached;
        }
        queue_close(q[i]);
    }
    EXPECT_INT(v.value[STAT_generation_tokens], n_out);
    EXPECT_INT(n_out - n_token, n_done[FINISH_STOP]); /* a stop token causes no event */
    EXPECT_INT(v.value[STAT_done_stop], n_done[FINISH_STOP]);
    EXPECT_INT(v.value[STAT_done_length], n_done[FINISH_LENGTH]);
    EXPECT_INT(v.value[STAT_done_abort], n_done[FINISH_ABORT]);
    EXPECT_INT(v.times[TIMES_generation].sum, n_out);
    EXPECT_INT(v.value[STAT_cache_hits], n_found);
    /* one row per prompt token outside the cache, and per token with a successor */
    EXPECT_INT(v.value[STAT_rows], v.value[STAT_prompt_computed] + (int64_t)v.times[TIMES_itl].n);
    EXPECT_INT(v.times[TIMES_ttft].n + v.times[TIMES_itl].n, n_out);
    EXPECT(v.value[STAT_forward_us] > 0 && stats_host_share(&v) < 1);
    engine_close(en);
    model_close(m);
    backend_close(b);
    checkpoint_close(c);
}

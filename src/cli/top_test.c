/* top_test.c - goal: quoth top shows the figures of metrics pages, on any screen. Method: draw
 * pages with rates and quantiles computed by hand, on screens of many sizes. */
#include "../../tests/unit.h"

#include "base/json.h"
#include "base/utf8.h"
#include "top.h"

#include <math.h>
#include <stdlib.h>

/* ---- a server that is polled once a second ---- */

struct server {
    int second, running, prompt, generation, queries, hits, n_fast, n_slow;
    double start;
};

static int read_server(struct top_sample *out, const struct server *v, struct err *e)
{
    struct buf b = {0};
    buf_addf(&b, "vllm:num_requests_running{model_name=\"m\"} %d\nvllm:num_requests_waiting 1\n",
             v->running);
    buf_addf(&b, "vllm:kv_cache_usage_perc 0.25\nvllm:prompt_tokens_total %d\n", v->prompt);
    buf_addf(&b, "vllm:generation_tokens_total %d\nvllm:prefix_cache_queries_total %d\n",
             v->generation, v->queries);
    buf_addf(&b, "vllm:prefix_cache_hits_total %d\nprocess_start_time_seconds %.1f\n", v->hits,
             v->start);
    buf_addf(&b,
             "vllm:inter_token_latency_seconds_bucket{le=\"0.01\"} %d\n"
             "vllm:inter_token_latency_seconds_bucket{le=\"0.05\"} %d\n"
             "vllm:inter_token_latency_seconds_bucket{le=\"+Inf\"} %d\n"
             "vllm:inter_token_latency_seconds_sum %.3f\n",
             v->n_fast, v->n_fast + v->n_slow, v->n_fast + v->n_slow,
             v->n_fast * 0.002 + v->n_slow * 0.03);
    *out = (struct top_sample){.time_us = (int64_t)v->second * 1000000};
    int rc = top_sample_read(out, b.data, b.n, e);
    buf_deinit(&b);
    return rc;
}

static struct top *watch(struct server *v, int n, struct err *e)
{
    struct top *t = calloc(1, sizeof *t);
    struct top_sample s;
    t->url = "http://127.0.0.1:8000";
    for (int i = 0; i < n; i++) {
        *v = (struct server){.second = v->second + 1,
                             .running = 2 + i % 3,
                             .prompt = v->prompt + 100,
                             .generation = v->generation + 50,
                             .queries = v->queries + 100,
                             .hits = v->hits + 40,
                             .n_fast = v->n_fast + 10,
                             .n_slow = v->n_slow + 30,
                             .start = v->start};
        if (read_server(&s, v, e) != 0) return free(t), NULL;
        top_add(t, &s);
    }
    return t;
}

TEST(top_makes_rates_of_the_last_seconds)
{
    struct server v = {.start = 1000, .n_fast = 1000000};
    struct top_figures f;
    struct err e;
    struct top *t = watch(&v, 30, &e);
    NEED(t);
    top_figures(t, &f);
    EXPECT_INT(f.seconds, TOP_WINDOW);
    EXPECT_INT(f.per_s[TOP_prompt], 100);
    EXPECT_INT(f.per_s[TOP_generation], 50);
    EXPECT(fabs(f.hit_rate - 0.4) < 1e-9 && isnan(f.accept_rate));
    struct histogram h = scrape_histogram(&f.recent[TOP_ITL]);
    EXPECT_INT(h.n, 400); /* the count omits the million values before the window */
    EXPECT(fabs(histogram_quantile(&h, 0.5) - (10000 + 40000 / 3.0)) < 1);
    EXPECT(fabs(histogram_mean(&h) - 23000) < 1);
    EXPECT_INT(t->n_point, 30);
    EXPECT(isnan(t->point[0][TOP_CURVE_GENERATION]) && t->point[1][TOP_CURVE_GENERATION] == 50);
    free(t);
}

/* Goal: control characters in a model's name, which the server chooses, do not reach the
 * terminal. */
TEST(top_shows_no_controls_of_the_server)
{
    static const char page[] = "vllm:num_requests_running{model_name=\"a\x1b[31m\xc2\x9b"
                               "31m\xe2\x80\xae"
                               "b\"} 1\n";
    struct top_sample s = {0};
    struct err e;
    NEED_OK(top_sample_read(&s, page, sizeof page - 1, &e), &e);
    EXPECT_TEXT(s.model, "a?[31m??31m???b");
}

TEST(top_continues_when_the_server_does)
{
    struct server v = {.start = 1000};
    struct top_figures f;
    struct top_sample s;
    struct err e;
    struct top *t = watch(&v, 5, &e);
    NEED(t);
    for (int i = 0; i < 3; i++) top_miss(t, "Connection refused");
    EXPECT_TEXT(t->trouble, "Connection refused");
    v.second += 3;
    v = (struct server){.second = v.second + 1, .generation = 7, .start = v.second};
    NEED_OK(read_server(&s, &v, &e), &e);
    top_add(t, &s);
    EXPECT(t->restarted && !t->trouble[0]);
    EXPECT_INT(t->n_sample, 1); /* a restart ends the rate */
    EXPECT_INT(t->n_point, 9);
    EXPECT(isnan(t->point[7][TOP_CURVE_KV]) && isnan(t->point[8][TOP_CURVE_GENERATION]));
    v.second++;
    v.generation += 20;
    NEED_OK(read_server(&s, &v, &e), &e);
    top_add(t, &s);
    top_figures(t, &f);
    EXPECT(!t->restarted && f.per_s[TOP_generation] == 20);
    EXPECT(top_sample_read(&s, "<html>", 6, &e) == ERR_FORMAT);
    for (int i = 0; i < 2 * TOP_POINTS; i++) top_miss(t, "gone");
    EXPECT_INT(t->n_point, TOP_POINTS);
    free(t);
}

/* ---- screens ---- */

/* Return the columns of the longest row, without escape sequences; -1 if a row is not UTF-8. */
static int widest(const struct buf *page, int *n_row)
{
    int most = 0, column = 0;
    *n_row = 0;
    for (size_t i = 0; i < page->n;) {
        uint32_t cp;
        if (page->data[i] == '\033') {
            while (page->data[i++] != 'm') continue;
            continue;
        }
        int len = utf8_decode(page->data + i, page->n - i, &cp);
        if (len <= 0) return -1;
        i += (size_t)len;
        if (cp != '\n') column += utf8_width(cp);
        most = column > most ? column : most;
        if (cp == '\n') column = 0, ++*n_row;
    }
    return most;
}

TEST(top_fits_every_screen)
{
    struct server v = {.start = 1000};
    struct err e;
    struct top *t = watch(&v, 200, &e);
    NEED(t);
    for (int n_column = 1; n_column < 260; n_column += n_column < 90 ? 1 : 13)
        for (int n_row = 1; n_row < 40; n_row += 6) {
            struct buf page = {0};
            struct top_look look = {.size = {n_column, n_row},
                                    .utf8 = n_column % 2,
                                    .colour = n_row % 4 == 1,
                                    .wall_s = 100000};
            int n;
            top_page(t, &look, &page);
            int most = widest(&page, &n);
            if (most < 0 || most > n_column || n > n_row)
                test_fail(__FILE__, __LINE__, "%d columns, %d rows on %d x %d", most, n, n_column,
                          n_row);
            buf_deinit(&page);
        }
    free(t);
}

TEST(top_shows_what_it_has_read)
{
    static const char *const shown[] = {"http://127.0.0.1:8000",
                                        "  m  ",
                                        "up 0:16:40",
                                        "50 tok/s",
                                        "100 tok/s",
                                        "25.0 %",
                                        "40.0 %",
                                        "not reachable, retrying: gone"};
    struct server v = {.start = 1000};
    struct err e;
    struct top *t = watch(&v, 20, &e);
    NEED(t);
    struct buf page = {0};
    top_miss(t, "gone");
    top_page(t, &(struct top_look){.size = {100, 30}, .wall_s = 2000}, &page);
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
        if (!strstr(page.data, shown[i]))
            test_fail(__FILE__, __LINE__, "\"%s\" is not in\n%s", shown[i], page.data);
    EXPECT(strstr(page.data, "#") && !strstr(page.data, "\033"));
    buf_clear(&page);
    struct json *j = NULL;
    top_json(t, &page);
    NEED_OK(json_parse(&j, page.data, page.n, NULL, &e), &e);
    EXPECT(json_real(json_field(j, "generation_tokens_per_second"), 0) == 50);
    EXPECT_INT(json_int(json_field(json_field(j, "inter_token_latency_seconds"), "count"), 0), 400);
    EXPECT_INT(json_int(json_field(json_field(j, "time_to_first_token_seconds"), "count"), -1), 0);
    json_drop(j);
    buf_deinit(&page);
    free(t);
}

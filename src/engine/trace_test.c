/* trace_test.c - goal: a trace is complete, is JSON that viewers read, and never delays the engine.
 * Method: an engine on a virtual clock with known times; a ring that is not emptied; files that are
 * full. */
#include "../../tests/unit.h"

#include "base/json.h"
#include "base/log.h"
#include "base/os.h"
#include "rig_test.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

static const struct json *arg(const struct json *event, const char *name)
{
    return json_field(json_field(event, "args"), name);
}

static bool is(const struct json *event, int process, const char *name)
{
    const char *n = json_text(json_field(event, "name"), NULL);
    return json_int(json_field(event, "pid"), -1) == process && n &&
           strncmp(n, name, strlen(name)) == 0;
}

/* Count the events of a process whose names begin with `name`, and sum one of their arguments. */
static int count(const struct json *trace, int process, const char *name, const char *of,
                 int64_t *sum)
{
    int n = 0;
    *sum = 0;
    for (size_t i = 0; i < json_count(trace); i++) {
        const struct json *e = json_item(trace, i);
        if (!is(e, process, name) || strcmp(json_text(json_field(e, "ph"), NULL), "M") == 0)
            continue;
        n++;
        *sum += json_int(arg(e, of), 0);
    }
    return n;
}

static const struct json *find(const struct json *trace, int process, const char *name, int which)
{
    for (size_t i = 0; i < json_count(trace); i++)
        if (is(json_item(trace, i), process, name) && which-- == 0) return json_item(trace, i);
    return NULL;
}

static int64_t number(const struct json *event, const char *name)
{
    return json_int(json_field(event, name), -1);
}

enum { ENGINE = 1, RUNNING, WAITING };

TEST(trace_has_when_each_request_waited_and_ran)
{
    const char *path = temp_path("trace.json");
    struct slow_rig r;
    struct err e;
    struct json *t = NULL;
    int64_t sum, start = 1000000;
    NEED_OK(slow_open_traced(&r, 8, 64, 2, path, &e), &e);
    for (int i = 0; i < 3; i++) NEED_OK(slow_submit(&r, i, 16, 32, &e), &e);
    slow_run(&r); /* requests 0 and 1 run concurrently, then request 2 */
    const int64_t first = start + SLOW_STEP_US + 32 * SLOW_ROW_US,
                  done = first + 31 * (SLOW_STEP_US + 2 * SLOW_ROW_US);
    int64_t n_step = r.view.value[STAT_steps], n_row = r.view.value[STAT_rows];
    EXPECT_INT(r.view.value[STAT_trace_dropped], 0);
    slow_close(&r);
    NEED_OK(json_read_file(&t, path, 1 << 24, &e), &e);
    EXPECT_INT(count(t, ENGINE, "step", "rows", &sum), n_step);
    EXPECT_INT(sum, n_row);
    EXPECT_INT(count(t, ENGINE, "done", "output_tokens", &sum), 3);
    EXPECT_INT(sum, 96);
    EXPECT_INT(count(t, WAITING, "wait", "prompt_tokens", &sum), 3);
    EXPECT_INT(count(t, RUNNING, "prefill", "tokens", &sum), 3);
    EXPECT_INT(sum, 48);
    EXPECT_INT(count(t, RUNNING, "decode", "tokens", &sum), 3);
    EXPECT_INT(sum, 3 * 31);
    EXPECT_INT(count(t, RUNNING, "request", "output_tokens", &sum), 3);
    const struct json *wait = find(t, WAITING, "wait", 2), *ran = find(t, RUNNING, "request", 2),
                      *filled = find(t, RUNNING, "prefill", 0), *end = find(t, ENGINE, "done", 0);
    EXPECT_INT(number(wait, "ts"), start);
    EXPECT_INT(number(wait, "dur"), done - start);
    EXPECT_INT(number(ran, "ts"), done);
    EXPECT_INT(number(filled, "ts"), start);
    EXPECT_INT(number(filled, "dur"), first - start);
    EXPECT_INT(number(find(t, RUNNING, "decode", 0), "ts"), first);
    EXPECT_INT(number(end, "ts"), done);
    EXPECT_INT(json_int(arg(end, "first_token_us"), -1), first - start);
    EXPECT_TEXT(json_text(arg(end, "finish_reason"), NULL), "length");
    EXPECT_TEXT(json_text(arg(ran, "id"), NULL), "name-2");
    /* requests 0 and 1 had separate lanes; request 2 has one of these */
    EXPECT(number(find(t, RUNNING, "request", 0), "tid") !=
           number(find(t, RUNNING, "request", 1), "tid"));
    EXPECT(number(ran, "tid") <= 2 && number(ran, "tid") >= 1);
    json_drop(t);
}

TEST(trace_shows_preempted_sequences_twice)
{
    const char *path = temp_path("preempted.json");
    struct slow_rig r;
    struct err e;
    struct json *t = NULL;
    int64_t sum;
    NEED_OK(slow_open_traced(&r, 8, 64, 2, path, &e), &e); /* 128 tokens of pages */
    for (int i = 0; i < 2; i++) NEED_OK(slow_submit(&r, i, 30, 60, &e), &e);
    slow_run(&r);
    int64_t n = r.view.value[STAT_preemptions], again = r.view.value[STAT_recomputed];
    EXPECT(n > 0);
    slow_close(&r);
    NEED_OK(json_read_file(&t, path, 1 << 24, &e), &e);
    EXPECT_INT(count(t, RUNNING, "request", "output_tokens", &sum), 2 + n);
    EXPECT_INT(count(t, WAITING, "wait", "preempted", &sum), 2 + n);
    EXPECT_INT(sum, n);
    count(t, RUNNING, "prefill", "again", &sum);
    EXPECT_INT(sum, again);
    json_drop(t);
}

TEST(trace_drops_what_does_not_fit_and_allocates_nothing)
{
    struct trace *t;
    struct err e;
    struct json *j = NULL;
    const char *path = temp_path("full.json");
    struct trace_options o = {.path = path, .n_event = 4, .paused = true};
    NEED_OK(trace_open(&t, &o, &e), &e);
    struct trace_event ev = {.kind = TRACE_RUN, .name = "\"quoted\" \\ \x01", .end_us = 5};
    uint64_t before = test_n_malloc();
    for (int i = 0; i < 6; i++) EXPECT(trace_put(t, &ev) == (i < 4));
    EXPECT_INT(test_n_malloc() - before, 0);
    EXPECT_INT(trace_n_dropped(t), 2);
    trace_close(t);
    NEED_OK(json_read_file(&j, path, 1 << 20, &e), &e);
    EXPECT_TEXT(json_text(arg(find(j, RUNNING, "request", 3), "id"), NULL), ev.name);
    EXPECT_INT(json_int(arg(find(j, ENGINE, "end", 0), "events_dropped"), -1), 2);
    json_drop(j);
}

TEST(trace_ends_well_formed_on_a_full_disk)
{
    /* Method: the limit of file sizes truncates a write, as a full disk does. */
    struct trace *t;
    struct err e;
    struct json *j = NULL;
    const char *path = temp_path("disk.json");
    struct trace_options o = {.path = path, .n_event = 1024, .paused = true};
    NEED_OK(trace_open(&t, &o, &e), &e);
    struct trace_event ev = {.kind = TRACE_STEP};
    for (int i = 0; i < 1000; i++) EXPECT(trace_put(t, &ev));
    enum log_level level = log_level_max;
    struct rlimit old;
    NEED(getrlimit(RLIMIT_FSIZE, &old) == 0);
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    log_level_max = LOG_ERROR;
    NEED(setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, old.rlim_max}) == 0);
    trace_close(t);
    NEED(setrlimit(RLIMIT_FSIZE, &old) == 0);
    log_level_max = level;
    signal(SIGXFSZ, before);
    NEED_OK(json_read_file(&j, path, 1 << 20, &e), &e);
    EXPECT_INT(json_int(arg(find(j, ENGINE, "end", 0), "events_dropped"), -1), 1000);
    json_drop(j);
}

TEST(trace_ends_well_formed_at_its_limit)
{
    struct trace *t;
    struct err e;
    struct json *j = NULL;
    const char *path = temp_path("limit.json");
    struct trace_options o = {.path = path, .n_event = 1024, .paused = true, .bytes_max = 2000};
    EXPECT(trace_open(&t, &(struct trace_options){.path = "/nowhere/at/all"}, &e) != 0);
    EXPECT(strstr(e.text, "/nowhere/at/all"));
    NEED_OK(trace_open(&t, &o, &e), &e);
    struct trace_event ev = {.kind = TRACE_STEP};
    for (int i = 0; i < 1000; i++) EXPECT(trace_put(t, &ev));
    enum log_level level = log_level_max;
    log_level_max = LOG_ERROR;
    trace_close(t);
    log_level_max = level;
    struct buf text = {0};
    NEED_OK(file_read(&text, path, 1 << 20, &e), &e);
    EXPECT(text.n <= 2000);
    NEED_OK(json_parse(&j, text.data, text.n, NULL, &e), &e);
    EXPECT(json_int(arg(find(j, ENGINE, "end", 0), "events_dropped"), -1) > 500);
    json_drop(j);
    buf_deinit(&text);
}

/* Goal: a response in the background has equal events for each reader, also for a reader that
 * disconnects after any event and resumes. The end of the events is the stored response. Cancelled
 * and removed responses end immediately. Method: run jobs on the bundled model without sockets,
 * with random bodies, cuts, sizes of reads, cancellations and removals. */
#include "responses_background.h"
#include "responses_client_test.h"
#include "responses.h"

#include "base/os.h"
#include "base/rng.h"

#include <unistd.h>

enum { CASES = 20000, CASES_QUICK = 300, OWNER = 7 };

static struct store *store;
static struct jobs *jobs;

static bool open_jobs(int64_t bytes_max)
{
    struct err e = {0};
    if (!rig_open_context(&rig, 1024)) return false;
    int rc = store_open(&store, &(struct store_options){.bytes_max = bytes_max}, &e);
    rig.api.store = store;
    if (rc == 0) rc = jobs_open(&jobs, store, &e);
    if (rc != 0) test_fail(__FILE__, __LINE__, "%s", e.text);
    return rc == 0;
}

static void close_jobs(void)
{
    jobs_close(jobs);
    EXPECT(store_check(store) == NULL);
    store_close(store);
    rig_close(&rig);
}

/* Start a job for a body in which each \' replaces a ". Return a reference. NULL after an error. */
static struct job *start(const char *body, char id[static RESPONSES_ID_MAX], int *code)
{
    struct err e = {0};
    struct api_call *c = NULL;
    struct job *job = NULL;
    struct json *sent = parse(body);
    const struct call_origin from = {.owner = OWNER};
    int rc = call_open(&c, &rig.api, dialect_find("/v1/responses"), sent, from, NULL, &e);
    if (rc == 0) snprintf(id, RESPONSES_ID_MAX, "%s", api_call_id(c));
    if (rc == 0) rc = jobs_start(jobs, c, &job, &e);
    if (rc != 0 && !code) test_fail(__FILE__, __LINE__, "%s: %s", body, e.text);
    if (code) *code = rc;
    json_drop(sent);
    return job;
}

static void ring(void *bell)
{
    queue_push(bell, "");
}

/* Append events until `until` of them were read or the response has ended. */
static int64_t read_events(struct job *job, struct event_cursor *at, int64_t until, uint64_t *rng,
                           struct buf *out)
{
    struct queue *bell = queue_open(1, 1);
    struct job_listener l = {.changed = ring, .arg = bell};
    int64_t n = 0;
    char byte;
    job_listen(job, &l);
    for (bool end = false; !end && n < until;) {
        struct buf b = {0};
        end = job_events(job, at, 1 + rng_below(rng, 2000), &b);
        for (const char *p = b.data; p && (p = strstr(p, "\n\n")); p += 2) n++;
        buf_add(out, b.data, b.n);
        if (!end && b.n == 0) (void)queue_pop(bell, &byte, -1);
        buf_deinit(&b);
    }
    job_unlisten(job, &l);
    queue_close(bell);
    return n;
}

/* Return the text of a stored response, and set *events. */
static char *stored(const char *id, struct buf *events)
{
    struct buf b = {0}, input = {0};
    struct err e = {0};
    const struct store_texts t = {.head = &b, .body = &input, .log = events};
    if (store_get(store, OWNER, id, &t, &e) != 0) return NULL;
    EXPECT(input.n > 0);
    buf_deinit(&input);
    return buf_detach(&b);
}

/* Write a random body of a stream in the background. */
static void put_body(struct buf *b, uint64_t *rng)
{
    static const char *const more[] = {
        "",
        ",'chat_template_kwargs':{'enable_thinking':true},'thinking_token_budget':4",
        ",'tools':[{'type':'function','name':'f','parameters':{'type':'object','properties':{'a':{"
        "'type':'integer'}},'required':['a']}}],'tool_choice':'required'",
        ",'tools':[{'type':'custom','name':'g','format':{'type':'grammar','syntax':'regex',"
        "'definition':'[a-z]{3,30}'}}],'tool_choice':'required'",
        ",'top_logprobs':1",
        ",'stop':['e']"};
    buf_addf(b,
             "{'input':'Write %d stories','stream':true,'background':true,'seed':%d,"
             "'max_output_tokens':%d%s}",
             (int)rng_below(rng, 100), (int)rng_below(rng, 1000), 1 + (int)rng_below(rng, 60),
             more[rng_below(rng, sizeof more / sizeof *more)]);
}

/* Read a response that is interrupted after a random event and resumed. Then read the response
 * again. */
static void cut_and_resume(uint64_t seed)
{
    uint64_t rng = seed * 977 + 1;
    struct buf body = {0}, read = {0}, again = {0}, events = {0};
    struct client c = {0};
    char id[RESPONSES_ID_MAX];
    put_body(&body, &rng);
    struct job *job = start(body.data, id, NULL);
    NEED(job);
    struct event_cursor at = {0};
    const int64_t n = read_events(job, &at, 1 + (int64_t)rng_below(&rng, 60), &rng, &read);
    job_drop(job);
    /* the response may have ended between the two reads */
    job = jobs_find(jobs, OWNER, id);
    at = (struct event_cursor){.skip = n};
    if (job) (void)read_events(job, &at, INT64_MAX, &rng, &read);
    char *response = NULL;
    job_drop(job);
    response = stored(id, &events);
    if (!job) events_read(events.data, events.n, &at, SIZE_MAX, &read);
    at = (struct event_cursor){0};
    events_read(events.data, events.n, &at, SIZE_MAX, &again);
    read_stream(&c, read.data ? read.data : "");
    end_stream(&c);
    struct buf last = {0};
    json_put(&last, json_field(c.last, "response"));
    if (!response || read.n != again.n || memcmp(read.data, again.data, read.n) != 0)
        wrong(&c, "a resumed stream differs from the stored events");
    struct json *j = NULL;
    struct buf final = {0};
    if (response && json_parse(&j, response, strlen(response), NULL, NULL) == 0)
        json_put(&final, j);
    if (final.n != last.n || memcmp(final.data, last.data, last.n) != 0)
        wrong(&c, "the stored response is not that of the last event");
    if (c.why)
        test_fail(__FILE__, __LINE__, "%s: %s, cut after %lld\n%s\n%s", c.why, body.data,
                  (long long)n, read.data, final.data);
    json_drop(j);
    buf_deinit(&final);
    buf_deinit(&last);
    client_deinit(&c);
    free(response);
    buf_deinit(&body);
    buf_deinit(&read);
    buf_deinit(&again);
    buf_deinit(&events);
}

TEST(responses_in_the_background_resume_after_any_event)
{
    uint64_t rng = 5;
    int n_run = 0;
    NEED(open_jobs(64 << 20));
    for (uint64_t i = test_stride(&rng, CASES / CASES_QUICK) - 1; i < CASES;
         i += test_stride(&rng, CASES / CASES_QUICK), n_run++)
        cut_and_resume(i);
    test_sampled(n_run, CASES, "streams");
    close_jobs();
}

#define LONG "{'input':'a','background':true,'ignore_eos':true,'max_output_tokens':900"

/* Wait for the end of a job and return its response. */
static struct json *wait_for(struct job *job)
{
    struct buf b = {0};
    struct json *j = NULL;
    for (bool done = false; !done;) {
        buf_clear(&b);
        done = job_response(job, &b);
        if (!done) usleep(500);
    }
    (void)json_parse(&j, b.data, b.n, NULL, NULL);
    buf_deinit(&b);
    return j;
}

/* Wait for the first token. */
static void wait_for_output(struct job *job)
{
    bool begun = false;
    while (!begun) {
        struct buf b = {0};
        begun = job_response(job, &b) || strstr(b.data, "\"in_progress\"");
        buf_deinit(&b);
        if (!begun) usleep(500);
    }
}

TEST(responses_in_the_background_are_cancelled_and_removed)
{
    char id[RESPONSES_ID_MAX];
    struct buf events = {0};
    NEED(open_jobs(64 << 20));
    for (int streams = 0; streams < 2; streams++) {
        struct job *job = start(streams ? LONG ",'stream':true}" : LONG "}", id, NULL);
        NEED(job);
        wait_for_output(job);
        EXPECT(jobs_find(jobs, OWNER + 1, id) == NULL);
        job_cancel(job, false);
        struct json *j = wait_for(job);
        EXPECT_TEXT(text_at(j, "status"), "cancelled");
        const struct json *list = json_field(j, "output");
        if (json_count(list) > 0)
            EXPECT_TEXT(text_at(json_item(list, json_count(list) - 1), "status"), "incomplete");
        char *text = stored(id, &events);
        EXPECT(text && strstr(text, "\"status\":\"cancelled\""));
        if (streams) {
            struct client c = {0};
            read_stream(&c, events.data);
            end_stream(&c);
            EXPECT_TEXT(text_at(c.last, "type"), "response.incomplete");
            EXPECT_TEXT(text_at(c.last, "response.status"), "cancelled");
            if (c.why) test_fail(__FILE__, __LINE__, "%s", c.why);
            client_deinit(&c);
        }
        free(text);
        json_drop(j);
        job_drop(job);
        job = start(LONG "}", id, NULL);
        NEED(job);
        job_cancel(job, true);
        EXPECT(jobs_find(jobs, OWNER, id) == NULL);
        json_drop(wait_for(job));
        job_drop(job);
        for (int i = 0; i < 2000 && store_stats(store).n_record > streams + 1; i++) usleep(1000);
        EXPECT(stored(id, &events) == NULL);
    }
    buf_deinit(&events);
    close_jobs();
}

/* Goal: the events of responses count for the store's limit. */
TEST(responses_in_the_background_stay_within_the_store)
{
    char id[RESPONSES_ID_MAX];
    struct buf events = {0};
    int code;
    NEED(open_jobs(150 << 10));
    struct job *job = start(LONG ",'stream':true,'top_logprobs':20}", id, NULL);
    NEED(job);
    EXPECT(store_stats(store).n_byte > 60000);
    struct json *j = wait_for(job);
    EXPECT_TEXT(text_at(j, "status"), "failed");
    EXPECT_TEXT(text_at(j, "error.code"), "server_error");
    json_drop(j);
    job_drop(job);
    char *text = stored(id, &events);
    EXPECT(text && strstr(text, "\"status\":\"failed\""));
    EXPECT(!events.n || strstr(events.data, "event: response.failed\n"));
    free(text);
    EXPECT(store_check(store) == NULL);
    struct job *held[4] = {0};
    int n_running = 0, n_ended = 0, n_refused = 0;
    for (int i = 0; i < 4; i++) {
        held[i] = start(LONG ",'stream':true}", id, &code);
        EXPECT(held[i] || code == ERR_LIMIT);
        n_refused += !held[i];
    }
    /* A job that has ended, for example on a slow machine, has released its bytes. */
    for (int i = 0; i < 4; i++) {
        struct buf b = {0};
        if (held[i]) *(job_response(held[i], &b) ? &n_ended : &n_running) += 1;
        buf_deinit(&b);
    }
    EXPECT(held[0]);
    EXPECT(n_running < 3 && n_refused + n_ended > 0);
    for (int i = 0; i < 4; i++)
        if (held[i]) {
            job_cancel(held[i], false);
            json_drop(wait_for(held[i]));
            job_drop(held[i]);
        }
    buf_deinit(&events);
    close_jobs();
}

/* Goal: a stop cancels all jobs, and rejects further jobs. */
TEST(responses_in_the_background_end_with_the_server)
{
    char id[RESPONSES_ID_MAX];
    struct job *held[6];
    int code;
    NEED(open_jobs(64 << 20));
    for (int i = 0; i < 6; i++) held[i] = start(LONG ",'stream':true}", id, NULL);
    jobs_stop(jobs);
    for (int i = 0; i < 6; i++) {
        struct json *j = wait_for(held[i]);
        EXPECT_TEXT(text_at(j, "status"), "cancelled");
        json_drop(j);
        job_drop(held[i]);
    }
    EXPECT(start(LONG "}", id, &code) == NULL);
    EXPECT_INT(code, ERR_UNAVAILABLE);
    close_jobs();
}

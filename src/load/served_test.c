/* Goal: events of every form give the correct tokens and times. Request bodies follow the flags.
 * The reader parses metrics by the rules of Prometheus. Method: call the reader's functions with
 * handwritten
 * streams. tests/e2e/bench_serve.py tests HTTP. */
#include "served.h"
#include "../../tests/unit.h"

#include "base/json.h"

#include <stdlib.h>

/* ---- answers ---- */

/* Feed a stream to a client and set the client's record. */
static void feed(struct client_trace *s, struct served_memory *own, bool chat, int status,
                 const char *stream, const char *error)
{
    struct served_answer a;
    struct fetch_result f = {.status = status, .error = error};
    *s = (struct client_trace){.n_input = 4};
    *own = (struct served_memory){0};
    served_answer_begin(&a, chat, true);
    served_answer_feed(&a, status, stream, strlen(stream), 1000);
    served_answer_end(&a, &f, 5000, s, own);
}

static void served_deinit(struct served_memory *own)
{
    free(own->token_us);
    free(own->text);
    free(own->error);
}

/* Events in the form of servers. */
#define EVENT(json)        "data: " json "\n\n"
#define DONE               "data: [DONE]\n\n"
#define CHOICE(members)    EVENT("{\"choices\":[{" members "}]}")
#define TEXT(text)         CHOICE("\"text\":\"" text "\"")
#define TEXT_END(text, by) CHOICE("\"text\":\"" text "\",\"finish_reason\":" by)
#define DELTA(members)     CHOICE("\"delta\":{" members "}")

TEST(served_answers_are_tokens_and_usage)
{
    static const struct {
        bool chat;
        int n_time, n_token, n_output, n_input;
        const char *stream, *text;
    } c[] = {
        {false, 2, 2, 2, 4, TEXT("a") TEXT_END("b", "\"stop\""), "ab"},
        {false, 2, 2, 2, 4,
         TEXT_END("a", "null") TEXT_END("", "null") TEXT_END("", "\"length\"") DONE, "a"},
        {false, 1, 5, 5, 7,
         EVENT("{\"choices\":[{\"text\":\"many\"}],\"usage\":null}")
             EVENT("{\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5}}") DONE,
         "many"},
        {false, 1, 1, 2, 4,
         CHOICE("\"index\":1,\"text\":\"x\"")
             CHOICE("\"index\":0,\"text\":\"y\"") ": ping\n\n" DONE,
         "y"},
        {true, 2, 2, 2, 4,
         DELTA("\"role\":\"assistant\",\"content\":\"\"") DELTA("\"reasoning_content\":\"hm\"")
             DELTA("\"content\":\"a\"") CHOICE("\"delta\":{},\"finish_reason\":\"stop\""),
         "a"},
        {true, 1, 1, 1, 4, DELTA("\"tool_calls\":[{\"index\":0}]") DONE, ""},
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        struct client_trace s;
        struct served_memory own;
        feed(&s, &own, c[i].chat, 200, c[i].stream, NULL);
        const char *text = own.text ? own.text : "";
        if (s.error || s.n_time != c[i].n_time || s.n_token != c[i].n_token ||
            s.n_output != c[i].n_output || s.n_input != c[i].n_input ||
            strcmp(text, c[i].text) != 0)
            test_fail(__FILE__, __LINE__, "stream %zu: %d events, %d tokens of %d, %d in, %s, %s",
                      i, s.n_time, s.n_token, s.n_output, s.n_input, text, s.error ? s.error : "");
        EXPECT_INT(s.done_us, 1000);
        served_deinit(&own);
    }
}

TEST(served_failures_have_a_reason)
{
    static const struct {
        int status;
        const char *stream, *error, *want;
    } c[] = {
        {429, "{\"error\":{\"message\":\"too many\"}}", NULL, "HTTP 429: too many"},
        {502, "<html>", NULL, "HTTP 502: <html>"},
        {0, "", "Connection refused", "Connection refused"},
        {200, TEXT("a"), NULL, "ended before"},
        {200, TEXT("a"), "cut off", "cut off"},
        {200, DONE, NULL, "without a token"},
        {200, EVENT("{\"error\":{\"message\":\"no memory left\"}}"), NULL, "no memory left"},
        {200, EVENT("nonsense"), "not wanted", "expected JSON"},
        {200, "{\"choices\":[{\"text\":\"whole\"}]}", NULL, "ended before"},
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        struct client_trace s;
        struct served_memory own;
        feed(&s, &own, false, c[i].status, c[i].stream, c[i].error);
        if (!s.error || !strstr(s.error, c[i].want))
            test_fail(__FILE__, __LINE__, "case %zu: %s", i, s.error ? s.error : "(none)");
        served_deinit(&own);
    }
}

/* Goal: text of a hostile server is safe on a terminal, and its figures are in range. */
TEST(served_answers_of_hostile_servers)
{
    static const char *const usage[] = {
        "9e18", "9223372036854775807", "2147483648", "-5", "-9e18", "0.5", "\"7\""};
    struct client_trace s;
    struct served_memory own;
    for (size_t i = 0; i < sizeof usage / sizeof *usage; i++) {
        struct buf b = {0};
        buf_addf(&b,
                 TEXT("a") EVENT(
                     "{\"choices\":[],\"usage\":{\"prompt_tokens\":%s,\"completion_tokens\":%s,"
                     "\"prompt_tokens_details\":{\"cached_tokens\":%s}}}") DONE,
                 usage[i], usage[i], usage[i]);
        feed(&s, &own, false, 200, b.data, NULL);
        if (s.error || s.n_token != 1 || s.n_output != 1 || s.n_input != 4 || s.n_cached != 0)
            test_fail(__FILE__, __LINE__, "usage %s: %d tokens, %d out, %d in, %d cached", usage[i],
                      s.n_token, s.n_output, s.n_input, s.n_cached);
        served_deinit(&own);
        buf_deinit(&b);
    }
    static const char *const stream[] = {"\x1b]0;title\a\xc2\x9b\xe2\x80\xae", EVENT("\x1b[31m")};
    for (int i = 0; i < 2; i++) {
        feed(&s, &own, false, i ? 200 : 500, stream[i], NULL);
        EXPECT(s.error && !strpbrk(s.error, "\x1b\a\xc2\xe2"));
        served_deinit(&own);
    }
}

TEST(served_bodies_are_as_requested)
{
    struct served_target t = {.model = (char *)"m"};
    struct prompts p = {.n_vocab = 50};
    struct served_options o = {0};
    struct buf b = {0};
    struct json *extra = NULL, *j = NULL;
    struct err e;
    NEED(vec_push(&p.t, ((struct traffic_job){.n_prompt = 4, .n_output = 9})));
    static const char text[] = "{\"max_tokens\":3,\"stop\":[\"x\"]}";
    NEED_OK(json_parse(&extra, text, strlen(text), NULL, &e), &e);
    NEED_OK(served_body(&b, &t, &p, &o, 0, &e), &e);
    NEED_OK(json_parse(&j, b.data, b.n, NULL, &e), &e);
    EXPECT(json_bool(json_field(j, "stream"), false) &&
           json_int(json_field(j, "max_tokens"), 0) == 9);
    EXPECT(json_count(json_field(j, "prompt")) == 4 && !json_field(j, "ignore_eos"));
    EXPECT_TEXT(json_text(json_field(j, "model"), NULL), "m");
    json_drop(j);
    o.extra = extra;
    o.ignore_eos = true;
    o.member = ",\"top_k\":5";
    buf_clear(&b);
    NEED_OK(served_body(&b, &t, &p, &o, 0, &e), &e);
    NEED_OK(json_parse(&j, b.data, b.n, NULL, &e), &e);
    EXPECT(json_int(json_field(j, "max_tokens"), 0) == 3 && json_count(json_field(j, "stop")) == 1);
    EXPECT(json_bool(json_field(j, "ignore_eos"), false) &&
           json_int(json_field(j, "top_k"), 0) == 5);
    EXPECT(!strstr(strstr(b.data, "max_tokens") + 1, "max_tokens"));
    json_drop(j);
    json_drop(extra);
    buf_deinit(&b);
    vec_deinit(&p.t);
}

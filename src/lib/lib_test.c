/* Goal: the library keeps its guarantees. Answers are equal alone and with other requests, and
 * errors contain the field. Several threads may cancel or abandon requests, and may close a model
 * while requests are in flight. Method: use the bundled model through quoth.h. */
#include "base/json.h"
#include "base/os.h"
#include "sample/sample.h"
#include "../../tests/unit.h"

#include <quoth.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static const char *model_path(void)
{
    return repo_path("models/quoth-tiny/quoth-tiny-q8_0.gguf");
}

static quoth_model *open_tiny(void)
{
    static const quoth_option small[] = {{"max-model-len", "256"}, {"max_num_seqs", "8"}};
    char why[512] = "";
    quoth_model *m;
    if (quoth_open(&m, model_path(), small, 2, why, sizeof why) != 0)
        test_fail(__FILE__, __LINE__, "%s", why);
    return m;
}

static int submit(quoth_queue *q, const char *prompt, const char *params, uint64_t *id,
                  char why[512])
{
    quoth_request r = {
        .size = sizeof r, .prompt = prompt, .n_prompt = strlen(prompt), .params = params};
    *why = 0;
    return quoth_submit(q, &r, id, why, 512);
}

/* Poll until the end of a request. Write the request's text to out. */
static void finish(quoth_queue *q, char *out, size_t n_out)
{
    const quoth_event *e;
    size_t n = 0;
    while ((e = quoth_poll(q, -1))) {
        if (n + e->n_text < n_out) memcpy(out + n, e->text, e->n_text), n += e->n_text;
        if (e->kind == QUOTH_EVENT_DONE) break;
    }
    out[n] = 0;
}

/* Goal: the list of sampling parameters is JSON and agrees with sample/params.def. */
TEST(lib_lists_sampling_parameters)
{
    char *text = quoth_params();
    struct json *list = NULL;
    struct err e;
    NEED(text);
    NEED_OK(json_parse(&list, text, strlen(text), NULL, &e), &e);
    EXPECT_INT((int)json_count(list), N_SAMPLE_PARAM);
    const struct json *p = json_item(list, SAMPLE_top_p),
                      *mirostat = json_item(list, SAMPLE_mirostat),
                      *eos = json_item(list, SAMPLE_ignore_eos),
                      *seed = json_item(list, SAMPLE_seed),
                      *words = json_item(list, SAMPLE_bad_words);
    EXPECT_TEXT(json_text(json_field(p, "name"), NULL), "top_p");
    EXPECT_TEXT(json_text(json_field(p, "type"), NULL), "number");
    EXPECT_TEXT(json_text(json_field(p, "range"), NULL), "in (0, 1]");
    EXPECT(json_real(json_field(p, "exclusiveMinimum"), 9) == 0 &&
           json_real(json_field(p, "maximum"), 9) == 1 && !json_field(p, "minimum") &&
           !json_field(p, "also"));
    EXPECT(json_int(json_field(mirostat, "also"), 9) == 0 &&
           json_int(json_field(mirostat, "minimum"), 9) == 2);
    EXPECT(json_kind(json_field(eos, "default")) == JK_BOOL && !json_field(eos, "range"));
    EXPECT(json_kind(json_field(seed, "default")) == JK_NULL);
    EXPECT_TEXT(json_text(json_field(seed, "type"), NULL), "integer");
    EXPECT(!json_field(seed, "items"));
    EXPECT_TEXT(json_text(json_item(json_field(words, "type"), 0), NULL), "array");
    EXPECT_TEXT(json_text(json_item(json_field(words, "type"), 1), NULL), "string");
    EXPECT_TEXT(json_text(json_field(words, "items"), NULL), "string");
    json_drop(list);
    quoth_free(text);
}

TEST(lib_version_and_errors)
{
    char why[512], tight[5];
    quoth_model *m;
    static const quoth_option wrong[][1] = {{{"no-such-option", "1"}},
                                            {{"max-model-len", "many"}},
                                            {{"block_size", "65"}},
                                            {{"block_size", "24"}},
                                            {{"kv_cache_memory", "much"}},
                                            {{"itl_target_ms", "x"}},
                                            {{"now", "today"}},
                                            {{"default_chat_template_kwargs", "[]"}}};
    static const char *const named[] = {"no-such-option: ",
                                        "max-model-len: ",
                                        "block-size: ",
                                        "block-size: must be a power of two",
                                        "kv-cache-memory: ",
                                        "itl-target-ms: ",
                                        "now: ",
                                        "default-chat-template-kwargs: "};
    EXPECT_TEXT(quoth_version(), QUOTH_VERSION);
    EXPECT_INT(quoth_open(&m, "no/such/file.gguf", NULL, 0, why, sizeof why), QUOTH_ERR_IO);
    EXPECT(!m && strstr(why, "no/such/file.gguf"));
    EXPECT_INT(quoth_open(&m, "no/such/file.gguf", NULL, 0, tight, sizeof tight), QUOTH_ERR_IO);
    EXPECT_INT(strlen(tight), 4);
    EXPECT_INT(quoth_open(&m, "no/such/file.gguf", NULL, 0, NULL, 0), QUOTH_ERR_IO);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        EXPECT_INT(quoth_open(&m, model_path(), wrong[i], 1, why, sizeof why), QUOTH_ERR_ARG);
        EXPECT(!m && strncmp(why, named[i], strlen(named[i])) == 0);
        EXPECT(strncmp(named[i], quoth_error_field(), strcspn(named[i], ":")) == 0);
    }
    quoth_close(NULL);
    quoth_queue_close(NULL);
}

TEST(lib_bad_requests_name_the_field)
{
    static const char *const bad[][2] = {
        {"{\"temperature\": \"hot\"}", "temperature"},
        {"{\"top_p\": 0}", "top_p"},
        {"{\"max_tokens\": -1}", "max_tokens"},
        {"{\"logprobs\": 21}", "logprobs"},
        {"{\"logit_bias\": {\"-7\": 1}}", "logit_bias"},
        {"{\"stop\": [1]}", "stop"},
        {"{\"stop_token_ids\": [99999]}", "stop_token_ids"},
        {"[]", "params"},
        {"{", "params"},
        {"{\"temperature\": 1e300}", "temperature"},
        {"{\"timeout\": 0}", "timeout"},
        {"{\"timeout\": -1}", "timeout"},
        {"{\"timeout\": \"soon\"}", "timeout"},
        {"{\"temprature\": 0.5}", "temprature"},
        {"{\"top_p\": 0.5, \"max_new_tokens\": 0}", "max_new_tokens"},
        {"{\"echo\": true}", "echo"},
        {"{\"thinking_token_budget\": \"x\"}", "thinking_token_budget"},
        {"{\"thinking_token_budget\": 9, \"regex\": \"a\"}", "thinking_token_budget"}};
    quoth_model *m = open_tiny();
    NEED(m);
    quoth_queue *q = quoth_queue_open(m);
    char why[512];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EXPECT(submit(q, "Once", bad[i][0], NULL, why) < 0);
        if (strncmp(why, bad[i][1], strlen(bad[i][1])) != 0)
            test_fail(__FILE__, __LINE__, "%s: \"%s\"", bad[i][0], why);
        EXPECT_TEXT(quoth_error_field(), strlen(bad[i][0]) > 2 ? bad[i][1] : "");
    }
    EXPECT_INT(submit(q, "Once", "{\"temprature\": null, \"max_tokens\": 1}", NULL, why), 0);
    EXPECT_INT(submit(q, "Once", "{\"echo\": false, \"max_tokens\": 1}", NULL, why), 0);
    while (quoth_poll(q, -1)) continue;
    quoth_request none = {.size = sizeof none}, unset = {0};
    int32_t outside = 1 << 20;
    EXPECT_INT(quoth_submit(q, &none, NULL, why, sizeof why), QUOTH_ERR_ARG);
    EXPECT_INT(quoth_submit(q, &unset, NULL, why, sizeof why), QUOTH_ERR_ARG);
    none.prompt_ids = &outside, none.n_prompt_id = 1;
    EXPECT_INT(quoth_submit(q, &none, NULL, why, sizeof why), QUOTH_ERR_ARG);
    struct {
        quoth_request known;
        int32_t *later;
    } newer = {.known = {.size = sizeof newer, .prompt = "Once", .n_prompt = 4}};
    EXPECT_INT(quoth_submit(q, &newer.known, NULL, why, sizeof why), 0);
    newer.later = &outside; /* unknown fields must not be ignored */
    EXPECT_INT(quoth_submit(q, &newer.known, NULL, why, sizeof why), QUOTH_ERR_UNSUPPORTED);
    EXPECT_INT(quoth_n_open(q), 1);
    quoth_queue_close(q);
    quoth_close(m);
}

/* Goal: bodies of the HTTP API are answered, and invalid bodies are rejected with the field. */
TEST(lib_pools_bodies)
{
    static const struct {
        const char *url, *body, *word;
        int rc;
    } cases[] = {
        {"/v1/embeddings", "{\"input\":[\"Once\",\"upon\"]}", "\"embedding\":[", 0},
        {"/pooling", "{\"input\":\"Once\",\"task\":\"token_embed\"}", "\"data\":[[", 0},
        {"/v1/completions", "{\"prompt\":\"a\"}", "url", QUOTH_ERR_MISSING},
        {NULL, "{}", "url", QUOTH_ERR_MISSING},
        {"/pooling", NULL, "body", QUOTH_ERR_ARG},
        {"/pooling", "[]", "expected an object", QUOTH_ERR_ARG},
        {"/pooling", "{\"input\":", "line 1", QUOTH_ERR_FORMAT},
        {"/pooling", "{\"input\":\"a\",\"input\":\"b\"}", "input", QUOTH_ERR_ARG},
        {"/classify", "{\"input\":\"a\"}", "classifier", QUOTH_ERR_UNSUPPORTED},
        {"/v1/score", "{\"text_1\":\"a\",\"text_2\":\"b\"}", "reranker", QUOTH_ERR_UNSUPPORTED}};
    quoth_model *m = open_tiny();
    NEED(m);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char why[512] = "", *text;
        size_t n;
        EXPECT_INT(quoth_pool(m, cases[i].url, cases[i].body, &text, &n, why, sizeof why),
                   cases[i].rc);
        EXPECT(!text == (cases[i].rc != 0));
        if (text) EXPECT_INT(strlen(text), n);
        if (!strstr(text ? text : why, cases[i].word))
            test_fail(__FILE__, __LINE__, "%zu: %s", i, text ? text : why);
        quoth_free(text);
    }
    quoth_close(m);
}

/* Goal: answers satisfy the constraint of params, under the server's names. */
TEST(lib_answers_follow_a_constraint)
{
    static const char *const held[][2] = {
        {"{\"max_tokens\":9,\"structured_outputs\":{\"choice\":[\"brown bear\"]}}", "brown bear"},
        {"{\"max_tokens\":9,\"structured_outputs\":{\"regex\":\"a{3}b\"}}", "aaab"},
        {"{\"max_tokens\":9,\"guided_grammar\":\"root ::= \\\"x\\\" [y]\"}", "xy"},
        {"{\"max_tokens\":9,\"grammar\":\"start: \\\"x\\\" Y\\nY: /z/\"}", "xz"},
        {"{\"max_tokens\":9,\"structured_outputs\":{\"json\":{\"const\":7},"
         "\"disable_any_whitespace\":true}}",
         "7"}};
    static const char *const wrong[][2] = {
        {"{\"structured_outputs\":{\"regex\":\"(\"}}", "structured_outputs.regex: "},
        {"{\"structured_outputs\":{\"json\":{\"type\":3}}}", "structured_outputs.json: "},
        {"{\"grammar\":\"root ::= x\",\"json_schema\":{}}", "grammar: "},
        {"{\"grammar\":\"start: X\"}", "grammar: "},
        {"{\"json_schema\":{},\"ignore_eos\":true}", "ignore_eos: "}};
    quoth_model *m = open_tiny();
    NEED(m);
    quoth_queue *q = quoth_queue_open(m);
    char why[512], text[64];
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
        if (submit(q, "Once upon a time", held[i][0], NULL, why) != 0) {
            test_fail(__FILE__, __LINE__, "%s: %s", held[i][0], why);
            continue;
        }
        finish(q, text, sizeof text);
        EXPECT_TEXT(text, held[i][1]);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        EXPECT(submit(q, "Once", wrong[i][0], NULL, why) < 0);
        if (strncmp(why, wrong[i][1], strlen(wrong[i][1])) != 0)
            test_fail(__FILE__, __LINE__, "%s: \"%s\"", wrong[i][0], why);
    }
    EXPECT_INT(quoth_n_open(q), 0);
    quoth_queue_close(q);
    quoth_close(m);
}

/* Return true if a thread of this process blocks signals of a host, but not those of faults. */
static bool blocks_signals(const char *tid)
{
    static const int host[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGALRM, SIGCHLD, SIGPROF},
                     faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
    char path[64];
    struct buf b = {0};
    struct err e;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", tid);
    bool ok = file_read(&b, path, 1 << 16, &e) == 0;
    const char *at = ok ? strstr(b.data, "SigBlk:") : NULL;
    uint64_t set = at ? strtoull(at + 7, NULL, 16) : 0; /* bit s - 1 is signal s */
    for (size_t i = 0; i < sizeof host / sizeof *host; i++) ok &= set >> (host[i] - 1) & 1;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) ok &= !(set >> (faults[i] - 1) & 1);
    buf_deinit(&b);
    return ok;
}

/* Goal: no thread of the library handles a signal of the host, also no thread that starts during a
 * request. Signals of faults are not blocked, because a blocked one ends the process. */
TEST(lib_threads_block_the_signals_of_the_host)
{
    static const char held[] = "{\"max_tokens\":9,\"structured_outputs\":{\"regex\":\"a{3}b\"}}";
    struct buf before = {0}, after = {0};
    struct err e;
    char why[512], text[64], line[32];
    int n_thread = 0;
    buf_add_char(&before, '\n');
    NEED_OK(dir_list(&before, "/proc/self/task", &e), &e);
    quoth_model *m = open_tiny();
    NEED(m);
    quoth_queue *q = quoth_queue_open(m);
    NEED(submit(q, "Once", held, NULL, why) == 0);
    finish(q, text, sizeof text);
    NEED_OK(dir_list(&after, "/proc/self/task", &e), &e);
    char *rest = after.data;
    for (const char *tid; (tid = strsep(&rest, "\n")) && *tid;) {
        snprintf(line, sizeof line, "\n%s\n", tid);
        if (strstr(before.data, line)) continue; /* the test's own thread */
        n_thread++;
        if (!blocks_signals(tid)) test_fail(__FILE__, __LINE__, "thread %s handles signals", tid);
    }
    EXPECT(n_thread >= 3); /* threads of the engine, its masks, the grammars without a user */
    quoth_queue_close(q);
    quoth_close(m);
    buf_deinit(&before);
    buf_deinit(&after);
}

TEST(lib_text_and_tokens)
{
    quoth_model *m = open_tiny();
    NEED(m);
    static const char text[] = "Grüße, 你好\n";
    int32_t *ids;
    char *back, *info = quoth_info(m), *stats = quoth_stats(m), why[512];
    size_t n, n_back;
    NEED(quoth_tokenize(m, text, sizeof text - 1, 0, &ids, &n, NULL, 0) == 0 && n > 0);
    NEED(quoth_detokenize(m, ids, n, 0, &back, &n_back, NULL, 0) == 0);
    EXPECT(n_back == sizeof text - 1 && memcmp(back, text, n_back) == 0 && back[n_back] == 0);
    quoth_free(ids), quoth_free(back);
    NEED(quoth_tokenize(m, "", 0, 0, &ids, &n, NULL, 0) == 0 && ids && n == 0);
    NEED(quoth_detokenize(m, ids, 0, 0, &back, &n_back, NULL, 0) == 0 && back && !*back);
    quoth_free(ids), quoth_free(back);
    NEED(quoth_apply_chat_template(m, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}",
                                   &back, &n_back, why, sizeof why) == 0);
    EXPECT(strstr(back, "Hi<|im_end|>") && strstr(back, "<|im_start|>assistant"));
    quoth_free(back);
    EXPECT_INT(quoth_apply_chat_template(m, "{\"messages\":7}", &back, &n_back, why, sizeof why),
               QUOTH_ERR_ARG);
    EXPECT(!back && strncmp(why, "messages", 8) == 0);
    EXPECT_INT(quoth_apply_chat_template(
                   m, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"tool\":[]}", &back,
                   &n_back, why, sizeof why),
               QUOTH_ERR_ARG);
    EXPECT(!back && strncmp(why, "tool: ", 6) == 0);
    EXPECT(info && strstr(info, "\"name\":\"quoth-tiny\"") && strstr(info, "\"context_max\":256"));
    EXPECT(stats && strstr(stats, "num_requests_running"));
    EXPECT(info && strstr(info, "\"warnings\":[]"));
    quoth_free(info), quoth_free(stats), quoth_free(NULL);
    quoth_close(m);
}

TEST(lib_returns_the_warnings_of_opening)
{
    char why[512] = "", *info;
    quoth_model *m;
    const quoth_option longer[] = {{"max-model-len", "99999"}, {"max_num_seqs", "1"}};
    if (!model_path()) SKIP("the bundled model is not here");
    NEED(quoth_open(&m, model_path(), longer, 2, why, sizeof why) == 0);
    EXPECT((info = quoth_info(m)) &&
           strstr(info, "\"warnings\":[\"--max-model-len 99999: the model was trained on "));
    quoth_free(info);
    quoth_close(m);
}

enum { N_PROMPT = 24 };

static void prompt_of(int i, char *prompt, char *params)
{
    snprintf(prompt, 64, "Once upon a time, there were %d", i);
    snprintf(params, 128, "{\"temperature\":%g,\"seed\":%d,\"max_tokens\":%d,\"stop\":[\"river\"]}",
             i % 3 * 0.5, i, 5 + i % 20);
}

static void one_by_one(quoth_model *m, char text[N_PROMPT][256])
{
    quoth_queue *q = quoth_queue_open(m);
    char prompt[64], params[128], why[512];
    for (int i = 0; i < N_PROMPT; i++) {
        prompt_of(i, prompt, params);
        EXPECT_INT(submit(q, prompt, params, NULL, why), 0);
        finish(q, text[i], 256);
    }
    EXPECT(!quoth_poll(q, -1)); /* no request is pending, so quoth_poll returns immediately */
    quoth_queue_close(q);
}

/* Submit all requests together and cancel every other request. */
static void *all_at_once(void *arg)
{
    quoth_model *m = ((void **)arg)[0];
    char(*want)[256] = ((void **)arg)[1], got[N_PROMPT][256] = {{0}};
    char prompt[64], params[128], why[512];
    uint64_t id[N_PROMPT];
    quoth_queue *q = quoth_queue_open(m);
    for (int i = 0; i < N_PROMPT; i++) {
        prompt_of(i, prompt, params);
        EXPECT_INT(submit(q, prompt, params, &id[i], why), 0);
    }
    const quoth_event *e;
    int n_done = 0;
    while ((e = quoth_poll(q, -1))) {
        int i = 0;
        while (i < N_PROMPT - 1 && id[i] != e->id) i++;
        if (e->n_text && strlen(got[i]) + e->n_text < 256) strncat(got[i], e->text, e->n_text);
        n_done += e->kind == QUOTH_EVENT_DONE;
        if (e->kind != QUOTH_EVENT_DONE && i % 2) quoth_cancel(m, id[i]);
    }
    EXPECT_INT(n_done, N_PROMPT);
    for (int i = 0; i < N_PROMPT; i++) {
        if (i % 2) /* the text is a prefix of the whole answer */
            EXPECT(strncmp(got[i], want[i], strlen(got[i])) == 0);
        else
            EXPECT_TEXT(got[i], want[i]);
    }
    quoth_queue_close(q);
    return NULL;
}

TEST(lib_answers_are_the_same_alone_and_from_threads)
{
    enum { N_THREAD = 3 };
    quoth_model *m = open_tiny();
    NEED(m);
    static char want[N_PROMPT][256];
    void *arg[2] = {m, want};
    pthread_t thread[N_THREAD];
    one_by_one(m, want);
    for (int i = 0; i < N_THREAD; i++)
        NEED(pthread_create(&thread[i], NULL, all_at_once, arg) == 0);
    for (int i = 0; i < N_THREAD; i++) pthread_join(thread[i], NULL);
    quoth_close(m);
}

TEST(lib_events_have_all)
{
    quoth_model *m = open_tiny();
    NEED(m);
    quoth_queue *q = quoth_queue_open(m);
    char why[512];
    uint64_t id;
    int n_prompt = 0, n_token = 0;
    const quoth_event *e;
    NEED(submit(q, "Once upon a time, there",
                "{\"temperature\":0,\"max_tokens\":12,\"logprobs\":2,"
                "\"prompt_logprobs\":1}",
                &id, why) == 0);
    while ((e = quoth_poll(q, -1)) && e->kind != QUOTH_EVENT_DONE) {
        EXPECT(e->id == id && e->choice == 0 && !e->finish_reason);
        EXPECT(e->n_logprob == (e->kind == QUOTH_EVENT_PROMPT ? 2 : 3) &&
               e->logprobs[0].id == e->token);
        if (e->kind == QUOTH_EVENT_TOKEN)
            EXPECT(e->logprobs[1].id == e->token && e->logprobs[1].rank == 1);
        n_prompt += e->kind == QUOTH_EVENT_PROMPT, n_token += e->kind == QUOTH_EVENT_TOKEN;
    }
    NEED(e);
    EXPECT_TEXT(e->finish_reason, "length");
    EXPECT(n_token == 12 && e->n_output_token == 12 && n_prompt == e->n_prompt_token - 1);
    EXPECT(e->stop_token == -1 && !e->stop_text && e->prefill_s > 0);
    NEED(submit(q, "Once upon a time, there",
                "{\"temperature\":0,\"max_tokens\":60,\"stop\":[\"xyzzy\",\".\"]}", &id, why) == 0);
    while ((e = quoth_poll(q, -1)) && e->kind != QUOTH_EVENT_DONE) EXPECT(!strchr(e->text, '.'));
    NEED(e);
    EXPECT_TEXT(e->finish_reason, "stop");
    EXPECT_TEXT(e->stop_text, ".");
    EXPECT(quoth_poll(q, 0) == NULL && quoth_n_open(q) == 0);
    quoth_queue_close(q);
    quoth_close(m);
}

TEST(lib_answers_end_when_their_time_is_over)
{
    quoth_model *m = open_tiny();
    NEED(m);
    quoth_queue *q = quoth_queue_open(m);
    const quoth_event *e;
    char why[512];
    int n_token = 0;
    NEED(submit(q, "Once upon a time", "{\"timeout\":0.002,\"max_tokens\":200,\"ignore_eos\":true}",
                NULL, why) == 0);
    while ((e = quoth_poll(q, -1)) && e->kind != QUOTH_EVENT_DONE)
        n_token += e->kind == QUOTH_EVENT_TOKEN;
    NEED(e);
    EXPECT_TEXT(e->finish_reason, "timeout");
    EXPECT(n_token < 200 && e->n_output_token == n_token);
    quoth_queue_close(q);
    quoth_close(m);
}

TEST(lib_several_choices_end_each_and_together)
{
    enum { N = 4 };
    quoth_model *m = open_tiny();
    NEED(m);
    quoth_queue *q = quoth_queue_open(m);
    const quoth_event *e;
    char why[512];
    uint64_t id;
    for (int cancel = 0; cancel < 2; cancel++) {
        int n_end[N] = {0}, n_after = 0, n_done = 0;
        NEED(submit(q, "Once upon a time", "{\"n\":4,\"temperature\":1,\"max_tokens\":20}", &id,
                    why) == 0);
        while ((e = quoth_poll(q, -1))) {
            EXPECT(e->id == id && e->choice >= 0 && e->choice < N && !n_done);
            n_after += e->kind == QUOTH_EVENT_TOKEN && n_end[e->choice];
            n_end[e->choice] += e->kind == QUOTH_EVENT_CHOICE && e->finish_reason;
            n_done += e->kind == QUOTH_EVENT_DONE;
            if (cancel) quoth_cancel(m, id);
        }
        for (int i = 0; i < N; i++) EXPECT_INT(n_end[i], 1);
        EXPECT(n_after == 0 && n_done == 1);
    }
    quoth_queue_close(q);
    quoth_close(m);
}

TEST(lib_model_lives_as_long_as_its_queues)
{
    quoth_model *m = open_tiny();
    NEED(m);
    quoth_queue *q = quoth_queue_open(m), *idle = quoth_queue_open(m);
    char why[512], text[256];
    NEED(submit(q, "Once", "{\"max_tokens\":8}", NULL, why) == 0);
    NEED(submit(idle, "Once", "{\"max_tokens\":200,\"ignore_eos\":true}", NULL, why) == 0);
    quoth_close(m);
    quoth_queue_close(idle); /* one request is in flight */
    finish(q, text, sizeof text);
    EXPECT(text[0]);
    quoth_queue_close(q);
}

/* Goal: the default of min_tokens of a generation_config.json does not apply to embeddings, which
 * generate no text. */
TEST(lib_embeddings_ignore_the_default_of_min_tokens)
{
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json",
                                        "tokenizer_config.json"};
    char why[512] = "", from[4096];
    quoth_model *m;
    NEED(temp_put("least/generation_config.json", "{\"min_new_tokens\": 4}"));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[64];
        snprintf(name, sizeof name, "least/%s", files[i]);
        snprintf(from, sizeof from, "%s/%s", repo_path("tests/golden/qwen3"), files[i]);
        char *real = realpath(from, NULL);
        NEED(real && symlink(real, temp_path(name)) == 0);
        free(real);
    }
    if (quoth_open(&m, temp_path("least"), NULL, 0, why, sizeof why) != 0)
        test_fail(__FILE__, __LINE__, "%s", why);
    NEED(m);
    quoth_queue *q = quoth_queue_open(m);
    quoth_request r = {.size = sizeof r, .prompt = "a", .n_prompt = 1, .pooling = "mean"};
    EXPECT_INT(quoth_submit(q, &r, NULL, why, sizeof why), 0);
    EXPECT_TEXT(why, "");
    while (quoth_poll(q, -1)) continue;
    quoth_queue_close(q);
    quoth_close(m);
}

/* Goal: embeddings have length 1, alone and with other requests. A poll can be woken. */
TEST(lib_embeddings_metrics_and_waking)
{
    static const char prompt[] = "Once upon a time";
    char why[512];
    float first[4096];
    quoth_model *m = open_tiny();
    NEED(m);
    quoth_queue *q = quoth_queue_open(m);
    quoth_request r = {.size = sizeof r, .prompt = prompt, .n_prompt = 16, .pooling = "mean"};
    for (int i = 0; i < 3; i++) {
        const quoth_event *e;
        double length = 0;
        EXPECT_INT(quoth_submit(q, &r, NULL, why, sizeof why), 0);
        while ((e = quoth_poll(q, -1)) && e->kind != QUOTH_EVENT_DONE) continue;
        NEED(e && e->embedding && e->n_embedding <= 4096);
        EXPECT_TEXT(e->finish_reason, "length");
        for (size_t k = 0; k < e->n_embedding; k++)
            length += (double)e->embedding[k] * (double)e->embedding[k];
        EXPECT(length > 0.999 && length < 1.001);
        if (i > 0) EXPECT(memcmp(first, e->embedding, e->n_embedding * sizeof *first) == 0);
        memcpy(first, e->embedding, e->n_embedding * sizeof *first);
        if (i == 1) quoth_reset_prefix_cache(m);
    }
    r.pooling = "median";
    EXPECT_INT(quoth_submit(q, &r, NULL, why, sizeof why), QUOTH_ERR_ARG);
    EXPECT(strncmp(why, "pooling: must be", 16) == 0);
    r.pooling = "last";
    r.params = "{\"n\": 2}";
    EXPECT_INT(quoth_submit(q, &r, NULL, why, sizeof why), QUOTH_ERR_ARG);
    char *metrics = quoth_metrics(m);
    NEED(metrics);
    EXPECT(strstr(metrics, "vllm:prompt_tokens_total{") != NULL);
    quoth_free(metrics);
    quoth_wake(q); /* the wake applies to the next poll that would wait */
    EXPECT_INT(submit(q, prompt, "{\"max_tokens\": 200, \"ignore_eos\": true}", NULL, why), 0);
    const quoth_event *e;
    int n = 0;
    while ((e = quoth_poll(q, -1))) n++;
    EXPECT(n < 201 && quoth_n_open(q) == 1);
    while ((e = quoth_poll(q, -1)) && e->kind != QUOTH_EVENT_DONE) n++;
    EXPECT(e != NULL);
    quoth_queue_close(q);
    quoth_close(m);
}

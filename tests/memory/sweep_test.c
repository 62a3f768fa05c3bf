/* Goal: a failed allocation causes an error, never a crash or another answer. Later requests have
 * the usual answers. Method: run the server on the bundled model in this process. Each allocation
 * of a load and of one request of each kind fails once, alone and with all later allocations. Then
 * the request is repeated without failures. A random sample of the allocations fails; with
 * QUOTH_LONG=1, each one. */
#include "../alloc.h"
#include "../unit.h"
#include "host.h"

#include "../../src/base/log.h"
#include "../../src/base/rng.h"

static const struct request_case questions[] = {
    {"completion", "POST", "/v1/completions",
     "{\"prompt\":\"Once upon a time\",\"max_tokens\":6,\"temperature\":0}"},
    {"completion with all", "POST", "/v1/completions",
     "{\"prompt\":[\"Once upon a "
     "time\",\"x\"],\"n\":2,\"max_tokens\":6,\"temperature\":0.8,\"seed\":1,\"logprobs\":2,"
     "\"echo\":true,\"stop\":[\"zzz\"],\"bad_words\":[\"qq\"],\"logit_bias\":{\"5\":1},\"return_"
     "token_ids\":true,"
     "\"repetition_penalty\":1.1,\"dry_multiplier\":0.5}"},
    {"chat", "POST", "/v1/chat/completions",
     "{\"messages\":[{\"role\":\"system\",\"content\":\"Be "
     "brief.\"},{\"role\":\"user\",\"content\":\"What is 47 + 38?\"}],"
     "\"max_tokens\":12,\"temperature\":0,\"logprobs\":true,\"top_logprobs\":2,"
     "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":"
     "\"object\"}}}]}"},
    {"chat continued", "POST", "/v1/chat/completions",
     "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Hello\"},{"
     "\"type\":\"text\",\"text\":"
     "\"there\"}]},{\"role\":\"assistant\",\"content\":\"I am\"}],\"add_generation_prompt\":false,"
     "\"continue_final_message\":true,\"max_tokens\":6,\"temperature\":0}"},
    {"embedding", "POST", "/v1/embeddings", "{\"input\":[\"Once upon a time\",\"b\"]}"},
    {"stream", "POST", "/v1/completions",
     "{\"prompt\":\"Once upon a time\",\"max_tokens\":6,\"temperature\":0,\"stream\":true}"},
    {"chat stream", "POST", "/v1/chat/completions",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"What is 47 + "
     "38?\"}],\"max_tokens\":12,\"temperature\":0,"
     "\"stream\":true,\"stop\":[\"zzz\"],\"stream_options\":{\"include_usage\":true}}"},
    {"messages", "POST", "/v1/messages",
     "{\"system\":[{\"type\":\"text\",\"text\":\"Be brief.\"},{\"type\":\"text\",\"text\":\"Be "
     "kind.\"}],\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\","
     "\"content\":[{\"type\":\"thinking\",\"thinking\":\"a\"},{\"type\":\"tool_use\",\"id\":\"t\","
     "\"name\":\"f\",\"input\":{}}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
     "\"tool_use_id\":\"t\",\"content\":\"b\"},{\"type\":\"text\",\"text\":\"What is 47 + "
     "38?\"}]}],\"max_tokens\":12,\"temperature\":0,\"stop_sequences\":[\"zzz\"],\"tools\":[{"
     "\"name\":"
     "\"f\",\"input_schema\":{\"type\":\"object\"}}],\"tool_choice\":{\"type\":\"none\"}}"},
    {"messages stream", "POST", "/v1/messages",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"What is 47 + 38?\"}],\"max_tokens\":12,"
     "\"temperature\":0,\"stream\":true}"},
    {"count of tokens", "POST", "/v1/messages/count_tokens",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"What is 47 + 38?\"}]}"},
    {"responses", "POST", "/v1/responses",
     "{\"instructions\":\"Be brief.\",\"input\":[{\"role\":\"user\",\"content\":\"hi\"},{\"type\":"
     "\"reasoning\",\"id\":\"r\",\"summary\":[],\"encrypted_content\":\"quoth-dGhpbms=\"},{"
     "\"type\":"
     "\"custom_tool_call\",\"call_id\":\"call_t\",\"name\":\"f\",\"input\":\"x\"},{\"type\":"
     "\"custom_tool_call_output\",\"call_id\":\"call_t\",\"output\":\"b\"},{\"role\":\"user\","
     "\"content\":[{\"type\":\"input_text\",\"text\":\"What is 47 + 38?\"}]}],"
     "\"max_output_tokens\":12,\"temperature\":0,\"top_logprobs\":1,\"tools\":[{\"type\":"
     "\"custom\","
     "\"name\":\"f\"}],\"tool_choice\":\"none\"}"},
    {"responses stream", "POST", "/v1/responses",
     "{\"input\":\"What is 47 + 38?\",\"max_output_tokens\":12,\"temperature\":0,"
     "\"stream\":true}"},
    {"responses stream in the background", "POST", "/v1/responses",
     "{\"input\":\"What is 47 + 38?\",\"max_output_tokens\":12,\"temperature\":0,"
     "\"stream\":true,\"background\":true}"},
    {"responses with a previous one", "POST", "/v1/responses",
     "{\"input\":\"What is 47 + 38?\",\"max_output_tokens\":12,\"temperature\":0,"
     "\"previous_response_id\":\"" HOST_STORED "\"}"},
    {"a stored response", "GET", "/v1/responses/" HOST_STORED, NULL},
    {"a conversation", "POST", "/v1/conversations",
     "{\"metadata\":{\"a\":\"b\"},\"items\":[{\"role\":\"user\",\"content\":\"a\"},{\"type\":"
     "\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"}]}"},
    {"change of a conversation", "POST", "/v1/conversations/" HOST_CONVERSATION,
     "{\"metadata\":{\"a\":\"b\"}}"},
    {"items of a conversation", "GET", "/v1/conversations/" HOST_CONVERSATION "/items", NULL},
    {"responses in a conversation", "POST", "/v1/responses/input_tokens",
     "{\"input\":\"a\",\"conversation\":\"" HOST_CONVERSATION "\"}"},
    {"items of a stored response", "GET", "/v1/responses/" HOST_STORED "/input_items?order=asc",
     NULL},
    {"files", "GET", "/v1/files?purpose=batch&limit=2", NULL},
    {"content of a file", "GET", "/v1/files/" HOST_FILE "/content", NULL},
    {"a file", "POST", "/v1/files",
     "--xx\r\nContent-Disposition: form-data; name=purpose\r\n\r\nbatch\r\n"
     "--xx\r\nContent-Disposition: form-data; name=file; filename=a\r\n\r\n{}\n{}\r\n--xx--"},
    {"batches", "GET", "/v1/batches?limit=2", NULL},
    {"a batch", "POST", "/v1/batches",
     "{\"input_file_id\":\"" HOST_FILE "\",\"endpoint\":\"/v1/chat/completions\","
     "\"completion_window\":\"24h\",\"metadata\":{\"a\":\"b\"}}"},
    {"ollama chat", "POST", "/api/chat",
     "{\"model\":\"tiny\",\"stream\":false,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{"
     "\"role\":\"assistant\",\"thinking\":\"a\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
     "\"arguments\":{}}}]},{\"role\":\"tool\",\"tool_name\":\"f\",\"content\":\"b\"},{\"role\":"
     "\"user\",\"content\":\"What is 47 + 38?\"}],\"truncate\":true,\"logprobs\":true,"
     "\"options\":{\"num_predict\":12,\"temperature\":0,\"num_ctx\":100,\"stop\":[\"zzz\"]}}"},
    {"ollama call", "POST", "/api/chat",
     "{\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":\"What is the weather in "
     "Paris?\"}],\"options\":{\"num_predict\":40,\"temperature\":0},\"think\":false,\"tools\":[{"
     "\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":"
     "\"object\",\"properties\":{\"city\":{\"type\":\"string\"}}}}}]}"},
    {"ollama prompt", "POST", "/api/generate",
     "{\"model\":\"tiny\",\"prompt\":\"What is 47 + 38?\",\"system\":\"Be brief.\","
     "\"context\":[100,200],\"options\":{\"num_predict\":12,\"temperature\":0}}"},
    {"ollama raw prompt", "POST", "/api/generate",
     "{\"model\":\"tiny\",\"prompt\":\"Once upon a time\",\"raw\":true,\"stream\":false,"
     "\"format\":{\"enum\":[1,23]},\"options\":{\"num_predict\":6,\"temperature\":0}}"},
    {"llama.cpp's completion", "POST", "/completion",
     "{\"prompt\":[{\"prompt_string\":\"Once upon a time\"},[5,6,7]],\"n_predict\":6,"
     "\"temperature\":0,\"n_probs\":2,\"return_tokens\":true,\"stop\":[\"zzz\"],"
     "\"response_fields\":[\"content\",\"tokens\",\"generation_settings/stop\"]}"},
    {"stream of llama.cpp's completion", "POST", "/completion",
     "{\"prompt\":\"Once upon a time\",\"n_predict\":6,\"temperature\":0,\"n_probs\":1,"
     "\"stream\":true,\"response_fields\":[\"stop_type\",\"prompt\"]}"},
    {"llama.cpp's properties", "GET", "/props", NULL},
    {"ollama models", "GET", "/api/tags", NULL},
    {"ollama model", "POST", "/api/show", "{\"model\":\"tiny\"}"},
    {"ollama load", "POST", "/api/chat", "{\"model\":\"tiny\"}"},
    {"ollama embedding", "POST", "/api/embed",
     "{\"model\":\"tiny\",\"input\":[\"Once upon a time\",\"b\"]}"},
    {"tokenize", "POST", "/tokenize",
     "{\"prompt\":\"Once upon a time, \\u4f60\\u597d\",\"return_token_strs\":true}"},
    {"detokenize", "POST", "/detokenize", "{\"tokens\":[100,200,300]}"},
    {"template", "POST", "/apply-template",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}"},
    {"models", "GET", "/v1/models", NULL},
    {"metrics", "GET", "/metrics?window=20", NULL},
    {"load", "GET", "/load", NULL},
};
#define PERSON                                                                                     \
    "{\"$comment\":\"@0000\",\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\","   \
    "\"maxLength\":6},\"age\":"                                                                    \
    "{"                                                                                            \
    "\"type\":\"integer\",\"minimum\":0,\"maximum\":150},\"tags\":{\"type\":\"array\",\"items\":{" \
    "\"enum\":[\"a\",5,null]},\"maxItems\":2}},\"required\":[\"name\",\"age\"],"                   \
    "\"additionalProperties\":false}"
static const struct request_case held[] = {
    {"chat with a schema", "POST", "/v1/chat/completions",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell me about a person as JSON.\"}],"
     "\"max_tokens\":40,\"temperature\":0,\"response_format\":{\"type\":\"json_schema\","
     "\"json_schema\":{\"name\":\"person\",\"strict\":true,\"schema\":" PERSON "}}}"},
    {"stream with a schema", "POST", "/v1/chat/completions",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell me about a person as JSON.\"}],"
     "\"max_tokens\":40,\"temperature\":0.8,\"seed\":1,\"stream\":true,"
     "\"structured_outputs\":{\"json\":" PERSON "}}"},
    {"chat with an object", "POST", "/v1/chat/completions",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"JSON\"}],\"n\":2,\"seed\":1,"
     "\"max_tokens\":12,\"response_format\":{\"type\":\"json_object\"}}"},
    {"completion with an expression", "POST", "/v1/completions",
     "{\"prompt\":[\"Once\",\"x\"],\"max_tokens\":12,\"seed\":1,\"logprobs\":1,"
     "\"guided_regex\":\"(?:){@0000} ?[A-Z][a-z]{0,12} is (one|two|[0-9]{1,3})\"}"},
    {"completion with a grammar", "POST", "/v1/completions",
     "{\"prompt\":\"Once\",\"max_tokens\":12,\"temperature\":0,\"use_beam_search\":true,\"n\":2,"
     "\"grammar\":\"# @0000\\nroot ::= \\\"(\\\" item* \\\")\\\"\\nitem ::= root | [a-c]+ \\\", "
     "\\\"\"}"},
};
enum {
    N_QUESTION = sizeof questions / sizeof questions[0],
    N_HELD = sizeof held / sizeof held[0],
    ALLOCATIONS_MAX = 100000
};

struct tally {
    int n, n_same, n_error, n_cut;
};

static void note(const char *what, const char *how, const struct tally *t)
{
    test_note("%s, %s: %d runs: %d the same, %d errors, %d cut off", what, how, t->n, t->n_same,
              t->n_error, t->n_cut);
}

static bool same(const struct response *a, const struct response *b)
{
    return a->status == b->status && a->text.n == b->text.n &&
           (a->text.n == 0 || memcmp(a->text.data, b->text.data, a->text.n) == 0);
}

static void blame(const struct request_case *q, const char *how, uint64_t n, const char *when,
                  const struct response *h)
{
    test_fail(__FILE__, __LINE__, "%s, %s %llu: %s status %d: %.300s", q->name, how,
              (unsigned long long)n, when, h->status, h->text.data ? h->text.data : "");
}

/* Post q with a new constraint that allows the same texts, because the old constraint may be in the
 * cache of compiled constraints. `again`: post the last constraint instead. */
static void post_fresh(const struct host *h, const struct request_case *q, bool again,
                       struct response *out)
{
    static unsigned n = 9999;
    static char body[1024];
    struct request_case mine = *q;
    char digits[16];
    if (q->body && strlen(q->body) < sizeof body) {
        if (!again && ++n == 100000) n = 10000;
        snprintf(digits, sizeof digits, "%05u", n);
        memcpy(body, q->body, strlen(q->body) + 1);
        mine.body = body;
        for (char *at = body; (at = strchr(at, '@')); at++) memcpy(at, digits, 5);
    }
    host_post(h, &mine, out);
}

/* Send one request with a failing allocation, then one request without failures. */
static uint64_t post_failing(const struct host *h, const struct request_case *q, const char *how,
                             uint64_t n, uint64_t count, const struct response *want,
                             struct tally *t)
{
    struct response got = {0}, after = {0};
    alloc_fail(n, count);
    post_fresh(h, q, false, &got);
    uint64_t n_allocation = alloc_fail_end();
    post_fresh(h, q, true, &after);
    t->n++;
    if (same(&got, want))
        t->n_same++;
    else if (got.status == -1)
        t->n_cut++;
    else if (got.status == 500 || got.status == 503)
        t->n_error++;
    else
        blame(q, how, n, "a failed allocation became", &got);
    if (!same(&after, want)) blame(q, how, n, "the request after it became", &after);
    buf_deinit(&got.text);
    buf_deinit(&after.text);
    return n_allocation;
}

static void sweep(const struct host *h, const struct request_case *q, uint64_t count,
                  const char *how, uint64_t stride, uint64_t *rng)
{
    struct response want = {0};
    struct tally t = {0};
    /* Later requests do not repeat allocations that happen only once. */
    for (int i = 0; i < 2; i++) post_fresh(h, q, false, &want);
    if (want.status != 200) blame(q, how, 0, "at rest: ", &want);
    uint64_t n = test_stride(rng, stride) - 1, n_allocation = ALLOCATIONS_MAX;
    for (bool hit = true; n < ALLOCATIONS_MAX && hit; n += test_stride(rng, stride)) {
        n_allocation = post_failing(h, q, how, n, count, &want, &t);
        hit = n_allocation > n;
    }
    EXPECT(host_idle(h));
    note(q->name, how, &t);
    test_sampled(t.n, (int64_t)n_allocation, "allocations");
    buf_deinit(&want.text);
}

static void sweep_all(const struct request_case *q, int n, uint64_t stride)
{
    uint64_t rng = 1;
    struct host h;
    struct err e = {0};
    alloc_spare(true);
    NEED_OK(host_open(&h, TINY, &e), &e);
    for (int i = 0; i < n; i++) {
        sweep(&h, &q[i], 1, "one", stride, &rng);
        sweep(&h, &q[i], ALLOC_ALL, "all from", stride, &rng);
    }
    host_close(&h);
    alloc_spare(false);
}

TEST(memory_of_requests)
{
    sweep_all(questions, N_QUESTION, 5);
}

TEST(memory_of_constrained_requests)
{
    sweep_all(held, N_HELD, 40);
}

/* ---- a load for a request ---- */

/* Post a request to a server without its model, with failing allocations. Then the model is loaded
 * without failures, and the request has the usual answer. */
static uint64_t post_unloaded(const struct host *h, const struct request_case *q, const char *how,
                              uint64_t n, uint64_t count, const struct response *want,
                              struct tally *t)
{
    struct response got = {0}, after = {0};
    struct err e;
    EXPECT(host_unload(h));
    alloc_fail(n, count);
    host_post(h, q, &got);
    const uint64_t n_allocation = alloc_fail_end();
    EXPECT(host_unload(h));
    EXPECT_INT(served_load(models_at(h->models, 0), &e), 0); /* also after a failed load */
    host_post(h, q, &after);
    t->n++;
    if (same(&got, want))
        t->n_same++;
    else if (got.status == -1)
        t->n_cut++;
    else if (got.status == 500 || got.status == 503)
        t->n_error++;
    else
        blame(q, how, n, "a failed allocation became", &got);
    if (!same(&after, want)) blame(q, how, n, "the request after it became", &after);
    buf_deinit(&got.text);
    buf_deinit(&after.text);
    return n_allocation;
}

TEST(memory_of_loads_on_demand)
{
    static const struct {
        const char *how; /* static */
        uint64_t count;
    } runs[] = {{"one", 1}, {"all from", ALLOC_ALL}};
    const struct request_case *q = &questions[0];
    uint64_t rng = 5;
    struct host h;
    struct response want = {0};
    struct err e = {0};
    alloc_spare(true);
    NEED_OK(host_open_on_demand(&h, TINY, &e), &e);
    log_silent = true; /* each failed load is a warning */
    for (int i = 0; i < 2; i++) host_post(&h, q, &want);
    if (want.status != 200) blame(q, "none", 0, "at rest: ", &want);
    for (int k = 0; k < 2; k++) {
        struct tally t = {0};
        uint64_t n = test_stride(&rng, 20) - 1, n_allocation = ALLOCATIONS_MAX;
        for (bool hit = true; n < ALLOCATIONS_MAX && hit; n += test_stride(&rng, 20)) {
            n_allocation = post_unloaded(&h, q, runs[k].how, n, runs[k].count, &want, &t);
            hit = n_allocation > n;
        }
        EXPECT(host_idle(&h));
        note("load and completion", runs[k].how, &t);
        test_sampled(t.n, (int64_t)n_allocation, "allocations");
    }
    log_silent = false;
    buf_deinit(&want.text);
    host_close(&h);
    alloc_spare(false);
}

/* ---- loading ---- */

/* Get the answers of a host to some requests. */
static void post_some(const struct host *h, struct response *out)
{
    static const int some[] = {1, 2, 4, 7, 8};
    *out = (struct response){0};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        struct response one = {0};
        host_post(h, &questions[some[i]], &one);
        buf_addf(&out->text, "%d %s\n", one.status, one.text.data ? one.text.data : "");
        buf_deinit(&one.text);
    }
}

struct load {
    const char *model, *how;
    uint64_t count; /* number of failing allocations */
    struct response want;
    struct tally t;
};

static void blame_load(const struct load *l, uint64_t n, int rc, const char *text)
{
    test_fail(__FILE__, __LINE__, "%s, %s %llu: code %d: %.300s", l->model, l->how,
              (unsigned long long)n, rc, text);
}

/* Load with a failing allocation. The answers must be the usual answers if the load succeeds. */
static uint64_t load_failing(struct load *l, uint64_t n)
{
    struct host h;
    struct response got = {0};
    struct err e = {0};
    alloc_fail(n, l->count);
    int rc = host_open(&h, l->model, &e);
    uint64_t n_allocation = alloc_fail_end();
    l->t.n++;
    l->t.n_error += rc != 0;
    if (rc != 0 && rc != ERR_MEMORY && rc != ERR_IO) blame_load(l, n, rc, e.text);
    if (rc != 0) return n_allocation;
    alloc_spare(true);
    post_some(&h, &got);
    if (same(&got, &l->want))
        l->t.n_same++;
    else
        blame_load(l, n, 0, got.text.data);
    buf_deinit(&got.text);
    host_close(&h);
    alloc_spare(false);
    return n_allocation;
}

static void sweep_load(const char *model, uint64_t count, const char *how, uint64_t stride,
                       uint64_t *rng)
{
    struct load l = {.model = model, .how = how, .count = count};
    struct host h;
    struct err e = {0};
    NEED_OK(host_open(&h, model, &e), &e);
    post_some(&h, &l.want);
    host_close(&h);
    uint64_t n = test_stride(rng, stride) - 1, n_allocation = ALLOCATIONS_MAX;
    for (bool hit = true; n < ALLOCATIONS_MAX && hit; n += test_stride(rng, stride)) {
        n_allocation = load_failing(&l, n);
        hit = n_allocation > n;
    }
    note(model, how, &l.t);
    test_sampled(l.t.n, (int64_t)n_allocation, "allocations");
    buf_deinit(&l.want.text);
}

TEST(memory_of_a_load)
{
    static const char *const golden[] = {"tests/golden/llama3", "tests/golden/mistral",
                                         "tests/golden/qwen3/model.gguf", "tests/golden/cross/t5"};
    uint64_t rng = 2;
    log_silent = true;
    sweep_load(TINY, 1, "one", 30, &rng);
    sweep_load(TINY, ALLOC_ALL, "all from", 30, &rng);
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++)
        sweep_load(golden[i], 1, "one", 200, &rng);
    log_silent = false;
}

/* Goal: a conversation in Ollama's form has the prompt and the answer of its copy in OpenAI's form.
 * Its stream has the message of its whole answer. Method: write random conversations with system
 * texts, tools, calls, results, thinking and constraints in both forms. The bundled model
 * answers. */
#include "pair_test.h"

#include <string.h>

/* Write a member with one random text to both forms. */
static void put_text(struct pair *p, const char *ollama, const char *openai)
{
    char *text = text_of(p);
    out_word(&p->a, ollama, text);
    out_word(&p->o, openai, text);
    free(text);
}

static void begin(struct pair *p, const char *role, const char *openai)
{
    out_object(&p->a, NULL);
    out_object(&p->o, NULL);
    out_word(&p->a, "role", role);
    out_word(&p->o, "role", openai);
}

static void end(struct pair *p)
{
    out_end(&p->a);
    out_end(&p->o);
}

static void put_user(struct pair *p)
{
    begin(p, chance(p, 10) ? "User" : "user", "user");
    put_text(p, "content", "content");
    end(p);
}

/* Write the results of the last n calls, with ids, with names or with neither. Results without ids
 * have the order of the calls. */
static void put_results(struct pair *p, int n, bool ids)
{
    char id[32];
    for (int i = 0; i < n; i++) {
        begin(p, "tool", "tool");
        snprintf(id, sizeof id, "call_call%05d", p->n_call - n + i);
        if (ids) out_word(&p->a, "tool_call_id", id);
        out_word(&p->o, "tool_call_id", id + 5);
        if (chance(p, 50)) {
            out_word(&p->a, "tool_name", "get");
            out_word(&p->o, "name", "get");
        }
        put_text(p, "content", "content");
        end(p);
    }
}

/* Write a call in both forms. */
static void put_call(struct pair *p, bool ids)
{
    char id[32], input[64];
    snprintf(id, sizeof id, "call_call%05d", p->n_call++);
    snprintf(input, sizeof input, "{\"city\": \"c%d\", \"n\": %d}", p->n_call,
             (int)rng_below(&p->rng, 9));
    out_object(&p->a, NULL);
    if (ids) out_word(&p->a, "id", id);
    out_object(&p->a, "function");
    out_word(&p->a, "name", "get");
    out_raw(&p->a, "arguments", input, strlen(input));
    out_end(&p->a);
    out_end(&p->a);
    out_object(&p->o, NULL);
    out_word(&p->o, "id", id + 5);
    out_word(&p->o, "type", "function");
    out_object(&p->o, "function");
    out_word(&p->o, "name", "get");
    out_word(&p->o, "arguments", input);
    out_end(&p->o);
    out_end(&p->o);
}

/* Write a turn of the assistant, and the results of its calls. */
static void put_assistant(struct pair *p)
{
    int n_call = p->tools && chance(p, 50) ? 1 + (int)rng_below(&p->rng, 2) : 0;
    const bool ids = chance(p, 50);
    begin(p, "assistant", "assistant");
    if (chance(p, 40)) put_text(p, "thinking", "reasoning_content");
    if (n_call == 0 || chance(p, 50)) {
        put_text(p, "content", "content");
    } else {
        if (chance(p, 50)) out_word(&p->a, "content", "");
        out_word(&p->o, "content", "");
    }
    if (n_call) {
        out_list(&p->a, "tool_calls");
        out_list(&p->o, "tool_calls");
        for (int i = 0; i < n_call; i++) put_call(p, ids);
        end(p);
    }
    end(p);
    put_results(p, n_call, ids);
    if (!n_call || chance(p, 20)) put_user(p);
}

static void put_tools(struct pair *p)
{
    static const char tools[] =
        "[{\"type\":\"function\",\"function\":{\"name\":\"get\",\"description\":\"d\","
        "\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"enum\":[\"a\",\"b\"]},"
        "\"n\":{\"type\":\"integer\"}},\"required\":[\"city\"]}}}]";
    out_raw(&p->a, "tools", tools, sizeof tools - 1);
    out_raw(&p->o, "tools", tools, sizeof tools - 1);
}

static void put_thinking(struct pair *p)
{
    static const char *const forms[][3] = {
        {"true", "{\"enable_thinking\":true,\"thinking\":true}", NULL},
        {"\"low\"", "{\"enable_thinking\":true,\"thinking\":true}", "low"},
        {"false", "{\"enable_thinking\":false,\"thinking\":false}", NULL}};
    const char *const *form = forms[rng_below(&p->rng, 3)];
    out_raw(&p->a, "think", form[0], strlen(form[0]));
    out_raw(&p->o, "chat_template_kwargs", form[1], strlen(form[1]));
    if (form[2]) out_word(&p->o, "reasoning_effort", form[2]);
}

static void put_option(struct pair *p, const char *ollama, const char *openai, const char *value)
{
    out_raw(&p->a, ollama, value, strlen(value));
    if (openai) out_raw(&p->o, openai, value, strlen(value));
}

static void put_options(struct pair *p)
{
    char value[16];
    out_object(&p->a, "options");
    snprintf(value, sizeof value, "%d", 1 + (int)rng_below(&p->rng, 24));
    put_option(p, "num_predict", "max_tokens", value);
    snprintf(value, sizeof value, "%d", (int)rng_below(&p->rng, 1000));
    put_option(p, "seed", "seed", value);
    if (chance(p, 50)) put_option(p, "top_k", "top_k", "5");
    if (chance(p, 20)) put_option(p, "repeat_penalty", "repetition_penalty", "1.3");
    if (chance(p, 20)) put_option(p, "repeat_last_n", "repeat_last_n", "8");
    if (chance(p, 20)) put_option(p, "temperature", "temperature", "0.7");
    if (chance(p, 20)) put_option(p, "stop", "stop", "[\"e\",\"1\"]");
    if (chance(p, 20)) put_option(p, "num_keep", NULL, "4");
    out_end(&p->a);
}

static void put_format(struct pair *p)
{
    static const char schema[] = "{\"type\":\"array\",\"items\":{\"enum\":[1,2]},\"maxItems\":3}";
    static const char object[] = "{\"type\":\"json_object\"}";
    if (chance(p, 50)) {
        out_word(&p->a, "format", "json");
        out_raw(&p->o, "response_format", object, sizeof object - 1);
        return;
    }
    out_raw(&p->a, "format", schema, sizeof schema - 1);
    out_object(&p->o, "response_format");
    out_word(&p->o, "type", "json_schema");
    out_object(&p->o, "json_schema");
    out_raw(&p->o, "schema", schema, sizeof schema - 1);
    out_end(&p->o);
    out_end(&p->o);
}

/* Write a random conversation in both forms. */
static void put_conversation(struct pair *p)
{
    int n = (int)rng_below(&p->rng, 3);
    out_object(&p->a, NULL);
    out_object(&p->o, NULL);
    out_word(&p->a, "model", "quoth-tiny");
    p->tools = chance(p, 50);
    put_options(p);
    if (chance(p, 50)) put_thinking(p);
    if (p->tools) put_tools(p);
    if (!p->tools && chance(p, 20)) put_format(p);
    out_list(&p->a, "messages");
    out_list(&p->o, "messages");
    if (chance(p, 50)) {
        begin(p, "system", "system");
        put_text(p, "content", "content");
        end(p);
    }
    put_user(p);
    for (int i = 0; i < n; i++) put_assistant(p);
    end(p);
    end(p);
}

/* ---- answers ---- */

/* Append a message of these texts, and of the calls as items of a list. */
static void put_joined(struct buf *out, const struct buf *content, const struct buf *thinking,
                       const struct buf *calls)
{
    struct json_out o = {.b = out};
    out_object(&o, NULL);
    out_word(&o, "role", "assistant");
    out_text(&o, "content", content->n ? content->data : "", content->n);
    if (thinking->n) out_text(&o, "thinking", thinking->data, thinking->n);
    if (calls->n) {
        out_list(&o, "tool_calls");
        out_raw(&o, NULL, calls->data, calls->n);
        out_end(&o);
    }
    out_end(&o);
}

/* Append the message of a stream as a client joins it, and the reason of its end. */
static void join(struct buf *out, struct buf *reason, const char *stream)
{
    struct buf content = {0}, thinking = {0}, calls = {0};
    for (const char *at = stream; *at; at += strcspn(at, "\n") + 1) {
        struct json *j = NULL;
        NEED(json_parse(&j, at, strcspn(at, "\n"), NULL, NULL) == 0);
        const struct json *m = json_field(j, "message"), *list = json_field(m, "tool_calls");
        size_t n = 0;
        const char *text = json_text(json_field(m, "content"), &n);
        NEED(text != NULL && reason->n == 0);
        buf_add(&content, text, n);
        text = json_text(json_field(m, "thinking"), &n);
        if (text) buf_add(&thinking, text, n);
        for (size_t i = 0; i < json_count(list); i++) {
            if (calls.n) buf_add_char(&calls, ',');
            json_put(&calls, json_item(list, i));
        }
        EXPECT(json_bool(json_field(j, "done"), false) == (json_field(j, "done_reason") != NULL));
        if (json_field(j, "done_reason"))
            buf_add_text(reason, json_text(json_field(j, "done_reason"), NULL));
        json_drop(j);
    }
    put_joined(out, &content, &thinking, &calls);
    buf_deinit(&content);
    buf_deinit(&thinking);
    buf_deinit(&calls);
    NEED(reason->n > 0);
}

/* Compare a whole answer with a stream. */
static void same_stream(const struct result *whole, const struct result *stream, const char *body)
{
    struct buf joined = {0}, content = {0}, reason = {0};
    struct json *j = NULL, *k = NULL;
    NEED(json_parse(&j, whole->body.data, whole->body.n, NULL, NULL) == 0);
    json_put(&content, json_field(j, "message"));
    join(&joined, &reason, stream->body.data);
    NEED(json_parse(&k, joined.data, joined.n, NULL, NULL) == 0);
    buf_clear(&joined);
    json_put(&joined, k);
    if (strcmp(joined.data, content.data) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s, streamed %s", body, content.data, joined.data);
    EXPECT_TEXT(reason.data, text_at(j, "done_reason"));
    json_drop(j);
    json_drop(k);
    buf_deinit(&joined);
    buf_deinit(&content);
    buf_deinit(&reason);
}

TEST(ollama_conversations_are_those_of_openai)
{
    pair_run(&(struct pair_test){.url = "/api/chat",
                                 .whole = ",\"stream\":false",
                                 .streamed = "",
                                 .seed = 7,
                                 .n_case = 500,
                                 .n_quick = 20,
                                 .put = put_conversation,
                                 .same_stream = same_stream});
}

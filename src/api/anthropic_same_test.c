/* Goal: a conversation in Anthropic's form has the prompt and the answer of its copy in OpenAI's
 * form. Its stream has the blocks of its whole answer. Method: write random conversations with
 * system texts, tools, calls, results, thinking and constraints in both forms. The bundled model
 * answers. */
#include "pair_test.h"

#include <string.h>

static void put_block(struct json_out *o, const char *text)
{
    out_object(o, NULL);
    out_word(o, "type", "text");
    out_word(o, "text", text);
    out_end(o);
}

/* Write n texts to the open list of Anthropic's form, and the content to OpenAI's form. The `key`
 * "content" of OpenAI's message is one text or a list. */
static void put_texts(struct pair *p, int n, const char *first)
{
    char *text[3] = {0};
    for (int i = 0; i < n; i++) text[i] = text_of(p);
    for (int i = 0; i < n; i++) put_block(&p->a, text[i]);
    if (n > 1) out_list(&p->o, "content");
    for (int i = 0; i < n; i++) {
        struct buf whole = {0};
        buf_addf(&whole, "%s%s", i ? "" : first, text[i]);
        if (n > 1)
            put_block(&p->o, whole.data);
        else
            out_word(&p->o, "content", whole.data);
        buf_deinit(&whole);
        free(text[i]);
    }
    if (n > 1) out_end(&p->o);
}

static void begin(struct pair *p, const char *role)
{
    out_object(&p->a, NULL);
    out_word(&p->a, "role", role);
    out_list(&p->a, "content");
}

static void end(struct pair *p)
{
    out_end(&p->a);
    out_end(&p->a);
}

static void put_user(struct pair *p)
{
    begin(p, "user");
    out_object(&p->o, NULL);
    out_word(&p->o, "role", "user");
    put_texts(p, chance(p, 30) ? 2 : 1, "");
    out_end(&p->o);
    end(p);
}

/* Write the results of n calls, and sometimes a text after the results. */
static void put_results(struct pair *p, int n)
{
    char id[32];
    begin(p, "user");
    for (int i = 0; i < n; i++) {
        bool failed = chance(p, 20);
        snprintf(id, sizeof id, "toolu_call%05d", p->n_call - n + i);
        out_object(&p->a, NULL);
        out_word(&p->a, "type", "tool_result");
        out_word(&p->a, "tool_use_id", id);
        if (failed) out_flag(&p->a, "is_error", true);
        out_list(&p->a, "content");
        out_object(&p->o, NULL);
        out_word(&p->o, "role", "tool");
        out_word(&p->o, "tool_call_id", id + 6);
        put_texts(p, 1 + (int)rng_below(&p->rng, 2), failed ? "Error: " : "");
        out_end(&p->o);
        out_end(&p->a);
        out_end(&p->a);
    }
    if (chance(p, 30)) {
        out_object(&p->o, NULL);
        out_word(&p->o, "role", "user");
        put_texts(p, 1, "");
        out_end(&p->o);
    }
    end(p);
}

/* Write a call in both forms. */
static void put_call(struct pair *p)
{
    char id[32], input[64];
    snprintf(id, sizeof id, "toolu_call%05d", p->n_call++);
    snprintf(input, sizeof input, "{\"city\": \"c%d\", \"n\": %d}", p->n_call,
             (int)rng_below(&p->rng, 9));
    out_object(&p->a, NULL);
    out_word(&p->a, "type", "tool_use");
    out_word(&p->a, "id", id);
    out_word(&p->a, "name", "get");
    out_raw(&p->a, "input", input, strlen(input));
    out_end(&p->a);
    out_object(&p->o, NULL);
    out_word(&p->o, "id", id + 6);
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
    begin(p, "assistant");
    out_object(&p->o, NULL);
    out_word(&p->o, "role", "assistant");
    if (chance(p, 40)) {
        char *text = text_of(p);
        out_object(&p->a, NULL);
        out_word(&p->a, "type", "thinking");
        out_word(&p->a, "thinking", text);
        out_word(&p->a, "signature", "any");
        out_end(&p->a);
        out_word(&p->o, "reasoning_content", text);
        free(text);
    }
    if (n_call == 0 || chance(p, 50))
        put_texts(p, 1, "");
    else
        out_null(&p->o, "content");
    if (n_call) out_list(&p->o, "tool_calls");
    for (int i = 0; i < n_call; i++) put_call(p);
    if (n_call) out_end(&p->o);
    out_end(&p->o);
    end(p);
    if (n_call) put_results(p, n_call);
    if (!n_call || chance(p, 20)) {
        if (!n_call) put_user(p);
    }
}

/* Write the tools and tool_choice. */
static void put_tools(struct pair *p)
{
    static const char schema[] = "{\"type\":\"object\",\"properties\":{\"city\":{\"enum\":[\"a\","
                                 "\"b\"]},\"n\":{\"type\":\"integer\"}},\"required\":[\"city\"]}";
    static const char *const choice[][2] = {
        {"{\"type\":\"auto\"}", "\"auto\""},
        {"{\"type\":\"any\"}", "\"required\""},
        {"{\"type\":\"none\"}", "\"none\""},
        {"{\"type\":\"tool\",\"name\":\"get\"}",
         "{\"type\":\"function\",\"function\":{\"name\":\"get\"}}"}};
    out_list(&p->a, "tools");
    out_object(&p->a, NULL);
    out_word(&p->a, "name", "get");
    out_word(&p->a, "description", "d");
    out_raw(&p->a, "input_schema", schema, sizeof schema - 1);
    out_end(&p->a);
    out_end(&p->a);
    out_list(&p->o, "tools");
    out_object(&p->o, NULL);
    out_word(&p->o, "type", "function");
    out_object(&p->o, "function");
    out_word(&p->o, "name", "get");
    out_word(&p->o, "description", "d");
    out_raw(&p->o, "parameters", schema, sizeof schema - 1);
    out_end(&p->o);
    out_end(&p->o);
    out_end(&p->o);
    const char *const *which = choice[rng_below(&p->rng, 4)];
    if (chance(p, 30)) return;
    out_raw(&p->a, "tool_choice", which[0], strlen(which[0]));
    out_raw(&p->o, "tool_choice", which[1], strlen(which[1]));
}

static void put_both(struct pair *p, const char *key, int64_t value)
{
    out_int(&p->a, key, value);
    out_int(&p->o, key, value);
}

static void put_thinking(struct pair *p)
{
    static const char *const forms[][2] = {
        {"{\"type\":\"enabled\",\"budget_tokens\":4}",
         "{\"enable_thinking\":true,\"thinking\":true}"},
        {"{\"type\":\"adaptive\"}", "{\"enable_thinking\":true,\"thinking\":true}"},
        {"{\"type\":\"disabled\"}", "{\"enable_thinking\":false,\"thinking\":false}"}};
    size_t i = rng_below(&p->rng, 3);
    out_raw(&p->a, "thinking", forms[i][0], strlen(forms[i][0]));
    out_raw(&p->o, "chat_template_kwargs", forms[i][1], strlen(forms[i][1]));
    if (i == 0) out_int(&p->o, "thinking_token_budget", 4);
}

/* Write the fields around the messages. */
static void put_fields(struct pair *p)
{
    static const char schema[] = "{\"type\":\"array\",\"items\":{\"enum\":[1,2]},\"maxItems\":3}";
    put_both(p, "max_tokens", 1 + (int64_t)rng_below(&p->rng, 24));
    put_both(p, "seed", (int64_t)rng_below(&p->rng, 1000));
    if (chance(p, 50)) put_both(p, "top_k", 5);
    if (chance(p, 20)) {
        out_raw(&p->a, "stop_sequences", "[\"e\",\"1\"]", 9);
        out_raw(&p->o, "stop", "[\"e\",\"1\"]", 9);
    }
    if (chance(p, 50)) put_thinking(p);
    if (p->tools)
        put_tools(p);
    else if (chance(p, 20)) {
        out_object(&p->a, "output_config");
        out_object(&p->a, "format");
        out_word(&p->a, "type", "json_schema");
        out_raw(&p->a, "schema", schema, sizeof schema - 1);
        out_end(&p->a);
        out_end(&p->a);
        out_object(&p->o, "response_format");
        out_word(&p->o, "type", "json_schema");
        out_object(&p->o, "json_schema");
        out_raw(&p->o, "schema", schema, sizeof schema - 1);
        out_end(&p->o);
        out_end(&p->o);
    }
}

/* Write a random conversation in both forms. */
static void put_conversation(struct pair *p)
{
    int n = (int)rng_below(&p->rng, 3);
    out_object(&p->a, NULL);
    out_object(&p->o, NULL);
    p->tools = chance(p, 50);
    put_fields(p);
    const bool system = chance(p, 50);
    if (system) out_list(&p->a, "system");
    out_list(&p->o, "messages");
    if (system) {
        out_object(&p->o, NULL);
        out_word(&p->o, "role", "system");
        put_texts(p, 1 + (int)rng_below(&p->rng, 2), "");
        out_end(&p->o);
        out_end(&p->a);
    }
    out_list(&p->a, "messages");
    put_user(p);
    for (int i = 0; i < n; i++) put_assistant(p);
    out_end(&p->a);
    out_end(&p->o);
    out_end(&p->a);
    out_end(&p->o);
}

/* ---- answers ---- */

/* Append the blocks of a stream in the form of a whole answer's content, as a client joins them. */
static void join(struct buf *out, const char *stream)
{
    struct json_out o = {.b = out};
    struct buf text = {0}, signature = {0};
    const char *last = "";
    out_list(&o, NULL);
    for (const char *at = stream; (at = strstr(at, "\ndata: "));) {
        struct json *j = NULL;
        at += 7;
        NEED(json_parse(&j, at, strcspn(at, "\n"), NULL, NULL) == 0);
        const char *type = json_text(json_field(j, "type"), NULL);
        const struct json *block = json_field(j, "content_block"), *delta = json_field(j, "delta");
        if (strcmp(type, "content_block_start") == 0) {
            last = strcmp(json_text(json_field(block, "type"), NULL), "text") == 0 ? "text"
                   : json_field(block, "name")                                     ? "input"
                                                                                   : "thinking";
            out_object(&o, NULL);
            out_word(&o, "type", json_text(json_field(block, "type"), NULL));
            if (json_field(block, "name")) {
                out_word(&o, "id", json_text(json_field(block, "id"), NULL));
                out_word(&o, "name", json_text(json_field(block, "name"), NULL));
            }
        }
        static const char *const piece[] = {"text", "thinking", "partial_json"};
        for (int i = 0; i < 3; i++) {
            size_t n = 0;
            const char *t = json_text(json_field(delta, piece[i]), &n);
            if (t) buf_add(&text, t, n);
        }
        if (json_field(delta, "signature"))
            buf_add_text(&signature, json_text(json_field(delta, "signature"), NULL));
        if (strcmp(type, "content_block_stop") == 0) {
            struct json *input = NULL;
            bool call = strcmp(last, "input") == 0;
            if (call && text.n == 0) buf_add_text(&text, "{}");
            if (call && json_parse(&input, text.data, text.n, NULL, NULL) == 0) {
                out_raw(&o, "input", text.data, text.n);
            } else if (call) {
                out_object(&o, "input");
                out_text(&o, "INVALID_JSON", text.data, text.n);
                out_end(&o);
            } else {
                out_text(&o, last, text.n ? text.data : "", text.n);
            }
            if (signature.n) out_text(&o, "signature", signature.data, signature.n);
            json_drop(input);
            buf_clear(&text);
            buf_clear(&signature);
            out_end(&o);
        }
        json_drop(j);
    }
    out_end(&o);
    buf_deinit(&text);
    buf_deinit(&signature);
}

/* Compare a whole answer with a stream. */
static void same_stream(const struct result *whole, const struct result *stream, const char *body)
{
    struct buf joined = {0}, content = {0};
    struct json *j = NULL, *k = NULL;
    NEED(json_parse(&j, whole->body.data, whole->body.n, NULL, NULL) == 0);
    json_put(&content, json_field(j, "content"));
    join(&joined, stream->body.data);
    NEED(json_parse(&k, joined.data, joined.n, NULL, NULL) == 0);
    buf_clear(&joined);
    json_put(&joined, k);
    if (strcmp(joined.data, content.data) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s, streamed %s", body, content.data, joined.data);
    char reason[60];
    snprintf(reason, sizeof reason, "\"stop_reason\":\"%s\"", text_at(j, "stop_reason"));
    if (!strstr(stream->body.data, reason))
        test_fail(__FILE__, __LINE__, "%s: no %s in %s", body, reason, stream->body.data);
    EXPECT(strstr(stream->body.data, "event: message_stop\n") != NULL);
    json_drop(j);
    json_drop(k);
    buf_deinit(&joined);
    buf_deinit(&content);
}

TEST(anthropic_conversations_are_those_of_openai)
{
    pair_run(&(struct pair_test){.url = "/v1/messages",
                                 .whole = "",
                                 .streamed = ",\"stream\":true",
                                 .seed = 7,
                                 .n_case = 500,
                                 .n_quick = 20,
                                 .put = put_conversation,
                                 .same_stream = same_stream});
}

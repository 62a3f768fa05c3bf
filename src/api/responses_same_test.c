/* Goal: a conversation in the form of the Responses API has the prompt and the answer of its copy
 * as a chat completion. The items of its stream, joined by a client, are those of the whole
 * response and of the last event. Method: write random conversations with instructions, tools,
 * calls, results, reasoning, constraints and log probabilities in both forms. The bundled model
 * answers. */
#include "pair_test.h"
#include "responses_client_test.h"

#include <string.h>

static void put_part(struct json_out *o, const char *type, const char *text)
{
    out_object(o, NULL);
    out_word(o, "type", type);
    out_word(o, "text", text);
    out_end(o);
}

/* Write a content of one text as a string or a list, several texts as a list. */
static void put_texts(struct pair *p, const char *key, const char *type)
{
    const int n = 1 + (int)rng_below(&p->rng, 2);
    const bool list = n > 1 || chance(p, 50);
    char *text[2] = {text_of(p), text_of(p)};
    if (list) out_list(&p->a, key);
    if (n > 1) out_list(&p->o, "content");
    for (int i = 0; i < n; i++) {
        if (list)
            put_part(&p->a, type, text[i]);
        else
            out_word(&p->a, key, text[i]);
        if (n > 1)
            put_part(&p->o, "text", text[i]);
        else
            out_word(&p->o, "content", text[i]);
    }
    if (n > 1) out_end(&p->o);
    if (list) out_end(&p->a);
    free(text[0]);
    free(text[1]);
}

static void put_message(struct pair *p, const char *role)
{
    out_object(&p->a, NULL);
    out_object(&p->o, NULL);
    if (chance(p, 50)) out_word(&p->a, "type", "message");
    out_word(&p->a, "role", role);
    out_word(&p->o, "role", role);
    put_texts(p, "content", "input_text");
    out_end(&p->a);
    out_end(&p->o);
}

static void put_item(struct pair *p, const char *type, const char *id)
{
    char text[20];
    snprintf(text, sizeof text, "call_%s", id);
    out_object(&p->a, NULL);
    out_word(&p->a, "type", type);
    out_word(&p->a, "call_id", text);
}

static void id_of(int i, char id[static 12])
{
    snprintf(id, 12, "abcdefg%02d", i % 100);
}

/* Write a call of a function, or of a custom tool. */
static void put_call(struct pair *p)
{
    const bool custom = chance(p, 30);
    const char *type = custom ? "custom" : "function", *member = custom ? "input" : "arguments";
    char id[12], *text = text_of(p);
    id_of(p->n_call++, id);
    put_item(p, custom ? "custom_tool_call" : "function_call", id);
    out_word(&p->a, "name", custom ? "run" : "get");
    out_word(&p->a, member, custom ? text : "{\"city\":\"a\"}");
    out_end(&p->a);
    out_object(&p->o, NULL);
    out_word(&p->o, "id", id);
    out_word(&p->o, "type", type);
    out_object(&p->o, type);
    out_word(&p->o, "name", custom ? "run" : "get");
    out_word(&p->o, member, custom ? text : "{\"city\":\"a\"}");
    out_end(&p->o);
    out_end(&p->o);
    free(text);
}

static void put_results(struct pair *p, int n)
{
    for (int i = p->n_call - n; i < p->n_call; i++) {
        char id[12];
        id_of(i, id);
        put_item(p, chance(p, 30) ? "custom_tool_call_output" : "function_call_output", id);
        out_object(&p->o, NULL);
        out_word(&p->o, "role", "tool");
        out_word(&p->o, "tool_call_id", id);
        put_texts(p, "output", "input_text");
        out_end(&p->a);
        out_end(&p->o);
    }
}

/* Write reasoning as a text, as a summary, or only as encrypted_content. */
static void put_reasoning(struct pair *p)
{
    char *text = text_of(p);
    const bool summary = chance(p, 30);
    out_object(&p->a, NULL);
    out_word(&p->a, "type", "reasoning");
    out_word(&p->a, "id", "rs_1");
    out_list(&p->a, "summary");
    if (summary) put_part(&p->a, "summary_text", text);
    out_end(&p->a);
    if (!summary) {
        out_list(&p->a, "content");
        put_part(&p->a, "reasoning_text", text);
        out_end(&p->a);
    }
    out_word(&p->a, "encrypted_content", "gAAAAABp");
    out_end(&p->a);
    out_word(&p->o, "reasoning_content", text);
    free(text);
}

/* Write a turn of the assistant and the results of its calls. */
static void put_assistant(struct pair *p)
{
    const int n_call = p->tools ? (int)rng_below(&p->rng, 3) : 0;
    out_object(&p->o, NULL);
    out_word(&p->o, "role", "assistant");
    if (chance(p, 40)) put_reasoning(p);
    if (n_call == 0 || chance(p, 50)) {
        out_object(&p->a, NULL);
        out_word(&p->a, "type", "message");
        out_word(&p->a, "role", "assistant");
        put_texts(p, "content", "output_text");
        out_end(&p->a);
    } else {
        out_null(&p->o, "content");
    }
    if (n_call) out_list(&p->o, "tool_calls");
    for (int i = 0; i < n_call; i++) put_call(p);
    if (n_call) out_end(&p->o);
    out_end(&p->o);
    if (n_call) put_results(p, n_call);
    if (!n_call || chance(p, 30)) put_message(p, "user");
}

/* Write the tools and tool_choice. */
static void put_tools(struct pair *p)
{
    static const char schema[] = "{\"type\":\"object\",\"properties\":{\"city\":{\"enum\":[\"a\","
                                 "\"b\"]},\"n\":{\"type\":\"integer\"}},\"required\":[\"city\"]}";
    static const char tools[][400] = {
        "[{\"type\":\"function\",\"name\":\"get\",\"description\":\"d\",\"parameters\":%s},"
        "{\"type\":\"custom\",\"name\":\"run\",\"format\":{\"type\":\"grammar\",\"syntax\":"
        "\"regex\",\"definition\":\"[a-c]{2,9}\"}}]",
        "[{\"type\":\"function\",\"function\":{\"name\":\"get\",\"description\":\"d\","
        "\"parameters\":%s}},{\"type\":\"custom\",\"custom\":{\"name\":\"run\",\"format\":{"
        "\"type\":\"grammar\",\"grammar\":{\"syntax\":\"regex\",\"definition\":\"[a-c]{2,9}\"}}}}"
        "]"};
    static const char *const choice[][2] = {
        {"\"auto\"", "\"auto\""},
        {"\"required\"", "\"required\""},
        {"\"none\"", "\"none\""},
        {"{\"type\":\"function\",\"name\":\"get\"}",
         "{\"type\":\"function\",\"function\":{\"name\":\"get\"}}"},
        {"{\"type\":\"custom\",\"name\":\"run\"}",
         "{\"type\":\"custom\",\"custom\":{\"name\":\"run\"}}"},
        {"{\"type\":\"allowed_tools\",\"mode\":\"required\",\"tools\":[{\"type\":\"custom\","
         "\"name\":\"run\"}]}",
         "{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"required\",\"tools\":[{"
         "\"type\":\"custom\",\"custom\":{\"name\":\"run\"}}]}}"}};
    struct buf b[2] = {{0}, {0}};
    const char *at = strstr(tools[0], "%s"), *at_o = strstr(tools[1], "%s");
    buf_addf(&b[0], "%.*s%s%s", (int)(at - tools[0]), tools[0], schema, at + 2);
    buf_addf(&b[1], "%.*s%s%s", (int)(at_o - tools[1]), tools[1], schema, at_o + 2);
    out_raw(&p->a, "tools", b[0].data, b[0].n);
    out_raw(&p->o, "tools", b[1].data, b[1].n);
    buf_deinit(&b[0]);
    buf_deinit(&b[1]);
    const char *const *which = choice[rng_below(&p->rng, sizeof choice / sizeof *choice)];
    if (chance(p, 30)) {
        out_flag(&p->a, "parallel_tool_calls", false);
        out_flag(&p->o, "parallel_tool_calls", false);
    }
    if (chance(p, 30)) return;
    out_raw(&p->a, "tool_choice", which[0], strlen(which[0]));
    out_raw(&p->o, "tool_choice", which[1], strlen(which[1]));
}

static void put_both(struct pair *p, const char *key, const char *key_o, int64_t value)
{
    out_int(&p->a, key, value);
    out_int(&p->o, key_o, value);
}

static void put_format(struct pair *p)
{
    static const char schema[] = "{\"type\":\"array\",\"items\":{\"enum\":[1,2]},\"maxItems\":3}";
    struct buf b[2] = {{0}, {0}};
    if (chance(p, 20)) {
        buf_addf(&b[0], "{\"format\":{\"type\":\"json_object\"}}");
        buf_addf(&b[1], "{\"type\":\"json_object\"}");
    } else {
        buf_addf(&b[0], "{\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"schema\":%s}}",
                 schema);
        buf_addf(&b[1], "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"schema\":%s}}",
                 schema);
    }
    out_raw(&p->a, "text", b[0].data, b[0].n);
    out_raw(&p->o, "response_format", b[1].data, b[1].n);
    buf_deinit(&b[0]);
    buf_deinit(&b[1]);
}

/* Write the fields around the conversation. */
static void put_fields(struct pair *p)
{
    put_both(p, "max_output_tokens", "max_tokens",
             1 + (int64_t)rng_below(&p->rng, p->tools ? 60 : 24));
    put_both(p, "seed", "seed", (int64_t)rng_below(&p->rng, 1000));
    if (chance(p, 50)) put_both(p, "top_k", "top_k", 5);
    if (chance(p, 20)) {
        out_raw(&p->a, "stop", "[\"e\",\"1\"]", 9);
        out_raw(&p->o, "stop", "[\"e\",\"1\"]", 9);
    }
    if (chance(p, 30)) {
        put_both(p, "top_logprobs", "top_logprobs", 2);
        out_flag(&p->o, "logprobs", true);
    }
    if (chance(p, 40)) {
        static const char on[] = "{\"enable_thinking\":true}";
        out_raw(&p->a, "chat_template_kwargs", on, sizeof on - 1);
        out_raw(&p->o, "chat_template_kwargs", on, sizeof on - 1);
    }
    if (chance(p, 20)) {
        out_raw(&p->a, "reasoning", "{\"effort\":\"low\",\"summary\":\"auto\"}", 33);
        out_word(&p->o, "reasoning_effort", "low");
    }
    if (p->tools)
        put_tools(p);
    else if (chance(p, 20))
        put_format(p);
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
    out_list(&p->o, "messages");
    if (system) {
        char *text = text_of(p);
        out_word(&p->a, "instructions", text);
        out_object(&p->o, NULL);
        out_word(&p->o, "role", "system");
        out_word(&p->o, "content", text);
        out_end(&p->o);
        free(text);
    }
    out_list(&p->a, "input");
    if (!system && chance(p, 30)) put_message(p, chance(p, 50) ? "developer" : "system");
    put_message(p, "user");
    for (int i = 0; i < n; i++) put_assistant(p);
    out_end(&p->a);
    out_end(&p->o);
    out_end(&p->a);
    out_end(&p->o);
}

/* ---- answers ---- */

/* Return a value as text without the random part of the ids. The caller frees it. */
static char *plain(const struct json *j, const char *id)
{
    struct buf b = {0};
    json_put(&b, j);
    char *text = buf_detach(&b);
    for (char *hex = text; text && (hex = strstr(hex, id));) memset(hex, 'x', strlen(id));
    return text;
}

/* Compare a whole response with a stream. */
static void same_stream(const struct result *whole, const struct result *stream, const char *body)
{
    struct client c = {0};
    struct json *j = NULL;
    NEED(json_parse(&j, whole->body.data, whole->body.n, NULL, NULL) == 0);
    read_stream(&c, stream->body.data);
    end_stream(&c);
    const struct json *last = json_field(c.last, "response");
    char *a = plain(json_field(j, "output"), text_at(j, "id") + 5),
         *b = plain(json_field(last, "output"), text_at(last, "id") + 5);
    if (strcmp(a, b) != 0) wrong(&c, "another output than that of the whole response");
    if (strcmp(text_at(j, "status"), text_at(last, "status")) != 0) wrong(&c, "another status");
    if (json_int(at(j, "usage.output_tokens_details.reasoning_tokens"), -1) !=
        json_int(at(last, "usage.output_tokens_details.reasoning_tokens"), -2))
        wrong(&c, "another number of tokens of reasoning");
    if (c.why)
        test_fail(__FILE__, __LINE__, "%s: %s: %s, streamed %s\n%s", c.why, body, a, b,
                  stream->body.data);
    free(a);
    free(b);
    json_drop(j);
    client_deinit(&c);
}

/* Append "ID NAME ARGUMENTS;" of a call. */
static void add_call(struct buf *b, const char *id, const struct json *name,
                     const struct json *arguments)
{
    buf_addf(b, "%s ", id);
    json_put(b, name);
    json_put(b, arguments);
    buf_add_char(b, ';');
}

static int n_kind[4]; /* items of reasoning, messages, calls of functions and of custom tools */

/* Write the texts and calls of a response, and those of a chat completion, in one form. Count the
 * kinds of items. */
static void describe(struct buf *r, struct buf *o, const struct json *response,
                     const struct json *chat)
{
    struct buf text[2] = {{0}, {0}};
    const struct json *list = json_field(response, "output"), *m = at(chat, "choices.0.message");
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *item = json_item(list, i), *part = at(item, "content.0");
        const char *type = text_at(item, "type");
        const bool custom = strcmp(type, "custom_tool_call") == 0,
                   reasoning = strcmp(type, "reasoning") == 0;
        size_t n = 0;
        const char *t = json_text(json_field(part, "text"), &n);
        n_kind[reasoning ? 0 : part ? 1 : custom ? 3 : 2]++;
        if (part)
            buf_add(&text[reasoning], t, n);
        else
            add_call(r, text_at(item, "call_id") + 5, json_field(item, "name"),
                     json_field(item, custom ? "input" : "arguments"));
    }
    buf_addf(r, "%s|%s", text[0].data ? text[0].data : "", text[1].data ? text[1].data : "");
    list = json_field(m, "tool_calls");
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *call = json_item(list, i), *custom = json_field(call, "custom"),
                          *function = json_field(call, "function");
        add_call(o, text_at(call, "id"), json_field(custom ? custom : function, "name"),
                 custom ? json_field(custom, "input") : json_field(function, "arguments"));
    }
    const char *content = json_text(json_field(m, "content"), NULL),
               *thought = json_text(json_field(m, "reasoning_content"), NULL);
    buf_addf(o, "%s|%s", content ? content : "", thought ? thought : "");
    buf_deinit(&text[0]);
    buf_deinit(&text[1]);
}

/* Compare a response with a chat completion. */
static void same_answer(const struct result *r, const struct result *o)
{
    struct json *j = NULL, *k = NULL;
    struct buf a = {0}, b = {0};
    NEED(json_parse(&j, r->body.data, r->body.n, NULL, NULL) == 0);
    NEED(json_parse(&k, o->body.data, o->body.n, NULL, NULL) == 0);
    describe(&a, &b, j, k);
    if (strcmp(a.data, b.data) != 0)
        test_fail(__FILE__, __LINE__, "%s\n%s: \"%s\", \"%s\"", r->body.data, o->body.data, a.data,
                  b.data);
    json_drop(j);
    json_drop(k);
    buf_deinit(&a);
    buf_deinit(&b);
}

TEST(responses_are_those_of_chat_completions)
{
    memset(n_kind, 0, sizeof n_kind);
    const int n_run = pair_run(&(struct pair_test){.url = "/v1/responses",
                                                   .whole = "",
                                                   .streamed = ",\"stream\":true",
                                                   .seed = 11,
                                                   .n_case = 20000,
                                                   .n_quick = 300,
                                                   .put = put_conversation,
                                                   .same_answer = same_answer,
                                                   .same_stream = same_stream});
    test_note("items: %d of reasoning, %d messages, %d calls, %d of custom tools", n_kind[0],
              n_kind[1], n_kind[2], n_kind[3]);
    for (int i = 0; i < 4; i++) EXPECT(n_kind[i] > n_run / 100);
}
